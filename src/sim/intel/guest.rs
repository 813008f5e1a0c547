//! A TDX guest: its platform, what was measured in it, what it shows, and what Intel says of it.

use super::event_log::extend;
use super::{BootLog, CollateralFields, Intel, Platform, PlatformTcb, QuoteFields, RuntimeEvent, RuntimeLog};
use crate::wire::UnixSeconds;
use crate::wire::crypto::CryptoError;

/// One confidential VM on a TDX platform. Every field can be changed before evidence is asked for.
#[derive(Debug)]
pub struct TdxGuest {
    pub platform: Platform,
    /// What quotes say; the registers in it follow from what was measured.
    pub quote: QuoteFields,
    /// What the firmware measured.
    pub boot: BootLog,
    /// What was measured since.
    pub runtime: RuntimeLog,
    /// Events that were measured after those of `runtime` and stand in no log.
    pub unlogged: Vec<RuntimeEvent>,
    /// How the guest's software records an event.
    pub recording: Recording,
    /// How the boot log is shown.
    pub show_boot: fn(&BootLog) -> Vec<u8>,
    /// How the runtime log is shown.
    pub show_runtime: fn(&RuntimeLog) -> Vec<u8>,
    /// What Intel says of the platform.
    pub collateral: CollateralFields,
}

/// How a guest's software records an event that it is asked to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// As it is asked to.
    Once,
    /// With another payload.
    Other,
    /// Twice.
    Twice,
    /// Not at all: the guest's kernel lets nobody extend a register.
    Unable,
}

/// Endorsements of a TDX guest as bytes.
#[derive(Clone, Debug)]
pub struct TdxFiles {
    /// A JSON object of strings.
    pub collateral: Vec<u8>,
}

impl TdxGuest {
    /// Makes a guest in order at the time of its vendor, on a platform at that TCB.
    ///
    /// Errors: `NoRandomness`.
    pub fn new(intel: &Intel, tcb: PlatformTcb) -> Result<Self, CryptoError> {
        Self::at(intel, tcb, intel.now)
    }

    /// Makes a guest in order whose collateral is of that time.
    ///
    /// Errors: `NoRandomness`.
    pub fn at(intel: &Intel, tcb: PlatformTcb, now: UnixSeconds) -> Result<Self, CryptoError> {
        Ok(Self {
            platform: intel.platform(tcb)?,
            quote: QuoteFields::default(),
            boot: BootLog::default(),
            runtime: RuntimeLog::default(),
            unlogged: Vec::new(),
            recording: Recording::Once,
            show_boot: BootLog::bytes,
            show_runtime: RuntimeLog::json,
            collateral: CollateralFields::right(now)?,
        })
    }

    /// Measures an event into RTMR3 and logs it, once; says whether both have it.
    pub fn measure(&mut self, event: &str, payload: &[u8]) -> bool {
        let right = RuntimeEvent::new(event, payload);
        match self.recording {
            Recording::Once if self.runtime.events.contains(&right) => {}
            Recording::Once => self.runtime.events.push(right),
            Recording::Other => self.runtime.events.push(RuntimeEvent::new(event, &[7; 48])),
            Recording::Twice => self.runtime.events.extend([right.clone(), right]),
            Recording::Unable => return false,
        }
        true
    }

    /// Returns RTMR0 to RTMR3 as they stand.
    pub fn registers(&self) -> [[u8; 48]; 4] {
        let mut registers = self.boot.registers();
        for event in self.runtime.events.iter().chain(&self.unlogged) {
            if let Some(register) = registers.get_mut(usize::from(event.register)) {
                extend(register, &event.digest);
            }
        }
        registers
    }

    /// Returns a quote over that report data.
    ///
    /// Errors: `NoRandomness`.
    pub fn quote(&self, report_data: [u8; 64]) -> Result<Vec<u8>, CryptoError> {
        let mut fields = self.quote.clone();
        (fields.td.report_data, fields.td.rtmr) = (report_data, self.registers());
        fields.mint(&self.platform)
    }

    /// Returns the boot log that is shown.
    pub fn boot_log(&self) -> Vec<u8> {
        (self.show_boot)(&self.boot)
    }

    /// Returns the runtime log that is shown.
    pub fn runtime_log(&self) -> Vec<u8> {
        (self.show_runtime)(&self.runtime)
    }

    /// Returns the collateral of its platform.
    ///
    /// Errors: `NoRandomness`.
    pub fn files(&self, intel: &Intel) -> Result<TdxFiles, CryptoError> {
        Ok(TdxFiles { collateral: self.collateral.mint(intel)? })
    }
}
