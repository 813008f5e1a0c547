//! What stands behind the library in the place of the kernel: configfs-tsm, `/dev/sev-guest`, the boot log and the
//! runtime register of a simulated CPU.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};

use claviger::sim::intel::RuntimeEvent;
use claviger::sim::{Cpu as _, SnpGuest, TdxGuest};

use super::answers::Answers;

pub const REPORTS: &str = "/sys/kernel/config/tsm/report";
pub const SEV_GUEST: &str = "/dev/sev-guest";
pub const CCEL: &str = "/sys/firmware/acpi/tables/data/CCEL";
pub const RTMR3: &str = "/sys/devices/virtual/misc/tdx_guest/measurements/rtmr3:sha384";
pub const GET_EXT_REPORT: u32 = 0xc020_5302;

/// The CPU that the kernel runs on.
pub enum Cpu {
    Snp(Box<SnpGuest>),
    Tdx(Box<TdxGuest>),
}

/// Something that the kernel does wrong.
pub type Fault = fn(&mut State);

/// One folder of configfs-tsm.
#[derive(Default)]
struct Report {
    generation: u64,
    inblob: Option<[u8; 64]>,
    level: u32,
}

/// What the firmware and the hypervisor answer to one request on `/dev/sev-guest`.
#[derive(Clone, Copy)]
pub struct SevAnswer {
    pub errno: i32,
    pub exit_info: u64,
    /// The length of the table that the hypervisor has.
    pub needed: u32,
}

/// The kernel's state.
pub struct State {
    pub cpu: Cpu,
    /// What is in the folder `/sys/kernel/config/tsm/report`; without it there is none.
    pub has_tsm: bool,
    pub has_sev_guest: bool,
    pub provider: String,
    pub floor: u32,
    pub table: Vec<u8>,
    /// So many requests are written to by somebody else before their report is read.
    pub disturbed: u32,
    /// Calls that are refused, by their ends, and why.
    pub refused: Vec<(&'static str, i32)>,
    /// Files that hold something else, by the ends of their paths.
    pub instead: Vec<(&'static str, Vec<u8>)>,
    /// A call that is never answered, by its end. Its folder stays, since the process ends meanwhile.
    pub hangs: Option<&'static str>,
    /// What the next requests on `/dev/sev-guest` answer instead of a report.
    pub sev: Vec<SevAnswer>,
    /// Every call, as `open r PATH`, and the numbers of requests on the device.
    pub calls: Vec<String>,
    reports: BTreeMap<String, Report>,
}

impl State {
    pub fn new(cpu: Cpu) -> Self {
        let provider = match cpu {
            Cpu::Snp(_) => "sev_guest\n",
            Cpu::Tdx(_) => "tdx_guest\n",
        };
        Self {
            cpu,
            has_tsm: true,
            has_sev_guest: false,
            provider: provider.to_string(),
            floor: 0,
            table: Vec::new(),
            disturbed: 0,
            refused: Vec::new(),
            instead: Vec::new(),
            hangs: None,
            sev: Vec::new(),
            calls: Vec::new(),
            reports: BTreeMap::new(),
        }
    }

    /// Folders that were made and not removed.
    pub fn left(&self) -> usize {
        self.reports.len()
    }

    pub fn called(&self, call: &str) -> usize {
        self.calls.iter().filter(|made| made.starts_with(call)).count()
    }

    pub fn tdx(&mut self) -> &mut TdxGuest {
        match &mut self.cpu {
            Cpu::Tdx(guest) => guest,
            Cpu::Snp(_) => panic!("an SNP guest"),
        }
    }

    fn evidence(&mut self, data: [u8; 64], level: u32) -> Vec<u8> {
        match &mut self.cpu {
            Cpu::Snp(guest) => {
                guest.snp.vmpl = level;
                guest.evidence(data).unwrap()
            }
            Cpu::Tdx(guest) => guest.evidence(data).unwrap(),
        }
    }

    /// Opens a file to be read, and returns what it holds.
    fn read(&mut self, path: &str) -> Result<Vec<u8>, i32> {
        if let Some((_, content)) = self.instead.iter().find(|(end, _)| path.ends_with(end)) {
            return Ok(content.clone());
        }
        match (path, &self.cpu) {
            (CCEL, Cpu::Tdx(guest)) => return Ok(guest.boot_log()),
            (RTMR3, Cpu::Tdx(guest)) => return Ok(guest.registers()[3].to_vec()),
            (CCEL | RTMR3, Cpu::Snp(_)) => return Err(libc::ENOENT),
            _ => {}
        }
        let (folder, name) = path.rsplit_once('/').unwrap();
        let report = self.reports.get_mut(folder).ok_or(libc::ENOENT)?;
        Ok(match name {
            "provider" => self.provider.clone().into_bytes(),
            "generation" => format!("{}\n", report.generation).into_bytes(),
            "privlevel_floor" => format!("{}\n", self.floor).into_bytes(),
            "outblob" => {
                if self.disturbed > 0 {
                    self.disturbed -= 1;
                    report.generation += 1;
                }
                let (data, level) = (report.inblob.ok_or(libc::EINVAL)?, report.level);
                self.evidence(data, level)
            }
            "auxblob" if self.provider.starts_with("sev") => self.table.clone(),
            _ => return Err(libc::ENOENT),
        })
    }

    fn write(&mut self, path: &str, bytes: &[u8]) {
        if path == RTMR3 {
            let digest = bytes.try_into().unwrap();
            self.tdx().runtime.events.push(RuntimeEvent { digest, ..RuntimeEvent::new("written", &[]) });
            return;
        }
        let (folder, name) = path.rsplit_once('/').unwrap();
        let report = self.reports.get_mut(folder).unwrap();
        report.generation += 1;
        match name {
            "inblob" => report.inblob = Some(bytes.try_into().unwrap()),
            "privlevel" => report.level = std::str::from_utf8(bytes).unwrap().parse().unwrap(),
            _ => panic!("{path} takes nothing"),
        }
    }

    fn made(&mut self, path: &str) -> Result<(), i32> {
        match self.has_tsm && path.starts_with(REPORTS) {
            true => match self.reports.insert(path.to_string(), Report::default()) {
                None => Ok(()),
                Some(_) => Err(libc::EEXIST),
            },
            false => Err(libc::ENOENT),
        }
    }

    /// Answers a request on the device: errno, exit information, needed length, response, table.
    fn sev(&mut self, number: u32, request: &[u8]) -> Vec<u8> {
        let data: [u8; 64] = request[..64].try_into().unwrap();
        let level = u32::from_le_bytes(request[64..68].try_into().unwrap());
        let room = u32::from_le_bytes(request[104..108].try_into().unwrap());
        self.calls.push(format!("ioctl {number:#x}"));
        // The kernel takes whole pages, four at most.
        assert_eq!(room, if number == GET_EXT_REPORT { 4 * 4096 } else { 0 });
        let mut response = vec![0; 4000];
        let answer = match self.sev.is_empty() {
            true => {
                let report = self.evidence(data, level);
                response[4..8].copy_from_slice(&u32::try_from(report.len()).unwrap().to_le_bytes());
                response[32..32 + report.len()].copy_from_slice(&report);
                SevAnswer { errno: 0, exit_info: 0, needed: room }
            }
            false => self.sev.remove(0),
        };
        let table = match number == GET_EXT_REPORT && answer.errno == 0 {
            true => &self.table[..],
            false => &[],
        };
        let mut all = answer.errno.to_le_bytes().to_vec();
        all.extend(answer.exit_info.to_le_bytes());
        all.extend(answer.needed.to_le_bytes());
        all.extend(response);
        all.extend(u32::try_from(table.len()).unwrap().to_le_bytes());
        all.extend(table);
        all
    }
}

/// What answers for the kernel.
pub struct Kernel {
    pub state: Arc<Mutex<State>>,
    _answers: Answers,
}

impl Kernel {
    pub fn new(folder: &Path, state: State) -> Self {
        let state = Arc::new(Mutex::new(state));
        let own = Arc::clone(&state);
        let answers = Answers::new(folder.join("kernel.sock"), move |stream, hanging| {
            answered(stream, &own, hanging);
        });
        Self { state, _answers: answers }
    }
}

/// Answers one connection to its end, so that calls take effect in the order in which they are made.
fn answered(stream: UnixStream, state: &Mutex<State>, hanging: &mut Vec<UnixStream>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    if lines.read_line(&mut line).unwrap() == 0 {
        // A process that ended before it had asked.
        return;
    }
    let line = line.trim_end();
    let (verb, path) = line.rsplit_once(' ').unwrap();
    let mut held = state.lock().unwrap();
    held.calls.push(line.to_string());
    if held.hangs.is_some_and(|end| line.ends_with(end)) {
        hanging.push(stream);
        return;
    }
    let mut stream = stream;
    // Whoever asked may have been ended meanwhile.
    let mut say = |bytes: &[u8]| drop(stream.write_all(bytes));
    let refused = held.refused.iter().find(|(end, _)| line.ends_with(end)).map(|(_, errno)| *errno);
    if let Some(errno) = refused {
        say(&errno.to_le_bytes());
        return;
    }
    let errno = |done: Result<(), i32>| done.err().unwrap_or(0).to_le_bytes();
    match verb {
        "mkdir" => say(&errno(held.made(path))),
        "rmdir" => say(&errno(held.reports.remove(path).map(|_| ()).ok_or(libc::ENOENT))),
        "open r" => match held.read(path) {
            Ok(content) => say(&[&[0; 4][..], &content].concat()),
            Err(error) => say(&error.to_le_bytes()),
        },
        "open w" => {
            say(&[0; 4]);
            drop(held);
            let mut bytes = Vec::new();
            lines.read_to_end(&mut bytes).unwrap();
            // What is only opened is not written.
            if !bytes.is_empty() {
                state.lock().unwrap().write(path, &bytes);
            }
        }
        "open rw" if held.has_sev_guest => {
            say(&[0; 4]);
            drop(held);
            let mut request = [0; 116];
            while lines.read_exact(&mut request).is_ok() {
                let number = u32::from_le_bytes(request[..4].try_into().unwrap());
                let answer = state.lock().unwrap().sev(number, &request[4..]);
                say(&answer);
            }
        }
        _ => say(&libc::ENOENT.to_le_bytes()),
    }
}
