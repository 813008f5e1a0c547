//! `claviger measure snp`: the launch digest, by the `sev` crate, of an image whose tables were checked before.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sev::error::MeasurementError;
use sev::measurement::snp::{SnpMeasurementArgs, snp_calc_launch_digest};
use sev::measurement::vmsa::{GuestFeatures, VMMType};

use super::{SetFormat, command_line, files, refused, show, wrong};
use crate::cli::{Failure, Status, clock};
use crate::policy::reference_set::{Input, NotComputed, ReferenceSet, SnpValues, Values};
use crate::wire::text::{foreign, reason};
use crate::wire::{Code, Digest, UnixSeconds, limits};
use crate::workbench::{Firmware, Launch, Vmm};

pub const HELP: &str = "\
The digest is that of a guest which QEMU (or the VMM named) starts with exactly these files and options. Each
count of vCPUs and each vCPU type has its own. The result goes into the policy below [cpu.snp.code].

vCPU types: EPYC, EPYC-v1 to -v4, EPYC-IBPB, EPYC-Rome, EPYC-Rome-v1 to -v3, EPYC-Milan, EPYC-Milan-v1, -v2,
EPYC-Genoa, EPYC-Genoa-v1, EPYC-Turin, EPYC-Turin-v1, -v2.

Example:
  claviger measure snp --ovmf OVMF.amdsev.fd --kernel vmlinuz --initrd initrd.img --append-file cmdline \\
      --vcpus 8 --vcpu-type EPYC-v4 --format toml > image-42.reference.toml

Exit status: 0 measured; 2 a file or an option is not right.";

/// Who starts the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum VmmName {
    Qemu,
    Ec2,
}

#[derive(Args)]
pub struct MeasureSnp {
    /// The firmware: an OVMF image for SEV-SNP.
    #[arg(long, value_name = "FILE")]
    ovmf: PathBuf,
    /// The kernel, where the VMM starts one directly (QEMU: -kernel with kernel-hashes=on).
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
    /// The initrd that goes with the kernel.
    #[arg(long, value_name = "FILE", requires = "kernel")]
    initrd: Option<PathBuf>,
    /// The kernel's command line, exactly as the VMM passes it.
    #[arg(long, value_name = "TEXT", requires = "kernel", allow_hyphen_values = true)]
    append: Option<String>,
    /// A file with the command line; one line break at its end is no part of it.
    #[arg(long, value_name = "FILE", requires = "kernel", conflicts_with = "append")]
    append_file: Option<PathBuf>,
    /// How many vCPUs the guest has.
    #[arg(long, value_name = "N")]
    vcpus: u32,
    /// The vCPU type, as QEMU's -cpu names it.
    #[arg(long, value_name = "NAME")]
    vcpu_type: String,
    /// SEV_FEATURES of the guest, as hex digits: 0x1, or 0x21 where the host's kernel swaps debug registers.
    #[arg(long, value_name = "HEX", default_value = "0x1")]
    guest_features: String,
    /// Who starts the guest.
    #[arg(long, value_enum, default_value = "qemu")]
    vmm: VmmName,
    /// The time to write into the reference set, such as 2026-11-30T12:00:00Z (RFC 3339); now if not given.
    #[arg(long, value_name = "RFC3339")]
    at: Option<String>,
    /// The form of the output.
    #[arg(long, value_enum, default_value = "text")]
    format: SetFormat,
}

impl MeasureSnp {
    pub fn run(self) -> Result<Status, Failure> {
        let created = match &self.at {
            Some(text) => {
                UnixSeconds::from_rfc3339(text).map_err(|what| Failure::Usage(format!("--at: {what}")))?
            }
            None => clock::now()?,
        };
        let launch = self.launch()?;
        let command_line = command_line(self.append.as_deref(), self.append_file.as_deref())?;
        let bytes = files::read(&self.ovmf, limits::FIRMWARE_LEN_MAX)?;
        let firmware = Firmware::parse(&bytes).map_err(wrong)?;
        if self.kernel.is_some() {
            firmware.hashes_offset().map_err(wrong)?;
        }
        let mut inputs = vec![Input::of("ovmf", &bytes)];
        inputs.extend(self.kernel_inputs()?);
        let measurement = digest(&self, &launch, command_line.as_deref())?;
        // The crate opened the files by their names: they must be those that were checked and are told of.
        let mut again = vec![Input::of("ovmf", &files::read(&self.ovmf, limits::FIRMWARE_LEN_MAX)?)];
        again.extend(self.kernel_inputs()?);
        unchanged(&inputs, &again)?;
        if let Some(text) = &command_line {
            inputs.push(Input::of("command_line", text.as_bytes()));
        }
        let values = Values::Snp(SnpValues { measurements: vec![measurement] });
        let mut set = ReferenceSet::new(created, inputs, values);
        set.settings = [
            ("vcpus", launch.vcpus.to_string()),
            ("vcpu_type", launch.vcpu_type_name.to_string()),
            ("vmm", vmm_name(launch.vmm).to_string()),
            ("guest_features", format!("{:#x}", launch.guest_features)),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into();
        set.not_computed = not_computed(self.kernel.is_some());
        show(&set, self.format)
    }

    fn launch(&self) -> Result<Launch, Failure> {
        let digits = self.guest_features.trim();
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let features = u64::from_str_radix(digits, 16).map_err(|_| {
            let what = format!("--guest-features: expected hex; {} given", foreign(&self.guest_features));
            refused(Code::MeasureGuestFeatures, &what)
        })?;
        let vmm = match self.vmm {
            VmmName::Qemu => Vmm::Qemu,
            VmmName::Ec2 => Vmm::Ec2,
        };
        Launch::new(self.vcpus, &self.vcpu_type, vmm, features).map_err(wrong)
    }

    /// Describes kernel and initrd.
    fn kernel_inputs(&self) -> Result<Vec<Input>, Failure> {
        let named = [
            ("kernel", &self.kernel, limits::KERNEL_LEN_MAX),
            ("initrd", &self.initrd, limits::INITRD_LEN_MAX),
        ];
        let given =
            named.into_iter().filter_map(|(name, path, len_max)| Some((name, path.as_ref()?, len_max)));
        given.map(|(name, path, len_max)| files::input(name, path, len_max)).collect()
    }
}

fn vmm_name(vmm: Vmm) -> &'static str {
    match vmm {
        Vmm::Ec2 => "ec2",
        Vmm::Qemu => "qemu",
    }
}

/// Has the crate compute the digest.
fn digest(asked: &MeasureSnp, launch: &Launch, append: Option<&str>) -> Result<Digest<48>, Failure> {
    let arguments = SnpMeasurementArgs {
        vcpus: launch.vcpus,
        vcpu_type: launch.vcpu_type,
        ovmf_file: asked.ovmf.clone(),
        guest_features: GuestFeatures(launch.guest_features),
        kernel_file: asked.kernel.clone(),
        initrd_file: asked.initrd.clone(),
        append,
        ovmf_hash_str: None,
        vmm_type: Some(match launch.vmm {
            Vmm::Ec2 => VMMType::EC2,
            Vmm::Qemu => VMMType::QEMU,
        }),
    };
    let digest = snp_calc_launch_digest(arguments).map_err(not_measured)?;
    digest.get_hex_ld().parse().map_err(Failure::Usage)
}

/// The tables were checked: what is left to go wrong is mostly reading.
fn not_measured(error: MeasurementError) -> Failure {
    let code = match error {
        MeasurementError::FileError(_) => Code::MeasureFileUnreadable,
        _ => Code::MeasureFirmwareWithoutSnp,
    };
    refused(code, &format!("the firmware is not measured: {}", reason(&error.to_string())))
}

fn unchanged(before: &[Input], after: &[Input]) -> Result<(), Failure> {
    match before.iter().zip(after).find(|(before, after)| before != after) {
        None => Ok(()),
        Some((input, _)) => {
            let what = format!("the file of {} changed while it was measured", input.name);
            Err(refused(Code::MeasureFileChanged, &what))
        }
    }
}

/// What a reader might look for in the set.
fn not_computed(kernel: bool) -> Vec<NotComputed> {
    let mut list = Vec::new();
    if !kernel {
        list.push(NotComputed::new(
            "kernel, initrd and command line",
            "none was given: the firmware starts what the disk holds, and this measurement does not fix it",
        ));
    }
    list.push(NotComputed::new(
        "host_data",
        "the host gives it at launch; the policy lists it below cpu.snp.workload",
    ));
    list.push(NotComputed::new(
        "id_key_digest",
        "it comes with an ID block, if the guest is launched with one",
    ));
    list.push(NotComputed::new(
        "guest policy",
        "debugging and migration are bits of the report, which the floor judges",
    ));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_in_between_is_named() {
        let (a, b) = (Input::of("kernel", b"a"), Input::of("kernel", b"b"));
        assert!(unchanged(std::slice::from_ref(&a), std::slice::from_ref(&a)).is_ok());
        let failure = unchanged(&[a], &[b]).unwrap_err().to_string();
        assert!(failure.contains("kernel") && failure.contains("measure_file_changed"), "{failure}");
    }
}
