//! Messages of the guest plane.

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::facts::Facts;
use super::head::{self, RequestHead};
use super::receipt::Receipt;
use super::role::RoleCertificate;
use super::{json, transcript};
use crate::wire::ids::{KeyId, LeaseId};
use crate::wire::{Code, Digest, UnixSeconds, crypto, limits};

/// Bytes that travel as unpadded base64url.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(#[serde(with = "crate::wire::text::base64url")] pub Vec<u8>);

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bytes({})", self.0.len())
    }
}

/// Answer of `POST /attest/challenge`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChallengeReply {
    /// Opaque; given back verbatim.
    pub challenge: Bytes,
    /// 32 bytes, the nonce of the evidence.
    pub nonce: Bytes,
    pub expires_at: UnixSeconds,
}

/// The CPU families whose evidence may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuKind {
    AzureSnp,
    AzureTdx,
    Snp,
    Tdx,
}

impl CpuKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::AzureSnp, Self::AzureTdx, Self::Snp, Self::Tdx];

    /// Returns the name as messages write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::AzureSnp => "azure-snp",
            Self::AzureTdx => "azure-tdx",
            Self::Snp => "snp",
            Self::Tdx => "tdx",
        }
    }
}

/// Evidence of the CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuEvidence {
    pub kind: CpuKind,
    #[serde(with = "crate::wire::text::base64url")]
    pub report: Vec<u8>,
    /// The guest's own VEK and chain, DER each; checked like any.
    pub endorsements: Vec<Bytes>,
    /// What firmware and boot loader logged, as the kernel shows it (TDX: the data of the ACPI table CCEL). The head
    /// holds its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_log: Option<Bytes>,
    /// What the running guest logged, JSON. It grows after the head is written; its replay alone proves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_log: Option<Bytes>,
    /// The document that the guest was launched with, verbatim. HOST_DATA or MRCONFIGID holds its digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_data: Option<Bytes>,
}

impl CpuEvidence {
    /// Evidence without logs and without init data.
    pub fn without_logs(kind: CpuKind, report: Vec<u8>, endorsements: Vec<Bytes>) -> Self {
        Self { kind, report, endorsements, event_log: None, runtime_log: None, init_data: None }
    }

    /// Refuses init data beside evidence that has no register for its digest, and such that is beyond its bound.
    fn check_init_data(&self) -> Result<(), &'static str> {
        match (self.kind, &self.init_data) {
            (_, None) => Ok(()),
            (CpuKind::Snp | CpuKind::Tdx, Some(sent)) if sent.0.len() <= limits::INIT_DATA_LEN_MAX => Ok(()),
            (CpuKind::Snp | CpuKind::Tdx, Some(_)) => Err("init data that is too long"),
            (CpuKind::AzureSnp | CpuKind::AzureTdx, Some(_)) => {
                Err("expected no init data beside evidence of this CPU")
            }
        }
    }

    /// Refuses logs that evidence of this kind does not have, and those beyond their bound.
    fn check_logs(&self) -> Result<(), &'static str> {
        let logs =
            [(&self.event_log, limits::EVENT_LOG_LEN_MAX), (&self.runtime_log, limits::RUNTIME_LOG_LEN_MAX)];
        for (log, len_max) in logs {
            match (self.kind, log) {
                (_, None) => {}
                (CpuKind::Tdx, Some(log)) if log.0.len() <= len_max => {}
                (CpuKind::Tdx, Some(_)) => return Err("a log that is too long"),
                (CpuKind::AzureSnp | CpuKind::AzureTdx | CpuKind::Snp, Some(_)) => {
                    return Err("expected no log beside evidence of this CPU");
                }
            }
        }
        Ok(())
    }
}

/// Evidence of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuEvidence {
    #[serde(with = "crate::wire::text::base64url")]
    pub report: Vec<u8>,
    /// PEM text, leaf first.
    #[serde(with = "crate::wire::text::base64url")]
    pub chain: Vec<u8>,
}

/// Evidence of the composite device, the CPU leading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    pub cpu: CpuEvidence,
    pub gpus: Vec<GpuEvidence>,
}

/// Body of `POST /attest`, `/attest/renew` and `/attest/end`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttestRequest {
    pub challenge: Bytes,
    /// The request head, verbatim.
    pub head: Bytes,
    /// Absent in `/attest/end` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
    /// The facts document, verbatim. Absent in `/attest/end` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<Bytes>,
    /// The instance key's signature over `transcript::proof`.
    pub proof: Bytes,
}

/// What a request of every version has.
#[derive(Deserialize)]
struct Headed {
    head: Bytes,
}

impl AttestRequest {
    /// Parses the body of a request.
    ///
    /// Shape: JSON, at most `ATTEST_BODY_LEN_MAX` bytes.
    ///
    /// Errors: `Version` for a request of a version that is not spoken, whatever else it holds; `Json`.
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        let parsed = json::parse("request", body, limits::ATTEST_BODY_LEN_MAX);
        parsed.map_err(|error| {
            // Only now: a body is long, and hardly any is of another version.
            let headed = json::parse::<Headed>("request", body, limits::ATTEST_BODY_LEN_MAX);
            headed.ok().and_then(|headed| head::spoken(&headed.head.0).err()).unwrap_or(error)
        })
    }
}

/// A request whose head has been read; evidence and facts are opaque bytes still.
#[derive(Clone, Debug)]
pub struct Bundle {
    challenge: Vec<u8>,
    head: RequestHead,
    head_hash: Digest<48>,
    evidence: Evidence,
    facts: Vec<u8>,
    evidence_digest: Digest<48>,
    proof: Vec<u8>,
}

impl Bundle {
    /// Reads the request of a release or renewal.
    ///
    /// Shape: at most `DEVICES_MAX` GPUs, 8 endorsements; logs beside a TDX quote alone, of at most `EVENT_LOG_LEN_MAX`
    /// and `RUNTIME_LOG_LEN_MAX` bytes; init data beside an SNP report or a TDX quote alone, of at most
    /// `INIT_DATA_LEN_MAX`; the sizes of other parts are bounded by their own parsers.
    ///
    /// Errors: those of `RequestHead::parse`; `Json`; `EventLog` unless the head holds the digest of the event log that
    /// is sent, or none where none is.
    pub fn of(request: AttestRequest) -> Result<Self, Error> {
        let wrong = |what: &str| Error::Json { document: "request", what: what.to_string() };
        let head = RequestHead::parse(&request.head.0)?;
        let evidence = request.evidence.ok_or_else(|| wrong("expected evidence"))?;
        let facts = request.facts.ok_or_else(|| wrong("expected facts"))?.0;
        evidence.cpu.check_logs().and_then(|()| evidence.cpu.check_init_data()).map_err(wrong)?;
        let sent = evidence.cpu.event_log.as_ref().map(|log| crypto::sha384(&[&log.0]));
        if head.event_log != sent {
            return Err(Error::EventLog { named: head.event_log.map(Box::new), sent: sent.map(Box::new) });
        }
        if evidence.gpus.len() > limits::DEVICES_MAX || evidence.cpu.endorsements.len() > 8 {
            return Err(wrong("too many devices or endorsements"));
        }
        Ok(Self {
            challenge: request.challenge.0,
            head_hash: head::head_hash(&request.head.0),
            head,
            evidence_digest: transcript::evidence_digest(&evidence, &facts),
            evidence,
            facts,
            proof: request.proof.0,
        })
    }

    /// Returns the challenge as sent.
    pub fn challenge(&self) -> &[u8] {
        &self.challenge
    }

    /// Returns the request head.
    pub fn head(&self) -> &RequestHead {
        &self.head
    }

    /// Returns the hash of the head's bytes.
    pub fn head_hash(&self) -> &Digest<48> {
        &self.head_hash
    }

    /// Returns the evidence as sent.
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// Parses the facts.
    ///
    /// Errors: `Json`.
    pub fn facts(&self) -> Result<Facts, Error> {
        Facts::parse(&self.facts)
    }

    /// Returns the digest of evidence and facts as sent.
    pub fn evidence_digest(&self) -> &Digest<48> {
        &self.evidence_digest
    }

    /// Returns the digest of the whole request.
    pub fn digest(&self) -> Digest<32> {
        transcript::bundle_digest(&self.challenge, &self.head_hash, &self.evidence_digest, &self.proof)
    }

    /// Computes the report data that the CPU report must carry under `nonce`.
    pub fn report_data(&self, nonce: &[u8; 32]) -> Digest<64> {
        transcript::report_data(nonce, &self.head_hash, &self.evidence.gpus, &self.facts)
    }

    /// Computes the nonce that each GPU must have signed under `nonce`.
    pub fn gpu_nonce(&self, nonce: &[u8; 32]) -> Digest<32> {
        transcript::gpu_nonce(nonce, &self.head_hash, self.evidence.gpus.len())
    }

    /// Computes the digest of the GPUs' chains, as the event in a runtime register has it for its payload.
    pub fn gpu_chains(&self) -> Digest<48> {
        transcript::gpu_chains(&self.evidence.gpus)
    }

    /// Checks that the instance key of the head signed this request.
    ///
    /// Errors: `Proof`.
    pub fn check_proof(&self) -> Result<(), Error> {
        let message = transcript::proof(&self.challenge, &self.head_hash, &self.evidence_digest);
        crypto::verify_ed25519(&self.head.instance_key, &message, &self.proof).map_err(|_| Error::Proof)
    }
}

/// A lease as the guest learns of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseGrant {
    pub id: LeaseId,
    pub expires_at: UnixSeconds,
}

/// A tenant key sealed to the guest's transport key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SealedKeyMessage {
    pub id: KeyId,
    pub version: u32,
    /// HPKE suite, `Kem::suite`.
    pub suite: String,
    /// Encapsulated key.
    pub enc: Bytes,
    pub ciphertext: Bytes,
}

/// A signature of the service with the certificate of its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceSignature {
    pub key: RoleCertificate,
    pub value: Bytes,
}

/// What a 200 says, without its signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantBody {
    /// The EAR, a JWT; `None` where the request was an end.
    pub attestation_result: Option<String>,
    pub lease: LeaseGrant,
    pub policy: Digest<32>,
    pub keys: Vec<SealedKeyMessage>,
    pub receipt: Receipt,
}

/// Answer 200 of `POST /attest`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantReply {
    #[serde(flatten)]
    pub body: GrantBody,
    pub signature: ServiceSignature,
}

/// One reason of a denial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    pub code: Code,
}

/// What a signed 403 says, without its signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DenialBody {
    pub code: Code,
    pub reasons: Vec<Reason>,
    /// When the lease that stands in the way lapses, where that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lapses_at: Option<UnixSeconds>,
    pub receipt: Receipt,
}

/// A problem document (RFC 9457): every answer other than 200.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    pub code: Code,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lapses_at: Option<UnixSeconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<ServiceSignature>,
}

/// Returns the canonical bytes of a reply's body, as `transcript::reply` takes them.
///
/// Errors: `Json`.
pub fn body_bytes<T: Serialize>(body: &T) -> Result<Vec<u8>, Error> {
    json::canonical("reply", body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beside(kind: CpuKind, init_data: Option<usize>) -> Result<(), &'static str> {
        let init_data = init_data.map(|len| Bytes(vec![b'x'; len]));
        CpuEvidence { init_data, ..CpuEvidence::without_logs(kind, Vec::new(), Vec::new()) }.check_init_data()
    }

    #[test]
    fn init_data_stand_beside_evidence_that_has_a_register_for_them_and_within_their_bound() {
        for kind in CpuKind::ALL {
            assert!(beside(kind, None).is_ok(), "{}", kind.text());
            let has_register = matches!(kind, CpuKind::Snp | CpuKind::Tdx);
            assert_eq!(beside(kind, Some(0)).is_ok(), has_register, "{}", kind.text());
            assert_eq!(
                beside(kind, Some(limits::INIT_DATA_LEN_MAX)).is_ok(),
                has_register,
                "{}",
                kind.text()
            );
            assert!(beside(kind, Some(limits::INIT_DATA_LEN_MAX + 1)).is_err(), "{}", kind.text());
        }
    }
}
