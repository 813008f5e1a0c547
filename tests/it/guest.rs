//! The agent's real devices, driven by a library in the place of NVML, by one in the place of the kernel's interfaces
//! to a confidential VM, and by a tree in the place of sysfs: the real command against a real service, with simulated
//! vendors.
//!
//! Both libraries stand in `tests/guest`, know nothing, and ask the test for every answer.

mod answers;
mod doctor;
mod kernel;
mod library;
mod nvml;
mod released;
mod states;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{LazyLock, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use claviger::http::listen::{self, Bounds};
use claviger::sim::{Machine, Vendors};
use claviger::wire::UnixSeconds;
use claviger::wire::crypto::{self, random};
use serde_json::Value;

use crate::service::{AUDIENCE, KEY, POLICY, SECRET, Stage, TENANT};
use kernel::{Cpu, Kernel};
use nvml::{Gpu, Library};

const BOUNDS: Bounds = Bounds { connections_max: 8, of_one_address_max: 8, head_s_max: 60, body_s_max: 60 };

/// Vendors at the time at which these tests run: the command goes by the system's clock.
static LIVE: LazyLock<Vendors> = LazyLock::new(|| Vendors::new(now()).unwrap());

fn now() -> UnixSeconds {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    UnixSeconds::new(i64::try_from(since.as_secs()).unwrap()).unwrap()
}

/// Builds a library of `tests/guest`, once for each text of its sources.
fn built(source: &str, flags: &[&str]) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest");
    let path = sources.join(source);
    let [own, both] = [&path, &sources.join("whole.h")].map(|file| fs::read(file).unwrap());
    let digest = crypto::sha256(&[&own, &both, flags.concat().as_bytes()]);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let library = folder.join(format!("{source}-{}.so", &digest.to_string()[..16]));
    if !library.exists() {
        let unique = hex::encode(random::<8>().unwrap());
        let begun = folder.join(format!("{source}-{unique}"));
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(&begun)
            .args(flags)
            .arg(&path)
            .arg("-ldl")
            .output()
            .expect("a C compiler, as the crates need one too");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        fs::rename(begun, &library).unwrap();
    }
    library
}

/// A folder whose path is short enough for a socket.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let name = hex::encode(random::<8>().unwrap());
        let path = std::env::temp_dir().join(format!("claviger-guest-{name}"));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// Puts a function on the PCI bus of the tree.
    fn function(&self, address: &str, vendor: &str, device: &str, class: &str) {
        let folder = self.0.join("tree/sys/bus/pci/devices").join(address);
        fs::create_dir_all(&folder).unwrap();
        for (name, value) in [("vendor", vendor), ("device", device), ("class", class)] {
            fs::write(folder.join(name), format!("0x{value}\n")).unwrap();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A guest with one GPU, its service, and everything that stands in for its hardware.
struct Guest {
    stage: Stage,
    library: Library,
    kernel: Kernel,
    /// After those who listen in it.
    place: Place,
    stop: tokio::sync::watch::Sender<bool>,
    /// Lines of the agent's configuration, and variables of its environment.
    more: String,
    environment: Vec<(&'static str, String)>,
}

impl Guest {
    fn snp(name: &str) -> Self {
        let machine = Machine::new(&LIVE, 1).unwrap();
        Self::on(Self::stage(name, POLICY), name, machine, |cpu| Cpu::Snp(Box::new(cpu)))
    }

    fn tdx(name: &str) -> Self {
        let machine = Machine::tdx(&LIVE, 1).unwrap();
        Self::on(Self::stage(name, POLICY), name, machine, |cpu| Cpu::Tdx(Box::new(cpu)))
    }

    fn stage(name: &str, policy: &str) -> Stage {
        let stage = Stage::of(&format!("guest-{name}"), policy, &LIVE);
        stage.open.clock.0.store(now().get(), std::sync::atomic::Ordering::SeqCst);
        stage
    }

    /// Puts a machine, and what its vendors say of it, behind the interfaces of a real one.
    fn on<C: claviger::sim::Cpu>(
        stage: Stage,
        name: &str,
        machine: Machine<C>,
        cpu: impl FnOnce(C) -> Cpu,
    ) -> Self {
        stage.publish(name, &machine);
        let place = Place::new();
        place.function("0000:00:1f.0", "8086", "2918", "060100");
        let mut gpus = Vec::new();
        for (bus, gpu) in (1..).zip(machine.gpus) {
            let gpu = Gpu::whole(gpu, bus);
            place.function(&gpu.address(), "10de", "2331", "030200");
            gpus.push(gpu);
        }
        let library = Library::new(&built("fake_nvml.c", &[]), &place.0, nvml::State::new(gpus));
        let kernel = Kernel::new(&place.0, kernel::State::new(cpu(machine.cpu)));
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let routes = claviger::http::guest::routes(stage.service().clone());
        let address = stage.runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            drop(tokio::spawn(listen::serve(listener, listen::Wire::Plain, BOUNDS, routes, stopped)));
            address
        });
        let pins = serde_json::to_vec(stage.identity().public().pins()).unwrap();
        fs::write(place.0.join("pins.json"), pins).unwrap();
        let more = format!("service = \"http://{address}\"\n");
        Self { stage, library, kernel, place, stop, more, environment: Vec::new() }
    }

    fn nvml(&self) -> MutexGuard<'_, nvml::State> {
        self.library.state.lock().unwrap()
    }

    fn kernel(&self) -> MutexGuard<'_, kernel::State> {
        self.kernel.state.lock().unwrap()
    }

    /// The request as it was sent, where `save_bundle` keeps it.
    fn sent(&self) -> Value {
        serde_json::from_slice(&fs::read(self.place.0.join("bundle.json")).unwrap()).unwrap()
    }

    /// Adds a line to the agent's configuration.
    fn configure(&mut self, line: &str) {
        self.more.push_str(line);
        self.more.push('\n');
    }

    /// Writes the agent's configuration, and prepares a command in this guest.
    fn command(&self, name: &str) -> Command {
        let config = format!(
            "{}danger_plaintext = true\ndanger_simulated_vendors = true\ndanger_keys_on_disk = true\n\
             pins_file = \"pins.json\"\ntenant = \"{TENANT}\"\nkeys = [\"{KEY}\"]\naudience = \"{AUDIENCE}\"\n\
             out_dir = \"out\"\nrun_dir = \"run\"\nretries = 0\nnvml_library = \"nvml.so\"\n",
            self.more
        );
        fs::write(self.place.0.join("agent.toml"), config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
        command.arg(name);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("NVIDIA_") || name.to_string_lossy().starts_with("CUDA_") {
                command.env_remove(name);
            }
        }
        command.env("LD_PRELOAD", built("fake_system.c", &[]));
        command.env("CLAVIGER_FAKE_SYSTEM", &self.place.0);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs `claviger agent` once.
    fn run(&self) -> Ran<'_> {
        let mut command = self.command("agent");
        let output = command.arg("--config").arg(self.place.0.join("agent.toml")).output().unwrap();
        let ran = Ran { guest: self, output };
        let hangs = self.kernel().hangs.is_some();
        assert_eq!(self.kernel().left(), usize::from(hangs), "a folder is left in configfs: {ran:?}");
        ran
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// What a run of the agent ended with.
struct Ran<'g> {
    guest: &'g Guest,
    output: Output,
}

impl std::fmt::Debug for Ran<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {}", self.output.status.code(), self.said())
    }
}

impl Ran<'_> {
    fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn status(&self) -> Value {
        serde_json::from_slice(&fs::read(self.guest.place.0.join("out/status.json")).unwrap()).unwrap()
    }

    fn key(&self) -> Option<Vec<u8>> {
        fs::read(self.guest.place.0.join("out/demo_model")).ok()
    }

    /// Asserts that the key was delivered and the GPU set ready.
    #[track_caller]
    fn delivered(&self) {
        assert_eq!(self.output.status.code(), Some(0), "{self:?}");
        assert_eq!(self.key().as_deref(), Some(SECRET));
        assert_eq!(self.guest.nvml().ready, 1, "the GPU accepts work");
    }

    /// Asserts that nothing came of it and no GPU accepts work.
    #[track_caller]
    fn nothing(&self) {
        assert_eq!(self.key(), None, "{self:?}");
        assert_eq!(self.guest.nvml().ready, 0, "no GPU accepts work");
        assert_eq!(self.guest.stage.count("released"), 0);
    }

    /// Asserts that the service refused for exactly these reasons.
    #[track_caller]
    fn denied(&self, codes: &[&str]) {
        assert_eq!(self.output.status.code(), Some(1), "{self:?}");
        let status = self.status();
        let mut reasons: Vec<&str> =
            status["reasons"].as_array().unwrap().iter().map(|code| code.as_str().unwrap()).collect();
        reasons.sort_unstable();
        reasons.dedup();
        assert_eq!(reasons, codes, "{self:?}");
        self.nothing();
    }

    /// Asserts that the agent stopped by itself with that code, and said these words.
    #[track_caller]
    fn stopped(&self, code: &str, words: &[&str]) {
        assert_eq!(self.output.status.code(), Some(3), "{self:?}");
        assert_eq!(self.status()["code"], code, "{self:?}");
        for word in words {
            assert!(self.said().contains(word), "{word}: {self:?}");
        }
        self.nothing();
    }
}
