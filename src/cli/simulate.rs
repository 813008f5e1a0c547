//! `claviger simulate`: a simulated machine as a process, so that service and agent can be tried as processes too.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::print::print;
use super::{Failure, Status, clock, complain, files, roots};
use crate::agent::devices::{
    DeviceError, Devices, Extension, Inspect, Interface, Parts, Register, ReportInterface,
};
use crate::protocol::facts::Facts;
use crate::protocol::message::{Bytes, CpuEvidence, GpuEvidence};
use crate::sim::{Cpu, Machine, SimDevices, Vendors};
use crate::wire::limits;

/// The policy that names the image of every simulated machine.
const POLICY: &str = include_str!("../../policies/simulator.toml");
/// For how long an agent waits for the machine, which answers one agent after the other.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes of one line on the socket: a boot log, the evidence of a few GPUs with their chains.
const LINE_LEN_MAX: u64 = 1024 * 1024;

/// Makes simulated vendors and one machine, writes their roots and endorsements, and answers an agent on a socket.
///
/// Nothing that comes of it is worth anything: these vendors sign whatever they are asked to. Runs until it is ended.
#[derive(Args)]
pub struct Simulate {
    /// The folder to make: `roots` for `serve --simulated-roots`, `endorsements` for the service's configuration,
    /// `policy.toml` that names the machine's image, `machine.sock` for `agent --simulated-machine`.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The CPU that leads the machine.
    #[arg(long, value_enum, default_value_t = CpuChoice::Snp, value_name = "KIND")]
    cpu: CpuChoice,
    /// GPUs of the machine.
    #[arg(long, default_value = "1", value_name = "N", value_parser = gpus)]
    gpus: usize,
    /// Init data that the machine is launched with, for `agent --init-data`.
    #[arg(long, value_name = "FILE")]
    init_data: Option<PathBuf>,
}

/// CPUs that can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CpuChoice {
    /// AMD SEV-SNP, Genoa.
    Snp,
    /// Intel TDX.
    Tdx,
}

/// What an agent asks of the machine.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Call {
    Cpu(Bytes),
    EventLog,
    Facts,
    Gpu(Bytes),
    Ready(bool),
    Record { event: String, payload: Bytes },
}

/// What the machine answers.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Answer {
    Cpu(Box<CpuEvidence>),
    Done,
    EventLog(Option<Bytes>),
    Facts(Box<Facts>),
    Failed(String),
    Gpu(Vec<GpuEvidence>),
    Recorded(bool),
}

impl Simulate {
    pub fn run(self) -> Result<Status, Failure> {
        let usage = |error: crate::wire::crypto::CryptoError| Failure::Usage(error.to_string());
        let now = clock::now()?;
        let vendors = Vendors::new(now).map_err(usage)?;
        match self.cpu {
            CpuChoice::Snp => self.serve(&vendors, Machine::new(&vendors, self.gpus).map_err(usage)?),
            CpuChoice::Tdx => self.serve(&vendors, Machine::tdx(&vendors, self.gpus).map_err(usage)?),
        }
    }

    /// Writes what belongs to the machine, and answers for it.
    fn serve<C: Cpu>(&self, vendors: &Vendors, mut machine: Machine<C>) -> Result<Status, Failure> {
        if let Some(path) = &self.init_data {
            let document = files::read(path)?;
            machine.launch(&document).map_err(|error| Failure::at(path, error))?;
        }
        let (anchors, endorsements) = (self.dir.join("roots"), self.dir.join("endorsements"));
        if self.dir.exists() {
            let what =
                "exists already; a machine is made in a new folder alone: remove this one, or name another";
            return Err(Failure::at(&self.dir, what));
        }
        for folder in [&self.dir, &anchors, &endorsements] {
            fs::create_dir(folder).map_err(|error| wrong(folder, &error))?;
        }
        for (name, der) in roots::SIMULATED.into_iter().zip(roots::of(vendors)) {
            let path = anchors.join(name);
            fs::write(&path, der).map_err(|error| wrong(&path, &error))?;
        }
        let files = machine.endorsements(vendors, vendors.now);
        for (name, bytes) in files.map_err(|error| Failure::Usage(error.to_string()))?.named() {
            let path = endorsements.join(name);
            fs::write(&path, bytes).map_err(|error| wrong(&path, &error))?;
        }
        let policy = self.dir.join("policy.toml");
        fs::write(&policy, POLICY).map_err(|error| wrong(&policy, &error))?;
        let socket = self.dir.join("machine.sock");
        let listener = UnixListener::bind(&socket).map_err(|error| wrong(&socket, &error))?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))
            .map_err(|error| wrong(&socket, &error))?;
        let (kind, place) = (C::KIND.text(), socket.display());
        print(&format!("SIMULATED {kind} machine with {} GPU ready at {place}\n", self.gpus))?;
        let mut devices = SimDevices::new(vendors, machine);
        for stream in listener.incoming() {
            let answered = stream.and_then(|stream| answer(stream, &mut devices));
            if let Err(error) = answered {
                complain(&error);
            }
        }
        Ok(Status::Good)
    }
}

fn gpus(text: &str) -> Result<usize, String> {
    let count = text.parse::<usize>().ok().filter(|count| (1..=limits::DEVICES_MAX).contains(count));
    count.ok_or_else(|| format!("expected 1 to {} GPUs", limits::DEVICES_MAX))
}

fn wrong(path: &Path, error: &std::io::Error) -> Failure {
    Failure::at(path, error)
}

/// Answers the calls of one agent until it closes the connection.
fn answer<C: Cpu>(stream: UnixStream, devices: &mut SimDevices<C>) -> std::io::Result<()> {
    devices.restart();
    let mut out = stream.try_clone()?;
    let mut lines = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        if lines.by_ref().take(LINE_LEN_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let made = match serde_json::from_slice(&line) {
            Ok(call) => perform(devices, call),
            Err(error) => Answer::Failed(error.to_string()),
        };
        let mut text = serde_json::to_vec(&made).map_err(std::io::Error::other)?;
        text.push(b'\n');
        out.write_all(&text)?;
    }
}

fn perform<C: Cpu>(devices: &mut SimDevices<C>, call: Call) -> Answer {
    let failed = |error: DeviceError| Answer::Failed(error.to_string());
    match call {
        Call::Facts => devices.facts().map_or_else(failed, |facts| Answer::Facts(Box::new(facts))),
        Call::Gpu(Bytes(nonce)) => match nonce.as_slice().try_into() {
            Ok(nonce) => devices.gpu_evidence(nonce).map_or_else(failed, Answer::Gpu),
            Err(_) => Answer::Failed("expected a nonce of 32 bytes".to_string()),
        },
        Call::Cpu(Bytes(data)) => match data.as_slice().try_into() {
            Ok(data) => devices.cpu_evidence(data).map_or_else(failed, |cpu| Answer::Cpu(Box::new(cpu))),
            Err(_) => Answer::Failed("expected report data of 64 bytes".to_string()),
        },
        Call::EventLog => devices.event_log().map_or_else(failed, |log| Answer::EventLog(log.map(Bytes))),
        Call::Record { event, payload } => {
            let recorded = devices.record(&event, &payload.0);
            recorded.map_or_else(failed, |recorded| Answer::Recorded(recorded == Extension::Extended))
        }
        Call::Ready(ready) => devices.set_ready(ready).map_or_else(failed, |()| Answer::Done),
    }
}

/// The devices of a simulated machine behind its socket.
pub struct Remote {
    lines: BufReader<UnixStream>,
}

impl Remote {
    /// Connects to `machine.sock`.
    ///
    /// Errors: `Failure::Usage` naming the socket.
    pub fn connect(socket: &Path) -> Result<Self, Failure> {
        let stream = UnixStream::connect(socket).map_err(|error| {
            let what =
                "start `claviger simulate --dir DIR` and wait for `ready`; the socket is DIR/machine.sock";
            Failure::at(socket, format!("{error}; {what}"))
        })?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(|error| wrong(socket, &error))?;
        Ok(Self { lines: BufReader::new(stream) })
    }

    fn call(&mut self, call: &Call, interface: Interface) -> Result<Answer, DeviceError> {
        let failed = |what: String| DeviceError::Failed { interface, what };
        let mut text = serde_json::to_vec(call).map_err(|error| failed(error.to_string()))?;
        text.push(b'\n');
        self.lines.get_mut().write_all(&text).map_err(|error| failed(error.to_string()))?;
        let mut line = Vec::new();
        let read = self.lines.by_ref().take(LINE_LEN_MAX).read_until(b'\n', &mut line);
        read.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => failed(format!(
                "no answer for {} s; a simulated machine serves one agent at a time",
                PATIENCE.as_secs()
            )),
            _ => failed(error.to_string()),
        })?;
        match serde_json::from_slice(&line).map_err(|error| failed(error.to_string()))? {
            Answer::Failed(what) => Err(failed(what)),
            answer => Ok(answer),
        }
    }
}

impl Devices for Remote {
    fn facts(&mut self) -> Result<Facts, DeviceError> {
        match self.call(&Call::Facts, Interface::Nvml)? {
            Answer::Facts(facts) => Ok(*facts),
            _ => Err(other(Interface::Nvml)),
        }
    }

    fn gpu_evidence(&mut self, nonce: &[u8; 32]) -> Result<Vec<GpuEvidence>, DeviceError> {
        match self.call(&Call::Gpu(Bytes(nonce.to_vec())), Interface::Nvml)? {
            Answer::Gpu(gpus) => Ok(gpus),
            _ => Err(other(Interface::Nvml)),
        }
    }

    fn event_log(&mut self) -> Result<Option<Vec<u8>>, DeviceError> {
        match self.call(&Call::EventLog, Interface::EventLog)? {
            Answer::EventLog(log) => Ok(log.map(|log| log.0)),
            _ => Err(other(Interface::EventLog)),
        }
    }

    fn record(&mut self, event: &str, payload: &[u8]) -> Result<Extension, DeviceError> {
        let call = Call::Record { event: event.to_string(), payload: Bytes(payload.to_vec()) };
        match self.call(&call, Interface::RuntimeRegister)? {
            Answer::Recorded(true) => Ok(Extension::Extended),
            Answer::Recorded(false) => Ok(Extension::Unable),
            _ => Err(other(Interface::RuntimeRegister)),
        }
    }

    fn cpu_evidence(&mut self, report_data: &[u8; 64]) -> Result<CpuEvidence, DeviceError> {
        match self.call(&Call::Cpu(Bytes(report_data.to_vec())), Interface::ConfigfsTsm)? {
            Answer::Cpu(cpu) => Ok(*cpu),
            _ => Err(other(Interface::ConfigfsTsm)),
        }
    }

    fn set_ready(&mut self, ready: bool) -> Result<(), DeviceError> {
        match self.call(&Call::Ready(ready), Interface::Nvml)? {
            Answer::Done => Ok(()),
            _ => Err(other(Interface::Nvml)),
        }
    }
}

impl Inspect for Remote {
    fn parts(&mut self) -> Parts {
        Parts::of(self.facts())
    }

    fn report_interface(&mut self) -> Result<ReportInterface, DeviceError> {
        Ok(ReportInterface::Simulated)
    }

    /// The machine knows one way to tell: to extend it.
    fn register(&mut self) -> Result<Register, DeviceError> {
        Ok(Register::Untold)
    }
}

fn other(interface: Interface) -> DeviceError {
    DeviceError::Failed { interface, what: "the machine answered something else".to_string() }
}
