//! Entries of the log about guests' requests.

use crate::audit::entry::{
    AgentFixed, Alarm, CheckMade, Denied, Ended, Entry, Intended, KeyGiven, RatedTcb, Released, Renewed,
    Request, Text,
};
use crate::identity::{Fresh, Freshness};
use crate::keys::ring::Wrapped;
use crate::keys::seal::Sealed;
use crate::lease::Held;
use crate::lease::hold::instance_key_digest;
use crate::lease::ports::LeaseRow;
use crate::policy::agent;
use crate::policy::reason::codes;
use crate::protocol::head::Operation;
use crate::verify::{Claims, Cpu, Subject};
use crate::wire::{Code, Digest, UnixSeconds, crypto, limits};

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
        init_data: bundle.evidence().cpu.init_data.as_ref().map(|sent| crypto::sha384(&[&sent.0])),
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
        // Three levels may name three times as many; those of one are what an entry has room for.
        advisories: tcb.advisories.iter().take(limits::TCB_ADVISORIES_MAX).map(|id| Text::cut(id)).collect(),
        evaluation: tcb.evaluation,
        issued: tcb.issued,
    })
}

/// Lists every check of every part; what was expected and found as far as it fits.
pub fn checks<F: Freshness>(claims: &Claims<F>) -> Vec<CheckMade> {
    let part = |subject: Subject| match subject {
        Subject::Request => "request".to_string(),
        Subject::Cpu => "cpu".to_string(),
        Subject::Gpu(at) => format!("gpu{at}"),
    };
    let made = claims.checks().iter().flat_map(|(subject, checks)| {
        let part = part(*subject);
        checks.list().iter().map(move |check| CheckMade::of(&part, check))
    });
    bounded(made.collect())
}

/// Leaves out what was expected and found where the texts of one entry would not fit. An entry that is too large
/// cannot be written, which stops the service: no guest may bring that about.
fn bounded(mut checks: Vec<CheckMade>) -> Vec<CheckMade> {
    let mut left = limits::ENTRY_CHECK_TEXTS_LEN_MAX;
    for text in checks.iter_mut().flat_map(|check| [&mut check.expected, &mut check.actual]).flatten() {
        // As JSON: quotes and what is written in two signs.
        let len = serde_json::to_string(text).map_or(usize::MAX, |json| json.len());
        match left.checked_sub(len) {
            Some(rest) => left = rest,
            None => *text = Text::cut("left out: the entry is full"),
        }
    }
    checks
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
        agent: Some(fixed(granted.agent())),
        residual_risks: granted.risks().iter().map(|risk| Text::cut(risk.text())).collect(),
        warnings: codes(granted.warnings()),
        standing: None,
    }
    .into()
}

/// Says what fixes the agent, and on whose word.
fn fixed(agent: &agent::AgentFixed) -> AgentFixed {
    let agent::AgentFixed { agent_fixed_by, agent_fixed_basis, agent_configured_by, .. } = agent;
    let basis = |basis: &Option<agent::Basis>| basis.map(|basis| Text::cut(basis.text()));
    AgentFixed {
        fixed_by: agent_fixed_by.map(|by| Text::cut(by.text())),
        fixed_basis: basis(agent_fixed_basis),
        configured_by: agent_configured_by.map(|by| Text::cut(by.text())),
        configured_basis: basis(&agent.agent_configured_basis),
        image: agent.agent_image.map(|image| Text::cut(&image.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::head::Plane;
    use crate::wire::CheckName;
    use crate::wire::ids::Pdi;

    /// More than any guest can show: every check of every part with the longest texts, every code a reason.
    #[test]
    fn the_largest_entry_can_be_written() {
        let parts = (0..limits::DEVICES_MAX).map(|at| format!("gpu{at}"));
        let parts: Vec<_> = parts.chain(["request".to_string(), "cpu".to_string()]).collect();
        let longest = Code::TABLE.iter().max_by_key(|row| row.text.len()).unwrap();
        let text = Text::cut(&"\\".repeat(limits::ENTRY_TEXT_LEN_MAX));
        let check = |part: &String, name: CheckName| CheckMade {
            part: Text::cut(part),
            check: Text::cut(name.text()),
            outcome: Text::cut("unknown"),
            code: Code::from_text(longest.text),
            expected: Some(text.clone()),
            actual: Some(text.clone()),
        };
        let made =
            parts.iter().flat_map(|part| CheckName::ALL.into_iter().map(move |name| check(part, name)));
        let checks = bounded(made.collect());
        assert_eq!(checks.len(), parts.len() * CheckName::ALL.len());
        assert_eq!(checks[0].expected.as_ref(), Some(&text), "what fits is written");
        let head = Digest::new([0xff; 48]);
        let request = Request {
            tenant: "t".repeat(128).parse().unwrap(),
            plane: Plane::Guest,
            operation: Operation::Release,
            challenge: Digest::new([0xff; 32]),
            bundle: Digest::new([0xff; 32]),
            head,
            evidence: head,
            instance_key: Digest::new([0xff; 32]),
            chip: Some(Digest::new([0xff; 32])),
            init_data: Some(head),
            devices: vec![Pdi::new([0xff; 8]); limits::DEVICES_MAX],
            keys: vec!["k".repeat(128).parse().unwrap(); limits::KEYS_MAX],
            tcb: Some(RatedTcb {
                status: Text::cut("TDRelaunchAdvisedConfigurationNeeded"),
                date: UnixSeconds::new(0).unwrap(),
                advisories: vec![
                    Text::cut(&"A".repeat(limits::ADVISORY_LEN_MAX));
                    limits::TCB_ADVISORIES_MAX
                ],
                evaluation: u32::MAX,
                issued: UnixSeconds::new(0).unwrap(),
            }),
        };
        let reasons = Code::TABLE.iter().map(|row| Code::from_text(row.text).unwrap()).collect();
        let policy = Some(Digest::new([0xff; 32]));
        let entry: Entry = Denied { request, policy, reasons, checks, standing: policy }.into();
        assert!(entry.body().unwrap().len() <= limits::ENTRY_LEN_MAX);
    }
}
