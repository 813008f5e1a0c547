//! The release policy as a typed document: TOML or JSON in, one digest out.

use serde::{Serialize, Serializer};

use super::error::Error;
use super::tree::{self, Node, Table};
use crate::protocol::head::Kem;
use crate::verify::ocsp::Hold;
use crate::wire::ids::{Audience, KeyId, PolicyName, TenantId};
use crate::wire::{Digest, UnixSeconds, crypto, limits};

mod binding;
mod fixed;
mod gpu;
mod lint;
mod risk;
mod selector;
mod snp;
mod tdx;

pub use binding::{Binding, FixedBy, Grade};
pub(in crate::policy) use gpu::architecture as read_architecture;
pub use gpu::{Combination, GpuRules, Profile};
pub use risk::{Acceptable, Acceptance, AcceptedRisk};
pub use selector::Selector;
pub(in crate::policy) use snp::read_floor;
pub use snp::{
    CodeRules, PlatformBit, PlatformInfoRules, Smt, SnpPlatform, SnpRules, TcbFloor, WorkloadRules,
};
pub use tdx::{
    AcceptedStatus, RegisterValue, TdxCode, TdxPlatform, TdxRules, TdxTcbRules, TdxWorkload, XfamFeature,
};

/// The schema of this version.
pub const SCHEMA: &str = "claviger.release-policy/1";
/// Seconds of the longest lease that a policy may ask for; the platform may cap lower.
pub const LEASE_S_MAX: u64 = 600;
/// Seconds of the oldest challenge that a policy may accept: a challenge's whole life.
pub const CHALLENGE_AGE_S_MAX: u64 = 120;

/// Fields of the document. Those named `NOT_BUILT` are known and refused.
const FIELDS: [&str; 16] = [
    "schema",
    "tenant",
    "name",
    "keys",
    "audiences",
    "kem",
    "cpu",
    "gpu",
    "binding",
    "freshness",
    "lease",
    "accept_risks",
    "approvals",
    "limits",
    "dates",
    "deny_rego",
];
const NOT_BUILT: [&str; 4] = ["approvals", "limits", "dates", "deny_rego"];
const CPU_FIELDS: [&str; 4] = ["snp", "tdx", "azure_snp", "azure_tdx"];
const CPU_NOT_BUILT: [&str; 2] = ["azure_snp", "azure_tdx"];

/// What is done when a device is in a live lease of another instance of the tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    Refuse,
    /// The newer lease ends this older one; asked of the policy stored in the older lease.
    Supersede,
}

/// Terms of the lease that a grant opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LeaseTerms {
    /// 60 to `LEASE_S_MAX`.
    pub seconds: u32,
    pub on_conflict: OnConflict,
}

/// How fresh a request must be. Narrows the service's own bounds, never widens them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FreshnessRules {
    /// 10 to `CHALLENGE_AGE_S_MAX`.
    pub challenge_age_s_max: u32,
}

/// Rules about the CPU, by its family: at least one. A guest of a family without rules is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CpuRules {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snp: Option<SnpRules>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tdx: Option<TdxRules>,
}

impl CpuRules {
    /// Reads the section.
    fn read(node: &Node<'_>) -> Result<Self, Error> {
        let table = node.table(&CPU_FIELDS)?;
        not_built(&table, &CPU_NOT_BUILT)?;
        let rules = Self {
            snp: table.optional("snp").map(|node| SnpRules::read(&node)).transpose()?,
            tdx: table.optional("tdx").map(|node| TdxRules::read(&node)).transpose()?,
        };
        match rules.snp.is_none() && rules.tdx.is_none() {
            true => Err(node.wrong("expected a section snp or tdx")),
            false => Ok(rules),
        }
    }
}

/// A release policy: who gets which key, on what evidence.
///
/// Made by `Policy::parse` alone in this crate; every value is in range, code and workload are fixed, and every default
/// is the strict one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Policy {
    pub schema: &'static str,
    pub tenant: TenantId,
    pub name: PolicyName,
    /// Which keys of the tenant this policy decides on; empty for a policy that gives results alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<Selector>,
    /// Who may be named as the audience of an attestation result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audiences: Vec<Audience>,
    pub kem: Vec<Kem>,
    pub cpu: CpuRules,
    pub gpu: GpuRules,
    pub binding: Binding,
    pub freshness: FreshnessRules,
    pub lease: LeaseTerms,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accept_risks: Vec<AcceptedRisk>,
}

impl Policy {
    /// Reads a policy.
    ///
    /// Shape: TOML, or JSON beginning with `{`; at most `POLICY_LEN_MAX` bytes; unknown and repeated fields refused.
    ///
    /// Errors: `DocumentLength`, `DocumentDepth`, `DocumentSyntax`; `SchemaUnknown`; `FieldUnknown` with the nearest
    /// known name, `FieldMissing`, `FieldRepeated`, `FieldValue`, each with its full path; `SectionNotBuilt` and
    /// `ProfileNotBuilt` for what is known and not built; `CodeNotFixed`, `WorkloadNotFixed`, `BindingUnreachable`,
    /// `RiskUnknown`.
    ///
    /// ```
    /// use claviger::policy::Policy;
    /// let error = Policy::parse(b"schema = 'claviger.release-policy/1'\nkesy = ['a']").unwrap_err();
    /// assert_eq!(error.to_string(), "the field kesy is not known; is `keys` meant?");
    /// ```
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let tree = tree::read(bytes, limits::POLICY_LEN_MAX)?;
        // The schema comes first: what the fields of another one mean is unknown here.
        if let Some(schema) = tree.get("schema").and_then(|schema| schema.as_str()).filter(|s| *s != SCHEMA) {
            return Err(Error::SchemaUnknown { schema: schema.to_string() });
        }
        let root = Node::root(&tree).table(&FIELDS)?;
        root.required("schema")?.text()?;
        not_built(&root, &NOT_BUILT)?;
        let cpu = CpuRules::read(&root.required("cpu")?)?;
        let binding = Binding::read(root.optional("binding").as_ref(), &cpu)?;
        let list = |name| root.optional(name);
        let policy = Self {
            schema: SCHEMA,
            tenant: root.required("tenant")?.parsed()?,
            name: root.required("name")?.parsed()?,
            keys: list("keys").map_or(Ok(Vec::new()), |node| node.list(Node::parsed))?,
            audiences: list("audiences").map_or(Ok(Vec::new()), |node| node.list(Node::parsed))?,
            kem: list("kem").map_or(Ok(vec![Kem::XWing]), |node| node.list(kem))?,
            cpu,
            gpu: GpuRules::read(&root.required("gpu")?)?,
            binding,
            freshness: freshness(root.optional("freshness").as_ref())?,
            lease: lease(root.optional("lease").as_ref())?,
            accept_risks: match root.optional("accept_risks") {
                Some(node) => risk::read(&node)?,
                None => Vec::new(),
            },
        };
        match policy.keys.is_empty() && policy.audiences.is_empty() {
            true => Err(Error::FieldMissing { path: "keys".to_string() }),
            false => Ok(policy),
        }
    }

    /// Writes the RFC 8785 canonical JSON of the typed document, every default filled in. It parses to the same policy.
    ///
    /// Errors: `DocumentSyntax`, never for a policy that was parsed.
    pub fn canonical(&self) -> Result<Vec<u8>, Error> {
        serde_json_canonicalizer::to_vec(self)
            .map_err(|error| Error::DocumentSyntax { what: error.to_string() })
    }

    /// Computes the policy's identity: SHA-256 of its canonical JSON. TOML and JSON of one policy have one digest.
    ///
    /// Errors: those of `canonical`.
    pub fn digest(&self) -> Result<Digest<32>, Error> {
        Ok(crypto::sha256(&[&self.canonical()?]))
    }

    /// Tells whether the policy decides on a key.
    pub fn covers(&self, key: &KeyId) -> bool {
        self.keys.iter().any(|selector| selector.covers(key))
    }

    /// Tells whether a risk is accepted at a time.
    pub fn acceptance(&self, risk: Acceptable, now: UnixSeconds) -> Acceptance<'_> {
        match self.accept_risks.iter().find(|accepted| accepted.id == risk) {
            None => Acceptance::Refused,
            Some(accepted) if now > accepted.until => Acceptance::Expired(accepted),
            Some(accepted) => Acceptance::Accepted(accepted),
        }
    }

    /// Says what is done with a signer of reference documents that is on hold.
    pub fn rim_hold(&self, now: UnixSeconds) -> Hold {
        match self.acceptance(Acceptable::RimSignerOnHold, now) {
            Acceptance::Accepted(_) => Hold::AcceptedForRimSigner,
            Acceptance::Expired(_) | Acceptance::Refused => Hold::Refused,
        }
    }
}

/// Refuses a section that is known and not built, before anything is said of what stands in it.
fn not_built(table: &Table<'_>, names: &[&'static str]) -> Result<(), Error> {
    match names.iter().find(|name| table.optional(name).is_some()) {
        Some(name) => Err(Error::SectionNotBuilt { path: table.at(name) }),
        None => Ok(()),
    }
}

fn kem(node: &Node<'_>) -> Result<Kem, Error> {
    node.word(&[("x-wing", Kem::XWing), ("x25519", Kem::X25519)])
}

fn freshness(node: Option<&Node<'_>>) -> Result<FreshnessRules, Error> {
    let mut rules = FreshnessRules { challenge_age_s_max: 120 };
    if let Some(node) = node {
        let table = node.table(&["challenge_age_s_max"])?;
        if let Some(age) = table.optional("challenge_age_s_max") {
            rules.challenge_age_s_max = age.number(10..=CHALLENGE_AGE_S_MAX)?;
        }
    }
    Ok(rules)
}

fn lease(node: Option<&Node<'_>>) -> Result<LeaseTerms, Error> {
    let mut terms = LeaseTerms { seconds: 600, on_conflict: OnConflict::Refuse };
    if let Some(node) = node {
        let table = node.table(&["seconds", "on_conflict"])?;
        if let Some(seconds) = table.optional("seconds") {
            terms.seconds = seconds.number(60..=LEASE_S_MAX)?;
        }
        if let Some(word) = table.optional("on_conflict") {
            terms.on_conflict =
                word.word(&[("refuse", OnConflict::Refuse), ("supersede", OnConflict::Supersede)])?;
        }
    }
    Ok(terms)
}

/// Serialises what displays as the document writes it.
pub(in crate::policy) fn displayed<T: std::fmt::Display, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

#[cfg(test)]
mod tests;
