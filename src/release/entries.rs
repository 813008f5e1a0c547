//! Entries of the log about guests' requests.

use crate::audit::entry::{
    Alarm, CheckMade, Denied, Ended, Entry, Intended, KeyGiven, RatedTcb, Released, Renewed, Request, Text,
};
use crate::identity::{Fresh, Freshness};
use crate::keys::ring::Wrapped;
use crate::keys::seal::Sealed;
use crate::lease::Held;
use crate::lease::hold::instance_key_digest;
use crate::lease::ports::LeaseRow;
use crate::policy::reason::codes;
use crate::protocol::head::Operation;
use crate::verify::{Claims, Cpu, Subject};
use crate::wire::{Code, Digest, UnixSeconds};

/// Says who asked and what was shown.
fn request(claims: &Claims<Fresh>) -> Request {
    let bundle = claims.bundle();
    let head = bundle.head();
    Request {
        tenant: head.tenant.clone(),
        plane: head.plane,
        operation: head.operation,
        challenge: *claims.freshness().id(),
        bundle: bundle.digest(),
        head: *bundle.head_hash(),
        evidence: *bundle.evidence_digest(),
        instance_key: instance_key_digest(&head.instance_key),
        chip: claims.cpu().map(Cpu::machine),
        tcb: claims.cpu().and_then(rated),
        devices: claims.gpus().iter().flatten().filter_map(|gpu| gpu.pdi).collect(),
        keys: head.keys.clone(),
    }
}

/// Says what Intel says of a TDX platform.
fn rated(cpu: &Cpu) -> Option<RatedTcb> {
    let tcb = match cpu {
        Cpu::Snp(_) => None,
        Cpu::Tdx(tdx) => tdx.tcb.as_ref(),
    }?;
    Some(RatedTcb {
        status: Text::cut(tcb.status.text()),
        date: tcb.date,
        advisories: tcb.advisories.iter().map(|id| Text::cut(id)).collect(),
        evaluation: tcb.evaluation,
        issued: tcb.issued,
    })
}

/// Lists every check of every part.
pub fn checks<F: Freshness>(claims: &Claims<F>) -> Vec<CheckMade> {
    let part = |subject: Subject| match subject {
        Subject::Request => "request".to_string(),
        Subject::Cpu => "cpu".to_string(),
        Subject::Gpu(at) => format!("gpu{at}"),
    };
    claims
        .checks()
        .iter()
        .flat_map(|(subject, checks)| {
            let part = part(*subject);
            checks.list().iter().map(move |check| CheckMade::of(&part, check))
        })
        .collect()
}

/// A genuine guest was refused.
pub fn denied(claims: &Claims<Fresh>, policy: Option<Digest<32>>, reasons: &[Code]) -> Entry {
    Denied {
        request: request(claims),
        policy,
        reasons: reasons.to_vec(),
        checks: checks(claims),
        standing: None,
    }
    .into()
}

/// Somebody showed devices or a challenge that are another's.
pub fn alarm(claims: &Claims<Fresh>, code: Code) -> Entry {
    Alarm {
        code,
        tenant: Some(claims.bundle().head().tenant.clone()),
        lease: None,
        devices: claims.gpus().iter().flatten().filter_map(|gpu| gpu.pdi).collect(),
        what: Text::cut(code.meaning()),
    }
    .into()
}

/// A lease is over before it lapsed: given back, or in the place of a newer one.
pub fn ended(row: &LeaseRow, ended: UnixSeconds) -> Entry {
    Ended {
        tenant: row.tenant.clone(),
        lease: row.id,
        instance_key: row.instance_key,
        devices: row.pdis.clone(),
        began: row.created_at,
        ended,
    }
    .into()
}

/// Keys are about to be unwrapped.
pub fn intended(held: &Held, wrapped: &[Wrapped], security_epoch: u64) -> Entry {
    let granted = held.granted();
    let given = |wrapped: &Wrapped| KeyGiven {
        key: wrapped.context().key.clone(),
        version: wrapped.context().version,
    };
    Intended {
        request: request(granted.claims()),
        policy: granted.policy(),
        lease: *held.lease(),
        until: held.until(),
        keys: wrapped.iter().map(given).collect(),
        checks: checks(granted.claims()),
        security_epoch,
        standing: None,
    }
    .into()
}

/// Keys or a result left.
pub fn released(sealed: &Sealed, until: UnixSeconds, ciphertexts: Digest<32>) -> Entry {
    let held = sealed.held();
    let granted = held.granted();
    let claims = granted.claims();
    let lease = *held.lease();
    if claims.bundle().head().operation == Operation::Renew && sealed.keys().is_empty() {
        let devices = claims.facts().map(|facts| facts.devices.as_slice()).unwrap_or_default();
        return Renewed {
            request: request(claims),
            policy: granted.policy(),
            lease,
            until,
            utilisation: devices.iter().map(|device| device.utilization_percent).collect(),
        }
        .into();
    }
    let given = sealed.keys().iter().map(|key| KeyGiven { key: key.id().clone(), version: key.version() });
    Released {
        request: request(claims),
        policy: granted.policy(),
        lease,
        until,
        keys: given.collect(),
        ciphertexts,
        binding: Text::cut(granted.grade().text()),
        residual_risks: granted.risks().iter().map(|risk| Text::cut(risk.text())).collect(),
        warnings: codes(granted.warnings()),
        standing: None,
    }
    .into()
}
