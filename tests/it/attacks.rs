//! Attacks: what a hostile guest, tenant or sender of evidence tries, and what it must get.

#[cfg(feature = "server")]
mod service;

use claviger::endorse::PublicKey;
use claviger::endorse::SignatureAlgorithm::EcdsaSha384;
use claviger::protocol::facts::{Hint, PciFunction};
use claviger::protocol::head::RequestHead;
use claviger::protocol::message::{AttestRequest, Bundle, Bytes, CpuKind};
use claviger::sim::rim::{RimKind, RimOptions, reference_values};
use claviger::sim::{Machine, Vendors};
use claviger::verify::Warm;
use claviger::wire::crypto::{P384_SIGNATURE_LEN, P384Key};
use claviger::wire::{Code, UnixSeconds, Window, limits};

use crate::support::{Outcome, Plan, Verdict, judged};

fn with(change: impl FnOnce(&mut Plan)) -> Verdict {
    let mut plan = Plan::in_order();
    change(&mut plan);
    judged(plan)
}

#[track_caller]
fn denied(verdict: &Verdict, codes: &[Code], what: &str) {
    assert_eq!((verdict.outcome, verdict.codes().as_slice()), (Outcome::Denied, codes), "{what}");
}

#[test]
fn a_share_of_a_gpu_is_seen_however_it_is_spelled() {
    let visible = [
        ("mig-8f1c2a3b", Code::GpuMigHandle),
        ("MiG-8f1c2a3b", Code::GpuMigHandle),
        ("nvidia.com/gpu=MIG-8f1c", Code::GpuMigHandle),
        ("GPU-8f1c, 0:1", Code::GpuMigHandle),
        // Fullwidth letters, a Cyrillic letter, an invisible one.
        ("\u{ff2d}\u{ff29}\u{ff27}-8f1c", Code::GpuHandleUnknown),
        ("\u{41c}IG-8f1c", Code::GpuHandleUnknown),
        ("\u{200b}MIG-8f1c", Code::GpuHandleUnknown),
        ("gpu-8f1c", Code::GpuHandleUnknown),
        ("ALL", Code::GpuHandleUnknown),
        ("0;1", Code::GpuHandleUnknown),
        ("-1", Code::GpuHandleUnknown),
        ("nvidia.com/gpu=nvidia.com/gpu=0", Code::GpuHandleUnknown),
        ("GPU-8f1c::1", Code::GpuTimeSliced),
    ];
    for (value, code) in visible {
        let verdict = with(|plan| plan.facts.visible_devices = Some(value.to_string()));
        denied(&verdict, &[code], value);
    }
    let hints = [
        ("NVIDIA.COM/GPU.REPLICAS", " 2 ", Code::GpuTimeSliced),
        ("nvidia.com/gpu.sharing-strategy", "Time-Slicing", Code::GpuTimeSliced),
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3-SHARED", Code::GpuTimeSliced),
        ("NVIDIA_VISIBLE_DEVICES", "GPU-8f1c2a3b::0", Code::GpuTimeSliced),
        ("annotation", "nvidia.com/gpu=gpu-8f1c2a3b::3", Code::GpuTimeSliced),
        ("CUDA_VISIBLE_DEVICES", "Mig-8f1c", Code::GpuMigHandle),
        ("nvidia.com/MIG-1g.10gb.count", "7", Code::GpuMigHandle),
        ("nvidia.com/vgpu.present", "true", Code::GpuVgpu),
        ("nvidia.com/vgpu.host-driver-version", "550.90.05", Code::GpuVgpu),
    ];
    for (name, value, code) in hints {
        let verdict = with(|plan| {
            plan.facts.hints.push(Hint { name: name.to_string(), value: value.to_string() });
        });
        denied(&verdict, &[code], name);
    }
    let harmless = [
        ("nvidia.com/vgpu.present", "false"),
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
        ("service", "fd00::1"),
    ];
    for (name, value) in harmless {
        let verdict = with(|plan| {
            plan.facts.hints.push(Hint { name: name.to_string(), value: value.to_string() });
        });
        assert_eq!(verdict.outcome, Outcome::Granted, "{name}: {:?}", verdict.reasons);
    }
}

#[test]
fn every_display_controller_on_the_bus_needs_evidence_and_its_neighbours_do_not() {
    let function = |address: &str, class: &str| {
        with(|plan| {
            let (address, class) = (address.to_string(), class.to_string());
            plan.facts.pci_functions.push(PciFunction { address, class, ..PciFunction::of_gpu(1) });
        })
    };
    for class in
        ["030000", "030001", "030200", "0302ff", "038000", "039900", "068000", "0680ff", "120000", "1200ff"]
    {
        denied(&function("0000:02:00.0", class), &[Code::GpuFunctionWithoutEvidence], class);
        // A second function of the very slot whose GPU was shown.
        denied(&function("0000:01:00.1", class), &[Code::GpuFunctionWithoutEvidence], class);
    }
    for (address, class) in [
        ("0000:02:00.0", "0302"),
        ("0000:02:00.0", "03020"),
        ("0000:02:00.0", "03 200"),
        ("0000:0A:00.0", "030200"),
    ] {
        denied(&function(address, class), &[Code::FactsDisagreePci], class);
    }
    denied(&function("0000:02:00.0", "0302\u{0660}0"), &[Code::FactsDisagreePci], "another script's digit");
    for class in ["040300", "0c0330", "060400"] {
        let verdict = function("0000:01:00.1", class);
        assert_eq!(verdict.outcome, Outcome::Granted, "{class}: {:?}", verdict.reasons);
    }
}

#[test]
fn a_fact_has_one_reading() {
    let edits = [
        ("\"mig_current\":\"off\"", "\"mig_current\":\"on\",\"mig_current\":\"off\""),
        ("\"mig_current\":\"off\"", "\"mig_current\":\"on\",\"mig\\u005fcurrent\":\"off\""),
        ("\"mig_instances\":0", "\"mig_instances\":0.0"),
        ("\"mig_instances\":0", "\"mig_instances\":-1"),
        ("\"mig_instances\":0", "\"mig_instances\":4294967296"),
        ("\"mig_instances\":0", "\"mig_instances\":\"0\""),
        ("\"mig_instances\":0", "\"mig_instances\":null"),
        ("\"mig_current\":\"off\"", "\"mig_current\":false"),
        ("\"mig_current\":\"off\"", "\"mig_current\":\"OFF\""),
        ("\"version\":1", "\"version\":1e0"),
        ("\"version\":1", "\"version\":2"),
        ("\"virtualization\":\"passthrough\"", "\"virtualization\":\"Passthrough\""),
    ];
    for (from, to) in edits {
        let verdict = with(|plan| {
            let text = String::from_utf8(plan.facts.bytes().unwrap()).unwrap();
            assert!(text.contains(from), "{from}");
            plan.facts_bytes = Some(text.replacen(from, to, 1).into_bytes());
        });
        denied(&verdict, &[Code::FactsMalformed], to);
    }
    // Another spelling of the same facts is what the CPU committed to, word for word.
    let verdict = with(|plan| {
        let text = String::from_utf8(plan.facts.bytes().unwrap()).unwrap();
        plan.facts_bytes = Some(text.replacen("passthrough", "pass\\u0074hrough", 1).into_bytes());
    });
    assert_eq!(verdict.outcome, Outcome::Granted, "{:?}", verdict.reasons);
}

#[test]
fn more_facts_than_a_guest_can_have_are_no_facts() {
    let verdict = with(|plan| {
        let hint = Hint { name: "a".to_string(), value: "b".to_string() };
        plan.facts.hints = vec![hint; 65];
    });
    denied(&verdict, &[Code::FactsMalformed], "hints");
    let verdict = with(|plan| {
        let device = plan.facts.devices[0].clone();
        plan.facts.devices = vec![device; 17];
    });
    denied(&verdict, &[Code::FactsMalformed], "devices");
}

/// The digest of an event log that nobody sent would bind a request to nothing, and a log that no head names to nobody.
#[test]
fn a_head_names_exactly_the_event_log_that_is_sent() {
    let mut plan = Plan::in_order();
    let bundle = plan.send();
    let request = |kind, named: Option<&[u8]>, sent: Option<&[u8]>, runtime: Option<&[u8]>| {
        let event_log = named.map(|log| claviger::wire::crypto::sha384(&[log]));
        let head = RequestHead { event_log, ..bundle.head().clone() };
        let mut evidence = bundle.evidence().clone();
        evidence.cpu.kind = kind;
        evidence.cpu.event_log = sent.map(|log| Bytes(log.to_vec()));
        evidence.cpu.runtime_log = runtime.map(|log| Bytes(log.to_vec()));
        let request = AttestRequest {
            challenge: Bytes(bundle.challenge().to_vec()),
            head: Bytes(head.bytes().unwrap()),
            evidence: Some(evidence),
            facts: Some(Bytes(plan.facts.bytes().unwrap())),
            proof: Bytes(vec![0; 64]),
        };
        Bundle::of(request).map(|_| ()).map_err(|error| error.code())
    };
    let (tdx, log) = (CpuKind::Tdx, Some(&b"log"[..]));
    assert_eq!(request(tdx, None, None, None), Ok(()));
    assert_eq!(request(tdx, log, log, log), Ok(()));
    assert_eq!(request(tdx, None, None, log), Ok(()), "the runtime log is not named");
    let not_committed = Err(Code::EventLogNotCommitted);
    assert_eq!(request(tdx, log, None, None), not_committed);
    assert_eq!(request(tdx, None, log, None), not_committed);
    assert_eq!(request(tdx, Some(b"other"), log, None), not_committed);
    for kind in [CpuKind::Snp, CpuKind::AzureSnp, CpuKind::AzureTdx] {
        assert_eq!(request(kind, None, None, None), Ok(()));
        assert_eq!(request(kind, log, log, None), Err(Code::RequestMalformed), "{}", kind.text());
        assert_eq!(request(kind, None, None, log), Err(Code::RequestMalformed), "{}", kind.text());
    }
    for (len, found) in
        [(limits::EVENT_LOG_LEN_MAX, Ok(())), (limits::EVENT_LOG_LEN_MAX + 1, Err(Code::RequestMalformed))]
    {
        let long = vec![0xff; len];
        assert_eq!(request(tdx, Some(&long), Some(&long), None), found, "{len}");
    }
    for (len, found) in [
        (limits::RUNTIME_LOG_LEN_MAX, Ok(())),
        (limits::RUNTIME_LOG_LEN_MAX + 1, Err(Code::RequestMalformed)),
    ] {
        assert_eq!(request(tdx, None, None, Some(&vec![b' '; len])), found, "{len}");
    }
}

/// The driver's document with the values of this version, signed by a signer whose window begins then.
fn signed_at(plan: &Plan, not_before: UnixSeconds, values_of: &str) -> (Vec<u8>, Vec<u8>) {
    use claviger::sim::ocsp::{OcspFields, OcspIssuer};
    let nvidia = &plan.vendors.nvidia;
    let window = Window { not_before, not_after: plan.now.plus(86_400) };
    let authority = nvidia.rim_signer(window).unwrap();
    let answer = nvidia.ocsp(&authority.der, OcspIssuer::RimL3, &OcspFields::good(plan.now)).unwrap();
    let version = plan.machine.gpus[0].fields.driver.clone();
    let options = RimOptions { signer: Some(&authority), ..RimOptions::default() };
    let values = reference_values(RimKind::Driver, values_of);
    (nvidia.rim(RimKind::Driver, &version, &values, &options).unwrap(), answer)
}

/// NVIDIA signs a document anew when its values change: the older values must not come back by an older copy, wherever
/// in the collection it lies.
#[test]
fn of_two_documents_of_one_id_the_newer_signer_decides_in_any_order() {
    for (newer_fits, older_first) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut plan = Plan::in_order();
        let running = plan.machine.gpus[0].fields.driver.clone();
        let id = plan.machine.gpus[0].fields.driver_rim_id();
        let (newer, older) =
            if newer_fits { (running.as_str(), "1.2.3") } else { ("1.2.3", running.as_str()) };
        let (newer, newer_answer) = signed_at(&plan, plan.now.plus(-1_000), newer);
        let (older, older_answer) = signed_at(&plan, plan.now.plus(-900_000), older);
        plan.files = Some(Box::new(move |files| {
            files.rims.retain(|(known, _)| *known != id);
            let mut both = vec![(id.clone(), older), (id, newer)];
            if !older_first {
                both.reverse();
            }
            files.rims.extend(both);
            files.ocsp.extend([("a".to_string(), newer_answer), ("b".to_string(), older_answer)]);
        }));
        let verdict = judged(plan);
        match newer_fits {
            true => assert_eq!(verdict.outcome, Outcome::Granted, "{older_first}: {:?}", verdict.reasons),
            false => denied(&verdict, &[Code::GpuMeasurementMismatch], "the newer document"),
        }
    }
}

#[test]
fn a_remembered_signature_is_good_for_its_key_scheme_and_bytes_alone() {
    let (key, other) = (P384Key::generate().unwrap().0, P384Key::generate().unwrap().0);
    let (key_public, other) = (PublicKey::P384(key.public()), PublicKey::P384(other.public()));
    let signature: [u8; P384_SIGNATURE_LEN] = key.sign(b"message").unwrap();
    let warm = Warm::new();
    for _ in 0..2 {
        warm.fixed_p384(&key_public, b"message", &signature).unwrap();
        assert!(warm.fixed_p384(&other, b"message", &signature).is_err());
        assert!(warm.fixed_p384(&key_public, b"messag", &signature).is_err());
        assert!(warm.signature(&key_public, EcdsaSha384, b"message", &signature).is_err());
        // The border between message and signature cannot be moved.
        assert!(warm.signature(&key_public, EcdsaSha384, b"message\0", &signature[1..]).is_err());
    }
}

/// What the guest sends along helps it or does nothing: it never takes the place of what is pinned or at hand.
#[test]
fn certificates_that_a_guest_sends_do_not_displace_the_right_one() {
    let vendors = Vendors::shared().unwrap();
    let other_chip = || Machine::new(vendors, 1).unwrap().cpu.chip.vcek_der().to_vec();
    for sent in [vec![vec![0x30, 0x00]], vec![other_chip()], vec![other_chip(), other_chip(), vec![1, 2, 3]]]
    {
        let verdict = with(|plan| plan.sent_certificates = sent.clone());
        assert_eq!(verdict.outcome, Outcome::Granted, "{:?}", verdict.reasons);
    }
}
