//! What is fuzzed: one function for each parser of foreign bytes. It must not panic, and what it accepts must keep the
//! bounds that callers rely on. The fuzzer and the mutation loop of the tests run the same functions.

use claviger::agent::system::certificates;
use claviger::endorse::gpu_chain::Chain;
use claviger::endorse::pck::Pck;
use claviger::endorse::qe_identity::QeIdentity;
use claviger::endorse::tcb_info::TcbInfo;
use claviger::endorse::vek::Vek;
use claviger::endorse::{Certificate, Collateral, Crl, OcspResponse, Rim};
use claviger::evidence::event_log::{Content, Event, EventLog};
use claviger::evidence::gpu;
use claviger::evidence::snp;
use claviger::evidence::spdm::looks_like_switch;
use claviger::evidence::switch;
use claviger::evidence::tdx::Quote;
use claviger::policy::Policy;
use claviger::policy::reference_set::ReferenceSet;
use claviger::protocol::init_data::{AGENT_CONFIGURATION, AGENT_IMAGE, InitData};
use claviger::release::Recording;
use claviger::wire::{crypto, limits, runtime_event};
use claviger::workbench::Firmware;
use claviger::workbench::ovmf::HASHES_LEN;

/// A parser under test.
pub struct Target {
    /// The name of its fuzz target and of the folder of its corpus.
    pub name: &'static str,
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: [Target; 21] = [
    Target { name: "boot_log", run: boot_log },
    Target { name: "certificate", run: certificate },
    Target { name: "certificate_table", run: certificate_table },
    Target { name: "collateral", run: collateral },
    Target { name: "crl", run: crl },
    Target { name: "firmware", run: firmware },
    Target { name: "gpu_chain", run: gpu_chain },
    Target { name: "gpu_report", run: gpu_report },
    Target { name: "init_data", run: init_data },
    Target { name: "ocsp", run: ocsp },
    Target { name: "pck", run: pck },
    Target { name: "policy", run: policy },
    Target { name: "qe_identity", run: qe_identity },
    Target { name: "quote", run: quote },
    Target { name: "recording", run: recording },
    Target { name: "reference_set", run: reference_set },
    Target { name: "rim", run: rim },
    Target { name: "runtime_log", run: runtime_log },
    Target { name: "snp_report", run: snp_report },
    Target { name: "switch_report", run: switch_report },
    Target { name: "tcb_info", run: tcb_info },
];

/// Runs the target of that name.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("the target is listed");
    (target.run)(bytes);
}

fn certificate_table(bytes: &[u8]) {
    let Ok(certificates) = certificates::parse(bytes) else { return };
    assert!(certificates.len() <= limits::SNP_TABLE_CERTIFICATES_MAX);
    assert!(certificates.iter().all(|certificate| certificate.len() <= limits::CERTIFICATE_LEN_MAX));
}

fn firmware(bytes: &[u8]) {
    let Ok(firmware) = Firmware::parse(bytes) else { return };
    assert!(bytes.len() <= limits::FIRMWARE_LEN_MAX && bytes.len().is_multiple_of(4096));
    assert_eq!(firmware.bytes(), bytes);
    assert_ne!(firmware.reset_eip(), 0);
    let sections = firmware.sections();
    assert!(u32::try_from(sections.len()).is_ok_and(|count| count <= limits::FIRMWARE_SECTIONS_MAX));
    for section in sections {
        assert!(section.pages > 0 && section.pages <= limits::FIRMWARE_SECTION_PAGES_MAX);
        assert!(section.gpa.is_multiple_of(4096) && section.gpa.checked_add(section.pages * 4096).is_some());
    }
    // The table of hashes lies whole in its page.
    assert!(firmware.hashes_offset().map_or(0, |offset| offset + HASHES_LEN) <= 4096);
}

fn recording(bytes: &[u8]) {
    let Ok(recording) = Recording::read(bytes) else { return };
    assert!(bytes.len() <= limits::ATTEST_BODY_LEN_MAX);
    assert!(recording.bundle().evidence().gpus.len() <= limits::DEVICES_MAX);
}

fn init_data(bytes: &[u8]) {
    let Ok(init_data) = InitData::parse(bytes) else { return };
    assert!(bytes.len() <= limits::INIT_DATA_LEN_MAX);
    assert!(init_data.names().len() <= limits::INIT_DATA_TEXTS_MAX);
    assert_eq!(init_data.sent(), crypto::sha384(&[bytes]));
    assert_eq!(init_data.register::<32>().bytes()[..], init_data.register::<48>().bytes()[..32]);
    let named = |name: &str| init_data.names().iter().any(|known| known == name);
    assert_eq!(init_data.agent_image().is_some(), named(AGENT_IMAGE));
    assert_eq!(init_data.agent().is_some(), named(AGENT_CONFIGURATION));
    assert!(init_data.agent().is_none_or(|agent| agent.keys.len() <= limits::KEYS_MAX));
}

fn quote(bytes: &[u8]) {
    let Ok(quote) = Quote::parse(bytes) else { return };
    assert!(bytes.len() <= limits::TDX_QUOTE_LEN_MAX);
    assert!(bytes.starts_with(quote.signed()));
    assert!(quote.chain.len() + quote.qe_authentication.len() + quote.signed().len() < bytes.len());
    // Nothing is left that could differ between two buffers with one quote, but zeros.
    assert!(Quote::parse(&[bytes, &[1]].concat()).is_err());
}

fn snp_report(bytes: &[u8]) {
    let Ok(report) = snp::Report::parse(bytes) else { return };
    assert_eq!(report.bytes().as_slice(), bytes);
    assert_eq!(report.signed(), &bytes[..snp::SIGNED_LEN]);
}

fn gpu_report(bytes: &[u8]) {
    let Ok(report) = gpu::Report::parse(bytes) else { return };
    assert!(bytes.len() <= limits::GPU_REPORT_LEN_MAX);
    assert_eq!(report.bytes(), bytes);
    assert_eq!([report.signed(), report.signature()].concat(), bytes);
    // What is derived from the opaque fields may fail, and does not panic.
    let _derived = (report.architecture(), report.driver_rim_id(), report.vbios_rim_id(), report.mode());
}

fn switch_report(bytes: &[u8]) {
    let Ok(report) = switch::Report::parse(bytes) else { return };
    assert!(bytes.len() <= limits::GPU_REPORT_LEN_MAX);
    assert_eq!(report.bytes(), bytes);
    assert_eq!([report.signed(), report.signature()].concat(), bytes);
    assert_eq!(report.measurements.len(), 31);
    // What is one kind of report is never the other too.
    assert!(looks_like_switch(bytes) && gpu::Report::parse(bytes).is_err());
    assert!(report.bios_rim_id().is_ok() == report.opaque.bios_version.is_some());
    let _derived = report.miscounted();
}

fn boot_log(bytes: &[u8]) {
    let Ok(log) = EventLog::parse(Some(bytes), None) else { return };
    assert!(bytes.len() <= limits::EVENT_LOG_LEN_MAX);
    bounded(&log, bytes.len());
}

fn runtime_log(bytes: &[u8]) {
    let Ok(log) = EventLog::parse(None, Some(bytes)) else { return };
    assert!(bytes.len() <= limits::RUNTIME_LOG_LEN_MAX);
    bounded(&log, bytes.len());
    assert!(log.events().iter().all(|event| match &event.content {
        Content::Runtime { .. } => event.register == runtime_event::RUNTIME_REGISTER,
        _ => true,
    }));
}

fn bounded(log: &EventLog, len: usize) {
    assert!(log.events().len() < limits::EVENTS_MAX);
    assert!(log.events().iter().map(|event| event.data.len()).sum::<usize>() <= len);
    assert!(log.events().iter().all(|event| event.register <= 3));
    for event in log.events() {
        proven(event);
    }
    // Every event counts in the register that it names, and in no other.
    let replayed = log.replay();
    for (register, value) in (0..).zip(&replayed) {
        assert_eq!(log.of_register(register).next().is_none(), value.is_zero());
    }
}

/// What is not `Unproven` is what its digest says, computed here a second time from the plain bytes.
fn proven(event: &Event) {
    let whole = crypto::sha384(&[&event.data]);
    let expected = match &event.content {
        Content::Action(text) => {
            assert_eq!(text.as_bytes(), event.data);
            whole
        }
        Content::Separator(value) => {
            assert_eq!(value.to_le_bytes().as_slice(), event.data);
            whole
        }
        Content::PartitionTable | Content::Variable(_) => whole,
        Content::VariableData(variable) => {
            assert!(event.data.ends_with(&variable.data));
            crypto::sha384(&[&variable.data])
        }
        Content::GrubCommand(text) | Content::KernelCommandLine(text) => {
            assert!(event.data.windows(text.len().max(1)).any(|part| part.starts_with(text)));
            assert!(!text.contains(&0));
            crypto::sha384(&[text])
        }
        Content::Runtime { name } => runtime_event::digest(name, &event.data),
        Content::Unproven(_) => return,
    };
    assert_eq!(event.digest, expected);
}

fn certificate(bytes: &[u8]) {
    let Ok(certificate) = Certificate::from_der(bytes) else { return };
    assert!(bytes.len() <= limits::CERTIFICATE_LEN_MAX);
    assert_eq!(certificate.der(), bytes);
    assert!(bytes.windows(certificate.tbs().len()).any(|part| part == certificate.tbs()));
    let _vek = Vek::parse(certificate);
}

fn pck(bytes: &[u8]) {
    let Ok(certificate) = Certificate::from_der(bytes) else { return };
    let Ok(pck) = Pck::from_certificate(&certificate) else { return };
    // Each field was read from the certificate and from nowhere else.
    for field in [&pck.ppid[..], &pck.fmspc, &pck.pceid, &pck.components] {
        assert!(bytes.windows(field.len()).any(|part| part == field));
    }
    assert!(pck.sgx_type <= 2);
}

fn crl(bytes: &[u8]) {
    let Ok(crl) = Crl::from_bytes(bytes) else { return };
    assert!(crl.der().len() <= limits::CRL_LEN_MAX);
    assert!(crl.revoked().len() <= limits::CRL_ENTRIES_MAX);
}

fn ocsp(bytes: &[u8]) {
    let Ok(response) = OcspResponse::parse(bytes) else { return };
    assert!(bytes.len() <= limits::OCSP_LEN_MAX);
    assert!(bytes.windows(response.tbs().len()).any(|part| part == response.tbs()));
}

fn rim(bytes: &[u8]) {
    let Ok(rim) = Rim::parse(bytes) else { return };
    assert!(bytes.len() <= limits::RIM_LEN_MAX);
    let _digests = (rim.payload_digest(), rim.digest_value());
}

fn gpu_chain(bytes: &[u8]) {
    let Ok(_chain) = Chain::from_pem(bytes) else { return };
    assert!(bytes.len() <= limits::GPU_CHAIN_LEN_MAX);
}

fn collateral(bytes: &[u8]) {
    let Ok(collateral) = Collateral::parse(bytes) else { return };
    assert!(bytes.len() <= limits::COLLATERAL_LEN_MAX);
    for signed in [&collateral.tcb_info_signed, &collateral.qe_identity_signed] {
        assert!(signed.text.len() <= limits::TCB_INFO_LEN_MAX);
    }
    assert!(collateral.pck_crl.revoked().len() <= limits::CRL_ENTRIES_MAX);
}

fn tcb_info(bytes: &[u8]) {
    let Ok(info) = TcbInfo::parse(bytes) else { return };
    assert!(bytes.len() <= limits::TCB_INFO_LEN_MAX);
    assert!(info.levels.len() <= limits::TCB_LEVELS_MAX);
    assert!(info.modules.len() <= limits::TDX_MODULES_MAX);
    assert!(info.levels.iter().all(|level| level.advisories.len() <= limits::TCB_ADVISORIES_MAX));
    assert!(info.modules.iter().all(|module| module.version != 0));
}

fn qe_identity(bytes: &[u8]) {
    let Ok(identity) = QeIdentity::parse(bytes) else { return };
    assert!(bytes.len() <= limits::TCB_INFO_LEN_MAX);
    assert!(identity.levels.len() <= limits::TCB_LEVELS_MAX);
}

fn policy(bytes: &[u8]) {
    let Ok(policy) = Policy::parse(bytes) else { return };
    assert!(bytes.len() <= limits::POLICY_LEN_MAX);
    // What is signed and hashed is the canonical form: it says the same.
    let canonical = policy.canonical().unwrap();
    assert_eq!(Policy::parse(&canonical).unwrap().canonical().unwrap(), canonical);
}

fn reference_set(bytes: &[u8]) {
    let Ok(set) = ReferenceSet::parse(bytes) else { return };
    assert!(bytes.len() <= limits::REFERENCE_SET_LEN_MAX);
    assert_eq!(ReferenceSet::parse(&set.canonical().unwrap()).unwrap(), set);
    assert_eq!(ReferenceSet::parse(set.toml().unwrap().as_bytes()).unwrap(), set);
}
