//! Changes of the policy, or of what only the policy decides on.

use claviger::protocol::head::Kem;
use claviger::protocol::sealing::TransportKey;
use claviger::wire::Code::*;

use super::{Case, all, denied};
use crate::support::{Change, Outcome, Plan, judged};

const SECOND_TCB: &str = "\n[[cpu.snp.tcb]]\nline = \"turin\"\nmodels = [0x02]\n\
    reported = { fmc = 1, boot_loader = 1, tee = 1, snp = 4, microcode = 0x47 }\n";

pub const CASES: &[Case] = &[
    denied("another measurement", &[SnpMeasurementNotListed], |plan| {
        plan.machine.cpu.snp.measurement = [7; 48];
    }),
    denied("other host data", &[SnpHostDataNotListed], |plan| plan.machine.cpu.snp.host_data = [7; 32]),
    denied("host data absent", &[SnpHostDataNotListed], |plan| plan.machine.cpu.snp.host_data = [0; 32]),
    denied("a chip that is not listed", &[SnpChipNotListed], |plan| {
        let chip = hex::encode(plan.machine.cpu.chip.chip_id);
        plan.policy_says(&chip, &"07".repeat(64));
    }),
    all(
        "a masked chip under a list of chips",
        &[SnpChipIdMasked, SnpChipNotListed],
        "what hides its id is not listed",
        |plan| plan.machine.cpu.snp.chip_id = Some([0; 64]),
    ),
    denied("a provider's key under a list of chips", &[SnpNotChipBound], |plan| {
        super::lines::sign_by_provider(plan);
        plan.policy_says("vmpl = 0", "vmpl = 0\nvlek_providers = [\"CN=cloud.example\"]");
    }),
    denied("a line that is not listed", &[SnpLineNotAllowed], |plan| {
        plan.policy_says("lines = [\"genoa\"]", "lines = [\"turin\"]");
        plan.policy_adds(SECOND_TCB);
    }),
    denied("no floor for the model", &[SnpTcbFloorMissing], |plan| {
        plan.policy_says("models = [0x11]", "models = [0xa0]");
    }),
    denied("no floor for the stepping", &[SnpTcbFloorMissing], |plan| {
        plan.policy_says("models = [0x11]", "models = [0x11]\nsteppings = [2]");
    }),
    denied("TCB below the floor", &[SnpTcbBelowFloor], |plan| {
        plan.policy_says(
            "snp = 28, microcode = 84 }",
            "snp = 28, microcode = 89 }\nlaunch = { boot_loader = 10, tee = 0, snp = 28, microcode = 84 }",
        );
    }),
    denied("launched below the floor", &[SnpLaunchTcbBelowFloor], |plan| {
        let mut tcb = plan.machine.cpu.chip.tcb;
        tcb.microcode = 83;
        plan.machine.cpu.snp.launch_tcb = Some(tcb.bytes(plan.vendors.amd.line));
    }),
    denied("SMT on", &[SnpSmtNotAllowed], |plan| plan.policy_says("smt = \"allow\"", "smt = \"refuse\"")),
    denied("CXL memory", &[SnpCxlAllowed], |plan| plan.machine.cpu.snp.policy |= 1 << 21),
    denied("aliases not looked for", &[SnpAliasCheckMissing], |plan| {
        plan.machine.cpu.snp.platform_info = 0x05
    }),
    denied("an unknown bit of PLATFORM_INFO", &[SnpPlatformInfoUnknown], |plan| {
        plan.machine.cpu.snp.platform_info |= 1 << 20;
    }),
    denied("a bit of Turin on Genoa", &[SnpPlatformInfoUnknown], |plan| {
        plan.machine.cpu.snp.platform_info |= 1 << 6;
    }),
    denied("TSME off where it must be on", &[SnpPlatformInfoMismatch], |plan| {
        plan.policy_says("[cpu.snp.code]", "[cpu.snp.platform_info]\nmust = [\"tsme\"]\n\n[cpu.snp.code]");
    }),
    denied("ECC on where it must be off", &[SnpPlatformInfoMismatch], |plan| {
        plan.policy_says("[cpu.snp.code]", "[cpu.snp.platform_info]\nmust_not = [\"ecc\"]\n\n[cpu.snp.code]");
    }),
    denied("ciphertext in sight", &[SnpCiphertextHidingMissing], |plan| {
        plan.policy_says("vmpl = 0", "vmpl = 0\nrequire_ciphertext_hiding = true");
    }),
    denied("ciphertext hiding on and not demanded", &[SnpCiphertextHidingMissing], |plan| {
        plan.policy_says("vmpl = 0", "vmpl = 0\nrequire_ciphertext_hiding = true");
        plan.machine.cpu.snp.platform_info |= 1 << 4;
    }),
    denied("pages may be swapped", &[SnpPageSwapAllowed], |plan| {
        plan.policy_says("vmpl = 0", "vmpl = 0\nrequire_page_swap_disable = true");
    }),
    denied("firmware that is not committed", &[SnpProvisionalFirmware], |plan| {
        let mut tcb = plan.machine.cpu.chip.tcb;
        tcb.microcode += 1;
        plan.machine.cpu.snp.current_tcb = Some(tcb.bytes(plan.vendors.amd.line));
    }),
    denied("a report of version 2", &[SnpReportVersion2], |plan| plan.machine.cpu.snp.version = 2),
    denied("an ID key that is not listed", &[SnpIdKeyNotListed], |plan| {
        id_keys(plan, 0);
        plan.machine.cpu.snp.id_key_digest = [4; 48];
    }),
    denied("no ID key", &[SnpIdKeyNotListed], |plan| id_keys(plan, 0)),
    denied("an image below the least version", &[SnpGuestSvnBelow], |plan| {
        id_keys(plan, 4);
        plan.machine.cpu.snp.id_key_digest = [3; 48];
        plan.machine.cpu.snp.guest_svn = 3;
    }),
    denied("an architecture that is not listed", &[GpuArchitectureNotListed], |plan| {
        plan.policy_says("architectures = [\"hopper\"]", "architectures = [\"blackwell\"]");
    }),
    denied("a driver that is too old", &[GpuDriverBelow], |plan| {
        plan.policy_says("driver_least = \"580.65.06\"", "driver_least = \"580.82.08\"");
    }),
    denied("a VBIOS that is not listed", &[GpuVbiosNotListed], |plan| {
        plan.policy_says("96.00.9F.00.01", "96.00.9F.00.02");
    }),
    denied("a GPU that is not listed", &[GpuChipNotListed], |plan| {
        let pdi = hex::encode(plan.machine.gpus[0].gpu.pdi);
        plan.policy_says(&pdi, "0707070707070707");
    }),
    denied("a combination that nobody supports", &[CombinationNotSupported], |plan| {
        plan.policy_says("driver_least = \"580.65.06\"", "driver_least = \"550.54.14\"");
        let vbios = plan.gpu().vbios;
        *plan.gpu() = claviger::sim::GpuFields::running("550.90.07", vbios);
        plan.facts.driver_version = "550.90.07".to_string();
    }),
    denied("an audience that is not listed", &[AudienceNotListed], |plan| {
        plan.head.audience = Some("https://elsewhere.example".parse().unwrap());
    }),
    denied("a KEM that is not listed", &[KemNotListed], |plan| {
        plan.head.kem = Kem::X25519;
        plan.head.transport_key = TransportKey::generate(Kem::X25519).public().to_vec();
    }),
    denied("a key that the policy does not select", &[PolicyNoMatch], |plan| {
        plan.head.keys.push("data/llama".parse().unwrap());
    }),
    denied("a policy of another tenant", &[PolicyNoMatch], |plan| {
        plan.head.tenant = "emca".parse().unwrap();
    }),
];

/// Lets ID keys fix the code, in the place of measurements.
fn id_keys(plan: &mut Plan, svn: u32) {
    let measurement = hex::encode(plan.machine.cpu.snp.measurement);
    let keys = format!("id_key_digests = [\"{}\"]\nguest_svn_least = {svn}", "03".repeat(48));
    plan.policy_says(&format!("measurements = [\"{measurement}\"]"), &keys);
}

#[test]
fn what_the_policy_allows_by_name_is_granted() {
    let granted: &[(&str, Change)] = &[
        ("ID key and version", |plan| {
            id_keys(plan, 3);
            plan.machine.cpu.snp.id_key_digest = [3; 48];
            plan.machine.cpu.snp.guest_svn = 3;
        }),
        ("CXL", |plan| {
            plan.policy_says("vmpl = 0", "vmpl = 0\nallow_cxl = true");
            plan.machine.cpu.snp.policy |= 1 << 21;
        }),
        ("provisional firmware", |plan| {
            plan.policy_says("vmpl = 0", "vmpl = 0\nallow_provisional_firmware = true");
            plan.machine.cpu.snp.current_version = [41, 55, 1];
        }),
        ("version 2", |plan| {
            plan.policy_says("vmpl = 0", "vmpl = 0\nallow_report_version_2 = true");
            plan.machine.cpu.snp.version = 2;
        }),
        ("VMPL 1", |plan| {
            plan.policy_says("vmpl = 0", "vmpl = 1");
            plan.machine.cpu.snp.vmpl = 1;
        }),
        ("x25519", |plan| {
            plan.policy_says("kem = [\"x-wing\"]", "kem = [\"x-wing\", \"x25519\"]");
            plan.head.kem = Kem::X25519;
            plan.head.transport_key = TransportKey::generate(Kem::X25519).public().to_vec();
        }),
        ("a combination by name", |plan| {
            plan.policy_says("driver_least = \"580.65.06\"", "driver_least = \"550.54.14\"");
            plan.policy_adds(
                "\n[[gpu.combinations]]\nline = \"genoa\"\narchitecture = \"hopper\"\ndriver_branch = 550\n\
                 vbios = \"96.00.9F.00.01\"\n",
            );
            let vbios = plan.gpu().vbios;
            *plan.gpu() = claviger::sim::GpuFields::running("550.90.07", vbios);
            plan.facts.driver_version = "550.90.07".to_string();
        }),
        ("ciphertext hiding", |plan| {
            plan.policy_says("vmpl = 0", "vmpl = 0\nrequire_ciphertext_hiding = true");
            plan.machine.cpu.snp.platform_info |= 1 << 4;
            plan.machine.cpu.snp.policy |= 1 << 24;
        }),
        ("no pages swapped", |plan| {
            plan.policy_says("vmpl = 0", "vmpl = 0\nrequire_page_swap_disable = true");
            plan.machine.cpu.snp.policy |= 1 << 25;
        }),
    ];
    for (name, change) in granted {
        let mut plan = Plan::in_order();
        change(&mut plan);
        let verdict = judged(plan);
        assert_eq!(verdict.outcome, Outcome::Granted, "{name}: {:?}", verdict.reasons);
    }
}

#[test]
fn a_denial_lists_every_unmet_rule_with_what_was_expected_and_what_was_found() {
    let mut plan = Plan::in_order();
    plan.policy_says("smt = \"allow\"", "smt = \"refuse\"");
    plan.policy_says("driver_least = \"580.65.06\"", "driver_least = \"590.48.01\"");
    plan.policy_says("96.00.9F.00.01", "96.00.9F.00.02");
    plan.machine.cpu.snp.measurement = [7; 48];
    plan.device().mig_instances = 2;
    let verdict = judged(plan);
    assert_eq!(verdict.outcome, Outcome::Denied);
    let codes =
        [GpuMigInstance, SnpSmtNotAllowed, SnpMeasurementNotListed, GpuDriverBelow, GpuVbiosNotListed];
    assert_eq!(verdict.codes(), codes);
    let shown = |code| {
        let reason = verdict.reasons.iter().find(|reason| reason.code == code).unwrap();
        (reason.expected.clone().unwrap_or_default(), reason.actual.clone().unwrap_or_default())
    };
    let pair = |expected: &str, actual: &str| (expected.to_string(), actual.to_string());
    assert_eq!(shown(GpuMigInstance), pair("0", "2"));
    assert_eq!(shown(GpuDriverBelow), pair("590.48.01", "580.82.07"));
    assert_eq!(shown(GpuVbiosNotListed), pair("96.00.9F.00.02", "96.00.9F.00.01"));
    let (expected, actual) = shown(SnpMeasurementNotListed);
    assert!(!expected.is_empty(), "a rule says what it expected");
    assert_eq!(actual, "07".repeat(48));
}
