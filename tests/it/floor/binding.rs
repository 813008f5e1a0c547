//! Changes of what ties request, CPU and GPUs together; and evidence that belongs to somebody else.

use claviger::protocol::head::Kem;
use claviger::protocol::message::{CpuKind, GpuEvidence};
use claviger::protocol::sealing::TransportKey;
use claviger::wire::Code::*;
use claviger::wire::crypto::Ed25519Key;

use super::{Case, all, denied, of_tdx};
use crate::support::{Outcome, Plan, judged};

const ALL_OF_IT: &str = "the CPU report and the GPU's nonce both commit to the head";

/// Replaces the head after collection, and signs the request with the instance key of the plan.
fn head_after(plan: &mut Plan, change: impl FnOnce(&mut claviger::protocol::head::RequestHead)) {
    let mut head = plan.head.clone();
    change(&mut head);
    let bytes = head.bytes().unwrap();
    plan.collected = Some(Box::new(move |request| request.head.0 = bytes));
}

pub const CASES: &[Case] = &[
    denied("report data of another request", &[ReportDataMismatch], |plan| {
        plan.report_data = Some([9; 64]);
    }),
    denied("report data that only begins right", &[ReportDataMismatch], |plan| {
        let mut data = [0; 64];
        data[..32].copy_from_slice(&plan.challenge.nonce);
        plan.report_data = Some(data);
    }),
    denied("facts changed after the report", &[ReportDataMismatch], |plan| {
        let mut facts = plan.facts.clone();
        facts.devices[0].utilization_percent = 1;
        let bytes = facts.bytes().unwrap();
        plan.collected = Some(Box::new(move |request| request.facts.as_mut().unwrap().0 = bytes));
    }),
    all(
        "evidence bound to one transport key, asking to seal to another",
        &[ReportDataMismatch, GpuNonceMismatch],
        ALL_OF_IT,
        |plan| {
            let other = TransportKey::generate(Kem::XWing).public().to_vec();
            head_after(plan, |head| head.transport_key = other);
        },
    ),
    all(
        "another key asked for after the report",
        &[ReportDataMismatch, GpuNonceMismatch],
        ALL_OF_IT,
        |plan| {
            head_after(plan, |head| head.keys = vec!["models/other".parse().unwrap()]);
        },
    ),
    all(
        "evidence of another instance under one's own key",
        &[ReportDataMismatch, GpuNonceMismatch],
        ALL_OF_IT,
        |plan| {
            let (own, _) = Ed25519Key::generate().unwrap();
            head_after(plan, |head| head.instance_key = own.public().to_vec());
            plan.instance = own;
        },
    ),
    of_tdx(all(
        "evidence of a TD bound to one transport key, asking to seal to another",
        &[ReportDataMismatch, GpuNonceMismatch],
        ALL_OF_IT,
        |plan| {
            plan.head.event_log = plan.event_log();
            let other = TransportKey::generate(Kem::XWing).public().to_vec();
            head_after(plan, |head| head.transport_key = other);
        },
    )),
    of_tdx(all(
        "evidence of another TD under one's own key",
        &[ReportDataMismatch, GpuNonceMismatch],
        ALL_OF_IT,
        |plan| {
            plan.head.event_log = plan.event_log();
            let (own, _) = Ed25519Key::generate().unwrap();
            head_after(plan, |head| head.instance_key = own.public().to_vec());
            plan.instance = own;
        },
    )),
    denied("a proof by another key", &[ProofInvalid], |plan| {
        plan.instance = Ed25519Key::generate().unwrap().0;
    }),
    denied("a proof over something else", &[ProofInvalid], |plan| {
        plan.signed = Some(Box::new(|request| request.proof.0[0] ^= 1));
    }),
    denied("no proof", &[ProofInvalid], |plan| {
        plan.signed = Some(Box::new(|request| request.proof.0.clear()));
    }),
    all(
        "facts changed after the proof",
        &[ProofInvalid, ReportDataMismatch],
        "instance key and CPU both signed the facts",
        |plan| {
            let mut facts = plan.facts.clone();
            facts.devices[0].utilization_percent = 1;
            let bytes = facts.bytes().unwrap();
            plan.signed = Some(Box::new(move |request| request.facts.as_mut().unwrap().0 = bytes));
        },
    ),
    all(
        "a GPU changed after the report",
        &[ReportDataMismatch, GpuSignatureInvalid],
        "CPU and GPU both signed the GPU's report",
        |plan| {
            plan.collected = Some(Box::new(|request| {
                *request.evidence.as_mut().unwrap().gpus[0].report.last_mut().unwrap() ^= 1;
            }));
        },
    ),
    Case {
        base: Plan::by_init_data,
        ..all(
            "init data exchanged after the proof",
            &[ProofInvalid, InitDataMismatch],
            "the instance key signed them, and the register does not hold the others",
            |plan| {
                plan.signed = Some(Box::new(|request| {
                    let sent = request.evidence.as_mut().unwrap().cpu.init_data.as_mut().unwrap();
                    sent.0.push(b'\n');
                }));
            },
        )
    },
    denied("chain text changed after the report", &[ReportDataMismatch], |plan| {
        plan.collected = Some(Box::new(|request| {
            request.evidence.as_mut().unwrap().gpus[0].chain.push(b'\n');
        }));
    }),
    all(
        "GPU evidence swapped between two guests",
        &[GpuNonceMismatch, GpuChipNotListed],
        "the other guest's GPU is not on the list either",
        |plan| swapped(plan, true),
    ),
    all(
        "evidence of a CPU family that is not built",
        &[CpuKindNotBuilt, ReportDataMismatch, CpuEvidenceMissing, CombinationNotSupported],
        "what cannot be read commits to nothing and is in no combination",
        |plan| plan.kind = CpuKind::AzureTdx,
    ),
];

/// Takes the GPU evidence that another guest collected for its own challenge, with the facts that go with it.
fn swapped(plan: &mut Plan, listed: bool) {
    let mut other = Plan::in_order();
    let bundle = other.send();
    let gpus: Vec<GpuEvidence> = bundle.evidence().gpus.clone();
    plan.facts = other.facts.clone();
    plan.gpus_given = Some(Box::new(move |own| *own = gpus));
    let files = other.machine.endorsements(other.vendors, other.now).unwrap();
    plan.files = Some(Box::new(move |own| (own.rims, own.ocsp) = (files.rims, files.ocsp)));
    if !listed {
        let own = hex::encode(plan.machine.gpus[0].gpu.pdi);
        plan.policy_says(&format!("chips = [\"{own}\"]\n"), "");
    }
}

/// A VM without a GPU hashes another VM's GPU evidence into its own report: the GPU's nonce is not of its challenge.
#[test]
fn gpu_evidence_of_another_guest_is_refused_by_its_nonce_alone() {
    let mut plan = Plan::in_order();
    swapped(&mut plan, false);
    assert_eq!(judged(plan).codes(), [GpuNonceMismatch]);
    // Two guests exchange: neither gains anything.
    let (mut one, mut two) = (Plan::in_order(), Plan::in_order());
    swapped(&mut one, false);
    swapped(&mut two, false);
    assert_eq!(judged(one).outcome, Outcome::Denied);
    assert_eq!(judged(two).outcome, Outcome::Denied);
}

#[test]
fn evidence_of_one_challenge_is_refused_under_another_for_every_kind() {
    // The challenge is exchanged after everything was collected for the first one.
    let under_another = |kind: CpuKind| {
        let mut plan = match kind {
            CpuKind::Tdx => Plan::tdx(),
            CpuKind::AzureSnp | CpuKind::AzureTdx | CpuKind::Snp => Plan { kind, ..Plan::in_order() },
        };
        plan.head.event_log = plan.event_log();
        let next = plan.challenge_key.make(plan.now.plus(-1), plan.place).unwrap();
        let (old, hash) =
            (plan.challenge.nonce, claviger::protocol::head::head_hash(&plan.head.bytes().unwrap()));
        let gpu = claviger::protocol::transcript::gpu_nonce(&old, &hash, 1);
        plan.gpu_nonce = Some(*gpu.bytes());
        plan.challenge = next;
        let bytes = plan.facts.bytes().unwrap();
        let machine_report = {
            let reports = plan.machine.gpu_reports(*gpu.bytes()).unwrap();
            let gpus: Vec<GpuEvidence> = reports
                .into_iter()
                .map(|gpu| GpuEvidence { report: gpu.report, chain: gpu.chain_pem })
                .collect();
            let committed = claviger::protocol::transcript::report_data(&old, &hash, &gpus, &bytes);
            plan.gpus_given = Some(Box::new(move |own| *own = gpus));
            *committed.bytes()
        };
        plan.report_data = Some(machine_report);
        judged(plan)
    };
    for kind in CpuKind::ALL {
        let verdict = under_another(kind);
        assert_eq!(verdict.outcome, Outcome::Denied, "{}", kind.text());
        let codes = verdict.codes();
        assert!(codes.contains(&ReportDataMismatch), "{}: {codes:?}", kind.text());
        assert!(codes.contains(&GpuNonceMismatch), "{}: {codes:?}", kind.text());
        match kind {
            CpuKind::Snp | CpuKind::Tdx => assert_eq!(codes.len(), 2, "{codes:?}"),
            CpuKind::AzureSnp | CpuKind::AzureTdx => {
                assert!(codes.contains(&CpuKindNotBuilt), "{}: {codes:?}", kind.text());
            }
        }
    }
}
