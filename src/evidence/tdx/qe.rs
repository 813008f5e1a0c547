//! The report of the quoting enclave, which made the attestation key: an SGX report body.

use super::super::Error;
use super::{short, zero};
use crate::wire::Digest;
use crate::wire::reader::Reader;

/// Bytes of the quoting enclave's report.
pub const QE_REPORT_LEN: usize = 384;

/// The fields of the quoting enclave's report. Byte fields stand in the order of the report, as the QE identity writes
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QeReport {
    pub cpu_svn: [u8; 16],
    pub misc_select: [u8; 4],
    /// Flags (8 bytes) and XFRM (8 bytes).
    pub attributes: [u8; 16],
    pub mr_enclave: Digest<32>,
    pub mr_signer: Digest<32>,
    pub isv_prod_id: u16,
    pub isv_svn: u16,
    pub report_data: [u8; 64],
}

impl QeReport {
    /// Tells whether the enclave can be debugged.
    pub const fn debug(&self) -> bool {
        self.attributes[0] & 0x02 != 0
    }

    /// Reads the report.
    ///
    /// Errors: `TdxShort`; `TdxReserved` naming the field.
    ///
    /// Source: Intel SGX Developer Reference, `sgx_report_body_t`.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let cpu_svn = reader.array().map_err(short)?;
        let misc_select = reader.array().map_err(short)?;
        zero(reader, 12, "bytes 20 to 31 of the QE report")?;
        let _isv_ext_prod_id = reader.take(16).map_err(short)?;
        let attributes = reader.array().map_err(short)?;
        let mr_enclave = Digest::new(reader.array().map_err(short)?);
        zero(reader, 32, "bytes 96 to 127 of the QE report")?;
        let mr_signer = Digest::new(reader.array().map_err(short)?);
        zero(reader, 32, "bytes 160 to 191 of the QE report")?;
        let _config_id = reader.take(64).map_err(short)?;
        let isv_prod_id = reader.u16_le().map_err(short)?;
        let isv_svn = reader.u16_le().map_err(short)?;
        let _config_svn = reader.u16_le().map_err(short)?;
        zero(reader, 42, "bytes 262 to 303 of the QE report")?;
        let _isv_family_id = reader.take(16).map_err(short)?;
        let report_data = reader.array().map_err(short)?;
        Ok(Self {
            cpu_svn,
            misc_select,
            attributes,
            mr_enclave,
            mr_signer,
            isv_prod_id,
            isv_svn,
            report_data,
        })
    }
}
