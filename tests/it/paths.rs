//! There is one way to a key, and every request takes it.

use std::path::{Path, PathBuf};

use claviger::protocol::head::Operation;
use claviger::sim::intel::Fault;
use claviger::sim::intel::fault::TdFault;
use claviger::wire::Code;
use claviger::wire::ids::LeaseId;

use crate::support::{Change, Outcome, Plan, judged};

/// Lists the source files.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|extension| extension == "rs") => found.push(path),
            false => {}
        }
    }
}

/// Lists where a function is called: its definition, imports and comments are no call.
fn callers(name: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    files.sort();
    let mut callers = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let calls = |line: &&str| {
            let line = line.trim_start();
            !line.starts_with("//")
                && !line.contains(&format!("fn {name}"))
                && line.match_indices(&format!("{name}(")).any(|(at, _)| {
                    !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
                })
        };
        let place = file.strip_prefix(&root).unwrap().display().to_string();
        callers.extend(code.lines().filter(calls).map(|_| place.clone()));
    }
    callers
}

#[test]
fn one_call_unwraps_a_key_and_one_judges_for_the_service() {
    assert_eq!(callers("unwrap_and_seal"), ["release/attest.rs"]);
    // Renewals go the same way: both routes of the guest plane end in `attest`.
    assert_eq!(callers("assess_devices"), ["release/attest.rs", "release/judge.rs", "release/recording.rs"]);
    let decides = callers("decide");
    assert_eq!(decides, ["release/judge.rs"], "only the judgement grants");
    let judges = callers("judge");
    assert!(judges.contains(&"release/attest.rs".to_string()), "{judges:?}");
}

#[test]
fn the_search_for_callers_finds_them() {
    assert!(callers("no_such_function").is_empty());
    assert!(callers("refuse").contains(&"release/judge.rs".to_string()));
}

/// Whatever is asked for, the same rules hold: a guest that its host may read, move or serve gets nothing by another
/// operation.
#[test]
fn a_debug_guest_is_refused_on_every_path() {
    let td = |fault| {
        let mut plan = Plan::tdx();
        plan.td_fault(Fault::Td(fault));
        plan
    };
    let snp = || {
        let mut plan = Plan::in_order();
        plan.machine.cpu.snp.policy |= 1 << 19;
        plan
    };
    let guests: [(Code, &dyn Fn() -> Plan); 4] = [
        (Code::SnpDebug, &snp),
        (Code::TdxDebug, &|| td(TdFault::Attribute(0))),
        (Code::TdxMigratable, &|| td(TdFault::Attribute(29))),
        (Code::TdxServiceTd, &|| td(TdFault::ServiceTd)),
    ];
    let renew: Change = |plan| {
        plan.head.operation = Operation::Renew;
        plan.head.lease = Some(LeaseId::new([3; 16]));
    };
    let renew_alone: Change = |plan| {
        plan.head.operation = Operation::Renew;
        plan.head.lease = Some(LeaseId::new([3; 16]));
        plan.head.keys.clear();
    };
    let paths: [(&str, Change); 4] = [
        ("release", |_| {}),
        ("result alone", |plan| plan.head.keys.clear()),
        ("renewal with keys", renew),
        ("renewal", renew_alone),
    ];
    for (code, guest) in guests {
        for (name, change) in paths {
            let mut plan = guest();
            change(&mut plan);
            let verdict = judged(plan);
            assert_eq!((verdict.outcome, verdict.codes()), (Outcome::Denied, vec![code]), "{name}");
        }
    }
}

#[test]
fn the_first_fault_hides_no_other_and_what_is_missing_excuses_none() {
    let mut plan = Plan::in_order();
    plan.machine.cpu.snp.reported_tcb = {
        let mut tcb = plan.machine.cpu.chip.tcb;
        tcb.microcode -= 1;
        Some(tcb.bytes(plan.vendors.amd.line))
    };
    plan.machine.cpu.snp.vmpl = 2;
    plan.gpu_nonce = Some([9; 32]);
    plan.device().mig_instances = 1;
    plan.given = Some(Box::new(|given| {
        given.amd.crls.clear();
        given.nvidia.ocsp.clear();
        given.nvidia.rims.clear();
    }));
    let verdict = judged(plan);
    assert_eq!(verdict.outcome, Outcome::Denied);
    let mut codes = verdict.codes();
    codes.sort_unstable();
    let mut expected =
        vec![Code::SnpTcbMismatch, Code::SnpVmplMismatch, Code::GpuNonceMismatch, Code::GpuMigInstance];
    expected.sort_unstable();
    assert_eq!(codes, expected);
}

/// Every entry of the list is verified, not the first alone, and the reason names the entry.
#[test]
fn a_fault_of_the_second_gpu_is_told_of_the_second_gpu() {
    let mut plan = Plan::in_order();
    let mut other = crate::support::machine(plan.vendors);
    plan.machine.gpus.append(&mut other.gpus);
    plan.facts = crate::support::facts(&plan.machine);
    plan.gpus_given = Some(Box::new(|gpus| *gpus[1].report.last_mut().unwrap() ^= 1));
    let verdict = judged(plan);
    assert_eq!(verdict.outcome, Outcome::Denied);
    let forged = verdict.reasons.iter().find(|reason| reason.code == Code::GpuSignatureInvalid).unwrap();
    assert_eq!(forged.subject, claviger::verify::Subject::Gpu(1));
    assert!(verdict.codes().contains(&Code::GpuCountMismatch));
}
