//! Risks that a policy may accept: by name, by whom, until when. Nothing else of the floor bends.

use serde::{Serialize, Serializer};

use super::displayed;
use crate::policy::error::Error;
use crate::policy::tree::{Node, nearest};
use crate::wire::UnixSeconds;

/// The risks that can be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Acceptable {
    /// A CRL of AMD past its nextUpdate: the published lists lapse.
    AmdCrlStale,
    /// A Milan chip, whose root key can be extracted by software.
    MilanRootExtraction,
    /// A signer of reference documents on hold; never a device.
    RimSignerOnHold,
}

impl Acceptable {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::AmdCrlStale, Self::MilanRootExtraction, Self::RimSignerOnHold];

    /// Returns the stable id.
    pub fn text(self) -> &'static str {
        match self {
            Self::AmdCrlStale => "amd-crl-stale",
            Self::MilanRootExtraction => "milan-root-extraction",
            Self::RimSignerOnHold => "rim-signer-on-hold",
        }
    }
}

impl Serialize for Acceptable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text())
    }
}

/// A risk that the tenant accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AcceptedRisk {
    pub id: Acceptable,
    /// Who accepts it.
    pub by: String,
    /// The last moment of acceptance; refused afterwards.
    #[serde(serialize_with = "displayed")]
    pub until: UnixSeconds,
    /// Of `AmdCrlStale` alone: days by which a list may be past its nextUpdate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age_days: Option<u32>,
}

/// Whether a risk is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance<'p> {
    Accepted(&'p AcceptedRisk),
    /// It was, until a time that has passed.
    Expired(&'p AcceptedRisk),
    Refused,
}

/// Reads the list, each id once.
pub(super) fn read(node: &Node<'_>) -> Result<Vec<AcceptedRisk>, Error> {
    let risks = node.list(one)?;
    for (at, risk) in risks.iter().enumerate() {
        if risks.iter().take(at).any(|earlier| earlier.id == risk.id) {
            return Err(node.wrong(format!("the risk `{}` stands twice", risk.id.text())));
        }
    }
    Ok(risks)
}

fn one(node: &Node<'_>) -> Result<AcceptedRisk, Error> {
    let table = node.table(&["id", "by", "until", "max_age_days"])?;
    let named = table.required("id")?;
    let text = named.text()?;
    let Some(id) = Acceptable::ALL.into_iter().find(|known| known.text() == text) else {
        let known = Acceptable::ALL.map(Acceptable::text);
        return Err(Error::RiskUnknown {
            path: named.path().to_string(),
            id: text.to_string(),
            nearest: nearest(text, &known),
        });
    };
    let until = table.required("until")?;
    let until = UnixSeconds::from_rfc3339(until.text()?).map_err(|what| until.wrong(what))?;
    let max_age_days = match (id, table.optional("max_age_days")) {
        (Acceptable::AmdCrlStale, Some(days)) => Some(days.number(1..=3660)?),
        (Acceptable::AmdCrlStale, None) => Some(table.required("max_age_days")?.number(1..=3660)?),
        (Acceptable::MilanRootExtraction | Acceptable::RimSignerOnHold, None) => None,
        (Acceptable::MilanRootExtraction | Acceptable::RimSignerOnHold, Some(days)) => {
            return Err(days.wrong("expected for the risk `amd-crl-stale` alone"));
        }
    };
    Ok(AcceptedRisk { id, by: table.required("by")?.words()?, until, max_age_days })
}
