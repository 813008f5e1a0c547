//! Simulated devices: a machine behind the agent's port, with a switch for every fact and every trick of a host.

use super::Vendors;
use super::machine::{Cpu, Machine, MachineGpu, SnpGuest};
use crate::agent::devices::{DeviceError, Devices, Extension, Interface};
use crate::protocol::facts::{Facts, Hint, PciFunction, Switch, Virtualization};
use crate::protocol::message::{Bytes, CpuEvidence, GpuEvidence};
use crate::wire::crypto::CryptoError;
use crate::wire::ids::Pdi;

/// Which GPU evidence is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// Collected over the nonce that was asked for.
    #[default]
    Fresh,
    /// What was recorded before, whatever the nonce is.
    Recorded(Vec<GpuEvidence>),
    /// Collected over a nonce of zeros, as by a binding that cannot pass one.
    ZeroNonce,
    /// Of the first so many GPUs alone.
    FirstOnly(usize),
}

/// A machine as an agent sees it. Every field can be changed at any time.
#[derive(Debug)]
pub struct SimDevices<C = SnpGuest> {
    pub machine: Machine<C>,
    /// What NVML, PCI and the container runtime show. True to the machine until it is changed.
    pub facts: Facts,
    /// What they show from the reading with this number on (the first is 0).
    pub facts_from: Option<(usize, Facts)>,
    /// Another machine whose GPUs are in the place of the own ones from the second reading of facts on.
    pub swapped_gpus: Option<Vec<MachineGpu>>,
    pub shown: Shown,
    /// The guest's own certificates, sent with the CPU evidence: VCEK and chain of an SNP guest.
    pub endorsements: Vec<Vec<u8>>,
    /// Makes every call on facts fail so.
    pub facts_fail: Option<DeviceError>,
    /// Makes every collection from a GPU fail so.
    pub gpu_fails: Option<DeviceError>,
    /// Makes every collection from the CPU fail so.
    pub cpu_fails: Option<DeviceError>,
    /// Makes setting the ready state fail so.
    pub ready_fails: Option<DeviceError>,
    /// Calls so far, in order.
    pub calls: Vec<Call>,
    readings: usize,
}

/// A call on the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Facts,
    Gpu([u8; 32]),
    EventLog,
    Record,
    Cpu([u8; 64]),
    Ready(bool),
}

impl<C: Cpu> SimDevices<C> {
    /// Puts a machine behind the port, with facts that are true to it: whole GPUs in confidential mode, passed through.
    pub fn new(vendors: &Vendors, machine: Machine<C>) -> Self {
        let facts = facts(&machine.gpus);
        Self {
            endorsements: machine.cpu.own(vendors),
            machine,
            facts,
            facts_from: None,
            swapped_gpus: None,
            shown: Shown::Fresh,
            facts_fail: None,
            gpu_fails: None,
            cpu_fails: None,
            ready_fails: None,
            calls: Vec::new(),
            readings: 0,
        }
    }

    /// Adds an NVIDIA GPU to the bus that NVML does not show.
    pub fn hide_second_gpu(&mut self) {
        let number = self.facts.pci_functions.len();
        self.facts.pci_functions.push(PciFunction::of_gpu(number));
    }

    /// Sets MIG on all GPUs: the current mode, the pending one, and the number of instances.
    pub fn set_mig(&mut self, current: Switch, pending: Switch, instances: u32) {
        for device in &mut self.facts.devices {
            device.mig_current = current;
            device.mig_pending = pending;
            device.mig_instances = instances;
        }
    }

    /// Shows the handles of MIG slices in the place of whole GPUs.
    pub fn show_mig_handles(&mut self) {
        for device in &mut self.facts.devices {
            device.uuid = format!("MIG-{}", device.uuid.trim_start_matches("GPU-"));
        }
    }

    /// Sets how all GPUs are given to the guest.
    pub fn set_virtualization(&mut self, virtualization: Virtualization) {
        self.facts.devices.iter_mut().for_each(|device| device.virtualization = virtualization);
    }

    /// Switches the confidential feature, of the system and of all GPUs.
    pub fn set_confidential(&mut self, switch: Switch) {
        self.facts.confidential = switch;
        self.facts.devices.iter_mut().for_each(|device| device.confidential = switch);
    }

    /// Switches DevTools, of the system and of all GPUs.
    pub fn set_devtools(&mut self, switch: Switch) {
        self.facts.devtools = switch;
        self.facts.devices.iter_mut().for_each(|device| device.devtools = switch);
    }

    /// Puts processes on all GPUs.
    pub fn set_processes(&mut self, count: u32) {
        self.facts.devices.iter_mut().for_each(|device| device.compute_processes = count);
    }

    /// States how the container runtime shares GPUs out in time.
    pub fn hint_time_slicing(&mut self) {
        let (name, value) = ("nvidia.com/gpu.sharing-strategy".to_string(), "time-slicing".to_string());
        self.facts.hints.push(Hint { name, value });
    }

    /// States a driver version other than the one that the GPU reports carry.
    pub fn state_driver(&mut self, version: &str) {
        self.facts.driver_version = version.to_string();
    }

    /// Lets the facts change at the reading with this number: 1 is the one after collection, 2 the one before use.
    pub fn change_facts_at(&mut self, reading: usize, change: impl FnOnce(&mut Facts)) {
        let mut facts = self.facts.clone();
        change(&mut facts);
        self.facts_from = Some((reading, facts));
    }

    /// Puts the GPUs of another machine in the place of the own ones after collection.
    pub fn swap_gpus_after_collection(&mut self, other: Machine) {
        self.swapped_gpus = Some(other.gpus);
    }

    /// Records what the GPUs show over that nonce, and shows it from now on whatever is asked for.
    ///
    /// Errors: `NoRandomness`.
    pub fn replay(&mut self, nonce: [u8; 32]) -> Result<(), CryptoError> {
        self.shown = Shown::Recorded(self.collected(nonce)?);
        Ok(())
    }

    /// Starts counting readings anew, as a new run of the agent does.
    pub fn restart(&mut self) {
        self.readings = 0;
        self.calls.clear();
    }

    fn collected(&self, nonce: [u8; 32]) -> Result<Vec<GpuEvidence>, CryptoError> {
        let shown = self.machine.gpu_reports(nonce)?.into_iter();
        Ok(shown.map(|gpu| GpuEvidence { report: gpu.report, chain: gpu.chain_pem }).collect())
    }
}

/// Returns facts that are true to those GPUs: whole, in confidential mode, passed through.
pub fn facts(gpus: &[MachineGpu]) -> Facts {
    let driver = gpus.first().map_or("", |gpu| gpu.fields.driver.as_str());
    let gpu = |MachineGpu { gpu, fields }: &MachineGpu| (Pdi::new(gpu.pdi), fields.vbios_text());
    Facts::whole(driver, &gpus.iter().map(gpu).collect::<Vec<_>>())
}

impl<C: Cpu> Devices for SimDevices<C> {
    fn facts(&mut self) -> Result<Facts, DeviceError> {
        self.calls.push(Call::Facts);
        let reading = self.readings;
        self.readings += 1;
        if let Some(error) = &self.facts_fail {
            return Err(error.clone());
        }
        if reading == 1
            && let Some(gpus) = self.swapped_gpus.take()
        {
            self.facts = facts(&gpus);
            self.machine.gpus = gpus;
        }
        match &self.facts_from {
            Some((from, facts)) if reading >= *from => Ok(facts.clone()),
            Some(_) | None => Ok(self.facts.clone()),
        }
    }

    fn gpu_evidence(&mut self, nonce: &[u8; 32]) -> Result<Vec<GpuEvidence>, DeviceError> {
        self.calls.push(Call::Gpu(*nonce));
        if let Some(error) = &self.gpu_fails {
            return Err(error.clone());
        }
        let failed =
            |error: CryptoError| DeviceError::Failed { interface: Interface::Nvml, what: error.to_string() };
        match &self.shown {
            Shown::Fresh => self.collected(*nonce).map_err(failed),
            Shown::Recorded(recorded) => Ok(recorded.clone()),
            Shown::ZeroNonce => self.collected([0; 32]).map_err(failed),
            Shown::FirstOnly(count) => {
                let all = self.collected(*nonce).map_err(failed)?;
                Ok(all.into_iter().take(*count).collect())
            }
        }
    }

    fn event_log(&mut self) -> Result<Option<Vec<u8>>, DeviceError> {
        self.calls.push(Call::EventLog);
        Ok(self.machine.cpu.boot_log())
    }

    fn record(&mut self, event: &str, payload: &[u8]) -> Result<Extension, DeviceError> {
        self.calls.push(Call::Record);
        match self.machine.cpu.record(event, payload) {
            true => Ok(Extension::Extended),
            false => Ok(Extension::Unable),
        }
    }

    fn cpu_evidence(&mut self, report_data: &[u8; 64]) -> Result<CpuEvidence, DeviceError> {
        self.calls.push(Call::Cpu(*report_data));
        if let Some(error) = &self.cpu_fails {
            return Err(error.clone());
        }
        let report = self.machine.cpu_report(*report_data).map_err(|error| DeviceError::Failed {
            interface: Interface::ConfigfsTsm,
            what: error.to_string(),
        })?;
        let endorsements = self.endorsements.iter().cloned().map(Bytes).collect();
        let runtime_log = self.machine.cpu.runtime_log().map(Bytes);
        Ok(CpuEvidence { runtime_log, ..CpuEvidence::without_logs(C::KIND, report, endorsements) })
    }

    fn set_ready(&mut self, ready: bool) -> Result<(), DeviceError> {
        self.calls.push(Call::Ready(ready));
        match &self.ready_fails {
            Some(error) => Err(error.clone()),
            None => {
                self.facts.ready = match ready {
                    true => Switch::On,
                    false => Switch::Off,
                };
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(gpus: usize) -> SimDevices {
        let vendors = Vendors::shared().unwrap();
        SimDevices::new(vendors, Machine::new(vendors, gpus).unwrap())
    }

    #[test]
    fn facts_are_those_of_the_machine_and_parse() {
        let mut devices = devices(2);
        let facts = devices.facts().unwrap();
        assert_eq!(Facts::parse(&facts.bytes().unwrap()), Ok(facts.clone()));
        assert_eq!(facts.devices.len(), 2);
        assert_eq!(facts.devices[1].pdi.bytes(), &devices.machine.gpus[1].gpu.pdi);
        assert_eq!(facts.driver_version, devices.machine.gpus[0].fields.driver);
        assert_ne!(facts.devices[0].uuid, facts.devices[1].uuid);
    }

    #[test]
    fn each_switch_changes_the_facts() {
        let switches: [fn(&mut SimDevices); 9] = [
            |d| d.hide_second_gpu(),
            |d| d.set_mig(Switch::Off, Switch::On, 0),
            |d| d.show_mig_handles(),
            |d| d.set_virtualization(Virtualization::Vgpu),
            |d| d.set_confidential(Switch::Off),
            |d| d.set_devtools(Switch::On),
            |d| d.set_processes(1),
            |d| d.hint_time_slicing(),
            |d| d.state_driver("1.2.3"),
        ];
        let mut devices = devices(1);
        let right = devices.facts.clone();
        for (at, switch) in switches.iter().enumerate() {
            devices.facts = right.clone();
            switch(&mut devices);
            assert_ne!(devices.facts().unwrap(), right, "{at}");
        }
    }

    #[test]
    fn recorded_evidence_does_not_follow_the_nonce() {
        let mut devices = devices(1);
        let fresh = devices.gpu_evidence(&[1; 32]).unwrap();
        assert_eq!(fresh[0].report[4..36], [1; 32]);
        devices.replay([2; 32]).unwrap();
        let replayed = devices.gpu_evidence(&[1; 32]).unwrap();
        assert_eq!(replayed[0].report[4..36], [2; 32]);
        devices.shown = Shown::ZeroNonce;
        assert_eq!(devices.gpu_evidence(&[1; 32]).unwrap()[0].report[4..36], [0; 32]);
    }

    #[test]
    fn gpus_are_swapped_after_the_first_reading() {
        let mut devices = devices(1);
        let vendors = Vendors::shared().unwrap();
        devices.swap_gpus_after_collection(Machine::new(vendors, 1).unwrap());
        let first = devices.facts().unwrap();
        assert_ne!(devices.facts().unwrap().devices[0].pdi, first.devices[0].pdi);
    }
}
