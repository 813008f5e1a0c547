//! The requests of `/dev/sev-guest`.
//!
//! The one function here is safe to call: pointers go to its own memory, which lives as long as the call, and lengths
//! are those of that memory. What the answer means is told elsewhere.

#![allow(unsafe_code, reason = "a device's ioctl has no other door")]

use std::ffi::c_int;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Bytes of the answer to a report request. Source: linux/sev-guest.h, `snp_report_resp`.
pub const SEV_RESPONSE_LEN: usize = 4000;

/// Source: linux/sev-guest.h, `snp_guest_request_ioctl`.
#[repr(C)]
struct GuestRequest {
    message_version: u8,
    request: u64,
    response: u64,
    exit_info: u64,
}

/// Source: linux/sev-guest.h, `snp_report_req`.
#[repr(C)]
struct ReportRequest {
    data: [u8; 64],
    vmpl: u32,
    reserved: [u8; 28],
}

/// Source: linux/sev-guest.h, `snp_ext_report_req`.
#[repr(C)]
struct ExtendedRequest {
    report: ReportRequest,
    table: u64,
    table_len: u32,
}

const GET_REPORT: libc::Ioctl = 0xc020_5300;
const GET_EXT_REPORT: libc::Ioctl = 0xc020_5302;

const _: () = {
    assert!(size_of::<GuestRequest>() == 32);
    assert!(size_of::<ReportRequest>() == 96);
    assert!(size_of::<ExtendedRequest>() == 112);
};

/// What `/dev/sev-guest` answered.
#[derive(Debug)]
pub struct SevAnswer {
    /// The system's error, if the call failed.
    pub errno: Option<c_int>,
    /// The firmware's error below, the hypervisor's above.
    pub exit_info: u64,
    pub response: Box<[u8; SEV_RESPONSE_LEN]>,
    /// The certificate table, or the length that it would need.
    pub table: Result<Vec<u8>, u32>,
}

/// Asks for a report; with `table_len` also for the host's certificate table, of so many bytes at most.
pub fn sev_report(device: BorrowedFd<'_>, data: &[u8; 64], vmpl: u32, table_len: Option<usize>) -> SevAnswer {
    let mut response = Box::new([0; SEV_RESPONSE_LEN]);
    let mut table = vec![0; table_len.unwrap_or(0)];
    let room = u32::try_from(table.len()).unwrap_or(0);
    let mut asked = ExtendedRequest {
        report: ReportRequest { data: *data, vmpl, reserved: [0; 28] },
        table: address_of(table.as_mut_ptr()),
        table_len: room,
    };
    let mut request = GuestRequest {
        message_version: 1,
        request: address_of(&raw mut asked),
        response: address_of(response.as_mut_ptr()),
        exit_info: 0,
    };
    let number = match table_len {
        Some(_) => GET_EXT_REPORT,
        None => GET_REPORT,
    };
    // SAFETY: the kernel reads the request and writes the response of 4000 bytes, the exit information, and with
    // GET_EXT_REPORT at most `table_len` bytes of table and the length that it needs. All of it is memory of this
    // function that outlives the call; a plain report request is the first member of the extended one.
    let failed = unsafe { libc::ioctl(device.as_raw_fd(), number, &raw mut request) } != 0;
    let errno = failed.then(|| std::io::Error::last_os_error().raw_os_error().unwrap_or(0));
    let table = match asked.table_len > room {
        true => Err(asked.table_len),
        false => Ok(table),
    };
    SevAnswer { errno, exit_info: request.exit_info, response, table }
}

fn address_of<T>(pointer: *mut T) -> u64 {
    // Never longer than the kernel's own field.
    u64::try_from(pointer.expose_provenance()).unwrap_or(0)
}
