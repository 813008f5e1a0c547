//! The CPU's side of a TDX guest as a policy describes it, and its changes.

use claviger::policy::Policy;
use claviger::policy::document::{RegisterValue, TdxRules};
use claviger::policy::line::CpuLine;
use claviger::sim::intel::fault::{CollateralFault, TdFault};
use claviger::sim::intel::{BootEvent, BootLog, DirectBoot, Fault, PlatformTcb};
use claviger::sim::{TdxGuest, Vendors};

/// Event types by their numbers, as records hold them.
const IMAGE: u32 = 0x8000_0003;
const GPT: u32 = 0x8000_0006;
const VARIABLE_STORE: u32 = 0x8000_000a;
/// FMSPC of a Sapphire Rapids server.
const SAPPHIRE_RAPIDS: [u8; 6] = [0, 0x80, 0x6f, 5, 0, 0];

/// A TDX guest, how it boots, and what it records and sends.
pub struct Td {
    pub guest: TdxGuest,
    boot: DirectBoot<'static>,
    grub: bool,
    pub records: usize,
    pub sends_logs: bool,
    pub with_collateral: bool,
}

impl Td {
    /// Makes the guest that a policy describes: one that boots the simulated image, whose digests the shipped policies
    /// have in the place of the tenant's.
    pub fn of(policy: &Policy, rules: &TdxRules) -> Self {
        let vendors = Vendors::shared().unwrap();
        let mut guest = TdxGuest::new(&vendors.intel, PlatformTcb::default()).unwrap();
        guest.quote.td.mr_td = *rules.code.mr_td[0].bytes();
        if let Some(config_id) = rules.workload.mr_config_id.first() {
            guest.quote.td.mr_config_id = *config_id.bytes();
        }
        if policy.gpu.combinations.iter().any(|named| named.line == CpuLine::SapphireRapids) {
            guest.platform.fmspc = SAPPHIRE_RAPIDS;
            let fields = vendors.intel.pck_fields(&guest.platform).unwrap();
            guest.platform.chain[0] = vendors.intel.pck(&guest.platform, &fields).unwrap();
            guest.collateral.tcb_info.fmspc = SAPPHIRE_RAPIDS;
        }
        let grub = match &rules.code.rtmr1 {
            RegisterValue::Events(events) => events.rules.iter().any(|rule| rule.kind.0 == GPT),
            RegisterValue::Digests(_) => false,
        };
        let boot = DirectBoot::default();
        let mut td = Self { guest, boot, grub, records: 1, sends_logs: true, with_collateral: true };
        td.boots(|_| {});
        td
    }

    /// Boots, with a change.
    fn boots(&mut self, change: impl FnOnce(&mut DirectBoot<'static>)) {
        change(&mut self.boot);
        self.guest.boot = if self.grub { BootLog::grub(&self.boot) } else { BootLog::direct(&self.boot) };
    }

    /// Alters what was measured under a type first.
    fn measures_other(&mut self, kind: u32) {
        self.event(kind).digest[0] ^= 1;
    }

    fn event(&mut self, kind: u32) -> &mut BootEvent {
        self.guest.boot.events.iter_mut().find(|event| event.kind == kind).unwrap()
    }

    fn fault(&mut self, fault: Fault) {
        let vendors = Vendors::shared().unwrap();
        fault.apply(&vendors.intel, &mut self.guest, vendors.now).unwrap();
    }

    /// Applies one change by its words; `false` for one that is not known here.
    pub fn change(&mut self, change: &str) -> bool {
        let now = Vendors::shared().unwrap().now;
        match change.split_once(' ').unwrap_or((change, "")) {
            ("debug", "") => self.fault(Fault::Td(TdFault::Attribute(0))),
            ("td", attribute) => {
                let bit = attribute.strip_prefix("attribute ").unwrap().parse().unwrap();
                self.fault(Fault::Td(TdFault::Attribute(bit)));
            }
            ("xfam", bit) => self.fault(Fault::Td(TdFault::Xfam(bit.parse().unwrap()))),
            ("service", "td") => self.fault(Fault::Td(TdFault::ServiceTd)),
            ("other", "firmware") => self.guest.quote.td.mr_td[0] ^= 1,
            ("other", "init data") => self.guest.quote.td.mr_config_id[0] ^= 1,
            ("other", "shape") => self.boots(|boot| boot.shape = b"another machine"),
            ("other", "kernel") => self.boots(|boot| boot.kernel = b"another kernel"),
            ("other", "command line") => self.boots(|boot| boot.command_line = "init=/bin/sh"),
            ("other", "initrd") => self.boots(|boot| boot.initrd = b"another initrd"),
            ("other", "boot loader") => self.measures_other(IMAGE),
            ("other", "variable store") => self.measures_other(VARIABLE_STORE),
            ("second", "kernel") => {
                let mut second = self.event(IMAGE).clone();
                second.digest[0] ^= 1;
                self.guest.boot.events.push(second);
            }
            ("log", "of other boot") => {
                self.guest.show_boot = |_| {
                    BootLog::direct(&DirectBoot { kernel: b"another kernel", ..DirectBoot::default() })
                        .bytes()
                };
            }
            ("no", "log") => self.sends_logs = false,
            ("no", "event") => self.records = 0,
            ("event", "twice") => self.records = 2,
            ("tcb", status) => {
                let known = ["OutOfDate", "Revoked", "SWHardeningNeeded"];
                let status = known.into_iter().find(|known| *known == status).unwrap();
                self.fault(Fault::Collateral(CollateralFault::PlatformStatus(status)));
            }
            ("pck", "revoked") => self.fault(Fault::Collateral(CollateralFault::PckRevoked)),
            ("evaluation", "older") => self.fault(Fault::Collateral(CollateralFault::EvaluationOlder)),
            ("collateral", days) => {
                let days: i64 = days.parse().unwrap();
                self.guest.collateral.tcb_info.issued = now.plus(-days * 86_400);
            }
            ("no", "collateral") => self.with_collateral = false,
            _ => return false,
        }
        true
    }
}
