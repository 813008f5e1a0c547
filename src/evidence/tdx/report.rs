//! The TD report body: what the TDX module says of a TD.

use super::super::Error;
use super::{TdAttributes, Xfam, short};
use crate::wire::Digest;
use crate::wire::reader::Reader;

/// The forms that a TD report body has in a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyForm {
    /// TDX 1.0: type 2, and the only one in a quote of version 4.
    V10,
    /// TDX 1.5: type 3, with the current SVNs and the service TDs.
    V15,
    /// TDX 1.5, extended: type 4.
    V15Extended,
}

impl BodyForm {
    /// Every form.
    pub const ALL: [Self; 3] = [Self::V10, Self::V15, Self::V15Extended];

    /// Returns the body type of a quote of version 5.
    pub const fn body_type(self) -> u16 {
        match self {
            Self::V10 => 2,
            Self::V15 => 3,
            Self::V15Extended => 4,
        }
    }

    /// Returns the bytes of the body.
    pub const fn size(self) -> usize {
        match self {
            Self::V10 => 584,
            Self::V15 => 648,
            Self::V15Extended => 885,
        }
    }

    /// Returns the form of a body type.
    pub(super) fn of(body_type: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.body_type() == body_type)
    }

    /// Returns the name as the claims show it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::V10 => "1.0",
            Self::V15 => "1.5",
            Self::V15Extended => "1.5-extended",
        }
    }
}

/// What type 4 adds. Intel's own library looks at none of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended {
    pub vmid: u8,
    pub td_id: [u8; 32],
    pub dev_info: [u8; 48],
    pub init_service_td_hash: Digest<48>,
    pub init_service_td_attributes: u64,
    pub init_cpu_svn: [u8; 16],
    pub init_tee_tcb_svn: [u8; 16],
    pub init_tee_fmspc: [u8; 12],
    pub cur_service_td_hash: Digest<48>,
    pub cur_service_td_attributes: u64,
}

/// The fields of a TD report, as they stand in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TdReport {
    pub form: BodyForm,
    /// SVNs at launch: 0 the module's, 1 the module's version, 2 the loader of the module and late microcode.
    pub tee_tcb_svn: [u8; 16],
    /// Measurement of the TDX module.
    pub mr_seam: Digest<48>,
    /// Zero for a module of Intel's.
    pub mr_signer_seam: Digest<48>,
    /// In the order of the report, as TCB Info writes it.
    pub seam_attributes: [u8; 8],
    pub attributes: TdAttributes,
    pub xfam: Xfam,
    /// Measurement of the TD's initial memory.
    pub mr_td: Digest<48>,
    /// The host's word, fixed at creation.
    pub mr_config_id: Digest<48>,
    pub mr_owner: Digest<48>,
    pub mr_owner_config: Digest<48>,
    /// Runtime registers 0 to 3.
    pub rtmr: [Digest<48>; 4],
    pub report_data: [u8; 64],
    /// SVNs as they are now; `None` in the form of TDX 1.0.
    pub tee_tcb_svn_2: Option<[u8; 16]>,
    /// Hash over the bound service TDs, zero without any; `None` in the form of TDX 1.0.
    pub mr_service_td: Option<Digest<48>>,
    /// What type 4 adds; `None` in other forms.
    pub extended: Option<Extended>,
}

impl TdReport {
    /// Returns the version of the TDX module that launched the TD: which module identity judges it; 0 for the first
    /// module, which has none.
    pub const fn module_version(&self) -> u8 {
        self.tee_tcb_svn[1]
    }

    /// Returns the hash over the service TDs that are bound to the TD; `None` if there are none.
    pub fn service_td(&self) -> Option<Digest<48>> {
        self.mr_service_td.filter(|hash| !hash.is_zero())
    }

    /// Reads a body.
    ///
    /// Errors: `TdxShort`.
    ///
    /// Source: Intel TDX DCAP Quoting Library API, tables TD Quote Body; type 4 as measured.
    pub(super) fn read(reader: &mut Reader<'_>, form: BodyForm) -> Result<Self, Error> {
        let tee_tcb_svn = reader.array().map_err(short)?;
        let mr_seam = digest(reader)?;
        let mr_signer_seam = digest(reader)?;
        let seam_attributes = reader.array().map_err(short)?;
        let attributes = TdAttributes(reader.u64_le().map_err(short)?);
        let xfam = Xfam(reader.u64_le().map_err(short)?);
        let mr_td = digest(reader)?;
        let mr_config_id = digest(reader)?;
        let mr_owner = digest(reader)?;
        let mr_owner_config = digest(reader)?;
        let rtmr = [digest(reader)?, digest(reader)?, digest(reader)?, digest(reader)?];
        let report_data = reader.array().map_err(short)?;
        let (tee_tcb_svn_2, mr_service_td) = match form {
            BodyForm::V10 => (None, None),
            BodyForm::V15 | BodyForm::V15Extended => {
                (Some(reader.array().map_err(short)?), Some(digest(reader)?))
            }
        };
        let extended = match form {
            BodyForm::V10 | BodyForm::V15 => None,
            BodyForm::V15Extended => Some(extended(reader)?),
        };
        Ok(Self {
            form,
            tee_tcb_svn,
            mr_seam,
            mr_signer_seam,
            seam_attributes,
            attributes,
            xfam,
            mr_td,
            mr_config_id,
            mr_owner,
            mr_owner_config,
            rtmr,
            report_data,
            tee_tcb_svn_2,
            mr_service_td,
            extended,
        })
    }
}

fn digest(reader: &mut Reader<'_>) -> Result<Digest<48>, Error> {
    Ok(Digest::new(reader.array().map_err(short)?))
}

fn extended(reader: &mut Reader<'_>) -> Result<Extended, Error> {
    Ok(Extended {
        vmid: reader.u8().map_err(short)?,
        td_id: reader.array().map_err(short)?,
        dev_info: reader.array().map_err(short)?,
        init_service_td_hash: digest(reader)?,
        init_service_td_attributes: reader.u64_le().map_err(short)?,
        init_cpu_svn: reader.array().map_err(short)?,
        init_tee_tcb_svn: reader.array().map_err(short)?,
        init_tee_fmspc: reader.array().map_err(short)?,
        cur_service_td_hash: digest(reader)?,
        cur_service_td_attributes: reader.u64_le().map_err(short)?,
    })
}
