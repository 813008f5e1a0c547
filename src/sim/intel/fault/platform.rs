//! Faults of the platform: its age, its PCK certificate, its chain.

use super::{DAY_S, When};
use crate::sim::intel::{Intel, PckFields, PckIssuer, PlatformTcb, TdxGuest};
use crate::wire::UnixSeconds;
use crate::wire::crypto::CryptoError;

/// What is wrong with the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlatformFault {
    /// The chain is written leaf last.
    ChainLeafLast,
    /// The chain has a fourth certificate.
    ChainLong,
    /// The chain ends in another root with Intel's names, and is right below it.
    ChainOtherRoot,
    /// The component integers of the PCK certificate are not those of its CPUSVN.
    ComponentsDiffer,
    /// The PCK certificate does not say which model it is for.
    FmspcAbsent,
    /// The platform reaches the second level alone, which is out of date.
    Older,
    /// The PCK certificate's signature does not verify.
    PckForged,
    /// The PCK certificate ended yesterday.
    PckExpired,
    /// The PCK certificate begins tomorrow.
    PckNotYet,
    /// The PCK certificate names another subject.
    PckSubject,
    /// The root signed the PCK certificate itself.
    PckUnderRoot,
    /// The platform is older than every level.
    Unsupported,
}

impl PlatformFault {
    /// Every fault.
    pub const ALL: [Self; 12] = [
        Self::ChainLeafLast,
        Self::ChainLong,
        Self::ChainOtherRoot,
        Self::ComponentsDiffer,
        Self::FmspcAbsent,
        Self::Older,
        Self::PckForged,
        Self::PckExpired,
        Self::PckNotYet,
        Self::PckSubject,
        Self::PckUnderRoot,
        Self::Unsupported,
    ];

    pub(super) fn apply(
        self,
        intel: &Intel,
        guest: &mut TdxGuest,
        now: UnixSeconds,
    ) -> Result<(), CryptoError> {
        let chain = &mut guest.platform.chain;
        match self {
            Self::ChainLeafLast => chain.reverse(),
            Self::ChainLong => chain.push(intel.root.der.clone()),
            Self::ChainOtherRoot => {
                let other = Intel::new(now)?;
                let leaf = other.pck(&guest.platform, &other.pck_fields(&guest.platform)?)?;
                guest.platform.chain = vec![leaf, other.platform_ca.der, other.root.der];
            }
            Self::ComponentsDiffer => recertify(intel, guest, |pck| pck.cpu_svn[0] += 1)?,
            Self::FmspcAbsent => recertify(intel, guest, |pck| pck.omitted.push("4"))?,
            Self::Older => guest.platform = intel.platform(PlatformTcb::older())?,
            Self::PckForged => {
                if let Some(last) = chain.first_mut().and_then(|leaf| leaf.last_mut()) {
                    *last ^= 1;
                }
            }
            Self::PckExpired => {
                recertify(intel, guest, |pck| pck.window = When::Past.window(now, 7 * 365))?;
            }
            Self::PckNotYet => {
                recertify(intel, guest, |pck| pck.window.not_before = now.plus(DAY_S))?;
            }
            Self::PckSubject => {
                recertify(intel, guest, |pck| pck.common_name = "Intel SGX PCK".to_string())?;
            }
            Self::PckUnderRoot => recertify(intel, guest, |pck| pck.under = PckIssuer::Root)?,
            Self::Unsupported => {
                guest.platform = intel.platform(PlatformTcb { components: [1; 16], pcesvn: 1 })?;
            }
        }
        Ok(())
    }
}

/// Gives the platform another PCK certificate for the same key.
fn recertify(
    intel: &Intel,
    guest: &mut TdxGuest,
    change: impl FnOnce(&mut PckFields),
) -> Result<(), CryptoError> {
    let mut fields = intel.pck_fields(&guest.platform)?;
    change(&mut fields);
    let leaf = intel.pck(&guest.platform, &fields)?;
    if let Some(first) = guest.platform.chain.first_mut() {
        *first = leaf;
    }
    Ok(())
}
