//! Faults of the guest as the TDX module shows it.

use crate::sim::intel::{QuoteForm, TdxGuest};

/// Bits of TDATTRIBUTES that no guest may have: DEBUG, profiling and the rest of their group.
pub const TUD_BITS: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
/// Bits of TDATTRIBUTES without a meaning.
pub const RESERVED_BITS: [u8; 6] = [8, 15, 23, 26, 32, 61];
/// Bits of TDATTRIBUTES that a policy would have to allow: SERVTD_EXT, newer ones, MIGRATABLE, KL, TPA, PERFMON.
pub const UNUSUAL_BITS: [u8; 7] = [17, 18, 22, 29, 31, 62, 63];
/// SEPT_VE_DISABLE, which must be set.
pub const SEPT_VE_DISABLE: u8 = 28;
/// Bits of XFAM with which the host can trace: PT and LBR.
pub const TRACING_BITS: [u8; 2] = [8, 15];

/// What is wrong with the guest itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TdFault {
    /// A bit of TDATTRIBUTES is the other way round.
    Attribute(u8),
    /// MRSIGNERSEAM is not the one of the module identity.
    ModuleSigner,
    /// The security version of the module is below every level.
    ModuleUnsupported,
    /// The major version of the module has no identity.
    ModuleVersion,
    /// The guest was launched under a module that is out of date; the module has been updated since (version 5).
    Relaunch,
    /// SEAMATTRIBUTES is not zero.
    SeamAttributes,
    /// MRSERVICETD names service TDs (version 5).
    ServiceTd,
    /// The late microcode that TDX counts is older than every level.
    TdxComponent,
    /// A bit of XFAM is the other way round.
    Xfam(u8),
}

impl TdFault {
    /// Lists every fault, bits once each.
    pub fn all() -> Vec<Self> {
        let mut all = vec![
            Self::ModuleSigner,
            Self::ModuleUnsupported,
            Self::ModuleVersion,
            Self::Relaunch,
            Self::SeamAttributes,
            Self::ServiceTd,
            Self::TdxComponent,
            Self::Attribute(SEPT_VE_DISABLE),
        ];
        let bits = TUD_BITS.into_iter().chain(RESERVED_BITS).chain(UNUSUAL_BITS);
        all.extend(bits.map(Self::Attribute));
        all.extend(TRACING_BITS.map(Self::Xfam));
        all
    }

    pub(super) fn apply(self, guest: &mut TdxGuest) {
        let td = &mut guest.quote.td;
        match self {
            Self::Attribute(bit) => td.attributes ^= 1 << bit,
            Self::ModuleSigner => td.mr_signer_seam = [7; 48],
            Self::ModuleUnsupported => td.tee_tcb_svn[0] = 1,
            Self::ModuleVersion => td.tee_tcb_svn[1] = 9,
            Self::Relaunch => {
                let current = td.tee_tcb_svn;
                td.tee_tcb_svn[0] = 6;
                td.tee_tcb_svn_2 = Some(current);
                guest.quote.form = QuoteForm::V5Td15;
            }
            Self::SeamAttributes => td.seam_attributes = 1,
            Self::ServiceTd => {
                td.mr_service_td = [7; 48];
                guest.quote.form = QuoteForm::V5Td15;
            }
            Self::TdxComponent => td.tee_tcb_svn[2] = 1,
            Self::Xfam(bit) => td.xfam ^= 1 << bit,
        }
    }
}
