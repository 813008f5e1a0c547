//! `/dev/sev-guest`: reports of an SNP guest whose kernel has no configfs-tsm.

use std::fs::OpenOptions;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::ioctl::{self, SevAnswer};
use super::{certificates, files};
use crate::agent::devices::{DeviceError, Interface};
use crate::protocol::message::{Bytes, CpuEvidence, CpuKind};
use crate::wire::{Reader, limits};

const SEV_GUEST: Interface = Interface::SevGuest;
/// Errors of the hypervisor. Source: linux/sev-guest.h, `SNP_GUEST_VMM_ERR_*`.
const INVALID_LEN: u32 = 1;
const BUSY: u32 = 2;
/// Milliseconds before a busy hypervisor is asked again; doubled for each further time.
const WAIT_MS: u64 = 100;
const WAIT_MS_MAX: u64 = 3_200;

/// Collects evidence over `report_data` at that privilege level, with the host's certificates where there are any.
///
/// Only a hypervisor that says it is busy is asked again, with growing waits, until the deadline: after another error
/// a further request can cost the guest its key to the firmware.
///
/// Errors: `Absent` without the device; `Failed`.
///
/// Source: Linux, Documentation/virt/coco/sev-guest.rst.
pub fn evidence(
    device: &Path,
    report_data: &[u8; 64],
    level: u8,
    deadline: Instant,
) -> Result<CpuEvidence, DeviceError> {
    let opened = OpenOptions::new().read(true).write(true).open(device);
    let opened = opened.map_err(|error| files::wrong(SEV_GUEST, device, &error))?;
    let ask = |table_len: Option<usize>| {
        patiently(deadline, || ioctl::sev_report(opened.as_fd(), report_data, u32::from(level), table_len))
    };
    let mut answer = ask(Some(limits::SEV_TABLE_LEN_MAX));
    // A table that does not fit is done without: the service has these certificates too.
    if answer.table.is_err() || vmm_error(&answer) == INVALID_LEN {
        answer = ask(None);
    }
    if let Some(errno) = answer.errno {
        let (firmware, vmm) = (answer.exit_info & u64::from(u32::MAX), vmm_error(&answer));
        let error = std::io::Error::from_raw_os_error(errno);
        return Err(failed(format!("firmware {firmware:#x}, hypervisor {vmm:#x}: {error}")));
    }
    let report = report(&answer.response[..]).map_err(failed)?;
    let own = certificates::parse(answer.table.as_deref().unwrap_or_default()).map_err(failed)?;
    Ok(CpuEvidence::without_logs(CpuKind::Snp, report, own.into_iter().map(Bytes).collect()))
}

fn patiently(deadline: Instant, mut ask: impl FnMut() -> SevAnswer) -> SevAnswer {
    let mut wait = WAIT_MS;
    loop {
        let answer = ask();
        let pause = Duration::from_millis(wait);
        if answer.errno.is_none() || vmm_error(&answer) != BUSY || Instant::now() + pause >= deadline {
            return answer;
        }
        std::thread::sleep(pause);
        wait = (wait * 2).min(WAIT_MS_MAX);
    }
}

fn vmm_error(answer: &SevAnswer) -> u32 {
    u32::try_from(answer.exit_info >> 32).unwrap_or(u32::MAX)
}

/// Takes the report out of the firmware's answer: status, length, 24 reserved bytes, the report.
///
/// Source: AMD 56860, MSG_REPORT_RSP.
fn report(response: &[u8]) -> Result<Vec<u8>, String> {
    let short = |_| "an answer that is too short".to_string();
    let mut reader = Reader::new(response);
    let (status, len) = (reader.u32_le().map_err(short)?, reader.u32_le().map_err(short)?);
    let _reserved = reader.take(24).map_err(short)?;
    if status != 0 {
        return Err(format!("the firmware's status {status:#x}"));
    }
    let len = usize::try_from(len).ok().filter(|len| *len > 0 && *len <= reader.left());
    let len = len.ok_or_else(|| "a report of a length that cannot be".to_string())?;
    reader.take(len).map(<[u8]>::to_vec).map_err(short)
}

fn failed(what: String) -> DeviceError {
    DeviceError::Failed { interface: SEV_GUEST, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(errno: Option<i32>, vmm: u64) -> SevAnswer {
        let response = Box::new([0; ioctl::SEV_RESPONSE_LEN]);
        SevAnswer { errno, exit_info: vmm << 32, response, table: Ok(Vec::new()) }
    }

    #[test]
    fn a_busy_hypervisor_alone_is_asked_again() {
        let asked = |errors: &[u64], deadline: Instant| {
            let mut count = 0;
            let last = patiently(deadline, || {
                let error = errors.get(count).copied();
                count += 1;
                answer(error.map(|_| libc::EIO), error.unwrap_or(0))
            });
            (count, last.errno.is_none())
        };
        let far = Instant::now() + Duration::from_secs(3600);
        assert_eq!(asked(&[2, 2], far), (3, true));
        assert_eq!(asked(&[], far), (1, true));
        for other in [0, 1, 3] {
            assert_eq!(asked(&[other], far), (1, false), "{other}");
        }
        assert_eq!(asked(&[2], Instant::now()), (1, false), "not beyond the deadline");
    }

    #[test]
    fn a_report_is_as_long_as_the_answer_says_and_has_room_for() {
        let response = |status: u32, len: u32| {
            let mut response = vec![7; ioctl::SEV_RESPONSE_LEN];
            response[..4].copy_from_slice(&status.to_le_bytes());
            response[4..8].copy_from_slice(&len.to_le_bytes());
            response
        };
        assert_eq!(report(&response(0, 1184)), Ok(vec![7; 1184]));
        assert_eq!(report(&response(0, 3968)).map(|report| report.len()), Ok(3968));
        for (status, len) in [(0, 0), (0, 3969), (0, u32::MAX), (0x16, 1184)] {
            assert!(report(&response(status, len)).is_err(), "{status} {len}");
        }
        assert!(report(&[0; 31]).is_err());
    }
}
