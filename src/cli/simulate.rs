//! `claviger simulate`: a simulated machine as a process, so that service and agent can be tried as processes too.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};

use super::print::print;
use super::{Failure, Status, clock, complain, roots};
use crate::agent::devices::{DeviceError, Devices, Interface};
use crate::protocol::facts::Facts;
use crate::protocol::message::{Bytes, CpuEvidence, GpuEvidence};
use crate::sim::{Machine, SimDevices, Vendors};

/// Bytes of one line on the socket: the evidence of a few GPUs with their chains.
const LINE_LEN_MAX: u64 = 1024 * 1024;

/// Makes simulated vendors and one machine, writes their roots and endorsements, and answers an agent on a socket.
///
/// Nothing that comes of it is worth anything: these vendors sign whatever they are asked to. Runs until it is ended.
#[derive(Args)]
pub struct Simulate {
    /// The folder to make: `roots` for `serve --simulated-roots`, `endorsements` for the service's configuration,
    /// `machine.sock` for `agent --simulated-machine`.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// GPUs of the machine.
    #[arg(long, default_value_t = 1, value_name = "N")]
    gpus: usize,
}

/// What an agent asks of the machine.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Call {
    Cpu(Bytes),
    Facts,
    Gpu(Bytes),
    Ready(bool),
}

/// What the machine answers.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Answer {
    Cpu(CpuEvidence),
    Done,
    Facts(Box<Facts>),
    Failed(String),
    Gpu(Vec<GpuEvidence>),
}

impl Simulate {
    pub fn run(self) -> Result<Status, Failure> {
        let usage = |error: crate::wire::crypto::CryptoError| Failure::Usage(error.to_string());
        let now = clock::now()?;
        let vendors = Vendors::new(now).map_err(usage)?;
        let machine = Machine::new(&vendors, self.gpus).map_err(usage)?;
        let (anchors, endorsements) = (self.dir.join("roots"), self.dir.join("endorsements"));
        for folder in [&self.dir, &anchors, &endorsements] {
            fs::create_dir(folder).map_err(|error| wrong(folder, &error))?;
        }
        for (name, der) in roots::SIMULATED.into_iter().zip(roots::of(&vendors)) {
            let path = anchors.join(name);
            fs::write(&path, der).map_err(|error| wrong(&path, &error))?;
        }
        for (name, bytes) in machine.endorsements(&vendors, now).map_err(usage)?.named() {
            let path = endorsements.join(name);
            fs::write(&path, bytes).map_err(|error| wrong(&path, &error))?;
        }
        let socket = self.dir.join("machine.sock");
        let listener = UnixListener::bind(&socket).map_err(|error| wrong(&socket, &error))?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))
            .map_err(|error| wrong(&socket, &error))?;
        print(&format!("SIMULATED machine with {} GPU ready at {}\n", self.gpus, socket.display()))?;
        let mut devices = SimDevices::new(&vendors, machine);
        for stream in listener.incoming() {
            let answered = stream.and_then(|stream| answer(stream, &mut devices));
            if let Err(error) = answered {
                complain(&error);
            }
        }
        Ok(Status::Good)
    }
}

fn wrong(path: &Path, error: &std::io::Error) -> Failure {
    Failure::at(path, error)
}

/// Answers the calls of one agent until it closes the connection.
fn answer(stream: UnixStream, devices: &mut SimDevices) -> std::io::Result<()> {
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

fn perform(devices: &mut SimDevices, call: Call) -> Answer {
    let failed = |error: DeviceError| Answer::Failed(error.to_string());
    match call {
        Call::Facts => devices.facts().map_or_else(failed, |facts| Answer::Facts(Box::new(facts))),
        Call::Gpu(Bytes(nonce)) => match nonce.as_slice().try_into() {
            Ok(nonce) => devices.gpu_evidence(nonce).map_or_else(failed, Answer::Gpu),
            Err(_) => Answer::Failed("expected a nonce of 32 bytes".to_string()),
        },
        Call::Cpu(Bytes(data)) => match data.as_slice().try_into() {
            Ok(data) => devices.cpu_evidence(data).map_or_else(failed, Answer::Cpu),
            Err(_) => Answer::Failed("expected report data of 64 bytes".to_string()),
        },
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
        let stream = UnixStream::connect(socket).map_err(|error| wrong(socket, &error))?;
        Ok(Self { lines: BufReader::new(stream) })
    }

    fn call(&mut self, call: &Call, interface: Interface) -> Result<Answer, DeviceError> {
        let failed = |what: String| DeviceError::Failed { interface, what };
        let mut text = serde_json::to_vec(call).map_err(|error| failed(error.to_string()))?;
        text.push(b'\n');
        self.lines.get_mut().write_all(&text).map_err(|error| failed(error.to_string()))?;
        let mut line = Vec::new();
        let read = self.lines.by_ref().take(LINE_LEN_MAX).read_until(b'\n', &mut line);
        read.map_err(|error| failed(error.to_string()))?;
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

    fn cpu_evidence(&mut self, report_data: &[u8; 64]) -> Result<CpuEvidence, DeviceError> {
        match self.call(&Call::Cpu(Bytes(report_data.to_vec())), Interface::ConfigfsTsm)? {
            Answer::Cpu(cpu) => Ok(cpu),
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

fn other(interface: Interface) -> DeviceError {
    DeviceError::Failed { interface, what: "the machine answered something else".to_string() }
}
