//! Faults of the quote around the TD report: its form, its signatures, its quoting enclave.

use crate::sim::intel::{QuoteForm, QuotePart, TdxGuest};

/// What is wrong with the quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuoteFault {
    /// A part of the signature data was altered after signing.
    Altered(QuotePart),
    /// The QE report speaks of another attestation key.
    AttestationKeyUnbound,
    /// The body's size is not that of its type (version 5).
    BodySize,
    /// A byte after the last line of the chain.
    ChainEnd,
    /// Certification data of this type in the place of a chain.
    InnerType(u16),
    /// The attestation key is of another type.
    KeyType,
    /// The certification data around the QE report is of this type.
    OuterType(u16),
    /// A byte behind the signature data that is not zero.
    Padding,
    /// An attribute of the quoting enclave is not that of its identity.
    QeAttributes,
    /// The quoting enclave runs in debug mode.
    QeDebug,
    /// MISCSELECT of the quoting enclave is not that of its identity.
    QeMiscSelect,
    /// Another enclave of Intel's signer.
    QeProduct,
    /// Another signer's enclave.
    QeSigner,
    /// The security version of the quoting enclave is below every level.
    QeUnsupported,
    /// The TEE is SGX.
    TeeType,
    /// Another vendor's quoting enclave.
    VendorId,
    /// Version 3, which is SGX alone.
    Version,
}

/// Types of certification data other than a chain as PEM.
pub const INNER_TYPES: [u16; 5] = [1, 2, 3, 4, 7];

impl QuoteFault {
    /// Lists every fault, those with a value once for each value that matters.
    pub fn all() -> Vec<Self> {
        let mut all = vec![
            Self::AttestationKeyUnbound,
            Self::BodySize,
            Self::ChainEnd,
            Self::KeyType,
            Self::OuterType(7),
            Self::Padding,
            Self::QeAttributes,
            Self::QeDebug,
            Self::QeMiscSelect,
            Self::QeProduct,
            Self::QeSigner,
            Self::QeUnsupported,
            Self::TeeType,
            Self::VendorId,
            Self::Version,
        ];
        all.extend(INNER_TYPES.map(Self::InnerType));
        all.extend(QuotePart::ALL.map(Self::Altered));
        all
    }

    pub(super) fn apply(self, guest: &mut TdxGuest) {
        let quote = &mut guest.quote;
        match self {
            Self::Altered(part) => quote.altered.push(part),
            Self::AttestationKeyUnbound => quote.qe.report_data = Some([7; 64]),
            Self::BodySize => {
                quote.form = QuoteForm::V5Td15;
                quote.body_size = Some(584);
            }
            Self::ChainEnd => quote.chain_end.push(b'\n'),
            Self::InnerType(kind) => {
                quote.inner_type = kind;
                // A PPID of the greatest length, encrypted CPUSVN and so on: nobody reads it.
                quote.inner_data = Some(vec![7; 404]);
            }
            Self::KeyType => quote.key_type = 3,
            Self::OuterType(kind) => quote.outer_type = kind,
            Self::Padding => quote.padding = vec![0, 0, 1],
            Self::QeAttributes => quote.qe.attributes[0] |= 1 << 5,
            Self::QeDebug => quote.qe.attributes[0] |= 1 << 1,
            Self::QeMiscSelect => quote.qe.misc_select = 1,
            Self::QeProduct => quote.qe.isv_prod_id = 1,
            Self::QeSigner => quote.qe.mr_signer = [7; 32],
            Self::QeUnsupported => quote.qe.isv_svn = 1,
            Self::TeeType => quote.tee_type = 0,
            Self::VendorId => quote.vendor_id = [7; 16],
            Self::Version => quote.version = Some(3),
        }
    }
}
