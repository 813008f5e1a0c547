//! Each policy that is shipped, in force in a real service, over its routes: the guest that it describes has its key,
//! and what its table refuses is refused here too. Only what a tenant replaces is replaced.

use claviger::policy::Policy;
use claviger::protocol::facts::Switch;
use claviger::protocol::init_data::InitData;
use claviger::sim::intel::{BootLog, DirectBoot};
use claviger::sim::{Cpu, GpuFields, Machine, SnpGuest, TdxGuest, Vendors};
use claviger::wire::Code;

use super::{AUDIENCE, Guest, Stage};

const GCP_A3: &str = include_str!("../../../policies/gcp-a3-tdx-h100.toml");
const GENOA_H100: &str = include_str!("../../../policies/genoa-h100.toml");
const INIT_DATA: &str = include_str!("../../../deploy/init-data.example.toml");
const QEMU_TDX: &str = include_str!("../../../policies/qemu-tdx-h100-directboot.toml");
const KEY: &str = "models/llama";
/// FMSPC of a Sapphire Rapids server.
const SAPPHIRE_RAPIDS: [u8; 6] = [0, 0x80, 0x6f, 5, 0, 0];

/// Replaces a text that stands there once.
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "{from}");
    text.replace(from, to)
}

/// A stage with a shipped policy in force, and the init data of its guests: the shipped ones, with this service's pins.
struct Shipped {
    stage: Stage,
    policy: Policy,
    init_data: Option<Vec<u8>>,
}

impl Shipped {
    fn new(name: &str, text: &str) -> Self {
        let stage = Stage::new(&format!("shipped-{name}"));
        let pins = stage.identity().public().pins();
        let mut document =
            replaced(INIT_DATA, "mode = \"real\"", &format!("mode = \"{}\"", pins.mode.text()));
        document = replaced(&document, &"0c".repeat(16), &pins.store.to_string());
        document = replaced(&document, &"0a".repeat(32), &pins.roots[0].to_string());
        document = replaced(&document, &"0b".repeat(32), &pins.roots[1].to_string());
        document = replaced(&document, "https://vault.acme.example", AUDIENCE);
        let mut text = replaced(text, "https://vault.acme.example", AUDIENCE);
        let (shipped, own) = (InitData::parse(INIT_DATA.as_bytes()), InitData::parse(document.as_bytes()));
        let (shipped, own) = (shipped.unwrap(), own.unwrap());
        let mut init_data = None;
        for (from, to) in [
            (shipped.register::<48>().to_string(), own.register::<48>().to_string()),
            (shipped.register::<32>().to_string(), own.register::<32>().to_string()),
        ] {
            if init_data.is_none() && text.contains(&format!("\"{from}\"")) {
                text = replaced(&text, &from, &to);
                init_data = Some(document.clone().into_bytes());
            }
        }
        stage.activate(&text);
        stage.enrol("acme", KEY, "models/*");
        Self { stage, policy: Policy::parse(text.as_bytes()).unwrap(), init_data }
    }

    /// Gives the machine the least driver of the policy, and its guest what the policy's tenant would.
    fn guest<C: Cpu>(&self, name: &str, mut machine: Machine<C>) -> Guest<C> {
        let driver = self.policy.gpu.driver_least.to_string();
        for gpu in &mut machine.gpus {
            gpu.fields = GpuFields::running(&driver, gpu.fields.vbios);
        }
        self.stage.publish(name, &machine);
        let mut guest = self.stage.guest_of(machine);
        (guest.tenant, guest.keys) = ("acme".to_string(), vec![KEY.to_string()]);
        if let Some(document) = &self.init_data {
            guest.devices.machine.launch(document).unwrap();
            guest.init_data = Some(document.clone());
        }
        guest
    }

    fn granted<C: Cpu>(&self, mut guest: Guest<C>) {
        let sent = guest.release(&self.stage);
        let reply = self.stage.attest(&sent);
        assert_eq!(self.stage.check_grant(&guest, &sent, &reply).keys.len(), 1);
    }

    fn denied<C: Cpu>(&self, mut guest: Guest<C>, code: Code) {
        let sent = guest.release(&self.stage);
        let denial = self.stage.check_denial(&sent, &self.stage.attest(&sent), code);
        assert_eq!(denial.reasons, [code]);
    }

    /// Runs the guests of a platform: the one that is described, and some of the table.
    fn runs<C: Cpu>(self, machine: impl Fn() -> Machine<C>, other_image: fn(&mut C), other: Code) {
        self.granted(self.guest("as-described", machine()));
        let mut guest = self.guest("mig", machine());
        guest.devices.set_mig(Switch::Off, Switch::On, 0);
        self.denied(guest, Code::GpuMigPending);
        let mut image = machine();
        other_image(&mut image.cpu);
        self.denied(self.guest("image", image), other);
        let mut guest = self.guest("selector", machine());
        guest.keys = vec!["other/key".to_string()];
        self.denied(guest, Code::PolicyNoMatch);
        if self.init_data.is_some() {
            let mut guest = self.guest("no-init-data", machine());
            guest.init_data = None;
            self.denied(guest, Code::InitDataMissing);
        }
        assert_eq!(self.stage.count("released"), 1);
        self.stage.holds();
    }
}

#[test]
fn the_policy_of_genoa_h100_serves_its_guests_over_the_routes() {
    let shipped = Shipped::new("genoa", GENOA_H100);
    assert!(shipped.init_data.is_some());
    let (vendors, policy) = (shipped.stage.vendors, shipped.policy.clone());
    let claviger::policy::document::CodeRules::Measurements { measurements } = policy.cpu.snp.unwrap().code
    else {
        panic!("measurements fix the code")
    };
    let machine = || {
        let mut machine: Machine<SnpGuest> = Machine::new(vendors, 1).unwrap();
        machine.cpu.snp.measurement = *measurements[0].bytes();
        machine
    };
    shipped.runs(machine, |cpu| cpu.snp.measurement[0] ^= 1, Code::SnpMeasurementNotListed);
}

/// A TDX guest with the policy's firmware, booted so.
fn td(vendors: &Vendors, policy: &Policy, boot: fn(&DirectBoot<'_>) -> BootLog) -> Machine<TdxGuest> {
    let mut machine = Machine::tdx(vendors, 1).unwrap();
    machine.cpu.quote.td.mr_td = *policy.cpu.tdx.as_ref().unwrap().code.mr_td[0].bytes();
    machine.cpu.boot = boot(&DirectBoot::default());
    machine
}

#[test]
fn the_policy_of_tdx_booted_directly_serves_its_guests_over_the_routes() {
    let shipped = Shipped::new("qemu", QEMU_TDX);
    assert!(shipped.init_data.is_some());
    let (vendors, policy) = (shipped.stage.vendors, shipped.policy.clone());
    let machine = || td(vendors, &policy, BootLog::direct);
    shipped.runs(machine, |cpu| cpu.quote.td.mr_td[0] ^= 1, Code::TdxMrTdNotListed);
}

#[test]
fn the_policy_of_tdx_on_gcp_serves_its_guests_over_the_routes() {
    let shipped = Shipped::new("gcp", GCP_A3);
    assert!(shipped.init_data.is_none());
    let (vendors, policy) = (shipped.stage.vendors, shipped.policy.clone());
    let intel = &vendors.intel;
    let machine = || {
        let mut machine = td(vendors, &policy, BootLog::grub);
        let cpu = &mut machine.cpu;
        cpu.platform.fmspc = SAPPHIRE_RAPIDS;
        let fields = intel.pck_fields(&cpu.platform).unwrap();
        cpu.platform.chain[0] = intel.pck(&cpu.platform, &fields).unwrap();
        cpu.collateral.tcb_info.fmspc = SAPPHIRE_RAPIDS;
        machine
    };
    shipped.runs(machine, |cpu| cpu.quote.td.mr_td[0] ^= 1, Code::TdxMrTdNotListed);
}
