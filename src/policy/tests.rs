//! One change to a granted request, exactly that code; and no code of this room without such a change.

use std::collections::BTreeSet;

use super::appraise::{Status, appraise};
use super::fixture::{TCB, World, function, init_data, now, policy};
use super::reason::Reason;
use crate::protocol::facts::{Hint, MultiGpu, Switch, Virtualization};
use crate::protocol::head::{Kem, Operation};
use crate::protocol::init_data::InitData;
use crate::verify::init_data::Launched;
use crate::verify::terms::{Architecture, Cpuid, GpuMode, GuestPolicy, Line, PlatformInfo, Signer, Tcb};
use crate::wire::code::Family;
use crate::wire::ids::Pdi;
use crate::wire::{Code, Digest};

mod tdx;

/// A change of the world, a change of the policy, and the codes of the reasons that follow.
struct Case(&'static str, fn(&mut World), &'static [(&'static str, &'static str)], &'static [Code]);

const SAME: &[(&str, &str)] = &[];
const NOTHING: fn(&mut World) = |_| {};

fn milan(world: &mut World) {
    world.line = Some(Line::Milan);
    world.snp().cpuid = Some(Cpuid { family: 0x19, model: 1, stepping: 1 });
}

fn hint(world: &mut World, name: &str, value: &str) {
    world.facts().hints.push(Hint { name: name.to_string(), value: value.to_string() });
}

/// The guest that the init data of the fixture was made for.
fn launched(world: &mut World) {
    *world = World::launched(&init_data());
}

/// Policy of that guest.
const INIT_DATA: &[(&str, &str)] = &[
    ("0202020202020202020202020202020202020202020202020202020202020202", HOST_DATA),
    (
        BY_IMAGE,
        "agent_fixed_by = 'init_data'\nagent_configured_by = 'init_data'\n\
         agent_images = ['sha256:abababababababababababababababababababababababababababababababab']\n",
    ),
];

/// The same, for another image of the agent.
const OTHER_IMAGE: &[(&str, &str)] = &[
    INIT_DATA[0],
    (
        BY_IMAGE,
        "agent_fixed_by = 'init_data'\nagent_configured_by = 'init_data'\n\
         agent_images = ['sha256:acababababababababababababababababababababababababababababababab']\n",
    ),
];

const BY_IMAGE: &str = "agent_fixed_by = \"image\"\nagent_configured_by = \"image\"\n";

/// HOST_DATA of the fixture's init data; a test holds it against them.
const HOST_DATA: &str = "e61d17566f4155feae444fec0d5ea83eb69451c9125f433515b1fa592b5512a1";

#[test]
fn the_init_data_of_the_fixture_have_their_digest() {
    let document = InitData::parse(init_data().as_bytes()).unwrap();
    assert_eq!(document.register::<32>().to_string(), HOST_DATA);
}

/// Policy of a Milan guest, with an acceptance until a date.
macro_rules! milan_policy {
    ($until:literal) => {
        &[
            ("lines = [\"genoa\"]", "lines = [\"milan\"]"),
            ("line = \"genoa\"\nmodels = [0x11]", "line = \"milan\"\nmodels = [0x01]"),
            (
                "[binding]",
                concat!(
                    "[[accept_risks]]\nid = 'milan-root-extraction'\nby = 'a'\nuntil = '",
                    $until,
                    "'\n[binding]"
                ),
            ),
        ]
    };
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    // The floor: CPU.
    Case("no CPU evidence", |w| w.cpu = None, SAME, &[Code::CpuEvidenceMissing, Code::CombinationNotSupported]),
    Case("debug", |w| w.snp().policy = GuestPolicy(0xb_0000), SAME, &[Code::SnpDebug]),
    Case("migration", |w| w.snp().policy = GuestPolicy(0x7_0000), SAME, &[Code::SnpMigration]),
    Case("migration agent", |w| w.snp().report_id_ma = Digest::new([0; 32]), SAME, &[Code::SnpMigrationAgent]),
    Case("bit 17 clear", |w| w.snp().policy = GuestPolicy(0x1_0000), SAME, &[Code::SnpGuestPolicyReserved]),
    Case("bit 26 set", |w| w.snp().policy = GuestPolicy(0x403_0000), SAME, &[Code::SnpGuestPolicyReserved]),
    Case("host asked", |w| w.snp().vmpl = u32::MAX, SAME, &[Code::SnpHostRequested]),
    Case("VMPL 1", |w| w.snp().vmpl = 1, SAME, &[Code::SnpVmplMismatch]),
    Case("VMPL 4", |w| w.snp().vmpl = 4, SAME, &[Code::SnpVmplMismatch]),
    Case("VMPL 0 where 1 is stated", NOTHING, &[("vmpl = 0", "vmpl = 1")], &[Code::SnpVmplMismatch]),
    Case("VMPL as stated", |w| w.snp().vmpl = 1, &[("vmpl = 0", "vmpl = 1")], &[]),
    Case("reported above committed", |w| w.snp().reported_tcb = Tcb { snp: 24, ..TCB }, SAME, &[Code::SnpTcbOrder]),
    Case("committed above current", |w| w.snp().committed_tcb = Tcb { snp: 24, ..TCB },
        &[("smt = \"allow\"", "smt = \"allow\"\nallow_provisional_firmware = true")], &[Code::SnpTcbOrder]),
    // The floor: GPU.
    Case("no GPU at all", |w| { w.gpus.clear(); w.facts().devices.clear(); w.facts().pci_functions.clear(); },
        SAME, &[Code::GpuEvidenceMissing]),
    Case("a GPU that sent nothing", |w| w.gpus.clear(), SAME,
        &[Code::GpuEvidenceMissing, Code::GpuFunctionWithoutEvidence, Code::FactsDisagreeCount]),
    Case("two GPUs where one is stated", World::second, SAME, &[Code::GpuCountMismatch]),
    Case("one GPU under two names", |w| { let same = w.gpus[0].clone(); w.gpus.push(same); }, SAME,
        &[Code::GpuCountMismatch, Code::GpuDuplicateDevice, Code::FactsDisagreeCount]),
    Case("one device twice in the facts", |w| { let same = w.device().clone(); w.facts().devices.push(same); }, SAME,
        &[Code::GpuDuplicateDevice, Code::FactsDisagreeCount]),
    Case("a hidden second GPU", |w| w.facts().pci_functions.push(function("0000:02:00.0", "030200")), SAME,
        &[Code::GpuFunctionWithoutEvidence]),
    Case("a display controller of another kind", |w| w.facts().pci_functions.push(function("0000:02:00.0", "038000")),
        SAME, &[Code::GpuFunctionWithoutEvidence]),
    Case("an NVSwitch", |w| w.facts().pci_functions.push(function("0000:03:00.0", "068000")), SAME,
        &[Code::GpuFunctionWithoutEvidence]),
    Case("the GPU's audio function", |w| w.facts().pci_functions.push(function("0000:01:00.1", "040300")), SAME, &[]),
    Case("DevTools on the system", |w| w.facts().devtools = Switch::On, SAME, &[Code::GpuDevtools]),
    Case("DevTools on the device", |w| w.device().devtools = Switch::On, SAME, &[Code::GpuDevtools]),
    Case("confidential off on the system", |w| w.facts().confidential = Switch::Off, SAME, &[Code::GpuConfidentialOff]),
    Case("confidential off on the device", |w| w.device().confidential = Switch::Off, SAME,
        &[Code::GpuConfidentialOff]),
    Case("protected PCIe", |w| w.facts().multi_gpu = MultiGpu::ProtectedPcie, SAME, &[Code::GpuMultiMode]),
    Case("NVLink encryption", |w| w.facts().multi_gpu = MultiGpu::NvlinkEncryption, SAME, &[Code::GpuMultiMode]),
    Case("MIG on", |w| w.device().mig_current = Switch::On, SAME, &[Code::GpuMigEnabled]),
    Case("MIG pending", |w| w.device().mig_pending = Switch::On, SAME, &[Code::GpuMigPending]),
    Case("a MIG instance", |w| w.device().mig_instances = 1, SAME, &[Code::GpuMigInstance]),
    Case("a MIG handle", |w| w.device().uuid = "MIG-1".to_string(), SAME, &[Code::GpuMigHandle]),
    Case("MIG made visible", |w| w.facts().visible_devices = Some("MIG-1".to_string()), SAME, &[Code::GpuMigHandle]),
    Case("a whole GPU made visible", |w| w.facts().visible_devices = Some("GPU-1".to_string()), SAME, &[]),
    Case("a handle of another form", |w| w.device().uuid = "share-1".to_string(), SAME, &[Code::GpuHandleUnknown]),
    Case("vGPU", |w| w.device().virtualization = Virtualization::Vgpu, SAME, &[Code::GpuVgpu]),
    Case("host vGPU", |w| w.device().virtualization = Virtualization::HostVgpu, SAME, &[Code::GpuHostVirtualization]),
    Case("host vSGA", |w| w.device().virtualization = Virtualization::HostVsga, SAME, &[Code::GpuHostVirtualization]),
    Case("virtualization none", |w| w.device().virtualization = Virtualization::None, SAME,
        &[Code::GpuVirtualizationNone]),
    Case("virtualization none, named", |w| w.device().virtualization = Virtualization::None,
        &[("count = 1", "count = 1\nallow_virtualization_none = true")], &[]),
    Case("vGPU is not lifted by it", |w| w.device().virtualization = Virtualization::Vgpu,
        &[("count = 1", "count = 1\nallow_virtualization_none = true")], &[Code::GpuVgpu]),
    Case("a replica's handle", |w| w.device().uuid = "GPU-1::0".to_string(), SAME, &[Code::GpuTimeSliced]),
    Case("time slicing", |w| hint(w, "nvidia.com/gpu.sharing-strategy", "time-slicing"), SAME, &[Code::GpuTimeSliced]),
    Case("MPS", |w| hint(w, "CUDA_MPS_PIPE_DIRECTORY", "/tmp/mps"), SAME, &[Code::GpuTimeSliced]),
    Case("another process", |w| w.device().compute_processes = 1, SAME, &[Code::GpuProcessPresent]),
    Case("own process at a renewal", |w| { w.head.operation = Operation::Renew; w.device().compute_processes = 1; },
        SAME, &[]),
    Case("a process where no keys are asked for", |w| {
        w.head.keys.clear();
        w.head.audience = Some("https://vault.example".parse().unwrap());
        w.device().compute_processes = 1;
    }, SAME, &[]),
    Case("mode signs that contradict", |w| w.gpu().mode = GpuMode::Contradictory, SAME, &[Code::GpuModeContradictory]),
    Case("no mode sign", |w| w.gpu().mode = GpuMode::Unknown, SAME, &[Code::GpuModeUnknown]),
    Case("mode MPT", |w| w.gpu().mode = GpuMode::Mpt, SAME, &[Code::GpuModeNotSingle]),
    Case("mode PPCIE", |w| w.gpu().mode = GpuMode::Ppcie, SAME, &[Code::GpuModeNotSingle]),
    Case("no facts", |w| w.facts = None, SAME, &[Code::FactsMalformed]),
    Case("facts of no device", |w| { w.facts().devices.clear(); w.facts().pci_functions.clear(); }, SAME,
        &[Code::FactsDisagreeCount, Code::FactsDisagreePdi]),
    Case("facts of another driver", |w| w.facts().driver_version = "580.95.5".to_string(), SAME,
        &[Code::FactsDisagreeDriver]),
    Case("facts of another VBIOS", |w| w.device().vbios_version = "96.00.9F.00.02".to_string(), SAME,
        &[Code::FactsDisagreeVbios]),
    Case("facts of another device", |w| w.device().pdi = Pdi::new([9; 8]), SAME,
        &[Code::GpuFunctionWithoutEvidence, Code::FactsDisagreePdi]),
    Case("evidence without an identity", |w| w.gpu().pdi = None, SAME,
        &[Code::GpuFunctionWithoutEvidence, Code::FactsDisagreePdi]),
    Case("a device on no function", |w| w.facts().pci_functions.clear(), SAME, &[Code::FactsDisagreePci]),
    Case("a function twice", |w| { let same = w.facts().pci_functions[0].clone(); w.facts().pci_functions.push(same); },
        SAME, &[Code::FactsDisagreePci]),
    Case("an address in capitals", |w| w.facts().pci_functions.push(function("0000:0A:00.0", "040300")), SAME,
        &[Code::FactsDisagreePci]),
    // The policy: CPU.
    Case("another line", NOTHING, &[("lines = [\"genoa\"]", "lines = [\"turin\"]")], &[Code::SnpLineNotAllowed]),
    Case("Milan", milan, &[("lines = [\"genoa\"]", "lines = [\"milan\"]"),
        ("line = \"genoa\"\nmodels = [0x11]", "line = \"milan\"\nmodels = [0x01]")], &[Code::MilanNotAccepted]),
    Case("Milan, accepted", milan, milan_policy!("2026-11-30T12:00:00Z"), &[]),
    Case("Milan, accepted until a second ago", milan, milan_policy!("2026-11-30T11:59:59Z"),
        &[Code::RiskAcceptanceExpired]),
    Case("version 2", |w| { w.snp().version = 2; w.snp().cpuid = None; }, SAME, &[Code::SnpReportVersion2]),
    Case("version 2, allowed", |w| { w.snp().version = 2; w.snp().cpuid = None; },
        &[("smt = \"allow\"", "smt = \"allow\"\nallow_report_version_2 = true")], &[]),
    Case("version 2 below one floor of its line", |w| { w.snp().version = 2; w.snp().cpuid = None; },
        &[("smt = \"allow\"", "smt = \"allow\"\nallow_report_version_2 = true"),
          ("[gpu]", "[[cpu.snp.tcb]]\nline = 'genoa'\nmodels = [0xa0]\n\
            reported = { boot_loader = 11, tee = 0, snp = 23, microcode = 25 }\n\
            launch = { boot_loader = 0, tee = 0, snp = 0, microcode = 0 }\n[gpu]")], &[Code::SnpTcbBelowFloor]),
    Case("provisional firmware", |w| w.snp().current_tcb = Tcb { microcode: 85, ..TCB }, SAME,
        &[Code::SnpProvisionalFirmware]),
    Case("provisional version", |w| w.snp().current_version.build = 41, SAME, &[Code::SnpProvisionalFirmware]),
    Case("provisional firmware, allowed", |w| w.snp().current_tcb = Tcb { microcode: 85, ..TCB },
        &[("smt = \"allow\"", "smt = \"allow\"\nallow_provisional_firmware = true")], &[]),
    Case("no alias check", |w| w.snp().platform_info = PlatformInfo(0x04), SAME, &[Code::SnpAliasCheckMissing]),
    Case("no alias check, allowed", |w| w.snp().platform_info = PlatformInfo(0x04),
        &[("smt = \"allow\"", "smt = \"allow\"\nrequire_alias_check = false")], &[]),
    Case("an unknown platform bit", |w| w.snp().platform_info = PlatformInfo(0x124), SAME,
        &[Code::SnpPlatformInfoUnknown]),
    Case("bit 6 on Genoa", |w| w.snp().platform_info = PlatformInfo(0x64), SAME, &[Code::SnpPlatformInfoUnknown]),
    Case("a bit that must be 1", NOTHING,
        &[("smt = \"allow\"", "smt = \"allow\"\nplatform_info = { must = ['tsme'] }")],
        &[Code::SnpPlatformInfoMismatch]),
    Case("a bit that must be 0", NOTHING,
        &[("smt = \"allow\"", "smt = \"allow\"\nplatform_info = { must_not = ['ecc'] }")],
        &[Code::SnpPlatformInfoMismatch]),
    Case("bits as demanded", NOTHING,
        &[("smt = \"allow\"", "smt = \"allow\"\nplatform_info = { must = ['ecc'], must_not = ['tsme'] }")], &[]),
    Case("a model without a floor", |w| w.snp().cpuid = Some(Cpuid { family: 0x19, model: 0xa0, stepping: 2 }), SAME,
        &[Code::SnpTcbFloorMissing]),
    Case("a stepping without a floor", NOTHING, &[("models = [0x11]", "models = [0x11]\nsteppings = [2]")],
        &[Code::SnpTcbFloorMissing]),
    Case("SNP below the floor", |w| w.snp().reported_tcb = Tcb { snp: 22, ..TCB }, SAME, &[Code::SnpTcbBelowFloor]),
    Case("microcode below, SNP above", |w| {
        let tcb = Tcb { snp: 200, microcode: 83, ..TCB };
        let snp = w.snp();
        (snp.reported_tcb, snp.committed_tcb, snp.current_tcb) = (tcb, tcb, tcb);
    }, SAME, &[Code::SnpTcbBelowFloor]),
    Case("launched below the floor", |w| w.snp().launch_tcb = Tcb { snp: 22, ..TCB }, SAME,
        &[Code::SnpLaunchTcbBelowFloor]),
    Case("SMT on", |w| w.snp().platform_info = PlatformInfo(0x25), &[("smt = \"allow\"", "smt = \"refuse\"")],
        &[Code::SnpSmtNotAllowed]),
    Case("SMT allowed to the guest", NOTHING, &[("smt = \"allow\"\n", "")], &[Code::SnpSmtNotAllowed]),
    Case("SMT off and not allowed", |w| w.snp().policy = GuestPolicy(0x2_0000), &[("smt = \"allow\"\n", "")], &[]),
    Case("CXL", |w| w.snp().policy = GuestPolicy(0x23_0000), SAME, &[Code::SnpCxlAllowed]),
    Case("CXL, allowed", |w| w.snp().policy = GuestPolicy(0x23_0000),
        &[("smt = \"allow\"", "smt = \"allow\"\nallow_cxl = true")], &[]),
    Case("no ciphertext hiding", |w| w.snp().platform_info = PlatformInfo(0x34),
        &[("smt = \"allow\"", "smt = \"allow\"\nrequire_ciphertext_hiding = true")],
        &[Code::SnpCiphertextHidingMissing]),
    Case("page swap", NOTHING, &[("smt = \"allow\"", "smt = \"allow\"\nrequire_page_swap_disable = true")],
        &[Code::SnpPageSwapAllowed]),
    Case("another chip", |w| w.snp().chip_id = [6; 64], &[("smt = \"allow\"", CHIPS)], &[Code::SnpChipNotListed]),
    Case("a listed chip", NOTHING, &[("smt = \"allow\"", CHIPS)], &[]),
    Case("a masked chip", |w| w.snp().chip_id = [0; 64], &[("smt = \"allow\"", CHIPS)], &[Code::SnpChipNotListed]),
    Case("a VLEK", |w| { w.snp().signer = Signer::Vlek; w.vlek_provider = Some("CN=a".to_string()); }, SAME,
        &[Code::SnpVlekProviderNotListed]),
    Case("a VLEK of another provider", |w| { w.snp().signer = Signer::Vlek; w.vlek_provider = Some("CN=ab".into()); },
        &[("smt = \"allow\"", "smt = \"allow\"\nvlek_providers = ['CN=a']")], &[Code::SnpVlekProviderNotListed]),
    Case("a VLEK of a listed provider", |w| { w.snp().signer = Signer::Vlek; w.vlek_provider = Some("CN=a".into()); },
        &[("smt = \"allow\"", "smt = \"allow\"\nvlek_providers = ['CN=a']")], &[]),
    Case("a VLEK under a list of chips", |w| {
            w.snp().signer = Signer::Vlek; w.snp().chip_id = [0; 64]; w.vlek_provider = Some("CN=a".into());
        }, VLEK_AND_CHIPS, &[Code::SnpNotChipBound]),
    Case("a VLEK beside a chip of the list", |w| {
            w.snp().signer = Signer::Vlek; w.vlek_provider = Some("CN=a".into());
        }, VLEK_AND_CHIPS, &[Code::SnpNotChipBound]),
    Case("a listed chip beside a list of providers", NOTHING, VLEK_AND_CHIPS, &[]),
    Case("another measurement", |w| w.snp().measurement = Digest::new([9; 48]), SAME, &[Code::SnpMeasurementNotListed]),
    Case("a measurement of zero", |w| w.snp().measurement = Digest::new([0; 48]), SAME,
        &[Code::SnpMeasurementNotListed]),
    Case("an ID key", NOTHING, ID_KEYS, &[]),
    Case("another ID key", |w| w.snp().id_key_digest = Digest::new([9; 48]), ID_KEYS, &[Code::SnpIdKeyNotListed]),
    Case("no ID block", |w| w.snp().id_key_digest = Digest::new([0; 48]), ID_KEYS, &[Code::SnpIdKeyNotListed]),
    Case("an older image", |w| w.snp().guest_svn = 1, ID_KEYS, &[Code::SnpGuestSvnBelow]),
    Case("another workload", |w| w.snp().host_data = Digest::new([9; 32]), SAME, &[Code::SnpHostDataNotListed]),
    Case("no init data", |w| w.snp().host_data = Digest::new([0; 32]), SAME, &[Code::SnpHostDataNotListed]),
    // The policy: init data.
    Case("init data that fixes the agent", launched, INIT_DATA, &[]),
    Case("init data that nobody reads", launched, &[INIT_DATA[0]], &[]),
    Case("init data that were not sent", |w| { launched(w); w.launched = Launched::Absent }, INIT_DATA,
        &[Code::InitDataMissing]),
    Case("init data of another launch", |w| w.launched = World::launched(&init_data()).launched, INIT_DATA,
        &[Code::SnpHostDataNotListed, Code::AgentConfigurationMismatch]),
    Case("init data of somebody's own", |w| *w = World::launched(&format!("{}# mine\n", init_data())), INIT_DATA,
        &[Code::SnpHostDataNotListed]),
    Case("another image of the agent", launched, OTHER_IMAGE, &[Code::AgentImageNotListed]),
    Case("an agent of another service", |w| { launched(w); w.head.service_root = Digest::new([9; 32]) }, INIT_DATA,
        &[Code::AgentConfigurationMismatch]),
    Case("a key that the agent was not told of", |w| {
        launched(w);
        w.head.keys = vec!["models/llama-70b".parse().unwrap()];
    }, INIT_DATA, &[Code::AgentConfigurationMismatch]),
    Case("the workload is in the image", |w| w.snp().host_data = Digest::new([9; 32]),
        &[("host_data = [\"0202020202020202020202020202020202020202020202020202020202020202\"]",
           "workload_in_image = true")], &[]),
    // The policy: GPU.
    Case("another architecture", |w| w.gpu().architecture = Some(Architecture::Blackwell), SAME,
        &[Code::GpuArchitectureNotListed, Code::CombinationNotSupported]),
    Case("no architecture", |w| w.gpu().architecture = None, SAME,
        &[Code::GpuArchitectureNotListed, Code::CombinationNotSupported]),
    Case("an older driver", NOTHING, &[("driver_least = \"580.65.06\"", "driver_least = \"580.95.06\"")],
        &[Code::GpuDriverBelow]),
    Case("the driver exactly", NOTHING, &[("driver_least = \"580.65.06\"", "driver_least = \"580.95.05\"")], &[]),
    Case("another VBIOS", NOTHING, &[("96.00.9F.00.01", "96.00.9F.00.02")], &[Code::GpuVbiosNotListed]),
    Case("another device", NOTHING, &[("count = 1", "count = 1\nchips = ['0909090909090909']")],
        &[Code::GpuChipNotListed]),
    Case("a listed device", NOTHING, &[("count = 1", "count = 1\nchips = ['0101010101010101']")], &[]),
    Case("a combination that nobody lists", unlisted, UNLISTED, &[Code::CombinationNotSupported]),
    Case("a combination that the policy names", unlisted,
        &[UNLISTED[0], ("count = 1", "count = 1\ncombinations = [{ line = 'genoa', architecture = 'hopper', \
            driver_branch = 550, vbios = '96.00.9F.00.01' }]")], &[]),
    // The request.
    Case("another KEM", |w| w.head.kem = Kem::X25519, SAME, &[Code::KemNotListed]),
    Case("another KEM, listed", |w| w.head.kem = Kem::X25519,
        &[("name = \"llama\"", "name = \"llama\"\nkem = ['x-wing', 'x25519']")], &[]),
    Case("another audience", |w| w.head.audience = Some("https://other".parse().unwrap()), SAME,
        &[Code::AudienceNotListed]),
    Case("a listed audience", |w| w.head.audience = Some("https://vault.example".parse().unwrap()), SAME, &[]),
    Case("another tenant", |w| w.head.tenant = "evil".parse().unwrap(), SAME, &[Code::PolicyNoMatch]),
    Case("a key of another policy", |w| w.head.keys.push("other".parse().unwrap()), SAME, &[Code::PolicyNoMatch]),
];

const CHIPS: &str = concat!(
    "smt = \"allow\"\nchips = [\"",
    "0505050505050505050505050505050505050505050505050505050505050505",
    "0505050505050505050505050505050505050505050505050505050505050505\"]"
);

const VLEK_AND_CHIPS: &[(&str, &str)] =
    &[("smt = \"allow\"", CHIPS), ("vmpl = 0", "vmpl = 0\nvlek_providers = ['CN=a']")];

const ID_KEYS: &[(&str, &str)] = &[(
    concat!(
        "measurements = [\"",
        "010101010101010101010101010101010101010101010101",
        "010101010101010101010101010101010101010101010101\"]"
    ),
    concat!(
        "guest_svn_least = 2\nid_key_digests = [\"",
        "030303030303030303030303030303030303030303030303",
        "030303030303030303030303030303030303030303030303\"]"
    ),
)];

const UNLISTED: &[(&str, &str)] = &[("driver_least = \"580.65.06\"", "driver_least = \"550.90.07\"")];

fn unlisted(world: &mut World) {
    world.gpu().driver = Some("550.90.07".parse().unwrap());
    world.facts().driver_version = "550.90.07".to_string();
}

fn codes(case: &Case) -> Vec<Code> {
    let Case(_, change, edits, _) = case;
    let mut world = World::good();
    change(&mut world);
    let appraisal = appraise(&policy(edits), &world.view(), now()).unwrap();
    super::reason::codes(appraisal.reasons())
}

#[test]
fn a_request_in_order_is_affirmed() {
    let appraisal = appraise(&policy(SAME), &World::good().view(), now()).unwrap();
    assert_eq!((appraisal.status(), appraisal.codes()), (Status::Affirming, Vec::new()));
}

#[test]
fn each_change_gives_exactly_its_codes() {
    for case in CASES {
        let Case(name, _, _, expected) = case;
        let (found, expected): (BTreeSet<_>, BTreeSet<_>) =
            (codes(case).into_iter().collect(), expected.iter().copied().collect());
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn every_reason_says_what_was_expected() {
    let mut silent = BTreeSet::new();
    for Case(_, change, edits, _) in CASES {
        let mut world = World::good();
        change(&mut world);
        let appraisal = appraise(&policy(edits), &world.view(), now()).unwrap();
        let says = |reason: &&Reason| reason.expected.as_ref().is_some_and(|text| !text.is_empty());
        silent.extend(appraisal.reasons().iter().filter(|reason| !says(reason)).map(|reason| reason.code));
    }
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn warnings_do_not_refuse() {
    type Change = fn(&mut World);
    let cases: [(Change, Code); 2] = [
        (|world| world.snp().platform_info = PlatformInfo(0x25), Code::SnpSmtOn),
        (|world| world.facts().ready = Switch::On, Code::GpuReadyEarly),
    ];
    for (change, code) in cases {
        let mut world = World::good();
        change(&mut world);
        let appraisal = appraise(&policy(SAME), &world.view(), now()).unwrap();
        assert_eq!((appraisal.status(), appraisal.codes()), (Status::Warning, vec![code]));
    }
}

#[test]
fn every_reason_shows_at_once() {
    let mut world = World::good();
    world.snp().policy = GuestPolicy(0xb_0000);
    world.device().mig_current = Switch::On;
    world.device().virtualization = Virtualization::Vgpu;
    let appraisal = appraise(&policy(SAME), &world.view(), now()).unwrap();
    assert_eq!(appraisal.codes(), [Code::SnpDebug, Code::GpuMigEnabled, Code::GpuVgpu]);
    assert_eq!(appraisal.status(), Status::Contraindicated);
}

/// Codes of the families `Floor` and `Policy` whose change is made elsewhere: by the checks of `verify`, in `identity`,
/// `keys`, `lease` and the stair, or in the tests of warnings and of `decide`.
const ELSEWHERE: &[Code] = &[
    Code::ChallengeExpired,
    Code::ChallengeInvalid,
    Code::ChallengeOld,
    Code::ChallengeReused,
    Code::CpuKindNotBuilt,
    Code::EvidenceIncomplete,
    Code::Frozen,
    Code::GpuHeldByOtherLease,
    Code::GpuHeldByOwnTenant,
    Code::GpuIndexConflict,
    Code::GpuMeasurementMismatch,
    Code::GpuNvdec0Unknown,
    Code::GpuReadyEarly,
    Code::GpuReferenceEmpty,
    Code::GpuTopologyArchitecture,
    Code::GpuTopologyGpuCount,
    Code::GpuTopologyGpuLinks,
    Code::GpuTopologyGpusDiffer,
    Code::GpuTopologyMode,
    Code::GpuTopologySwitchCount,
    Code::GpuTopologySwitchLinks,
    Code::GpuTopologySwitchSetsDiffer,
    Code::GpuTopologySwitchUnlocked,
    Code::GpuTopologySwitchesDiffer,
    Code::KeyDestroyed,
    Code::KeyDisabled,
    Code::LeaseEnded,
    Code::LeaseOtherDevices,
    Code::LeaseUnknown,
    Code::ProofInvalid,
    Code::QuotaReservations,
    Code::ReportDataMismatch,
    Code::ReservationLapsed,
    Code::SecurityEpoch,
    Code::SnpSmtOn,
];

#[test]
fn no_code_of_floor_or_policy_is_without_a_case() {
    let made: BTreeSet<Code> = CASES.iter().flat_map(|case| case.3).copied().chain(tdx::made()).collect();
    let without: Vec<Code> = Code::TABLE
        .iter()
        .filter(|row| matches!(row.family, Family::Floor | Family::Policy))
        .map(|row| row.code)
        .filter(|code| !made.contains(code) && !ELSEWHERE.contains(code))
        .collect();
    assert!(
        without.is_empty(),
        "add a case, or name the code in ELSEWHERE with the room that tests it: {without:?}"
    );
    let twice: Vec<&Code> = ELSEWHERE.iter().filter(|code| made.contains(code)).collect();
    assert!(twice.is_empty(), "{twice:?} have cases");
}

mod defaults {
    use super::*;
    use crate::policy::appraise::{appraise_gpu_default, appraise_snp_default, appraise_switch_default};
    use crate::policy::view::SnpView;
    use crate::wire::{Check, CheckName, Checks};

    fn status(change: fn(&mut World)) -> (Status, Vec<Code>) {
        let mut world = World::good();
        change(&mut world);
        let view = world.snp_view(world.cpu.as_ref().unwrap());
        let appraisal = appraise_snp_default(&view, &Checks::new()).unwrap();
        (appraisal.status(), appraisal.codes())
    }

    #[test]
    fn defaults_ask_for_no_measurement_and_keep_the_floor() {
        assert_eq!(status(|_| {}), (Status::Affirming, vec![]));
        assert_eq!(status(|w| w.snp().measurement = Digest::new([9; 48])).0, Status::Affirming);
        let refused = |change, code| assert_eq!(status(change), (Status::Contraindicated, vec![code]));
        refused(|w| w.snp().policy = GuestPolicy(0xb_0000), Code::SnpDebug);
        refused(|w| w.snp().vmpl = 1, Code::SnpVmplMismatch);
        refused(|w| w.snp().reported_tcb = Tcb { snp: 22, ..TCB }, Code::SnpTcbBelowFloor);
        refused(|w| w.snp().platform_info = PlatformInfo(0x04), Code::SnpAliasCheckMissing);
        refused(|w| w.snp().current_tcb = Tcb { microcode: 85, ..TCB }, Code::SnpProvisionalFirmware);
        assert_eq!(status(|w| w.snp().platform_info = PlatformInfo(0x25)).0, Status::Warning);
    }

    #[test]
    fn floors_are_those_of_the_model_and_never_anothers() {
        let cpu = |line, family, model, stepping, tcb: Tcb| {
            let mut world = World::good();
            let snp = world.snp();
            snp.cpuid = Some(Cpuid { family, model, stepping });
            (snp.reported_tcb, snp.committed_tcb, snp.current_tcb, snp.launch_tcb) = (tcb, tcb, tcb, tcb);
            let view = SnpView { report: world.snp(), line: Some(line), vlek_provider: None };
            appraise_snp_default(&view, &Checks::new()).unwrap().codes()
        };
        let siena = Tcb { microcode: 0x19, ..TCB };
        assert_eq!(cpu(Line::Genoa, 0x19, 0xa0, 2, siena), []);
        assert_eq!(
            cpu(Line::Genoa, 0x19, 0x11, 1, siena),
            [Code::SnpTcbBelowFloor, Code::SnpLaunchTcbBelowFloor]
        );
        let milan = Tcb { boot_loader: 4, snp: 0x18, microcode: 0xdb, ..TCB };
        assert_eq!(cpu(Line::Milan, 0x19, 1, 1, milan), [Code::MilanNotAccepted]);
        let turin = Tcb { fmc: Some(1), boot_loader: 1, tee: 1, snp: 4, microcode: 0x51 };
        assert_eq!(cpu(Line::Turin, 0x1a, 2, 1, turin), []);
        assert_eq!(cpu(Line::Turin, 0x1a, 0x11, 0, turin), [Code::SnpTcbFloorMissing]);
    }

    #[test]
    fn a_gpu_is_judged_by_its_checks_and_its_mode() {
        let good = World::good();
        let gpu = good.gpus[0].as_ref().unwrap();
        let measured = |check: Check| {
            let mut checks = Checks::new();
            checks.record(check);
            appraise_gpu_default(gpu, &checks).status()
        };
        assert_eq!(measured(Check::pass(CheckName::Measurements)), Status::Affirming);
        // What was compared with nothing is not affirmed.
        assert_eq!(measured(Check::unknown(CheckName::Measurements, Code::RimMissing)), Status::None);
        assert_eq!(appraise_gpu_default(gpu, &Checks::new()).status(), Status::None);
        let mut checks = Checks::new();
        checks.record(Check::fail(CheckName::Measurements, Code::GpuMeasurementMismatch));
        checks.record(Check::fail(CheckName::Signature, Code::GpuSignatureInvalid));
        let appraisal = appraise_gpu_default(gpu, &checks);
        assert_eq!(appraisal.codes(), [Code::GpuMeasurementMismatch], "authenticity is the verdict's");
        let mut world = World::good();
        world.gpu().mode = GpuMode::Ppcie;
        let mut checks = Checks::new();
        checks.record(Check::fail(CheckName::Mode, Code::GpuModeNotSingle));
        let codes = appraise_gpu_default(world.gpus[0].as_ref().unwrap(), &checks);
        assert_eq!((codes.status(), codes.reasons().len()), (Status::Contraindicated, 1));
    }

    #[test]
    fn a_switch_is_never_one_whole_gpu() {
        let appraisal = appraise_switch_default(&Checks::new());
        assert_eq!(appraisal.status(), Status::Contraindicated);
        assert_eq!(appraisal.codes(), [Code::GpuModeNotSingle]);
        let mut checks = Checks::new();
        checks.record(Check::fail(CheckName::Measurements, Code::GpuMeasurementMismatch));
        let codes = appraise_switch_default(&checks).codes();
        assert_eq!(codes, [Code::GpuMeasurementMismatch, Code::GpuModeNotSingle]);
    }
}
