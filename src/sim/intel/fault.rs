//! Everything that can be wrong with a TDX guest, its platform, its logs or what Intel says of it, one at a time.

mod collateral;
mod log;
mod platform;
mod quote;
mod td;

use super::{Intel, TdxGuest};
use crate::wire::crypto::CryptoError;
use crate::wire::{UnixSeconds, Window};

pub use collateral::{CollateralFault, Item};
pub use log::LogFault;
pub use platform::PlatformFault;
pub use quote::QuoteFault;
pub use td::TdFault;

const DAY_S: i64 = super::DAY_S;

/// One thing that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// What Intel says.
    Collateral(CollateralFault),
    /// What the logs show.
    Log(LogFault),
    /// The platform, its certificate, its chain.
    Platform(PlatformFault),
    /// The form of the quote, its signatures, its quoting enclave.
    Quote(QuoteFault),
    /// What the TDX module says of the guest.
    Td(TdFault),
}

impl Fault {
    /// Lists every fault, those with a value once for each value that matters.
    pub fn all() -> Vec<Self> {
        let collateral = CollateralFault::all().into_iter().map(Self::Collateral);
        let log = LogFault::ALL.into_iter().map(Self::Log);
        let platform = PlatformFault::ALL.into_iter().map(Self::Platform);
        let quote = QuoteFault::all().into_iter().map(Self::Quote);
        let td = TdFault::all().into_iter().map(Self::Td);
        collateral.chain(log).chain(platform).chain(quote).chain(td).collect()
    }

    /// Makes this wrong with a guest that was in order at that time.
    ///
    /// Errors: `NoRandomness`.
    pub fn apply(self, intel: &Intel, guest: &mut TdxGuest, now: UnixSeconds) -> Result<(), CryptoError> {
        match self {
            Self::Collateral(fault) => fault.apply(intel, guest, now),
            Self::Log(fault) => {
                fault.apply(guest);
                Ok(())
            }
            Self::Platform(fault) => fault.apply(intel, guest, now),
            Self::Quote(fault) => {
                fault.apply(guest);
                Ok(())
            }
            Self::Td(fault) => {
                fault.apply(guest);
                Ok(())
            }
        }
    }
}

/// Where a time lies against a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The window ended yesterday.
    Past,
    /// The window begins tomorrow.
    Future,
}

impl When {
    /// Returns a window of that many days.
    fn window(self, now: UnixSeconds, days: i64) -> Window {
        let not_before = match self {
            Self::Past => now.plus(-(days + 1) * DAY_S),
            Self::Future => now.plus(DAY_S),
        };
        Window { not_before, not_after: not_before.plus(days * DAY_S) }
    }
}
