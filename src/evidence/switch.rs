//! The measurement report of an NVIDIA LS10 NVSwitch, and what its opaque fields say.

use std::ops::Deref;

use super::Error;
use super::gpu::VbiosVersion;
use super::spdm::{self, Field, Spdm, sized};
use crate::wire::ids::Pdi;

/// GPUs that a switch has places for in its list.
pub const GPU_PLACES: usize = 8;
/// Ports of a switch, one byte each in SWITCH_GPU_PDIS.
const PORTS: usize = 64;
/// Bytes of SWITCH_GPU_PDIS.
const GPU_PDIS_LEN: usize = 8 * GPU_PLACES + PORTS;
/// Blocks that MSRSCNT counts: 26 under older BIOS versions, 27 under newer ones; never the last four.
const COUNTED: std::ops::RangeInclusive<usize> = 26..=27;
/// Bytes of VBIOS_VERSION: five pairs of hex digits with dots between, and no NUL.
const VERSION_LEN: usize = 14;
/// Ids that an LS10 report has, and the version of opaque data, which GPUs have and no switch yet.
const NAMED: [u16; 8] = [6, 12, 22, 23, 24, 25, 26, 34];

/// LOCK_STATUS: whether the routes of the switch can still be changed from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    Locked,
    Other(u16),
}

impl Lock {
    /// Returns the number as the report has it.
    pub fn number(self) -> u16 {
        match self {
            Self::Locked => 1,
            Self::Other(number) => number,
        }
    }
}

/// The opaque fields of a switch report.
///
/// Shape: as in a GPU report, with meanings of its own: VBIOS_VERSION is text, and PDIs stand in natural order.
///
/// Source: NVIDIA's attestation SDK and published reports, OPAQUE_FIELD_ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// Every field in the order of the report.
    pub fields: Vec<Field>,
    /// Ids that have no name in a switch report; kept in `fields`, never interpreted.
    pub unknown: Vec<u16>,
    /// VBIOS_VERSION of a switch, which is that of its BIOS.
    pub bios_version: Option<VbiosVersion>,
    /// DEVICE_PDI: the switch's own.
    pub device_pdi: Option<Pdi>,
    /// A bit for each port that is switched off.
    pub disabled_ports: Option<u16>,
    /// The GPUs of the node as the switch lists them, in its order; `None` for a place without one.
    pub gpu_pdis: Option<[Option<Pdi>; GPU_PLACES]>,
    pub lock: Option<Lock>,
    /// MSRSCNT: how often each of the first 26 or 27 measurements was extended, by RIM index.
    pub measurement_counts: Option<Vec<u32>>,
    /// POSITION_ID: the place of the switch on its board.
    pub position: Option<u16>,
}

/// A parsed switch report with the very bytes it came in. Nothing of it is believed yet.
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
    /// Parses a switch report.
    ///
    /// Shape: that of `Spdm::parse` with 31 blocks.
    ///
    /// Errors: those of `Spdm::parse`; `SwitchGpu` for the well-formed report of a GPU; `GpuFieldSize`,
    /// `GpuFieldText` and `GpuOpaqueVersion` for the opaque fields.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let (spdm, fields) = Spdm::parse(bytes)?;
        if !spdm.is_of_switch() {
            return Err(Error::SwitchGpu);
        }
        Ok(Self { spdm, opaque: Opaque::of(fields)? })
    }

    /// Builds the id of the BIOS's reference document.
    ///
    /// Shape: `NV_SWITCH_BIOS_5612_0002_890_`, then the BIOS version without dots; `A-Z 0-9 _` alone.
    ///
    /// Errors: `GpuFieldMissing`.
    pub fn bios_rim_id(&self) -> Result<String, Error> {
        let version = self.opaque.bios_version.ok_or(Error::GpuFieldMissing { field: "VBIOS_VERSION" })?;
        Ok(format!("NV_SWITCH_BIOS_5612_0002_890_{}", version.rim_part()))
    }

    /// Returns the first RIM index where MSRSCNT and value disagree, among those that it counts.
    pub fn miscounted(&self) -> Option<usize> {
        self.spdm.miscounted(self.opaque.measurement_counts.as_deref()?)
    }
}

impl Opaque {
    fn of(fields: Vec<Field>) -> Result<Self, Error> {
        // Judged as a GPU's, should a switch ever state one: a later version may mean other things by these ids.
        spdm::opaque_data_version(&fields)?;
        let value = |id| spdm::value(&fields, id);
        let number = |id, field| value(id).map(|value| sized(field, value).map(u16::from_le_bytes));
        let counts = |value| spdm::measurement_counts(value, COUNTED);
        Ok(Self {
            unknown: spdm::unknown(&fields, &NAMED),
            bios_version: value(6).map(bios_version).transpose()?,
            device_pdi: value(22).map(device_pdi).transpose()?.flatten(),
            disabled_ports: number(23, "DISABLED_PORTS").transpose()?,
            gpu_pdis: value(26).map(gpu_pdis).transpose()?,
            lock: number(25, "LOCK_STATUS").transpose()?.map(|number| match number {
                1 => Lock::Locked,
                other => Lock::Other(other),
            }),
            measurement_counts: value(12).map(counts).transpose()?,
            position: number(24, "POSITION_ID").transpose()?,
            fields,
        })
    }
}

fn bios_version(value: &[u8]) -> Result<VbiosVersion, Error> {
    let text = String::from_utf8_lossy(value);
    let parsed = text.parse().ok().filter(|_| value.len() == VERSION_LEN);
    parsed.ok_or_else(|| Error::GpuFieldText { field: "VBIOS_VERSION", text: text.into_owned() })
}

fn pdi(natural: [u8; 8]) -> Option<Pdi> {
    (natural != [0; 8]).then(|| Pdi::new(natural))
}

fn device_pdi(value: &[u8]) -> Result<Option<Pdi>, Error> {
    sized("DEVICE_PDI", value).map(pdi)
}

/// Eight PDIs in natural order, then 64 port numbers, which nothing here needs.
fn gpu_pdis(value: &[u8]) -> Result<[Option<Pdi>; GPU_PLACES], Error> {
    let whole: [u8; GPU_PDIS_LEN] = sized("SWITCH_GPU_PDIS", value)?;
    let mut places = [None; GPU_PLACES];
    for (place, natural) in places.iter_mut().zip(whole.as_chunks::<8>().0) {
        *place = pdi(*natural);
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::gpu;
    use crate::evidence::gpu::built::{Built, block};
    use crate::wire::{Code, Digest, limits};

    fn built(change: impl FnOnce(&mut Built)) -> Result<Report, Error> {
        let mut built = Built::switch();
        change(&mut built);
        Report::parse(&built.bytes())
    }

    fn with(id: u16, value: &[u8]) -> Result<Report, Error> {
        built(|built| {
            built.set(id, value);
        })
    }

    fn code(report: Result<Report, Error>) -> Code {
        report.unwrap_err().code()
    }

    #[test]
    fn a_well_formed_report_gives_its_fields() {
        let report = built(|_| {}).unwrap();
        let opaque = &report.opaque;
        assert_eq!(report.request_nonce, [7; 32]);
        assert_eq!(report.measurements.len(), 31);
        assert_eq!(report.measurements[9], Digest::new([9; 48]), "RIM index 9 is block 10");
        assert_eq!(report.bios_rim_id().unwrap(), "NV_SWITCH_BIOS_5612_0002_890_9610550001");
        assert_eq!(opaque.bios_version.unwrap().to_string(), "96.10.55.00.01");
        assert_eq!(opaque.device_pdi, Some(Pdi::new([1, 2, 3, 4, 5, 6, 7, 8])), "natural order");
        assert_eq!(
            opaque.gpu_pdis.unwrap().map(Option::unwrap),
            [0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7].map(|byte: u8| Pdi::new([byte; 8]))
        );
        assert_eq!((opaque.disabled_ports, opaque.position), (Some(0xec), Some(2)));
        assert_eq!(opaque.lock, Some(Lock::Locked));
        assert_eq!(opaque.measurement_counts.as_ref().unwrap().len(), 27);
        assert_eq!(opaque.unknown, Vec::<u16>::new());
        assert_eq!(report.miscounted(), None);
        assert_eq!([report.signed(), report.signature()].concat(), report.bytes());
    }

    #[test]
    fn every_prefix_and_every_longer_text_is_refused() {
        let good = Built::switch().bytes();
        for len in 0..good.len() {
            assert!(Report::parse(&good[..len]).is_err(), "{len} bytes");
        }
        for trailing in [1, 2, 96] {
            assert_eq!(code(built(|built| built.trailing = vec![0; trailing])), Code::GpuReportTrailing);
        }
        let mut long = good;
        long.resize(limits::GPU_REPORT_LEN_MAX + 1, 0);
        assert_eq!(Report::parse(&long), Err(Error::GpuReportLength { len: limits::GPU_REPORT_LEN_MAX + 1 }));
    }

    #[test]
    fn no_change_of_one_byte_panics() {
        let good = Built::switch().bytes();
        for at in 0..good.len() {
            for bit in [1, 0x80] {
                let mut bytes = good.clone();
                bytes[at] ^= bit;
                let _parsed = (Report::parse(&bytes), gpu::Report::parse(&bytes));
            }
        }
    }

    #[test]
    fn a_switch_has_31_blocks_and_its_record_their_length() {
        for count in [0, 30, 32, 63, 65, 255] {
            assert_eq!(code(built(|built| built.count = Some(count))), Code::GpuReportMalformed, "{count}");
        }
        for record_len in [0, 1704, 1706, 3520] {
            let report = built(|built| built.record_len = Some(record_len));
            assert_eq!(code(report), Code::GpuReportMalformed, "{record_len}");
        }
        let shorter = built(|built| {
            built.blocks.pop();
        });
        assert_eq!(code(shorter), Code::GpuReportMalformed);
        let swapped = built(|built| built.blocks.swap(3, 4));
        assert_eq!(code(swapped), Code::GpuReportMalformed);
    }

    #[test]
    fn the_report_of_a_gpu_is_recognised_and_not_read_as_that_of_a_switch() {
        let gpu = Built::hopper().bytes();
        assert_eq!(code(Report::parse(&gpu)), Code::GpuSwitchExpected);
        assert!(!spdm::looks_like_switch(&gpu));
        let switch = Built::switch().bytes();
        assert!(spdm::looks_like_switch(&switch));
        assert_eq!(gpu::Report::parse(&switch), Err(Error::GpuSwitch));
        assert!(!spdm::looks_like_switch(&switch[..41]));
        assert!(spdm::looks_like_switch(&switch[..42]), "a look, no parser");
    }

    #[test]
    fn fields_have_exactly_their_size() {
        for (id, size) in [(22, 8), (23, 2), (24, 2), (25, 2), (26, 128), (34, 2)] {
            for wrong in [0, size - 1, size + 1] {
                assert_eq!(code(with(id, &vec![0; wrong])), Code::GpuFieldMalformed, "{id} of {wrong}");
            }
            assert!(with(id, &vec![0; size]).is_ok(), "{id}");
        }
    }

    #[test]
    fn of_the_31_blocks_26_or_27_are_counted() {
        for (count, fits) in [(25, false), (26, true), (27, true), (28, false), (31, false)] {
            let counts: Vec<u8> = (0..count).flat_map(|index| u32::from(index != 0).to_le_bytes()).collect();
            let report = with(12, &counts);
            assert_eq!(report.is_ok(), fits, "{count} counts");
            assert!(fits || code(report) == Code::GpuFieldMalformed);
            assert!(with(12, &counts[1..]).is_err(), "{count} counts less a byte");
        }
    }

    #[test]
    fn a_value_without_a_count_and_a_count_without_a_value_are_noticed_where_they_are_counted() {
        let at = |index: u8, value| {
            built(|built| built.blocks[usize::from(index)] = block(index + 1, [value; 48])).unwrap()
        };
        assert_eq!(at(0, 5).miscounted(), Some(0));
        assert_eq!(at(26, 0).miscounted(), Some(26));
        assert_eq!(at(27, 0).miscounted(), None, "beyond the counts nothing is said");
    }

    #[test]
    fn the_bios_version_is_text_that_cannot_leave_an_id() {
        let good = with(6, b"96.10.7f.00.01").unwrap();
        assert_eq!(good.bios_rim_id().unwrap(), "NV_SWITCH_BIOS_5612_0002_890_96107F0001");
        let bad: [&[u8]; 10] = [
            b"",
            b"96.10.55.00.01\0",
            b"96.10.55.00.0",
            b"96.10.55.00",
            b"96.10.55.00.01.02",
            b"96.10.5G.00.01",
            b"96/10/55/00/01",
            b"../../../../..",
            &[0x00, 0x55, 0x10, 0x96, 1, 0, 0, 0],
            &[0xff; 14],
        ];
        for bad in bad {
            assert_eq!(code(with(6, bad)), Code::GpuFieldMalformed, "{bad:02x?}");
        }
        let without = built(|built| {
            built.without(6);
        });
        let missing = Error::GpuFieldMissing { field: "VBIOS_VERSION" };
        assert_eq!(without.unwrap().bios_rim_id(), Err(missing));
    }

    #[test]
    fn zero_is_no_device() {
        assert_eq!(with(22, &[0; 8]).unwrap().opaque.device_pdi, None);
        let report = with(26, &[[5; 8].as_slice(), &[0; 120]].concat()).unwrap();
        let mut expected = [None; 8];
        expected[0] = Some(Pdi::new([5; 8]));
        assert_eq!(report.opaque.gpu_pdis, Some(expected));
    }

    #[test]
    fn one_alone_is_locked() {
        for (number, lock) in
            [(0u16, Lock::Other(0)), (1, Lock::Locked), (2, Lock::Other(2)), (0x100, Lock::Other(0x100))]
        {
            assert_eq!(with(25, &number.to_le_bytes()).unwrap().opaque.lock, Some(lock));
            assert_eq!(lock.number(), number);
        }
    }

    #[test]
    fn fields_stand_once_255_never_and_unknown_ones_are_kept() {
        assert_eq!(code(built(|built| built.fields.push((22, vec![0; 8])))), Code::GpuFieldRepeated);
        assert_eq!(code(built(|built| built.fields.push((255, vec![0])))), Code::GpuFieldMalformed);
        let kept = with(20, &[1; 48]).unwrap();
        assert_eq!(kept.opaque.unknown, [20], "a switch has no firmware id");
        let many = |count: usize| {
            built(|built| {
                built.fields.extend((1000..).map(|id| (id, vec![])).take(count - built.fields.len()))
            })
        };
        assert!(many(limits::GPU_OPAQUE_FIELDS_MAX).is_ok());
        assert_eq!(many(limits::GPU_OPAQUE_FIELDS_MAX + 1), Err(Error::GpuFieldsMany));
    }

    #[test]
    fn opaque_data_of_a_later_version_is_refused() {
        for (version, fits) in [(0u16, true), (1, true), (2, false)] {
            let report = with(34, &version.to_le_bytes());
            assert_eq!(report.is_ok(), fits, "version {version}");
            assert!(fits || code(report) == Code::GpuOpaqueVersion);
        }
    }
}
