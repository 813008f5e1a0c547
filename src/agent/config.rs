//! The agent's configuration: one TOML file, every field known, every danger named.

use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;

use super::check;
use super::deliver::keyring::Keyring;
use super::deliver::places::{Places, Target};
use super::error::Error;
use super::file;
use super::status;
use super::system::{self, Settings};
use super::url::ServiceUrl;
use crate::protocol::head::Kem;
use crate::protocol::init_data::{AGENT_CONFIGURATION, InitData};
use crate::protocol::json;
use crate::protocol::role::PinnedRoots;
use crate::wire::ids::{Audience, KeyId, TenantId};
use crate::wire::limits;
use crate::wire::text::foreign;

/// Seconds for one exchange with the service, unless the configuration says otherwise.
const TIMEOUT_S: u32 = 30;
const TIMEOUT_S_MAX: u32 = 300;
/// Attempts after the first, unless the configuration says otherwise.
const RETRIES: u32 = 5;

/// Seconds that a workload has between SIGTERM and SIGKILL, unless the configuration says otherwise.
const STOP_GRACE_S: u32 = 10;
const STOP_GRACE_S_MAX: u32 = 300;
/// Seconds that another guest's lease is waited for at most, however long it is told to take.
const WAIT_LEASE_S_MAX: u32 = 3_600;
/// The user that kernel and systems show for one that has no number here.
const NOBODY: u32 = 65_534;

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    service: String,
    ca: Option<String>,
    ca_file: Option<PathBuf>,
    pins_file: Option<PathBuf>,
    pins: Option<PinnedRoots>,
    tenant: TenantId,
    #[serde(default)]
    keys: Vec<KeyId>,
    audience: Option<Audience>,
    kem: Option<Kem>,
    out_dir: PathBuf,
    run_dir: PathBuf,
    retries: Option<u32>,
    timeout_s: Option<u32>,
    save_bundle: Option<PathBuf>,
    deliver: Option<Vec<Target>>,
    owner: Option<String>,
    socket: Option<PathBuf>,
    #[serde(default)]
    socket_peers: Vec<u32>,
    #[serde(default)]
    keyring: Keyring,
    #[serde(default)]
    on_denied: OnDenied,
    stop_grace_s: Option<u32>,
    termination_log: Option<PathBuf>,
    wait_lease_s: Option<u32>,
    init_data: Option<PathBuf>,
    nvml_library: Option<PathBuf>,
    device_timeout_s: Option<u32>,
    snp_privilege_level: Option<u8>,
    #[serde(default)]
    danger_keys_on_disk: bool,
    #[serde(default)]
    danger_plaintext: bool,
    #[serde(default)]
    danger_simulated_vendors: bool,
}

/// Where the configuration stands.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// In a file of its own.
    File(&'a Path),
    /// In the init data of the guest's launch, which are then sent too.
    InitData(&'a Path),
}

/// What the command line says instead of the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    pub service: Option<String>,
    pub tenant: Option<TenantId>,
    pub keys: Option<Vec<KeyId>>,
    pub audience: Option<Audience>,
    pub out_dir: Option<PathBuf>,
    pub run_dir: Option<PathBuf>,
    pub retries: Option<u32>,
    pub termination_log: Option<PathBuf>,
    pub wait_lease_s: Option<u32>,
}

/// What becomes of keys and workload when a lease is not renewed: denied, or lapsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDenied {
    /// Keys are wiped, the GPUs are not ready, and the workload is stopped.
    #[default]
    Stop,
    /// All stays as it is; the status file and the log tell.
    Warn,
}

/// How an agent lives that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conduct {
    pub on_denied: OnDenied,
    /// Seconds between SIGTERM and SIGKILL.
    pub stop_grace_s: u32,
    /// Where the last line is written for Kubernetes, in place of `/dev/termination-log` where that is.
    pub termination_log: Option<PathBuf>,
    /// Seconds in which a lease of another guest of the tenant may be waited for.
    pub wait_lease_s: u32,
}

impl Default for Conduct {
    fn default() -> Self {
        Self { on_denied: OnDenied::Stop, stop_grace_s: STOP_GRACE_S, termination_log: None, wait_lease_s: 0 }
    }
}

/// A configuration that was checked.
#[derive(Clone, Debug)]
pub struct Config {
    pub service: ServiceUrl,
    /// TLS anchors; no others are trusted.
    pub anchors: Vec<CertificateDer<'static>>,
    pub pins: PinnedRoots,
    pub tenant: TenantId,
    /// May be empty: then the attestation result is all that is asked for.
    pub keys: Vec<KeyId>,
    pub audience: Option<Audience>,
    pub kem: Kem,
    /// Where keys, receipt, result and status are written.
    pub out_dir: PathBuf,
    /// Where the instance's keys are kept.
    pub run_dir: PathBuf,
    /// Attempts after the first.
    pub retries: u32,
    pub timeout_s: u32,
    /// Where the newest request is kept as it is sent, for `claviger verify bundle`. It holds no secret.
    pub save_bundle: Option<PathBuf>,
    pub places: Places,
    pub conduct: Conduct,
    /// The init data of the guest's launch, sent verbatim.
    pub init_data: Option<Vec<u8>>,
    /// How the guest's own devices are asked.
    pub devices: Settings,
    pub danger_keys_on_disk: bool,
    pub danger_simulated_vendors: bool,
}

impl Config {
    /// Reads the configuration from where it stands.
    ///
    /// Errors: those of `load` and of `of_init_data`.
    pub fn read(origin: Origin<'_>, overrides: &Overrides) -> Result<Self, Error> {
        match origin {
            Origin::File(path) => Self::load(path, overrides),
            Origin::InitData(path) => Self::of_init_data(path, overrides),
        }
    }

    /// Reads the init data at `path`, and the configuration in it. The document is read once: what configures the agent
    /// is what it sends.
    ///
    /// That it is what the guest was launched with is for the measured image to check, before it starts the agent; the
    /// service checks it again.
    ///
    /// Shape: that of `InitData::parse`, with a text `claviger-agent.toml` of the shape of `load`. In it nothing stands
    /// for something that is pinned by nobody: pins are written out, paths are absolute, and of `overrides` only
    /// folders and attempts are taken.
    ///
    /// Errors: those of `load`.
    pub fn of_init_data(path: &Path, overrides: &Overrides) -> Result<Self, Error> {
        let at = |what: String| wrong(path, what);
        let bytes = read(path, limits::INIT_DATA_LEN_MAX)?;
        let init_data = InitData::parse(&bytes).map_err(|error| at(error.to_string()))?;
        let text = init_data
            .configuration()
            .ok_or_else(|| at(format!("expected a text `{AGENT_CONFIGURATION}` among its data")))?;
        let document = document(path, text)?;
        let redirected = [
            ("service", overrides.service.is_some()),
            ("tenant", overrides.tenant.is_some()),
            ("keys", overrides.keys.is_some()),
            ("audience", overrides.audience.is_some()),
        ];
        if let Some((name, _)) = redirected.iter().find(|(_, given)| *given) {
            return Err(at(format!("expected no other `{name}` beside the one of the init data")));
        }
        if document.pins_file.is_some() || document.init_data.is_some() {
            let what =
                "expected `pins` written out, and neither `pins_file` nor `init_data`: nothing pins a file";
            return Err(at(format!("{AGENT_CONFIGURATION}: {what}")));
        }
        let Document { ca_file, nvml_library, save_bundle, socket, termination_log, .. } = &document;
        let paths = [ca_file, nvml_library, save_bundle, socket, termination_log].into_iter().flatten();
        if let Some(named) =
            paths.chain([&document.out_dir, &document.run_dir]).find(|named| !named.is_absolute())
        {
            let named = foreign(&named.to_string_lossy());
            return Err(at(format!("{AGENT_CONFIGURATION}: expected absolute paths; {named} is none")));
        }
        Ok(Self { init_data: Some(bytes), ..Self::of(path, document, overrides)? })
    }

    /// Reads the file at `path` and the files that it names. Relative paths in it are relative to its folder, those of
    /// `overrides` to where the agent runs.
    ///
    /// Shape: TOML, at most `AGENT_FILE_LEN_MAX` bytes; exactly one of `pins` and `pins_file`; one of `ca` and
    /// `ca_file` unless the service is asked over plain HTTP.
    ///
    /// Errors: `Config`, `Url`, `SimulatedPins`.
    pub fn load(path: &Path, overrides: &Overrides) -> Result<Self, Error> {
        let text = read(path, limits::AGENT_FILE_LEN_MAX)?;
        let text = String::from_utf8(text).map_err(|_| wrong(path, "expected UTF-8".to_string()))?;
        Self::of(path, document(path, &text)?, overrides)
    }

    fn of(path: &Path, document: Document, overrides: &Overrides) -> Result<Self, Error> {
        let at = |what: String| wrong(path, what);
        let base = path.parent().unwrap_or(Path::new(""));
        let of_file = |named: PathBuf| base.join(named);
        let service = overrides.service.as_ref().unwrap_or(&document.service);
        let service = ServiceUrl::parse(service, document.danger_plaintext)?;
        let pins = match (document.pins, document.pins_file.map(of_file)) {
            (Some(pins), None) => pins,
            (None, Some(file)) => {
                json::parse("pins", &read(&file, limits::AGENT_FILE_LEN_MAX)?, limits::AGENT_FILE_LEN_MAX)
                    .map_err(|error| wrong(&file, error.to_string()))?
            }
            (Some(_), Some(_)) | (None, None) => {
                return Err(at("expected either `pins` or `pins_file`".to_string()));
            }
        };
        let anchors = match (document.ca, document.ca_file.map(of_file)) {
            (Some(pem), None) => anchors(path, pem.as_bytes())?,
            (None, Some(file)) => anchors(&file, &read(&file, limits::AGENT_FILE_LEN_MAX)?)?,
            (None, None) if service.is_plain() => Vec::new(),
            (Some(_), Some(_)) | (None, None) => {
                let what = "expected either `ca` or `ca_file`: no other TLS anchors are trusted";
                return Err(at(what.to_string()));
            }
        };
        let init_data = match document.init_data.map(of_file) {
            Some(file) => Some(init_data(&file)?),
            None => None,
        };
        let owner = match document.owner.as_deref().map(str::parse) {
            Some(Ok(owner)) => Some(owner),
            Some(Err(what)) => return Err(Error::Config { place: "owner".to_string(), what }),
            None => None,
        };
        let places = Places {
            targets: document.deliver,
            owner,
            socket: document.socket.map(of_file),
            socket_peers: document.socket_peers,
            keyring: document.keyring,
        };
        let conduct = Conduct {
            on_denied: document.on_denied,
            stop_grace_s: document.stop_grace_s.unwrap_or(STOP_GRACE_S),
            termination_log: overrides.termination_log.clone().or(document.termination_log.map(of_file)),
            wait_lease_s: overrides.wait_lease_s.or(document.wait_lease_s).unwrap_or(0),
        };
        let config = Self {
            service,
            anchors,
            pins,
            tenant: overrides.tenant.clone().unwrap_or(document.tenant),
            keys: overrides.keys.clone().unwrap_or(document.keys),
            audience: overrides.audience.clone().or(document.audience),
            kem: document.kem.unwrap_or(Kem::XWing),
            out_dir: overrides.out_dir.clone().unwrap_or_else(|| of_file(document.out_dir)),
            run_dir: overrides.run_dir.clone().unwrap_or_else(|| of_file(document.run_dir)),
            retries: overrides.retries.or(document.retries).unwrap_or(RETRIES),
            timeout_s: document.timeout_s.unwrap_or(TIMEOUT_S),
            save_bundle: document.save_bundle.map(of_file),
            places,
            conduct,
            init_data,
            devices: Settings {
                nvml_library: document.nvml_library.map(of_file),
                timeout_s: document.device_timeout_s.unwrap_or(system::TIMEOUT_S),
                snp_privilege_level: document.snp_privilege_level,
            },
            danger_keys_on_disk: document.danger_keys_on_disk,
            danger_simulated_vendors: document.danger_simulated_vendors,
        };
        config.check()?;
        Ok(config)
    }

    /// Checks what holds between fields; also done before each run.
    ///
    /// Errors: `Config`, `SimulatedPins`.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |place: &str, what: String| Err(Error::Config { place: place.to_string(), what });
        check::pins(&self.pins, self.danger_simulated_vendors)?;
        if self.pins.roots[0] == self.pins.roots[1] {
            return wrong("pins", "expected two different roots".to_string());
        }
        if self.keys.len() > limits::KEYS_MAX {
            return wrong(
                "keys",
                format!("expected at most {}; {} named", limits::KEYS_MAX, self.keys.len()),
            );
        }
        if let Err(what) = status::distinct(&self.keys) {
            return wrong("keys", what);
        }
        if self.retries > limits::AGENT_RETRIES_MAX {
            return wrong("retries", format!("expected at most {}", limits::AGENT_RETRIES_MAX));
        }
        if !(1..=TIMEOUT_S_MAX).contains(&self.timeout_s) {
            return wrong("timeout_s", format!("expected 1 to {TIMEOUT_S_MAX} seconds"));
        }
        if !(1..=system::TIMEOUT_S_MAX).contains(&self.devices.timeout_s) {
            return wrong("device_timeout_s", format!("expected 1 to {} seconds", system::TIMEOUT_S_MAX));
        }
        if self.devices.snp_privilege_level.is_some_and(|level| level > system::PRIVILEGE_LEVEL_MAX) {
            let what = format!("expected 0 to {}", system::PRIVILEGE_LEVEL_MAX);
            return wrong("snp_privilege_level", what);
        }
        if self.out_dir == self.run_dir {
            return wrong("run_dir", "expected another folder than `out_dir`".to_string());
        }
        if self.anchors.is_empty() && !self.service.is_plain() {
            return wrong("ca_file", "expected at least one certificate".to_string());
        }
        self.check_places()?;
        let Conduct { stop_grace_s, wait_lease_s, .. } = self.conduct;
        if !(1..=STOP_GRACE_S_MAX).contains(&stop_grace_s) {
            return wrong("stop_grace_s", format!("expected 1 to {STOP_GRACE_S_MAX} seconds"));
        }
        if wait_lease_s > WAIT_LEASE_S_MAX {
            return wrong("wait_lease_s", format!("expected at most {WAIT_LEASE_S_MAX} seconds"));
        }
        Ok(())
    }

    fn check_places(&self) -> Result<(), Error> {
        let wrong =
            |place: &str, what: &str| Err(Error::Config { place: place.to_string(), what: what.to_string() });
        let mut targets = self.places.targets.clone().unwrap_or_default();
        let named = targets.len();
        targets.sort();
        targets.dedup();
        if targets.len() != named {
            return wrong("deliver", "expected each place once");
        }
        if self.places.targets.as_ref().is_some_and(Vec::is_empty) {
            return wrong("deliver", "expected at least one of `files`, `keyring`, `socket`");
        }
        let has_socket = targets.contains(&Target::Socket);
        if !has_socket && (self.places.socket.is_some() || !self.places.socket_peers.is_empty()) {
            return wrong("socket", "expected `socket` in `deliver`");
        }
        if self.places.socket_peers.len() > limits::AGENT_SOCKET_PEERS_MAX {
            return wrong("socket_peers", &format!("expected at most {}", limits::AGENT_SOCKET_PEERS_MAX));
        }
        let nobody = "65534 stands for every user that has no number here";
        if self.places.socket_peers.contains(&NOBODY) {
            return wrong("socket_peers", nobody);
        }
        if has_socket && self.places.owner.is_some_and(|owner| owner.uid == NOBODY) {
            return wrong("owner", nobody);
        }
        Ok(())
    }
}

fn wrong(path: &Path, what: String) -> Error {
    Error::Config { place: foreign(&path.to_string_lossy()), what }
}

fn document(path: &Path, text: &str) -> Result<Document, Error> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        wrong(path, format!("line {line}: {}", error.message().replace('\n', " ")))
    })
}

/// Reads init data that are only sent. What the service would refuse is told here, where the file is known.
fn init_data(path: &Path) -> Result<Vec<u8>, Error> {
    let bytes = read(path, limits::INIT_DATA_LEN_MAX)?;
    InitData::parse(&bytes).map_err(|error| wrong(path, error.to_string()))?;
    Ok(bytes)
}

fn read(path: &Path, len_max: usize) -> Result<Vec<u8>, Error> {
    let bytes = file::bounded_regular(path, len_max)
        .map_err(|error| wrong(path, format!("cannot be read: {error}")))?;
    match bytes.len() > len_max {
        true => Err(wrong(path, format!("expected at most {len_max} bytes"))),
        false => Ok(bytes),
    }
}

/// Reads TLS anchors; one that TLS would pass over in silence is refused.
fn anchors(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let mut anchors = Vec::new();
    for anchor in CertificateDer::pem_slice_iter(pem) {
        let anchor = anchor.map_err(|error| wrong(path, format!("expected PEM: {error}")))?;
        rustls::RootCertStore::empty()
            .add(anchor.clone())
            .map_err(|error| wrong(path, format!("certificate {}: {error}", anchors.len() + 1)))?;
        anchors.push(anchor);
        if anchors.len() > limits::AGENT_ANCHORS_MAX {
            return Err(wrong(path, format!("expected at most {} certificates", limits::AGENT_ANCHORS_MAX)));
        }
    }
    match anchors.is_empty() {
        true => Err(wrong(path, "expected at least one certificate in PEM".to_string())),
        false => Ok(anchors),
    }
}

#[cfg(test)]
mod tests;
