//! Device handles and container-runtime hints: signs that a guest or container was given a share of a GPU.

use super::Hint;
use crate::wire::Code;

/// The form of a UUID that NVML gives, behind `GPU-`: hex digits and dashes.
const UUID_LEN_MAX: usize = 64;

/// Tells what is wrong with the UUID of a handle.
pub(super) fn uuid(uuid: &str) -> Option<Code> {
    let lower = uuid.to_ascii_lowercase();
    if lower.starts_with("mig-") {
        return Some(Code::GpuMigHandle);
    }
    // The device plugin hands out replicas of one GPU as `GPU-...::0`.
    if lower.contains("::") {
        return Some(Code::GpuTimeSliced);
    }
    let whole = uuid.strip_prefix("GPU-").is_some_and(|id| {
        (1..=UUID_LEN_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
    });
    (!whole).then_some(Code::GpuHandleUnknown)
}

/// Tells what is wrong with `NVIDIA_VISIBLE_DEVICES`: each entry must be a word of the container runtime or a whole
/// GPU, by index, UUID, PCI address or CDI name.
pub(super) fn visible_devices(value: &str) -> Option<Code> {
    value.split(',').map(str::trim).find_map(entry)
}

fn entry(entry: &str) -> Option<Code> {
    let name = entry.rsplit_once('=').map_or(entry, |(kind, name)| match kind {
        "nvidia.com/gpu" | "runtime.nvidia.com/gpu" | "management.nvidia.com/gpu" => name,
        _ => entry,
    });
    match name {
        "" | "all" | "none" | "void" => return None,
        _ => {}
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits(name) {
        return None;
    }
    // `0:1` is the second MIG device of the first GPU.
    if let Some((gpu, slice)) = name.split_once(':')
        && digits(gpu)
        && digits(slice)
    {
        return Some(Code::GpuMigHandle);
    }
    match uuid(name) {
        Some(Code::GpuHandleUnknown) if pci(name) => None,
        found => found,
    }
}

/// A PCI address: `0000:01:00.0`, with or without the domain.
fn pci(text: &str) -> bool {
    let hex = |part: &str, lens: &[usize]| {
        lens.contains(&part.len()) && part.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let Some((rest, function)) = text.rsplit_once('.') else { return false };
    let parts: Vec<&str> = rest.split(':').collect();
    let slots = match parts.as_slice() {
        [domain, bus, slot] => hex(domain, &[4, 8]) && hex(bus, &[2]) && hex(slot, &[2]),
        [bus, slot] => hex(bus, &[2]) && hex(slot, &[2]),
        _ => false,
    };
    slots && hex(function, &[1])
}

/// Tells what a hint of the container runtime betrays. Names and values are those of NVIDIA's device plugin, GPU
/// feature discovery, MPS and MIG manager; others say nothing of shares and pass.
pub(super) fn hint(hint: &Hint) -> Option<Code> {
    let name = hint.name.to_ascii_lowercase();
    let value = hint.value.trim().to_ascii_lowercase();
    let off = matches!(value.as_str(), "" | "none" | "false" | "0" | "off" | "disabled" | "all-disabled");
    if value.contains("mig-") || name.contains("nvidia.com/mig-") {
        return (!off).then_some(Code::GpuMigHandle);
    }
    let shared = |text: &str| {
        text.contains("time-slic")
            || text.contains("timeslic")
            || text.contains("time_slic")
            || text.contains("mps")
    };
    if (shared(&name) && !off) || shared(&value) {
        return Some(Code::GpuTimeSliced);
    }
    // GPU feature discovery's labels in a guest of a vGPU host.
    if name.contains("vgpu") && !off {
        return Some(Code::GpuVgpu);
    }
    // A replica's id (`GPU-...::0`), and the product label of a GPU that is handed out more than once.
    let replica = value.contains("gpu-") && value.contains("::");
    if replica || (name.contains("gpu.product") && value.ends_with("-shared")) {
        return Some(Code::GpuTimeSliced);
    }
    if (name.contains("sharing") || name.contains("gpu.shared")) && !off {
        return Some(Code::GpuTimeSliced);
    }
    if name.contains("replicas") && !off && value != "1" {
        return Some(Code::GpuTimeSliced);
    }
    // Rights over MIG (`NVIDIA_MIG_CONFIG_DEVICES`) and its strategies: the GPU is being cut, or can be.
    ((name.contains("mig_") || name.contains("mig.") || name.contains("mig-"))
        && !off
        && !name.contains("capable"))
    .then_some(Code::GpuMigHandle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_gpus_pass_and_slices_do_not() {
        for whole in ["GPU-0", "GPU-8f1c2a3b-0000-1111-2222-333344445555"] {
            assert_eq!(uuid(whole), None, "{whole}");
        }
        let cases = [
            ("MIG-8f1c2a3b-0000-1111-2222-333344445555", Code::GpuMigHandle),
            ("MIG-GPU-8f1c2a3b/1/0", Code::GpuMigHandle),
            ("mig-8f1c", Code::GpuMigHandle),
            ("GPU-8f1c2a3b::0", Code::GpuTimeSliced),
            ("GPU-", Code::GpuHandleUnknown),
            ("", Code::GpuHandleUnknown),
            ("GPU-8f1c MIG 1g.10gb", Code::GpuHandleUnknown),
            ("0", Code::GpuHandleUnknown),
        ];
        for (handle, code) in cases {
            assert_eq!(uuid(handle), Some(code), "{handle}");
        }
    }

    #[test]
    fn visible_devices_may_name_whole_gpus_alone() {
        let whole = [
            "",
            "all",
            "none",
            "void",
            "0",
            "0,1",
            "GPU-8f1c2a3b",
            "nvidia.com/gpu=all",
            "nvidia.com/gpu=0",
            "runtime.nvidia.com/gpu=GPU-8f1c",
            "0000:01:00.0",
            "01:00.0",
        ];
        for value in whole {
            assert_eq!(visible_devices(value), None, "{value}");
        }
        let cases = [
            ("MIG-8f1c", Code::GpuMigHandle),
            ("0,MIG-8f1c", Code::GpuMigHandle),
            ("0:0", Code::GpuMigHandle),
            ("nvidia.com/gpu=0:1", Code::GpuMigHandle),
            ("GPU-8f1c::3", Code::GpuTimeSliced),
            ("half", Code::GpuHandleUnknown),
            ("0.5", Code::GpuHandleUnknown),
            ("example.com/gpu=0", Code::GpuHandleUnknown),
        ];
        for (value, code) in cases {
            assert_eq!(visible_devices(value), Some(code), "{value}");
        }
    }

    #[test]
    fn hints_of_sharing_are_seen() {
        let found =
            |name: &str, value: &str| hint(&Hint { name: name.to_string(), value: value.to_string() });
        let harmless = [
            ("nvidia.com/gpu.replicas", "1"),
            ("nvidia.com/gpu.sharing-strategy", "none"),
            ("nvidia.com/mig.strategy", "none"),
            ("nvidia.com/mig.config", "all-disabled"),
            ("nvidia.com/mig.capable", "true"),
            ("NVIDIA_DRIVER_CAPABILITIES", "compute,utility"),
        ];
        for (name, value) in harmless {
            assert_eq!(found(name, value), None, "{name}={value}");
        }
        let cases = [
            ("nvidia.com/gpu.replicas", "4", Code::GpuTimeSliced),
            ("nvidia.com/gpu.sharing-strategy", "time-slicing", Code::GpuTimeSliced),
            ("nvidia.com/gpu.sharing-strategy", "mps", Code::GpuTimeSliced),
            ("resource", "nvidia.com/gpu.shared-timeslicing", Code::GpuTimeSliced),
            ("CUDA_MPS_PIPE_DIRECTORY", "/mps/pipe", Code::GpuTimeSliced),
            ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50", Code::GpuTimeSliced),
            ("nvidia.com/mig-1g.10gb", "1", Code::GpuMigHandle),
            ("NVIDIA_MIG_CONFIG_DEVICES", "all", Code::GpuMigHandle),
            ("nvidia.com/mig.strategy", "mixed", Code::GpuMigHandle),
            ("device", "MIG-8f1c", Code::GpuMigHandle),
        ];
        for (name, value, code) in cases {
            assert_eq!(found(name, value), Some(code), "{name}={value}");
        }
    }
}
