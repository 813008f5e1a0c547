//! What stands behind the library in the place of NVML: the state of a driver and its GPUs, and the bytes of `nvml.h`.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use claviger::sim::MachineGpu;

use super::answers::Answers;

pub const NOT_SUPPORTED: u32 = 3;
pub const NOT_FOUND: u32 = 6;
const INSUFFICIENT_SIZE: u32 = 7;
pub const GPU_IS_LOST: u32 = 15;
/// The report's place in its structure, and the chain's.
const REPORT_AT: usize = 44;
const CHAIN_AT: usize = 4104;

/// A GPU as its driver shows it.
pub struct Gpu {
    pub sim: MachineGpu,
    pub bus: u32,
    pub uuid: String,
    pub architecture: u32,
    pub mig: (u32, u32),
    /// How many slices there can be, and the numbers of those that are there.
    pub slices: (u32, Vec<u32>),
    pub is_slice: u32,
    pub virtualization: u32,
    pub protected_kib: u64,
    pub compute: Vec<u32>,
    pub mps: Vec<u32>,
    pub utilization: u32,
}

impl Gpu {
    /// A whole GPU in confidential mode, passed through, with nobody on it.
    pub fn whole(sim: MachineGpu, bus: u32) -> Self {
        let uuid = format!("GPU-{}-0000-0000-0000-000000000000", hex::encode(&sim.gpu.pdi[..4]));
        Self {
            sim,
            bus,
            uuid,
            architecture: 9,
            mig: (0, 0),
            slices: (7, Vec::new()),
            is_slice: 0,
            virtualization: 1,
            protected_kib: 80 << 20,
            compute: Vec::new(),
            mps: Vec::new(),
            utilization: 0,
        }
    }

    pub fn address(&self) -> String {
        format!("0000:{:02x}:00.0", self.bus)
    }
}

/// What a call answers instead of the truth.
#[derive(Clone)]
pub enum Answer {
    /// Nothing, until the test ends.
    Hangs,
    Raw(Vec<u8>),
    Status(u32),
}

type Change = Box<dyn FnOnce(&mut State) + Send>;

/// The driver's state.
pub struct State {
    pub driver: String,
    pub environment: u32,
    pub confidential: u32,
    pub devtools: u32,
    pub multi_gpu: u32,
    pub ready: u32,
    /// Whether ready was taken back, after which it cannot be set.
    pub spent: bool,
    pub gpus: Vec<Gpu>,
    /// Calls that answer something else, from the time on that they are made (the first is 0).
    pub instead: Vec<(&'static str, usize, Answer)>,
    /// What happens after a call with that number has been answered (the first is 0).
    after: Option<(&'static str, usize, Change)>,
    pub calls: Vec<String>,
}

impl State {
    pub fn new(gpus: Vec<Gpu>) -> Self {
        let driver = gpus.first().map_or(String::new(), |gpu| gpu.sim.fields.driver.clone());
        Self {
            driver,
            environment: 2,
            confidential: 1,
            devtools: 0,
            multi_gpu: 0,
            ready: 0,
            gpus,
            spent: false,
            instead: Vec::new(),
            after: None,
            calls: Vec::new(),
        }
    }

    pub fn gpu(&mut self) -> &mut Gpu {
        &mut self.gpus[0]
    }

    pub fn instead(&mut self, call: &'static str, answer: Answer) {
        self.instead.push((call, 0, answer));
    }

    /// Lets something happen after a call has been answered for the nth time, from 0.
    pub fn after(&mut self, call: &'static str, at: usize, change: impl FnOnce(&mut Self) + Send + 'static) {
        self.after = Some((call, at, Box::new(change)));
    }

    pub fn called(&self, call: &str) -> usize {
        self.calls.iter().filter(|made| *made == call).count()
    }

    /// Returns status and output; `None` if the call hangs.
    fn answer(&mut self, call: &str, input: &[u8]) -> Option<(u32, Vec<u8>)> {
        let number = self.called(call);
        self.calls.push(call.to_string());
        let instead = self.instead.iter().rfind(|(name, from, _)| *name == call && number >= *from);
        let answer = match instead.map(|(_, _, answer)| answer.clone()) {
            Some(Answer::Hangs) => return None,
            Some(Answer::Raw(output)) => (0, output),
            Some(Answer::Status(status)) => (status, Vec::new()),
            None => self.truth(call, input).unwrap_or_else(|status| (status, Vec::new())),
        };
        if self.after.as_ref().is_some_and(|(name, at, _)| *name == call && *at == number)
            && let Some((_, _, change)) = self.after.take()
        {
            change(self);
        }
        Some(answer)
    }

    fn truth(&mut self, call: &str, input: &[u8]) -> Result<(u32, Vec<u8>), u32> {
        if let Some(output) = self.of_system(call, input)? {
            return Ok((0, output));
        }
        let gpu = usize::try_from(u64_at(input, 0)).unwrap().checked_sub(1);
        let gpu = gpu.and_then(|at| self.gpus.get(at)).ok_or(2_u32)?;
        match call {
            "nvmlDeviceGetComputeRunningProcesses_v3" => Ok(processes(&gpu.compute, input)),
            "nvmlDeviceGetMPSComputeRunningProcesses_v3" => Ok(processes(&gpu.mps, input)),
            _ => of_gpu(gpu, call, input).map(|output| (0, output)),
        }
    }

    fn of_system(&mut self, call: &str, input: &[u8]) -> Result<Option<Vec<u8>>, u32> {
        Ok(Some(match call {
            "nvmlInit_v2" | "nvmlShutdown" => Vec::new(),
            "nvmlSystemGetDriverVersion" => text(&self.driver),
            "nvmlSystemGetConfComputeState" => numbers(&[self.environment, self.confidential, self.devtools]),
            "nvmlSystemGetConfComputeSettings" => {
                // The caller says how large its structure is, and of which version.
                assert_eq!(u32_at(input, 0), 0x0100_0014);
                let all = [u32_at(input, 0), self.environment, self.confidential, self.devtools];
                [numbers(&all), numbers(&[self.multi_gpu])].concat()
            }
            "nvmlSystemGetConfComputeGpusReadyState" => numbers(&[self.ready]),
            "nvmlSystemSetConfComputeGpusReadyState" => {
                if self.spent {
                    return Err(2);
                }
                let ready = u32_at(input, 0);
                self.spent = self.ready == 1 && ready == 0;
                self.ready = ready;
                Vec::new()
            }
            "nvmlDeviceGetCount_v2" => numbers(&[u32::try_from(self.gpus.len()).unwrap()]),
            "nvmlDeviceGetHandleByIndex_v2" => {
                let at = u32_at(input, 0);
                if usize::try_from(at).unwrap() >= self.gpus.len() {
                    return Err(2);
                }
                (u64::from(at) + 1).to_le_bytes().to_vec()
            }
            _ => return Ok(None),
        }))
    }
}

fn of_gpu(gpu: &Gpu, call: &str, input: &[u8]) -> Result<Vec<u8>, u32> {
    Ok(match call {
        "nvmlDeviceGetPciInfo_v3" => {
            let long = format!("0000{}", gpu.address());
            let mut info = vec![0; 68];
            info[..gpu.address().len()].copy_from_slice(gpu.address().as_bytes());
            info[20..24].copy_from_slice(&gpu.bus.to_le_bytes());
            info[28..32].copy_from_slice(&0x2331_10de_u32.to_le_bytes());
            info[36..36 + long.len()].copy_from_slice(long.as_bytes());
            info
        }
        "nvmlDeviceGetPdi" => {
            assert_eq!(u32_at(input, 8), 0x0100_0010);
            let value = u64::from_be_bytes(gpu.sim.gpu.pdi);
            [&input[8..16], &value.to_le_bytes()].concat()
        }
        "nvmlDeviceGetUUID" => text(&gpu.uuid),
        "nvmlDeviceGetVbiosVersion" => text(&gpu.sim.fields.vbios_text()),
        "nvmlDeviceGetArchitecture" => numbers(&[gpu.architecture]),
        "nvmlDeviceGetMigMode" => numbers(&[gpu.mig.0, gpu.mig.1]),
        "nvmlDeviceGetMaxMigDeviceCount" => numbers(&[gpu.slices.0]),
        "nvmlDeviceGetMigDeviceHandleByIndex" => match gpu.slices.1.contains(&u32_at(input, 8)) {
            true => 0x100_u64.to_le_bytes().to_vec(),
            false => return Err(NOT_FOUND),
        },
        "nvmlDeviceIsMigDeviceHandle" => numbers(&[gpu.is_slice]),
        "nvmlDeviceGetVirtualizationMode" => numbers(&[gpu.virtualization]),
        "nvmlDeviceGetConfComputeMemSizeInfo" => {
            [gpu.protected_kib.to_le_bytes(), 0_u64.to_le_bytes()].concat()
        }
        "nvmlDeviceGetUtilizationRates" => numbers(&[gpu.utilization, 0]),
        "nvmlDeviceGetConfComputeGpuAttestationReport" => {
            let mut structure = input[8..].to_vec();
            let nonce: [u8; 32] = structure[12..REPORT_AT].try_into().unwrap();
            sized(&mut structure, 4, REPORT_AT, &gpu.sim.gpu.report(nonce, &gpu.sim.fields).unwrap());
            structure
        }
        "nvmlDeviceGetConfComputeGpuCertificate" => {
            let mut structure = input[8..].to_vec();
            sized(&mut structure, 4, CHAIN_AT, &gpu.sim.gpu.chain_pem());
            structure
        }
        _ => panic!("{call} is not known"),
    })
}

fn sized(structure: &mut [u8], len_at: usize, at: usize, bytes: &[u8]) {
    structure[len_at..len_at + 4].copy_from_slice(&u32::try_from(bytes.len()).unwrap().to_le_bytes());
    structure[at..at + bytes.len()].copy_from_slice(bytes);
}

/// The list, behind its length; too little room is told with the length that is needed.
fn processes(pids: &[u32], input: &[u8]) -> (u32, Vec<u8>) {
    let room = usize::try_from(u64_at(input, 8)).unwrap();
    let mut output = u32::try_from(pids.len()).unwrap().to_le_bytes().to_vec();
    for pid in pids.iter().take(room) {
        let mut info = [0xff; 24];
        info[..4].copy_from_slice(&pid.to_le_bytes());
        output.extend(info);
    }
    (if pids.len() > room { INSUFFICIENT_SIZE } else { 0 }, output)
}

pub fn numbers(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub fn text(value: &str) -> Vec<u8> {
    [value.as_bytes(), &[0]].concat()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The library in a folder of the test's own, and what answers it.
pub struct Library {
    pub path: PathBuf,
    pub state: Arc<Mutex<State>>,
    _answers: Answers,
}

impl Library {
    /// Puts a library that was built there, and answers it from now on.
    pub fn new(built: &Path, folder: &Path, state: State) -> Self {
        let path = folder.join("nvml.so");
        std::fs::copy(built, &path).unwrap();
        let state = Arc::new(Mutex::new(state));
        let own = Arc::clone(&state);
        let answers = Answers::new(folder.join("nvml.so.sock"), move |mut stream, hanging| {
            let Some((call, input)) = asked(&mut stream) else { return };
            let answered = own.lock().unwrap().answer(&call, &input);
            match answered {
                Some((status, output)) => {
                    let len = u32::try_from(output.len()).unwrap();
                    let all = [&status.to_le_bytes()[..], &len.to_le_bytes(), &output].concat();
                    // Whoever asked may have been ended meanwhile.
                    stream.write_all(&all).ok();
                }
                None => hanging.push(stream),
            }
        });
        Self { path, state, _answers: answers }
    }
}

/// Reads a call; `None` where a process ended before it had asked.
fn asked(stream: &mut UnixStream) -> Option<(String, Vec<u8>)> {
    let mut field = || {
        let mut len = [0; 4];
        stream.read_exact(&mut len).ok()?;
        let mut bytes = vec![0; usize::try_from(u32::from_le_bytes(len)).unwrap()];
        stream.read_exact(&mut bytes).ok()?;
        Some(bytes)
    };
    let call = field()?;
    Some((String::from_utf8(call).unwrap(), field()?))
}
