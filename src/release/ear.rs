//! The attestation result: an EAR, signed for one tenant's audiences.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::identity::Fresh;
use crate::identity::keys::ResultKey;
use crate::policy::appraise::Status;
use crate::policy::decide::Granted;
use crate::protocol::message::{Bytes, CpuEvidence};
use crate::verify::gpu::Gpu;
use crate::verify::snp::Snp;
use crate::verify::tdx::Tdx;
use crate::verify::{Claims, Cpu};
use crate::wire::ids::{Mode, TenantId};
use crate::wire::text::to_base64url;
use crate::wire::{Digest, UnixSeconds, crypto};

/// The profile of the draft that these results follow.
pub const EAR_PROFILE: &str = "tag:github.com,2023:veraison/ear";
/// The type in the header: no other token of ours has it.
pub const TYP: &str = "claviger-ear+jwt";
/// Seconds that a result lives.
pub const RESULT_AGE_S_MAX: i64 = 300;

/// Who issues: one issuer per tenant below one address.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// `https://host[:port][/path]`, without a slash at the end.
    pub base: String,
}

impl Issuer {
    /// Returns the `iss` of a tenant.
    pub fn of(&self, tenant: &TenantId) -> String {
        format!("{}/tenants/{tenant}", self.base)
    }

    /// Builds the OIDC discovery document of a tenant.
    ///
    /// Source: OpenID Connect Discovery 1.0, section 3.
    pub fn discovery(&self, tenant: &TenantId) -> Value {
        let issuer = self.of(tenant);
        json!({
            "issuer": issuer,
            "jwks_uri": format!("{issuer}/.well-known/jwks.json"),
            "id_token_signing_alg_values_supported": ["ES384"],
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "claims_supported": ["iss", "sub", "aud", "iat", "exp", "eat_nonce", "cnf", "submods"],
        })
    }
}

/// The public half of the result key as a JWK.
///
/// Source: RFC 7517; RFC 7518, section 6.2.
pub fn jwk(point: &[u8; crypto::P384_POINT_LEN]) -> Value {
    let (_, coordinates) = point.split_at(1);
    let (x, y) = coordinates.split_at(48);
    let (x, y) = (to_base64url(x), to_base64url(y));
    // RFC 7638: the members in this order, without white space.
    let thumbprint = format!("{{\"crv\":\"P-384\",\"kty\":\"EC\",\"x\":\"{x}\",\"y\":\"{y}\"}}");
    let kid = to_base64url(crypto::sha256(&[thumbprint.as_bytes()]).bytes());
    json!({ "kty": "EC", "crv": "P-384", "alg": "ES384", "use": "sig", "kid": kid, "x": x, "y": y })
}

/// What a result says beside the grant.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub issuer: &'a Issuer,
    pub mode: Mode,
    pub now: UnixSeconds,
    /// Lease and key ids that go with it, for the reader of the log.
    pub lease: &'a str,
}

/// Writes and signs the result of a grant.
///
/// Shape: JWS compact serialisation, ES384.
///
/// Errors: a sentence, if the system gives no randomness.
///
/// Source: draft-ietf-rats-ear; RFC 9711; RFC 7515.
pub fn sign(key: &ResultKey, granted: &Granted, frame: Frame<'_>) -> Result<String, String> {
    let jwk = jwk(&key.public());
    let header = json!({ "alg": "ES384", "typ": TYP, "kid": jwk["kid"] });
    let payload = payload(granted, frame);
    let encode = |value: &Value| to_base64url(value.to_string().as_bytes());
    let input = format!("{}.{}", encode(&header), encode(&payload));
    let signature = key.sign(input.as_bytes()).map_err(|error| error.to_string())?;
    Ok(format!("{input}.{}", to_base64url(&signature)))
}

fn payload(granted: &Granted, frame: Frame<'_>) -> Value {
    let claims = granted.claims();
    let head = claims.bundle().head();
    let mut payload = json!({
        "eat_profile": EAR_PROFILE,
        "iss": frame.issuer.of(&head.tenant),
        "sub": to_base64url(crypto::sha256(&[&head.instance_key]).bytes()),
        "iat": frame.now.get(),
        "exp": frame.now.plus(RESULT_AGE_S_MAX).get(),
        "eat_nonce": to_base64url(crate::identity::Freshness::nonce(claims.freshness())),
        "cnf": { "jwk": { "kty": "OKP", "crv": "Ed25519", "x": to_base64url(&head.instance_key) } },
        "ear.verifier-id": { "developer": "claviger", "build": env!("CARGO_PKG_VERSION") },
        "submods": submodules(granted, claims),
        "claviger.tenant": head.tenant,
        "claviger.lease": frame.lease,
        "claviger.policy": granted.policy(),
        "claviger.binding": granted.grade().text(),
        "claviger.agent": granted.agent(),
        "claviger.approvals": { "n": granted.approvals() },
        "claviger.residual-risks": granted.risks(),
        "claviger.support": granted.support(),
        "claviger.witness": "unwitnessed",
        "claviger.evidence": claims.bundle().evidence_digest(),
        "claviger.simulated": frame.mode == Mode::Simulated,
    });
    if let (Some(audience), Some(object)) = (&head.audience, payload.as_object_mut()) {
        object.insert("aud".to_string(), json!(audience));
    }
    payload
}

/// One submodule per device: status and digests, never evidence.
fn submodules(granted: &Granted, claims: &Claims<Fresh>) -> Value {
    let mut submodules = Map::new();
    let evidence = claims.bundle().evidence();
    let status = match granted.warnings().is_empty() {
        true => Status::Affirming,
        false => Status::Warning,
    };
    let cpu = match claims.cpu() {
        Some(Cpu::Snp(sent)) => Some(snp(sent, &evidence.cpu)),
        Some(Cpu::Tdx(sent)) => Some(tdx(sent, &evidence.cpu)),
        None => None,
    };
    if let Some(mut cpu) = cpu {
        cpu["ear.status"] = json!(status);
        cpu["ear.appraisal-policy-id"] = json!(granted.policy().to_string());
        // Whoever relies on the result may know machines by this digest: a key of many machines names none.
        let bound = claims.cpu().filter(|cpu| cpu.is_bound_to_machine());
        cpu["claviger.chip"] = json!(bound.map(Cpu::machine));
        submodules.insert("cpu".to_string(), cpu);
    }
    for (at, (gpu, sent)) in claims.gpus().iter().zip(&evidence.gpus).enumerate() {
        if let Some(gpu) = gpu {
            submodules.insert(format!("gpu{at}"), device(gpu, &sent.report, status, &granted.policy()));
        }
    }
    Value::Object(submodules)
}

fn snp(snp: &Snp, sent: &CpuEvidence) -> Value {
    let report = &snp.report;
    json!({
        "claviger.kind": "snp",
        "claviger.report": crypto::sha384(&[&sent.report]),
        "claviger.product": snp.line.map(|line| line.text()),
        "claviger.measurement": report.measurement,
        "claviger.host-data": report.host_data,
        "claviger.init-data": digest(&sent.init_data),
        "claviger.vmpl": report.vmpl,
        "claviger.signing-key": report.signer.to_string(),
        "claviger.vlek-provider": snp.provider,
        "claviger.reported-tcb": report.reported_tcb.to_string(),
    })
}

/// What the quote signs, and what Intel says of the platform. The PPID, which tracks hardware, is a digest.
fn tdx(tdx: &Tdx, sent: &CpuEvidence) -> Value {
    let report = &tdx.quote.report;
    json!({
        "claviger.kind": "tdx",
        "claviger.report": tdx.quote.digest(),
        "claviger.fmspc": tdx.pck.as_ref().map(|pck| hex::encode(pck.fmspc)),
        "claviger.mr-td": report.mr_td,
        "claviger.rtmr": report.rtmr,
        "claviger.mr-config-id": report.mr_config_id,
        "claviger.mr-owner": report.mr_owner,
        "claviger.mr-owner-config": report.mr_owner_config,
        "claviger.mr-service-td": report.mr_service_td,
        "claviger.td-attributes": report.attributes,
        "claviger.xfam": report.xfam,
        "claviger.init-data": digest(&sent.init_data),
        "claviger.event-log": digest(&sent.event_log),
        "claviger.runtime-log": digest(&sent.runtime_log),
        "claviger.tcb": tdx.tcb.as_ref().map(|tcb| json!({
            "status": tcb.status.text(),
            "date": tcb.date.to_string(),
            "advisories": tcb.advisories,
            "evaluation": tcb.evaluation,
            "issued": tcb.issued.to_string(),
        })),
    })
}

/// The digest of what was sent beside the evidence, if it was.
fn digest(sent: &Option<Bytes>) -> Option<Digest<48>> {
    sent.as_ref().map(|sent| crypto::sha384(&[&sent.0]))
}

fn device(gpu: &Gpu, report: &[u8], status: impl Serialize, policy: &Digest<32>) -> Value {
    json!({
        "ear.status": status,
        "ear.appraisal-policy-id": policy.to_string(),
        "claviger.kind": "nvidia-gpu",
        "claviger.report": crypto::sha384(&[report]),
        "claviger.pdi": gpu.pdi,
        "claviger.architecture": gpu.architecture.map(|architecture| architecture.chip()),
        "claviger.driver-version": gpu.report.opaque.driver_version.as_ref().map(ToString::to_string),
        "claviger.vbios-version": gpu.report.opaque.vbios_version.map(|version| version.to_string()),
    })
}
