//! Entries: what the log tells, one struct per kind. Digests, ids, codes and short texts; never evidence,
//! never a secret.

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::ledger::{StoredEntry, body_digest};
use crate::protocol::head::{Operation, Plane};
use crate::protocol::json;
use crate::protocol::receipt::Leaf;
use crate::protocol::role::RoleCertificate;
use crate::wire::ids::{KeyId, LeaseId, Mode, Pdi, StoreId, TenantId};
use crate::wire::{Check, Code, Digest, Outcome, UnixSeconds, limits};

/// The version of bodies that this build writes; leaves carry it.
pub const ENTRY_VERSION: u32 = 1;

/// A short text: a name, a reason, an address. Longer ones are cut when the entry is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Text(String);

impl Text {
    /// Takes a text, cut at `ENTRY_TEXT_LEN_MAX` bytes. Foreign text goes through `wire::text::foreign`
    /// first.
    pub fn cut(text: &str) -> Self {
        let mut end = text.len().min(limits::ENTRY_TEXT_LEN_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self(text[..end].to_string())
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Text {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.len() <= limits::ENTRY_TEXT_LEN_MAX {
            true => Ok(Self(text)),
            false => Err(format!("expected a text of at most {} bytes", limits::ENTRY_TEXT_LEN_MAX)),
        }
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

macro_rules! entries {
    ($($(#[doc = $doc:literal])+ $variant:ident $kind:literal,)*) => {
        /// An entry of the log. Each answers who asked, what was shown, under which policy, what was decided
        /// and why; the leaf says when.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum Entry { $($(#[doc = $doc])+ $variant($variant),)* }

        impl Entry {
            /// Every kind, as leaves and bodies write it.
            pub const KINDS: &'static [&'static str] = &[$($kind,)*];

            /// Returns the kind.
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$variant(_) => $kind,)* }
            }
        }

        $(impl From<$variant> for Entry {
            fn from(body: $variant) -> Self {
                Self::$variant(body)
            }
        })*
    };
}

entries! {
    /// Something that must not happen and that a person should look at.
    Alarm "alarm",
    /// The approvers of a tenant, or how many must sign, changed.
    ApproversChanged "approvers_changed",
    /// A scheduler's statement about allocated devices: its author's word, nobody checked it.
    Claimed "claimed",
    /// A genuine guest was refused.
    Denied "denied",
    /// An instance gave its lease back.
    Ended "ended",
    /// An operator took a lease away.
    Evicted "evicted",
    /// A tenant, key, chip or GPU was frozen.
    Frozen "frozen",
    /// Keys are about to be unwrapped: devices are reserved, nothing has left.
    Intended "intended",
    /// A key was enrolled, or a new version of it.
    KeyAdded "key_added",
    /// A key was disabled, enabled or destroyed.
    KeyChanged "key_changed",
    /// A lease ran out.
    Lapsed "lapsed",
    /// An older copy of the database was taken into service.
    OlderStoreAccepted "older_store_accepted",
    /// A release policy came into force.
    PolicyActivated "policy_activated",
    /// A release policy went out of force with no successor.
    PolicyRetired "policy_retired",
    /// Recorded evidence was removed at the end of its time.
    Purged "purged",
    /// Keys left, sealed to the guest, or a result without keys.
    Released "released",
    /// Renewals of one lease in one hour that issued nothing and changed nothing.
    RenewalsCounted "renewals_counted",
    /// A lease was renewed with a new result.
    Renewed "renewed",
    /// A role of the service got another key.
    RoleRotated "role_rotated",
    /// The store was created: the second entry of every log. The first is the `role_rotated` of its log key.
    StoreCreated "store_created",
    /// A caller who was not shown to be a genuine guest.
    Stranger "stranger",
    /// Strangers beyond the budget of entries, counted.
    StrangersCounted "strangers_counted",
    /// A tenant was registered.
    TenantAdded "tenant_added",
    /// A freeze was lifted.
    Unfrozen "unfrozen",
}

impl Entry {
    /// Writes the canonical body.
    ///
    /// Shape: RFC 8785 canonical JSON, at most `ENTRY_LEN_MAX` bytes, the kind in the member `kind`.
    ///
    /// Errors: `EntryTooLarge`, `EntryUnwritable`.
    pub fn body(&self) -> Result<Vec<u8>, Error> {
        let body = json::canonical("entry", self)
            .map_err(|error| Error::EntryUnwritable { what: error.to_string() })?;
        match body.len() <= limits::ENTRY_LEN_MAX {
            true => Ok(body),
            false => Err(Error::EntryTooLarge { len_max: limits::ENTRY_LEN_MAX, len: body.len() }),
        }
    }

    /// Reads a canonical body.
    ///
    /// Errors: `Json` for a body that this version would not have written so.
    pub fn parse(body: &[u8]) -> Result<Self, crate::protocol::Error> {
        json::parse_canonical("entry", body, limits::ENTRY_LEN_MAX)
    }

    /// Makes the leaf and what opens it. `guest` is the guest's salt with `receipt::guest_part` made of it.
    ///
    /// Errors: those of `body`.
    pub fn stored(
        &self,
        time: UnixSeconds,
        salt: [u8; 32],
        guest: Option<([u8; 32], Digest<32>)>,
    ) -> Result<StoredEntry, Error> {
        let body = self.body()?;
        let leaf = Leaf {
            version: ENTRY_VERSION,
            time,
            kind: self.kind().to_string(),
            body: body_digest(&salt, &body),
            guest: guest.map(|(_, part)| part),
        };
        Ok(StoredEntry { leaf, salt, guest_salt: guest.map(|(salt, _)| salt), body })
    }
}

/// Who asked, and what was shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub tenant: TenantId,
    pub plane: Plane,
    pub operation: Operation,
    /// Name under which the challenge is redeemed.
    pub challenge: Digest<32>,
    /// Digest of the whole bundle.
    pub bundle: Digest<32>,
    pub head: Digest<48>,
    pub evidence: Digest<48>,
    /// SHA-256 of the instance's public key.
    pub instance_key: Digest<32>,
    /// Digest of the CPU's own id, where the evidence has one.
    pub chip: Option<Digest<32>>,
    /// What the vendor says of the platform's TCB, where it is the vendor who rates it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcb: Option<RatedTcb>,
    /// SHA-384 of the init data that was sent, whatever became of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_data: Option<Digest<48>>,
    pub devices: Vec<Pdi>,
    pub keys: Vec<KeyId>,
}

/// What fixes the agent of a guest, and on whose word: the operator's, or that of init data that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentFixed {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_by: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_basis: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured_by: Option<Text>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configured_basis: Option<Text>,
    /// The image that the init data names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Text>,
}

/// What Intel said of the TCB of a TDX platform, and by which collateral: a platform can be out of date over night.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatedTcb {
    /// The status as Intel writes it.
    pub status: Text,
    /// tcbDate of the level.
    pub date: UnixSeconds,
    pub advisories: Vec<Text>,
    /// tcbEvaluationDataNumber of the collateral.
    pub evaluation: u32,
    /// When the collateral was issued.
    pub issued: UnixSeconds,
}

/// One check of one part of the evidence, as it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckMade {
    /// `cpu`, or the device's place among the GPUs: `gpu0`.
    pub part: Text,
    pub check: Text,
    /// `pass`, `fail` or `unknown`.
    pub outcome: Text,
    pub code: Option<Code>,
    pub expected: Option<Text>,
    pub actual: Option<Text>,
}

impl CheckMade {
    /// Takes over a check of a part.
    pub fn of(part: &str, check: &Check) -> Self {
        let outcome = match check.outcome {
            Outcome::Pass => "pass",
            Outcome::Fail => "fail",
            Outcome::Unknown => "unknown",
        };
        Self {
            part: Text::cut(part),
            check: Text::cut(check.name.text()),
            outcome: Text::cut(outcome),
            code: check.code,
            expected: check.expected.as_deref().map(Text::cut),
            actual: check.actual.as_deref().map(Text::cut),
        }
    }
}

/// A key as it left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyGiven {
    pub key: KeyId,
    pub version: u32,
}

/// Body of `intended`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intended {
    pub request: Request,
    pub policy: Digest<32>,
    pub lease: LeaseId,
    /// Until when the devices are reserved.
    pub until: UnixSeconds,
    pub keys: Vec<KeyGiven>,
    pub checks: Vec<CheckMade>,
    pub security_epoch: u64,
    /// The tenant's running digest of policies, freezes and keys.
    pub standing: Option<Digest<32>>,
}

/// Body of `released`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Released {
    pub request: Request,
    pub policy: Digest<32>,
    pub lease: LeaseId,
    pub until: UnixSeconds,
    pub keys: Vec<KeyGiven>,
    /// `receipt::ciphertexts_digest` of what was sealed.
    pub ciphertexts: Digest<32>,
    pub binding: Text,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentFixed>,
    pub residual_risks: Vec<Text>,
    pub warnings: Vec<Code>,
    pub standing: Option<Digest<32>>,
}

/// Body of `denied`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denied {
    pub request: Request,
    /// `None` where no policy of the tenant matched.
    pub policy: Option<Digest<32>>,
    pub reasons: Vec<Code>,
    pub checks: Vec<CheckMade>,
    pub standing: Option<Digest<32>>,
}

/// Body of `renewed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renewed {
    pub request: Request,
    pub policy: Digest<32>,
    pub lease: LeaseId,
    pub until: UnixSeconds,
    /// Utilisation of each device in percent, as the agent read it.
    pub utilisation: Vec<u8>,
}

/// Body of `renewals_counted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RenewalsCounted {
    pub tenant: TenantId,
    pub lease: LeaseId,
    pub from: UnixSeconds,
    pub until: UnixSeconds,
    pub count: u64,
    /// Mean utilisation of each device in percent, as the agent read it.
    pub utilisation: Vec<u8>,
}

/// Body of `ended`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ended {
    pub tenant: TenantId,
    pub lease: LeaseId,
    pub instance_key: Digest<32>,
    pub devices: Vec<Pdi>,
    pub began: UnixSeconds,
    pub ended: UnixSeconds,
}

/// Body of `lapsed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lapsed {
    pub tenant: TenantId,
    pub lease: LeaseId,
    pub instance_key: Digest<32>,
    pub devices: Vec<Pdi>,
    pub began: UnixSeconds,
    pub until: UnixSeconds,
    /// Whether keys were reserved for and never left.
    pub held_only: bool,
}

/// Body of `evicted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evicted {
    pub tenant: TenantId,
    pub lease: LeaseId,
    pub devices: Vec<Pdi>,
    pub by: Text,
    pub reason: Text,
}

/// Body of `alarm`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alarm {
    pub code: Code,
    pub tenant: Option<TenantId>,
    pub lease: Option<LeaseId>,
    pub devices: Vec<Pdi>,
    pub what: Text,
}

/// Body of `stranger`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stranger {
    pub plane: Plane,
    /// Address as the listener saw it.
    pub address: Text,
    pub code: Code,
    /// Digest of what was sent.
    pub sent: Digest<32>,
}

/// Body of `strangers_counted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StrangersCounted {
    pub plane: Plane,
    pub from: UnixSeconds,
    pub until: UnixSeconds,
    pub count: u64,
    /// The codes that occurred.
    pub codes: Vec<Code>,
}

/// Body of `store_created`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreCreated {
    pub store: StoreId,
    pub mode: Mode,
    /// `role::PinnedRoots::id` of the service's roots.
    pub service_root: Digest<32>,
}

/// Body of `older_store_accepted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OlderStoreAccepted {
    pub by: Text,
    pub reason: Text,
    /// The highest checkpoint that was remembered.
    pub remembered_size: u64,
    pub remembered_root: Digest<32>,
    pub epoch: u64,
}

/// Body of `role_rotated`. Carries the certificate, so that a whole log verifies under the pinned roots
/// alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleRotated {
    pub certificate: RoleCertificate,
    pub by: Text,
}

/// Body of `tenant_added`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantAdded {
    pub tenant: TenantId,
    /// Digest of the first approver set and the signatures it asks for.
    pub genesis: Digest<32>,
    pub by: Text,
}

/// Body of `approvers_changed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApproversChanged {
    pub tenant: TenantId,
    pub approvers: Vec<Digest<32>>,
    /// How many must sign an activation.
    pub threshold: u32,
    pub sequence: u64,
    pub standing: Digest<32>,
}

/// Body of `policy_activated`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyActivated {
    pub tenant: TenantId,
    pub policy: Digest<32>,
    pub name: Text,
    pub replaces: Option<Digest<32>>,
    /// Key of the author; `None` until documents are signed.
    pub author: Option<Digest<32>>,
    pub approvers: Vec<Digest<32>>,
    /// Number of the activation within the tenant, from 1; never given twice.
    pub sequence: u64,
    pub by: Text,
    pub standing: Digest<32>,
}

/// Body of `policy_retired`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRetired {
    pub tenant: TenantId,
    pub policy: Digest<32>,
    pub approvers: Vec<Digest<32>>,
    /// Number of the retirement that was approved; `None` until retirements are.
    pub sequence: Option<u64>,
    pub by: Text,
    pub standing: Digest<32>,
}

/// Body of `key_added`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyAdded {
    pub tenant: TenantId,
    pub key: KeyId,
    pub version: u32,
    pub selector: Text,
    pub custodian: Text,
    /// SHA-256 of the wrapped blob.
    pub wrapped: Digest<32>,
    pub by: Text,
    pub standing: Digest<32>,
}

/// Body of `key_changed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyChanged {
    pub tenant: TenantId,
    pub key: KeyId,
    pub version: u32,
    /// `enabled`, `disabled` or `destroyed`.
    pub state: Text,
    pub by: Text,
    pub standing: Digest<32>,
}

/// Body of `frozen`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Frozen {
    /// `None` for the platform's own freezes of chips and GPUs.
    pub tenant: Option<TenantId>,
    /// `tenant`, `key`, `chip` or `gpu`.
    pub scope: Text,
    pub subject: Text,
    pub by: Text,
    pub reason: Text,
}

/// Body of `unfrozen`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unfrozen {
    pub tenant: Option<TenantId>,
    pub scope: Text,
    pub subject: Text,
    pub by: Text,
    pub reason: Text,
}

/// Body of `purged`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Purged {
    /// What is older is gone.
    pub before: UnixSeconds,
    pub bundles: u64,
    pub endorsements: u64,
}

/// Body of `claimed`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claimed {
    pub by: Text,
    /// `borrow`, `reclaim` or `preempt`.
    pub event: Text,
    pub tenant: Option<TenantId>,
    pub lease: Option<LeaseId>,
    pub devices: Vec<Pdi>,
    pub at: UnixSeconds,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> UnixSeconds {
        UnixSeconds::new(seconds).unwrap()
    }

    fn alarm(what: &str) -> Entry {
        Alarm {
            code: Code::ChallengeReused,
            tenant: None,
            lease: None,
            devices: vec![Pdi::new([1; 8])],
            what: Text::cut(what),
        }
        .into()
    }

    #[test]
    fn a_body_reads_back_as_written_and_names_its_kind() {
        let entry = alarm("x");
        let body = entry.body().unwrap();
        assert_eq!(Entry::parse(&body).unwrap(), entry);
        assert_eq!(
            String::from_utf8(body).unwrap(),
            "{\"code\":\"challenge_reused\",\"devices\":[\"0101010101010101\"],\"kind\":\"alarm\",\
             \"lease\":null,\"tenant\":null,\"what\":\"x\"}"
        );
        assert!(Entry::KINDS.contains(&entry.kind()));
    }

    #[test]
    fn each_kind_is_the_tag_of_its_body() {
        // A body of the kind alone lacks its fields: an error that names a field shows that the kind is
        // known.
        for kind in Entry::KINDS {
            let error = Entry::parse(format!("{{\"kind\":\"{kind}\"}}").as_bytes()).unwrap_err().to_string();
            assert!(error.contains("missing field"), "{kind}: {error}");
        }
        let mut sorted = Entry::KINDS.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, Entry::KINDS, "alphabetical, each once");
    }

    #[test]
    fn refuses_a_body_that_this_version_would_not_write() {
        let good = String::from_utf8(alarm("x").body().unwrap()).unwrap();
        for (from, to) in [
            ("\"kind\":\"alarm\"", "\"kind\":\"party\""),
            ("\"lease\":null", "\"lease\":null,\"more\":1"),
            ("\"lease\":null,", ""),
            ("\"what\":", "\"what\": "),
            ("\"code\":\"challenge_reused\"", "\"code\":\"no_such_code\""),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good);
            assert!(Entry::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn texts_and_bodies_have_their_bounds() {
        let max = limits::ENTRY_TEXT_LEN_MAX;
        assert_eq!(Text::cut(&"x".repeat(max + 1)).text().len(), max);
        assert_eq!(Text::cut(&"ä".repeat(max)).text().len() % 2, 0, "cut between characters");
        assert!(Text::try_from("x".repeat(max)).is_ok());
        assert!(Text::try_from("x".repeat(max + 1)).is_err());
        let of = |count| {
            let Entry::Alarm(mut alarm) = alarm("") else { unreachable!() };
            alarm.devices = vec![Pdi::new([0; 8]); count];
            Entry::from(alarm).body()
        };
        // Each device takes 19 bytes: sixteen digits, quotes, comma.
        let fixed = of(1).unwrap().len() - 18;
        let most = (limits::ENTRY_LEN_MAX - fixed + 1) / 19;
        assert!(of(most).unwrap().len() > limits::ENTRY_LEN_MAX - 19);
        let error = of(most + 1).unwrap_err();
        assert!(matches!(error, Error::EntryTooLarge { .. }), "{error}");
        assert_eq!(error.code(), Code::LogEntryUnwritable);
    }

    #[test]
    fn a_leaf_commits_to_salt_and_body() {
        let guest = Some(([8; 32], Digest::new([9; 32])));
        let stored = alarm("x").stored(at(5), [7; 32], guest).unwrap();
        assert_eq!(stored.leaf.body, body_digest(&[7; 32], &stored.body));
        assert_eq!(stored.leaf.guest, Some(Digest::new([9; 32])));
        assert_eq!(stored.guest_salt, Some([8; 32]));
        assert_ne!(stored.leaf.body, alarm("x").stored(at(5), [6; 32], guest).unwrap().leaf.body);
        assert_ne!(stored.leaf.body, alarm("y").stored(at(5), [7; 32], guest).unwrap().leaf.body);
    }
}
