//! The measurement report of an NVIDIA GPU.

use std::ops::Deref;

use super::opaque::{FeatureFlag, Opaque, ProtectedPcie};
use crate::evidence::Error;
use crate::evidence::spdm::Spdm;

/// GPU architectures whose reports are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Architecture {
    Blackwell,
    Hopper,
}

impl Architecture {
    /// Finds the architecture of a GPU_INFO value.
    pub fn of_gpu_info(gpu_info: u64) -> Option<Self> {
        match gpu_info {
            0x180 => Some(Self::Hopper),
            0x1a0 => Some(Self::Blackwell),
            _ => None,
        }
    }

    /// Returns the chip's name as certificates and RIM documents write it.
    pub fn chip(self) -> &'static str {
        match self {
            Self::Blackwell => "GB100",
            Self::Hopper => "GH100",
        }
    }

    /// Returns the name as evidence lists and results write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Blackwell => "BLACKWELL",
            Self::Hopper => "HOPPER",
        }
    }
}

/// The operating mode that the signed signs name together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The signs disagree.
    Contradictory,
    /// Multi-GPU passthrough with encrypted NVLink.
    Mpt,
    /// Protected PCIe: a whole HGX node.
    Ppcie,
    /// Single passthrough: one whole GPU.
    Spt,
    /// No sign, or a sign with an unknown value. Never read as single.
    Unknown,
}

impl Mode {
    /// Returns the name as results write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Contradictory => "contradictory",
            Self::Mpt => "mpt",
            Self::Ppcie => "ppcie",
            Self::Spt => "spt",
            Self::Unknown => "unknown",
        }
    }
}

/// A parsed GPU report with the very bytes it came in. Nothing of it is believed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    spdm: Spdm,
    pub opaque: Opaque,
}

impl Deref for Report {
    type Target = Spdm;

    fn deref(&self) -> &Spdm {
        &self.spdm
    }
}

impl Report {
    /// Parses a GPU report.
    ///
    /// Shape: that of `Spdm::parse` with 64 blocks.
    ///
    /// Errors: those of `Spdm::parse`; `GpuSwitch` for the well-formed report of an NVSwitch; `GpuFieldSize`,
    /// `GpuFieldText` and `GpuOpaqueVersion` for the opaque fields.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let (spdm, fields) = Spdm::parse(bytes)?;
        if spdm.is_of_switch() {
            return Err(Error::GpuSwitch);
        }
        let opaque = Opaque::of(fields, spdm.measurements.len())?;
        Ok(Self { spdm, opaque })
    }

    /// Returns the architecture that GPU_INFO names.
    ///
    /// Errors: `GpuFieldMissing`, `GpuArchitectureUnknown`.
    pub fn architecture(&self) -> Result<Architecture, Error> {
        let gpu_info = self.opaque.gpu_info.ok_or(Error::GpuFieldMissing { field: "GPU_INFO" })?;
        Architecture::of_gpu_info(gpu_info).ok_or(Error::GpuArchitectureUnknown { gpu_info })
    }

    /// Builds the id of the driver's reference document.
    ///
    /// Shape: `NV_GPU_DRIVER_GH100_` or `NV_GPU_CC_DRIVER_` chip `_`, then the driver version; `A-Z 0-9 _ .`
    /// alone. A Blackwell report without CHIP_INFO counts as `GB100`, as NVIDIA does.
    ///
    /// Errors: `GpuFieldMissing`, `GpuArchitectureUnknown`.
    pub fn driver_rim_id(&self) -> Result<String, Error> {
        let missing = Error::GpuFieldMissing { field: "DRIVER_VERSION" };
        let version = self.opaque.driver_version.as_ref().ok_or(missing)?;
        Ok(match self.architecture()? {
            Architecture::Blackwell => {
                let chip = self.opaque.chip_info.as_deref().unwrap_or(Architecture::Blackwell.chip());
                format!("NV_GPU_CC_DRIVER_{chip}_{version}")
            }
            Architecture::Hopper => format!("NV_GPU_DRIVER_GH100_{version}"),
        })
    }

    /// Builds the id of the VBIOS's reference document.
    ///
    /// Shape: `NV_GPU_VBIOS_` PROJECT `_` PROJECT_SKU `_` CHIP_SKU `_` VBIOS version without dots; `A-Z 0-9
    /// _` alone.
    ///
    /// Errors: `GpuFieldMissing`.
    pub fn vbios_rim_id(&self) -> Result<String, Error> {
        let missing = |field| Error::GpuFieldMissing { field };
        let project = self.opaque.project.as_deref().ok_or(missing("PROJECT"))?;
        let project_sku = self.opaque.project_sku.as_deref().ok_or(missing("PROJECT_SKU"))?;
        let chip_sku = self.opaque.chip_sku.as_deref().ok_or(missing("CHIP_SKU"))?;
        let version = self.opaque.vbios_version.ok_or(missing("VBIOS_VERSION"))?;
        Ok(format!("NV_GPU_VBIOS_{project}_{project_sku}_{chip_sku}_{}", version.rim_part()))
    }

    /// Tells the mode that FEATURE_FLAG, PROTECTED_PCIE_STATUS and SWITCH_PDI name together.
    ///
    /// Drivers before FEATURE_FLAG existed show the other two alone, so no single sign decides, and a sign
    /// that does not fit the others is a contradiction. FEATURE_FLAG came with version 1 of the opaque data:
    /// earlier, it is one too.
    pub fn mode(&self) -> Mode {
        let Opaque { feature_flag, protected_pcie, switch_pdis, opaque_data_version, .. } = &self.opaque;
        if feature_flag.is_some() && opaque_data_version.unwrap_or(0) == 0 {
            return Mode::Contradictory;
        }
        match (feature_flag, protected_pcie, switch_pdis.is_some()) {
            (Some(FeatureFlag::Other(_)), _, _) | (_, Some(ProtectedPcie::Other(_)), _) => Mode::Unknown,
            (None, None, false) => Mode::Unknown,
            (Some(FeatureFlag::Spt), None | Some(ProtectedPcie::Off), false)
            | (None, Some(ProtectedPcie::Off), false) => Mode::Spt,
            (Some(FeatureFlag::Mpt), None, false) => Mode::Mpt,
            (Some(FeatureFlag::Ppcie), None | Some(ProtectedPcie::On), true)
            | (None, Some(ProtectedPcie::On), true) => Mode::Ppcie,
            (
                None | Some(FeatureFlag::Mpt | FeatureFlag::Ppcie | FeatureFlag::Spt),
                None | Some(ProtectedPcie::Off | ProtectedPcie::On),
                true | false,
            ) => Mode::Contradictory,
        }
    }

    /// Returns the first RIM index where MSRSCNT and value disagree: a value is zero exactly if it was never
    /// extended. A disagreement means a damaged or foreign report.
    pub fn miscounted(&self) -> Option<usize> {
        self.spdm.miscounted(self.opaque.measurement_counts.as_deref()?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::built::{Built, block};
    use super::*;
    use crate::wire::ids::Pdi;
    use crate::wire::{Code, Digest, limits};

    fn built(change: impl FnOnce(&mut Built)) -> Result<Report, Error> {
        let mut built = Built::hopper();
        change(&mut built);
        Report::parse(&built.bytes())
    }

    fn refused(change: impl FnOnce(&mut Built)) -> Code {
        built(change).unwrap_err().code()
    }

    #[test]
    fn a_well_formed_report_gives_its_fields() {
        let report = built(|_| {}).unwrap();
        assert_eq!(report.request_nonce, [7; 32]);
        assert_eq!(report.measurements.len(), 64);
        assert_eq!(report.measurements[9], Digest::new([9; 48]), "RIM index 9 is block 10");
        assert_eq!(report.architecture(), Ok(Architecture::Hopper));
        assert_eq!(report.driver_rim_id().unwrap(), "NV_GPU_DRIVER_GH100_550.90.07");
        assert_eq!(report.vbios_rim_id().unwrap(), "NV_GPU_VBIOS_1010_0200_882_96009F0001");
        assert_eq!(report.opaque.fwid, Some(Digest::new([0xf1; 48])));
        assert_eq!(report.opaque.unknown, Vec::<u16>::new());
        assert_eq!(report.mode(), Mode::Spt);
        assert_eq!(report.miscounted(), None);
        assert_eq!([report.signed(), report.signature()].concat(), report.bytes());
    }

    #[test]
    fn every_prefix_and_every_longer_text_is_refused() {
        let good = Built::hopper().bytes();
        for len in 0..good.len() {
            assert!(Report::parse(&good[..len]).is_err(), "{len} bytes");
        }
        for trailing in [1, 2, 96] {
            assert_eq!(refused(|built| built.trailing = vec![0; trailing]), Code::GpuReportTrailing);
        }
    }

    #[test]
    fn no_change_of_one_byte_panics_and_framing_is_never_ignored() {
        let good = Built::hopper().bytes();
        let constants = [0, 1, 2, 3, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51];
        for at in 0..good.len() {
            for bit in [1, 0x80] {
                let mut bytes = good.clone();
                bytes[at] ^= bit;
                let parsed = Report::parse(&bytes);
                assert!(parsed.is_err() || !constants.contains(&at), "byte {at}");
            }
        }
    }

    #[test]
    fn a_report_is_at_most_as_long_as_the_driver_can_give() {
        let padded = |len: usize| {
            let mut built = Built::hopper();
            let used = built.bytes().len() + 4;
            built.set(32, &vec![0; len - used]);
            built.bytes()
        };
        assert!(Report::parse(&padded(limits::GPU_REPORT_LEN_MAX)).is_ok());
        let long = Report::parse(&padded(limits::GPU_REPORT_LEN_MAX + 1));
        assert_eq!(long, Err(Error::GpuReportLength { len: limits::GPU_REPORT_LEN_MAX + 1 }));
    }

    #[test]
    fn each_length_off_by_one_is_refused() {
        for count in [0, 1, 30, 32, 63, 65, 255] {
            assert_eq!(
                refused(|built| built.count = Some(count)),
                Code::GpuReportMalformed,
                "{count} blocks"
            );
        }
        for record_len in [0, 3519, 3521, 0xff_ffff] {
            assert_eq!(refused(|built| built.record_len = Some(record_len)), Code::GpuReportMalformed);
        }
        for (at, value) in [(2, 50), (2, 52), (3, 1), (5, 47), (5, 49), (6, 1)] {
            assert_eq!(refused(|built| built.blocks[20][at] = value), Code::GpuReportMalformed);
        }
        let opaque_len = u16::try_from(Built::hopper().signed().len() - 3599).unwrap();
        assert!(built(|built| built.opaque_len = Some(opaque_len)).is_ok());
        for (len, code) in [
            (opaque_len - 1, Code::GpuReportTrailing),
            (opaque_len + 1, Code::GpuReportMalformed),
            (opaque_len + 96, Code::GpuReportMalformed),
            (u16::MAX, Code::GpuReportMalformed),
        ] {
            assert_eq!(refused(|built| built.opaque_len = Some(len)), code, "opaque length {len}");
        }
    }

    #[test]
    fn blocks_are_numbered_from_one_upwards() {
        for (at, number) in [(0, 0), (1, 1), (1, 3), (63, 63), (63, 65)] {
            let error = built(|built| built.blocks[at][0] = number).unwrap_err();
            assert!(matches!(error, Error::GpuBlock { field: "number", .. }), "{error}");
        }
        assert_eq!(refused(|built| built.blocks.reverse()), Code::GpuReportMalformed);
        assert_eq!(refused(|built| built.blocks.swap(3, 4)), Code::GpuReportMalformed);
    }

    #[test]
    fn blocks_are_digests_of_mutable_firmware_by_dmtf() {
        assert_eq!(refused(|built| built.blocks[0][1] = 2), Code::GpuReportMalformed);
        for kind in [0, 2, 0x81] {
            assert_eq!(refused(|built| built.blocks[5][4] = kind), Code::GpuReportMalformed);
        }
    }

    #[test]
    fn request_and_response_are_those_of_spdm_1_1() {
        for (at, value) in [(0, 0x10), (0, 0x12), (1, 0xe1), (2, 0), (3, 0), (36, 1)] {
            assert_eq!(refused(|built| built.request[at] = value), Code::GpuReportMalformed);
        }
        for (at, value) in [(0, 0x12), (1, 0x61), (2, 1), (3, 1)] {
            assert_eq!(refused(|built| built.response[at] = value), Code::GpuReportMalformed);
        }
    }

    #[test]
    fn opaque_fields_end_exactly_where_the_opaque_data_ends() {
        let good = Built::hopper().bytes();
        let size_at = good.len() - 96 - 1 - 2;
        assert_eq!(good[size_at..size_at + 2], [1, 0], "the size of the last field");
        for size in [0, 2, 97, 255] {
            let mut bytes = good.clone();
            bytes[size_at] = size;
            assert!(matches!(Report::parse(&bytes), Err(Error::GpuShort { .. })), "size {size}");
        }
    }

    #[test]
    fn opaque_fields_stand_once_and_255_never() {
        assert_eq!(refused(|built| built.fields.push((3, b"550.90.07\0".to_vec()))), Code::GpuFieldRepeated);
        assert_eq!(
            refused(|built| built.fields.extend([(0x7f, vec![]), (0x7f, vec![])])),
            Code::GpuFieldRepeated,
            "unknown ones too"
        );
        assert_eq!(refused(|built| built.fields.push((255, vec![0]))), Code::GpuFieldMalformed);
        let with = |count: usize| {
            built(|built| {
                built.fields.extend((1000..).map(|id| (id, vec![])).take(count - built.fields.len()))
            })
        };
        assert!(with(limits::GPU_OPAQUE_FIELDS_MAX).is_ok());
        assert_eq!(with(limits::GPU_OPAQUE_FIELDS_MAX + 1), Err(Error::GpuFieldsMany));
    }

    #[test]
    fn unknown_fields_are_kept_and_listed_and_change_nothing() {
        let report = built(|built| built.fields.push((0x7f, vec![1, 2, 3]))).unwrap();
        assert_eq!(report.opaque.unknown, [0x7f]);
        let last = report.opaque.fields.last().unwrap();
        assert_eq!((last.id, last.value.as_slice()), (0x7f, &[1, 2, 3][..]));
        assert_eq!(report.mode(), Mode::Spt);
        let named = built(|built| built.fields.push((33, vec![7, 7]))).unwrap();
        assert!(named.opaque.unknown.is_empty());
    }

    #[test]
    fn a_missing_field_is_no_part_of_an_id() {
        for id in [3, 6, 15, 17, 18] {
            let report = built(|built| {
                built.without(id);
            })
            .unwrap();
            let ids = [report.driver_rim_id(), report.vbios_rim_id()];
            let missing = ids.iter().filter(|made| made.is_err());
            assert!(missing.count() == 1, "field {id}");
        }
        let report = built(|built| {
            built.without(4);
        })
        .unwrap();
        assert_eq!(report.driver_rim_id(), Err(Error::GpuFieldMissing { field: "GPU_INFO" }));
    }

    #[test]
    fn text_that_could_leave_an_id_is_refused() {
        let driver = [
            "550/90.07\0",
            "../../x\0",
            "550..07\0",
            "550.90\0.07\0",
            "550.90.07",
            "550.90.07\0\0",
            "\0",
            "",
        ];
        for text in driver {
            let code = refused(|built| {
                built.set(3, text.as_bytes());
            });
            assert_eq!(code, Code::GpuFieldMalformed, "{text:?}");
        }
        for id in [15, 17, 18, 35] {
            for text in ["..\0", "1/10\0", "10\x0010\0", "\0\0\0\0", "", "10_0\0", "1010\n", "\u{e4}\0"] {
                let code = refused(|built| {
                    built.set(id, text.as_bytes());
                });
                assert_eq!(code, Code::GpuFieldMalformed, "{id}: {text:?}");
            }
        }
        let report = built(|built| {
            built.set(17, b"g520\0").set(15, b"885\0\0\0\0\0\0");
        });
        assert_eq!(report.unwrap().vbios_rim_id().unwrap(), "NV_GPU_VBIOS_G520_0200_885_96009F0001");
    }

    #[test]
    fn fields_have_exactly_their_size() {
        for (id, size) in [(4, 8), (6, 8), (11, 1), (12, 256), (20, 48), (21, 1), (22, 144), (34, 2), (36, 2)]
        {
            for wrong in [size - 1, size + 1] {
                let code = refused(|built| {
                    built.set(id, &vec![0; wrong]);
                });
                assert_eq!(code, Code::GpuFieldMalformed, "field {id} with {wrong} bytes");
            }
        }
    }

    #[test]
    fn opaque_data_of_a_later_version_is_refused() {
        for (version, fits) in [(0u16, true), (1, true), (2, false), (0x100, false)] {
            let parsed = built(|built| {
                built.set(34, &version.to_le_bytes());
            });
            assert_eq!(parsed.is_ok(), fits, "version {version}");
            if !fits {
                assert_eq!(parsed.unwrap_err().code(), Code::GpuOpaqueVersion);
            }
        }
    }

    #[test]
    fn the_mode_is_decided_by_all_signs_together() {
        let off: Option<u8> = Some(0x55);
        let on = Some(0xaa);
        let cases: [(Option<u16>, Option<u8>, bool, Mode); 20] = [
            (None, None, false, Mode::Unknown),
            (None, None, true, Mode::Contradictory),
            (None, off, false, Mode::Spt),
            (None, off, true, Mode::Contradictory),
            (None, on, false, Mode::Contradictory),
            (None, on, true, Mode::Ppcie),
            (Some(0), None, false, Mode::Spt),
            (Some(0), off, false, Mode::Spt),
            (Some(0), on, false, Mode::Contradictory),
            (Some(0), off, true, Mode::Contradictory),
            (Some(1), None, false, Mode::Mpt),
            (Some(1), off, false, Mode::Contradictory),
            (Some(1), on, true, Mode::Contradictory),
            (Some(2), None, true, Mode::Ppcie),
            (Some(2), on, true, Mode::Ppcie),
            (Some(2), off, true, Mode::Contradictory),
            (Some(2), on, false, Mode::Contradictory),
            (Some(3), off, false, Mode::Unknown),
            (Some(0), Some(0), false, Mode::Unknown),
            (None, Some(1), true, Mode::Unknown),
        ];
        for (flag, pcie, links, mode) in cases {
            let change = |version: u16| {
                move |built: &mut Built| {
                    built.without(21).set(34, &version.to_le_bytes());
                    flag.map(|flag| built.set(36, &flag.to_le_bytes()).fields.len());
                    pcie.map(|pcie| built.set(21, &[pcie]).fields.len());
                    links.then(|| built.set(22, &[1; 144]).fields.len());
                }
            };
            assert_eq!(built(change(1)).unwrap().mode(), mode, "{flag:?} {pcie:?} {links}");
            let early = built(change(0)).unwrap().mode();
            assert!(flag.is_none() || early == Mode::Contradictory, "a flag before there were flags");
        }
    }

    #[test]
    fn link_partners_are_read_in_natural_order_and_zero_is_no_device() {
        let mut links = [0; 144];
        links[8..16].copy_from_slice(&[8, 7, 6, 5, 4, 3, 2, 1]);
        let report = built(|built| {
            built.set(22, &links);
        });
        let pdis = report.unwrap().opaque.switch_pdis.unwrap();
        assert_eq!(pdis.len(), 18);
        assert_eq!(pdis[0], None);
        assert_eq!(pdis[1], Some(Pdi::new([1, 2, 3, 4, 5, 6, 7, 8])));
    }

    #[test]
    fn a_value_without_a_count_and_a_count_without_a_value_are_noticed() {
        let report = built(|built| built.blocks[0] = block(1, [5; 48])).unwrap();
        assert_eq!(report.miscounted(), Some(0));
        let report = built(|built| built.blocks[12] = block(13, [0; 48])).unwrap();
        assert_eq!(report.miscounted(), Some(12));
    }

    #[test]
    fn the_report_of_a_switch_is_recognised_and_not_read_as_that_of_a_gpu() {
        let code = refused(|built| {
            built.blocks.truncate(31);
            built.fields = vec![(6, b"96.10.55.00.01".to_vec()), (22, vec![1; 8])];
        });
        assert_eq!(code, Code::GpuSwitchUnsupported);
    }

    #[test]
    fn blackwell_has_its_own_driver_id() {
        let report = built(|built| {
            built.set(4, &0x1a0u64.to_le_bytes());
        });
        assert_eq!(report.unwrap().driver_rim_id().unwrap(), "NV_GPU_CC_DRIVER_GB100_550.90.07");
        let report = built(|built| {
            built.set(4, &0x1a0u64.to_le_bytes()).set(35, b"GB102\0");
        });
        assert_eq!(report.unwrap().driver_rim_id().unwrap(), "NV_GPU_CC_DRIVER_GB102_550.90.07");
        let report = built(|built| {
            built.set(4, &0x190u64.to_le_bytes());
        });
        assert_eq!(report.unwrap().driver_rim_id().unwrap_err().code(), Code::GpuArchitectureUnknown);
    }
}
