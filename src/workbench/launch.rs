//! The shape of an SEV-SNP guest: what its launch digest depends on beside the files.

use sev::measurement::vcpu_types::CpuType;

use super::error::Error;
use crate::policy::nearest;
use crate::wire::limits;

/// The bit of SEV_FEATURES that every SNP guest has.
const SNP_ACTIVE: u64 = 1;

/// The vCPU types of QEMU, as `-cpu` names them.
pub const VCPU_TYPES: [(&str, CpuType); 18] = [
    ("EPYC", CpuType::Epyc),
    ("EPYC-v1", CpuType::EpycV1),
    ("EPYC-v2", CpuType::EpycV2),
    ("EPYC-v3", CpuType::EpycV3),
    ("EPYC-v4", CpuType::EpycV4),
    ("EPYC-IBPB", CpuType::EpycIBPB),
    ("EPYC-Rome", CpuType::EpycRome),
    ("EPYC-Rome-v1", CpuType::EpycRomeV1),
    ("EPYC-Rome-v2", CpuType::EpycRomeV2),
    ("EPYC-Rome-v3", CpuType::EpycRomeV3),
    ("EPYC-Milan", CpuType::EpycMilan),
    ("EPYC-Milan-v1", CpuType::EpycMilanV1),
    ("EPYC-Milan-v2", CpuType::EpycMilanV2),
    ("EPYC-Genoa", CpuType::EpycGenoa),
    ("EPYC-Genoa-v1", CpuType::EpycGenoaV1),
    ("EPYC-Turin", CpuType::EpycTurin),
    ("EPYC-Turin-v1", CpuType::EpycTurinV1),
    ("EPYC-Turin-v2", CpuType::EpycTurinV2),
];

/// Who starts the guest: registers and the order of pages differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vmm {
    Ec2,
    Qemu,
}

/// The shape of a guest, in range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launch {
    /// 1 to `VCPUS_MAX`.
    pub vcpus: u32,
    /// The name as QEMU writes it.
    pub vcpu_type_name: &'static str,
    pub vcpu_type: CpuType,
    pub vmm: Vmm,
    /// SEV_FEATURES of the guest, 0x1 in most.
    pub guest_features: u64,
}

impl Launch {
    /// Takes a shape. The name of the vCPU type may be in any case.
    ///
    /// Errors: `VcpuCount`, `VcpuType` with the nearest name, `GuestFeatures`.
    pub fn new(vcpus: u32, vcpu_type: &str, vmm: Vmm, guest_features: u64) -> Result<Self, Error> {
        if vcpus == 0 || vcpus > limits::VCPUS_MAX {
            return Err(Error::VcpuCount { count: vcpus });
        }
        if guest_features & SNP_ACTIVE == 0 {
            return Err(Error::GuestFeatures { features: guest_features });
        }
        let named = VCPU_TYPES.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(vcpu_type));
        let (vcpu_type_name, vcpu_type) = named.ok_or_else(|| {
            let names = VCPU_TYPES.map(|(name, _)| name);
            // The prefix that all share makes everything alike.
            let rest = |name: &'static str| (name.strip_prefix("EPYC-").unwrap_or(name), name);
            let (rests, asked) = (names.map(rest), vcpu_type.to_ascii_uppercase());
            let asked = asked.strip_prefix("EPYC-").unwrap_or(&asked);
            let near = nearest(asked, &rests.map(|(rest, _)| rest));
            let nearest = near.and_then(|near| rests.iter().find(|(rest, _)| *rest == near));
            Error::VcpuType { name: vcpu_type.to_string(), nearest: nearest.map(|(_, name)| *name) }
        })?;
        Ok(Self { vcpus, vcpu_type_name, vcpu_type, vmm, guest_features })
    }
}

/// Checks a kernel's command line: it is hashed with a byte zero after it.
///
/// Errors: `CommandLine` where it is longer than `COMMAND_LINE_LEN_MAX`, holds a byte zero, or has white space at its
/// ends, which VMMs measure and others cut.
pub fn command_line(text: &str) -> Result<&str, Error> {
    let wrong = |what: String| Err(Error::CommandLine { what });
    match text.find('\0') {
        _ if text.len() > limits::COMMAND_LINE_LEN_MAX => {
            wrong(format!("expected at most {} bytes; {} given", limits::COMMAND_LINE_LEN_MAX, text.len()))
        }
        Some(offset) => wrong(format!("expected no byte zero; one stands at offset {offset}")),
        None if text.trim() != text => wrong("expected no white space at its ends".to_string()),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_vcpu_types_are_those_of_the_crate() {
        for (name, kind) in VCPU_TYPES {
            assert_eq!(kind.to_string(), name);
            let launch = Launch::new(1, &name.to_uppercase(), Vmm::Qemu, 1).unwrap();
            assert_eq!((launch.vcpu_type_name, launch.vcpu_type), (name, kind));
        }
    }

    #[test]
    fn an_unknown_vcpu_type_is_named_with_the_nearest() {
        let nearest = |name: &str| match Launch::new(1, name, Vmm::Qemu, 1) {
            Err(Error::VcpuType { nearest, .. }) => nearest,
            other => panic!("{other:?}"),
        };
        assert_eq!(nearest("EPYC-Geona"), Some("EPYC-Genoa"));
        assert_eq!(nearest("genoa"), Some("EPYC-Genoa"));
        assert_eq!(nearest("epyc-milan-v9"), Some("EPYC-Milan-v2"));
        assert_eq!(nearest("host"), None);
    }

    #[test]
    fn the_counts_of_vcpus_have_two_bounds() {
        let refused = |count| Launch::new(count, "EPYC", Vmm::Qemu, 1).map(|launch| launch.vcpus);
        assert_eq!(refused(0), Err(Error::VcpuCount { count: 0 }));
        assert_eq!((refused(1), refused(limits::VCPUS_MAX)), (Ok(1), Ok(limits::VCPUS_MAX)));
        let count = limits::VCPUS_MAX + 1;
        assert_eq!(refused(count), Err(Error::VcpuCount { count }));
    }

    #[test]
    fn features_without_snp_are_refused() {
        assert!(Launch::new(1, "EPYC", Vmm::Qemu, 0x21).is_ok());
        let refused = Launch::new(1, "EPYC", Vmm::Qemu, 0x20);
        assert_eq!(refused, Err(Error::GuestFeatures { features: 0x20 }));
    }

    #[test]
    fn a_command_line_that_is_measured_in_two_ways_is_refused() {
        let longest = "x".repeat(limits::COMMAND_LINE_LEN_MAX);
        assert_eq!(command_line(&longest), Ok(longest.as_str()));
        for bad in [format!("{longest}x"), "a\0b".into(), " quiet".into(), "quiet\n".into()] {
            assert_eq!(command_line(&bad).unwrap_err().code(), crate::wire::Code::MeasureKernelCommandLine);
        }
    }
}
