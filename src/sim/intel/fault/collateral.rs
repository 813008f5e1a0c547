//! Faults of what Intel says: statuses, revocation, dates, identities, signatures.

use super::When;
use crate::sim::intel::collateral::{CollateralPart, ListFields, PckList};
use crate::sim::intel::{Intel, TdxGuest};
use crate::wire::UnixSeconds;
use crate::wire::crypto::CryptoError;

/// The statuses of platform levels other than the good one, as Intel writes them.
pub const PLATFORM_STATUSES: [&str; 6] = [
    "SWHardeningNeeded",
    "ConfigurationNeeded",
    "ConfigurationAndSWHardeningNeeded",
    "OutOfDate",
    "OutOfDateConfigurationNeeded",
    "Revoked",
];
/// The statuses of module levels other than the good one.
pub const MODULE_STATUSES: [&str; 2] = ["OutOfDate", "Revoked"];
/// The statuses of QE levels other than the good one.
pub const QE_STATUSES: [&str; 4] =
    ["ConfigurationNeeded", "OutOfDate", "OutOfDateConfigurationNeeded", "Revoked"];
/// The advisory of a level that is not good.
pub const ADVISORY: &str = "INTEL-SA-00837";
/// An evaluation data number of an earlier recovery.
pub const OLDER_EVALUATION: u32 = 16;

/// An item of the collateral that has a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    PckList,
    QeIdentity,
    RootList,
    TcbInfo,
    /// The certificate that signs TCB info and QE identity.
    TcbSigner,
}

impl Item {
    /// Every item.
    pub const ALL: [Self; 5] =
        [Self::PckList, Self::QeIdentity, Self::RootList, Self::TcbInfo, Self::TcbSigner];
}

/// What is wrong with the collateral.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollateralFault {
    /// The item is outside its window.
    Dated(Item, When),
    /// TCB info and QE identity are of an older recovery.
    EvaluationOlder,
    /// The signature of the item does not verify.
    Forged(CollateralPart),
    /// TCB info is for another FMSPC.
    FmspcOther,
    /// The identity of the TDX module's version is missing.
    ModuleAbsent,
    /// The level of the module has this status.
    ModuleStatus(&'static str),
    /// TCB info is for another PCEID.
    PceidOther,
    /// The list of PCK certificates is that of another authority.
    PckListOther,
    /// The PCK certificate is on its authority's list.
    PckRevoked,
    /// The Platform CA is on the root's list.
    PlatformCaRevoked,
    /// The level of the platform has this status, with an advisory.
    PlatformStatus(&'static str),
    /// The QE identity is that of the SGX quoting enclave.
    QeIdentityOfSgx,
    /// The level of the quoting enclave has this status.
    QeStatus(&'static str),
    /// The root is on its own list.
    RootRevoked,
    /// TCB info is that of SGX.
    TcbInfoOfSgx,
    /// The TCB signing certificate is on the root's list.
    TcbSignerRevoked,
}

impl CollateralFault {
    /// Lists every fault, those with a value once for each value that matters.
    pub fn all() -> Vec<Self> {
        let mut all = vec![
            Self::EvaluationOlder,
            Self::FmspcOther,
            Self::ModuleAbsent,
            Self::PceidOther,
            Self::PckListOther,
            Self::PckRevoked,
            Self::PlatformCaRevoked,
            Self::QeIdentityOfSgx,
            Self::RootRevoked,
            Self::TcbInfoOfSgx,
            Self::TcbSignerRevoked,
        ];
        for item in Item::ALL {
            all.extend([When::Past, When::Future].map(|when| Self::Dated(item, when)));
        }
        all.extend(CollateralPart::ALL.map(Self::Forged));
        all.extend(PLATFORM_STATUSES.map(Self::PlatformStatus));
        all.extend(MODULE_STATUSES.map(Self::ModuleStatus));
        all.extend(QE_STATUSES.map(Self::QeStatus));
        all
    }

    pub(super) fn apply(
        self,
        intel: &Intel,
        guest: &mut TdxGuest,
        now: UnixSeconds,
    ) -> Result<(), CryptoError> {
        let pck = guest.platform.pck_serial();
        let given = &mut guest.collateral;
        let (info, identity) = (&mut given.tcb_info, &mut given.qe_identity);
        let advisory = || vec![ADVISORY.to_string()];
        match self {
            Self::Dated(item, when) => return dated(item, when, intel, guest, now),
            Self::EvaluationOlder => {
                (info.evaluation, identity.evaluation) = (OLDER_EVALUATION, OLDER_EVALUATION);
            }
            Self::Forged(part) => given.forged.push(part),
            Self::FmspcOther => info.fmspc = [0x90, 0xc0, 0x6f, 0, 0, 0],
            Self::ModuleAbsent => info.identities.retain(|module| module.id != "TDX_01"),
            Self::ModuleStatus(status) => {
                let levels = info.identities.iter_mut().flat_map(|module| module.levels.first_mut());
                levels.for_each(|level| (level.status, level.advisories) = (status.to_string(), advisory()));
            }
            Self::PceidOther => info.pceid = [0, 1],
            Self::PckListOther => given.pck_list_of = PckList::Processor,
            Self::PckRevoked => given.pck_list.revoked.push(pck),
            Self::PlatformCaRevoked => given.root_list.revoked.push(intel.platform_ca.serial.clone()),
            Self::PlatformStatus(status) => {
                let levels = info.levels.first_mut().into_iter();
                levels.for_each(|level| (level.status, level.advisories) = (status.to_string(), advisory()));
            }
            Self::QeIdentityOfSgx => identity.id = "QE".to_string(),
            Self::QeStatus(status) => {
                let levels = identity.levels.first_mut().into_iter();
                levels.for_each(|level| (level.status, level.advisories) = (status.to_string(), advisory()));
            }
            Self::RootRevoked => given.root_list.revoked.push(intel.root.serial.clone()),
            Self::TcbInfoOfSgx => info.id = "SGX".to_string(),
            Self::TcbSignerRevoked => given.root_list.revoked.push(intel.tcb_signer.serial.clone()),
        }
        Ok(())
    }
}

fn dated(
    item: Item,
    when: When,
    intel: &Intel,
    guest: &mut TdxGuest,
    now: UnixSeconds,
) -> Result<(), CryptoError> {
    let given = &mut guest.collateral;
    let window = when.window(now, 30);
    let list = |list: &mut ListFields| {
        (list.this_update, list.next_update) = (window.not_before, Some(window.not_after));
    };
    match item {
        Item::PckList => list(&mut given.pck_list),
        Item::QeIdentity => {
            let identity = &mut given.qe_identity;
            (identity.issued, identity.next_update) = (window.not_before, window.not_after);
        }
        Item::RootList => list(&mut given.root_list),
        Item::TcbInfo => {
            (given.tcb_info.issued, given.tcb_info.next_update) = (window.not_before, window.not_after);
        }
        Item::TcbSigner => given.tcb_signer = Some(intel.signer_of(when.window(now, 7 * 365))?),
    }
    Ok(())
}
