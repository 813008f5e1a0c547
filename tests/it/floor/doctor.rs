//! What `claviger doctor` says in the guest beside what the floor of the service says, for each state of the facts.

use claviger::agent::SystemClock;
use claviger::agent::devices::{DeviceError, Devices, Extension, Inspect, Parts, Register, ReportInterface};
use claviger::agent::doctor::{Diagnosis, Look, Memory, examine};
use claviger::protocol::facts::Facts;
use claviger::protocol::message::{CpuEvidence, GpuEvidence};
use claviger::sim::SimDevices;
use claviger::wire::Code::{self, *};

use super::{facts, sorted, verdict};
use crate::support::Plan;

/// Cases that evidence decides, with what facts alone tell of them.
const BESIDE_EVIDENCE: &[(&str, &[Code])] = &[
    // An agent collects from the devices that the facts have: none.
    ("no device at all", &[GpuEvidenceMissing]),
    ("a driver of another version", &[]),
    ("a VBIOS of another version", &[]),
    ("another device", &[]),
    ("one device listed twice", &[GpuDuplicateDevice]),
];

/// A simulated machine that is looked at.
struct Looked(SimDevices);

impl Devices for Looked {
    fn facts(&mut self) -> Result<Facts, DeviceError> {
        self.0.facts()
    }

    fn gpu_evidence(&mut self, nonce: &[u8; 32]) -> Result<Vec<GpuEvidence>, DeviceError> {
        self.0.gpu_evidence(nonce)
    }

    fn event_log(&mut self) -> Result<Option<Vec<u8>>, DeviceError> {
        self.0.event_log()
    }

    fn record(&mut self, event: &str, _: &[u8]) -> Result<Extension, DeviceError> {
        panic!("{event} is recorded by somebody who only looks")
    }

    fn cpu_evidence(&mut self, report_data: &[u8; 64]) -> Result<CpuEvidence, DeviceError> {
        self.0.cpu_evidence(report_data)
    }

    fn set_ready(&mut self, ready: bool) -> Result<(), DeviceError> {
        panic!("ready is set to {ready} by somebody who only looks")
    }
}

impl Inspect for Looked {
    fn parts(&mut self) -> Parts {
        Parts::of(self.facts())
    }

    fn report_interface(&mut self) -> Result<ReportInterface, DeviceError> {
        Ok(ReportInterface::Simulated)
    }

    fn register(&mut self) -> Result<Register, DeviceError> {
        Ok(Register::Untold)
    }
}

fn diagnosis(plan: Plan) -> Diagnosis {
    let mut devices = SimDevices::new(plan.vendors, plan.machine);
    devices.facts = plan.facts;
    let look = Look { config: None, memory: Memory::Locked, ask: false, simulated: true };
    examine(&look, &mut Looked(devices), &SystemClock)
}

#[test]
fn the_doctor_says_of_each_state_of_the_facts_what_the_floor_says() {
    let mut compared = 0;
    for case in facts::CASES {
        let mut plan = (case.base)();
        (case.change)(&mut plan);
        // A document that does not parse is none that an agent writes.
        if plan.facts_bytes.is_some() {
            continue;
        }
        let beside = BESIDE_EVIDENCE.iter().find(|(name, _)| *name == case.name);
        let expected = match beside {
            Some((_, codes)) => codes.to_vec(),
            None => verdict(case).codes(),
        };
        let found = diagnosis(plan);
        assert_eq!(sorted(&found.codes), sorted(&expected), "{}: {:?}", case.name, found.sections);
        assert_eq!(found.status == 1, !expected.is_empty(), "{}: {:?}", case.name, found.sections);
        compared += 1;
    }
    assert!(compared >= 30, "{compared}");
}

#[test]
fn a_case_that_evidence_decides_is_a_case() {
    for (name, _) in BESIDE_EVIDENCE {
        assert!(facts::CASES.iter().any(|case| case.name == *name), "{name}");
    }
}

#[test]
fn a_guest_in_order_has_nothing_against_it() {
    let found = diagnosis(Plan::in_order());
    assert_eq!((found.status, found.codes), (0, Vec::new()), "{:?}", found.sections);
    assert!(found.facts.is_some());
}
