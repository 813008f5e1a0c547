//! Simulated Intel artefacts: an independent verifier believes them, and their form is that of real ones.

use claviger::endorse::pem;
use claviger::evidence::event_log::EventLog;
use claviger::evidence::tdx::Quote;
use claviger::sim::intel::fault::{CollateralFault, Fault, Item, PlatformFault, QuoteFault, TdFault, When};
use claviger::sim::intel::quote::QuotePart;
use claviger::sim::intel::{BootLog, DirectBoot, PlatformTcb, QuoteForm, RuntimeEvent};
use claviger::sim::{Intel, TdxGuest};
use claviger::wire::Digest;
use dcap_qvl::QuoteCollateralV3;
use dcap_qvl::verify::QuoteVerifier;
use serde_json::Value;

use super::{assert_chain, assert_same_form, certificate, vendors};

fn intel() -> &'static Intel {
    &vendors().intel
}

fn guest() -> TdxGuest {
    TdxGuest::new(intel(), PlatformTcb::default()).unwrap()
}

/// Collateral as the independent verifier takes it.
pub fn collateral(bytes: &[u8]) -> QuoteCollateralV3 {
    let object: Value = serde_json::from_slice(bytes).unwrap();
    let text = |name: &str| object[name].as_str().unwrap().to_string();
    let bytes = |name: &str| hex::decode(text(name)).unwrap();
    QuoteCollateralV3 {
        pck_crl_issuer_chain: text("pck_crl_issuer_chain"),
        root_ca_crl: bytes("root_ca_crl"),
        pck_crl: bytes("pck_crl"),
        tcb_info_issuer_chain: text("tcb_info_issuer_chain"),
        tcb_info: text("tcb_info"),
        tcb_info_signature: bytes("tcb_info_signature"),
        qe_identity_issuer_chain: text("qe_identity_issuer_chain"),
        qe_identity: text("qe_identity"),
        qe_identity_signature: bytes("qe_identity_signature"),
        pck_certificate_chain: None,
    }
}

/// What the independent verifier says of a guest: a status, or why not.
fn judged(guest: &TdxGuest) -> Result<String, String> {
    let now = u64::try_from(vendors().now.get()).unwrap();
    let given = collateral(&guest.files(intel()).unwrap().collateral);
    let quote = guest.quote([5; 64]).unwrap();
    let verifier = QuoteVerifier::new(intel().root_der().to_vec());
    verifier.verify(&quote, &given, now).map(|report| report.status).map_err(|error| format!("{error:#}"))
}

#[test]
fn an_independent_verifier_believes_every_form() {
    for form in QuoteForm::ALL {
        let mut guest = guest();
        guest.quote.form = form;
        assert_eq!(judged(&guest), Ok("UpToDate".to_string()), "{form:?}");
    }
    let mut guest = guest();
    // As Google's hosts write them.
    (guest.quote.user_data, guest.quote.chain_end) = (Some([0; 20]), b"\n".to_vec());
    guest.quote.padding = vec![0; 3000];
    assert_eq!(judged(&guest), Ok("UpToDate".to_string()));
}

/// What the independent verifier is known to say. It lets pass what is refused here: dates of lists in the future, a
/// fourth certificate, a PCK certificate under the root, another subject, another PCEID, components that differ from
/// CPUSVN, unsigned bytes; newer bits it leaves to its caller.
fn known(fault: Fault) -> Result<&'static str, ()> {
    use CollateralFault as C;
    use PlatformFault as P;
    match fault {
        Fault::Log(_) => Ok("UpToDate"),
        Fault::Collateral(C::EvaluationOlder | C::PceidOther) => Ok("UpToDate"),
        Fault::Collateral(C::Dated(Item::PckList | Item::RootList, When::Future)) => Ok("UpToDate"),
        Fault::Collateral(
            C::PlatformStatus("Revoked") | C::ModuleStatus("Revoked") | C::QeStatus("Revoked"),
        ) => Err(()),
        Fault::Collateral(C::PlatformStatus(status)) => Ok(status),
        Fault::Collateral(C::ModuleStatus(status)) => Ok(status),
        Fault::Collateral(C::QeStatus("OutOfDate")) => Ok("OutOfDate"),
        Fault::Collateral(C::QeStatus(_)) => Ok("UpToDate"),
        Fault::Collateral(_) => Err(()),
        Fault::Platform(P::ChainLong | P::ComponentsDiffer | P::PckSubject | P::PckUnderRoot) => {
            Ok("UpToDate")
        }
        Fault::Platform(P::Older) => Ok("OutOfDate"),
        Fault::Platform(_) => Err(()),
        Fault::Quote(QuoteFault::OuterType(_) | QuoteFault::Padding | QuoteFault::ChainEnd) => Ok("UpToDate"),
        Fault::Quote(_) => Err(()),
        Fault::Td(TdFault::Attribute(18 | 22 | 31 | 62 | 63) | TdFault::Xfam(_)) => Ok("UpToDate"),
        Fault::Td(TdFault::Relaunch) => Ok("TDRelaunchAdvised"),
        Fault::Td(_) => Err(()),
    }
}

#[test]
fn every_fault_reaches_what_is_minted() {
    let mut differing = Vec::new();
    for fault in Fault::all() {
        let mut guest = guest();
        fault.apply(intel(), &mut guest, vendors().now).unwrap();
        let judged = judged(&guest);
        if judged.as_deref().map_err(|_| ()) != known(fault) {
            differing.push(format!("{fault:?}: {judged:?}"));
        }
    }
    assert!(differing.is_empty(), "{differing:#?}");
}

#[test]
fn faults_are_told_apart() {
    let all = Fault::all();
    for (at, fault) in all.iter().enumerate() {
        assert!(!all[..at].contains(fault), "{fault:?}");
    }
    assert!(all.contains(&Fault::Quote(QuoteFault::Altered(QuotePart::Signature))));
}

#[test]
fn pck_chains_verify() {
    let guest = guest();
    assert_chain(&guest.platform.chain);
    assert_chain(&[intel().tcb_signer.der.clone(), intel().root.der.clone()]);
    assert_chain(&[intel().processor_ca.der.clone(), intel().root.der.clone()]);
    let leaf = certificate(&guest.platform.chain[0]);
    assert_eq!(guest.platform.pck_serial(), leaf.serial);
}

#[test]
fn certificates_and_lists_have_the_real_form() {
    let Some(folder) = super::vectors() else { return };
    let folder = folder.join("tdx");
    let read = |path: &str| std::fs::read(folder.join(path)).unwrap();
    assert_same_form(&read("roots/intel_sgx_root_ca.der"), intel().root_der());
    let real = Quote::parse(&read("quotes/phala-v4-b0c06f.bin")).unwrap();
    let real = pem::blocks(&real.chain, "CERTIFICATE", 3, 5120).unwrap();
    let tcb = PlatformTcb { components: [3, 3, 2, 2, 4, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0], pcesvn: 11 };
    let minted = TdxGuest::new(intel(), tcb).unwrap().platform.chain;
    for (real, minted) in real.iter().zip(&minted) {
        assert_same_form(real, minted);
    }
    let real: Value = serde_json::from_slice(&read("collateral/b0c06f-2026-10.json")).unwrap();
    let minted: Value = serde_json::from_slice(&guest().files(intel()).unwrap().collateral).unwrap();
    let names = |object: &Value| object.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&real), names(&minted));
    let list = |object: &Value, name: &str| hex::decode(object[name].as_str().unwrap()).unwrap();
    assert_same_form(&list(&real, "root_ca_crl"), &list(&minted, "root_ca_crl"));
    let chain = |object: &Value, name: &str| {
        pem::blocks(object[name].as_str().unwrap().as_bytes(), "CERTIFICATE", 2, 5120).unwrap()
    };
    for name in ["tcb_info_issuer_chain", "qe_identity_issuer_chain", "pck_crl_issuer_chain"] {
        for (real, minted) in chain(&real, name).iter().zip(&chain(&minted, name)) {
            assert_same_form(real, minted);
        }
    }
    // The real list has 57 entries, of which the form is compared once.
    let entries = |der: &[u8]| {
        let mut form = super::form(der);
        form.dedup();
        form.truncate(24);
        form
    };
    assert_eq!(entries(&list(&real, "pck_crl")), entries(&list(&minted, "pck_crl")));
}

#[test]
fn reference_values_have_the_members_of_the_real_ones_in_their_order() {
    let Some(folder) = super::vectors() else { return };
    let real = std::fs::read(folder.join("tdx/collateral/b0c06f-2026-10.json")).unwrap();
    let real: Value = serde_json::from_slice(&real).unwrap();
    let minted: Value = serde_json::from_slice(&guest().files(intel()).unwrap().collateral).unwrap();
    // Category and type are Intel's words for readers, advisories are not everywhere.
    // Names alone are compared, each where it first stands.
    let names = |text: &str| {
        let mut names: Vec<String> = Vec::new();
        let (members, _) = text.rsplit_once("\":").unwrap();
        for part in members.split("\":").filter_map(|part| part.rsplit('"').next()) {
            if !["category", "type", "advisoryIDs"].contains(&part) && !names.iter().any(|name| name == part)
            {
                names.push(part.to_string());
            }
        }
        names
    };
    for item in ["tcb_info", "qe_identity"] {
        let text = |object: &Value| names(object[item].as_str().unwrap());
        assert_eq!(text(&real), text(&minted), "{item}");
    }
}

#[test]
fn a_quote_of_a_real_guest_s_fields_is_the_real_body() {
    let Some(folder) = super::vectors() else { return };
    let bytes = std::fs::read(folder.join("tdx/quotes/phala-v5-td15ex-b0c06f.bin")).unwrap();
    let real = Quote::parse(&bytes).unwrap();
    let mut guest = guest();
    let (quote, td) = (&mut guest.quote, &bytes[54..]);
    quote.form = QuoteForm::V5Extended;
    quote.user_data = Some(bytes[28..48].try_into().unwrap());
    let fields = &mut quote.td;
    fields.tee_tcb_svn = td[..16].try_into().unwrap();
    fields.mr_seam = td[16..64].try_into().unwrap();
    fields.xfam = u64::from_le_bytes(td[128..136].try_into().unwrap());
    fields.mr_td = td[136..184].try_into().unwrap();
    fields.mr_config_id = td[184..232].try_into().unwrap();
    fields.rtmr = std::array::from_fn(|at| td[328 + 48 * at..376 + 48 * at].try_into().unwrap());
    fields.report_data = td[520..584].try_into().unwrap();
    fields.extension = td[648..885].try_into().unwrap();
    let minted = quote.mint(&guest.platform).unwrap();
    let minted = Quote::parse(&minted).unwrap();
    assert_eq!(minted.signed(), real.signed());
}

#[test]
fn boot_logs_replay_and_have_the_real_form() {
    let logs = [BootLog::default(), BootLog::grub(&DirectBoot::default())];
    for log in &logs {
        let parsed = EventLog::parse(Some(&log.bytes()), None).unwrap();
        assert_eq!(parsed.replay(), log.registers().map(Digest::new));
        assert_eq!(parsed.events().len(), log.events.len());
    }
    let Some(folder) = super::vectors() else { return };
    let real = std::fs::read(folder.join("tdx/eventlogs/kata-directboot.bin")).unwrap();
    let real = EventLog::parse(Some(&real), None).unwrap();
    let minted = EventLog::parse(Some(&logs[0].bytes()), None).unwrap();
    let form =
        |log: &EventLog| log.events().iter().map(|event| (event.register, event.kind)).collect::<Vec<_>>();
    assert_eq!(form(&real), form(&minted));
    for (real, minted) in real.events().iter().zip(minted.events()) {
        let proven = std::mem::discriminant(&real.content) == std::mem::discriminant(&minted.content);
        assert!(proven, "{:?} {:?}", real.content, minted.content);
    }
}

#[test]
fn the_logs_of_a_guest_give_the_registers_of_its_quote() {
    let mut guest = guest();
    guest.runtime.events.push(RuntimeEvent::new("app-id", b"simulated app"));
    guest.runtime.events.push(RuntimeEvent::new("system-ready", b""));
    let quote = Quote::parse(&guest.quote([5; 64]).unwrap()).unwrap();
    let log = EventLog::parse(Some(&guest.boot_log()), Some(&guest.runtime_log())).unwrap();
    assert_eq!(log.replay(), quote.report.rtmr);
    assert_ne!(quote.report.rtmr[3], Digest::new([0; 48]));
    assert_eq!(quote.report.report_data, [5; 64]);
}
