//! A request in order and the policy that grants it, for the tests of this room: each test changes one thing.

use super::document::Policy;
use super::view::{CpuView, GpuView, SnpView, View};
use crate::protocol::facts::{DeviceFacts, Facts, PciFunction};
use crate::protocol::head::RequestHead;
use crate::protocol::init_data::InitData;
use crate::protocol::role::PinnedRoots;
use crate::verify::init_data::Launched;
use crate::verify::terms::{
    Architecture, Cpuid, FirmwareVersion, GpuMode, GuestPolicy, Line, PlatformInfo, Signer, SnpFields, Tcb,
};
use crate::wire::ids::{Mode, Pdi, StoreId};
use crate::wire::{Digest, UnixSeconds};

pub(super) mod tdx;

/// The policy, in TOML.
pub(super) const POLICY: &str = r#"
schema = "claviger.release-policy/1"
tenant = "acme"
name = "llama"
keys = ["models/llama-*"]
audiences = ["https://vault.example"]

[cpu.snp]
lines = ["genoa"]
vmpl = 0
smt = "allow"

[cpu.snp.code]
measurements = ["010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101"]

[cpu.snp.workload]
host_data = ["0202020202020202020202020202020202020202020202020202020202020202"]

[[cpu.snp.tcb]]
line = "genoa"
models = [0x11]
reported = { boot_loader = 10, tee = 0, snp = 23, microcode = 84 }

[gpu]
profile = "single"
architectures = ["hopper"]
count = 1
driver_least = "580.65.06"
vbios = ["96.00.9F.00.01"]

[binding]
agent_fixed_by = "image"
agent_configured_by = "image"
"#;

/// The same policy in JSON, fields in another order.
pub(super) const POLICY_JSON: &str = r#"{
  "binding": {"agent_configured_by": "image", "agent_fixed_by": "image"},
  "gpu": {"count": 1, "vbios": ["96.00.9f.00.01"], "driver_least": "580.65.06", "profile": "single",
          "architectures": ["hopper"]},
  "cpu": {"snp": {
    "tcb": [{"line": "genoa", "models": [17],
             "reported": {"snp": 23, "microcode": 84, "boot_loader": 10, "tee": 0}}],
    "workload": {"host_data": ["0202020202020202020202020202020202020202020202020202020202020202"]},
    "code": {"measurements":
      ["010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101"]},
    "smt": "allow", "vmpl": 0, "lines": ["genoa"]}},
  "audiences": ["https://vault.example"],
  "keys": ["models/llama-*"],
  "name": "llama", "tenant": "acme", "schema": "claviger.release-policy/1"
}"#;

/// Changes the policy's text; each change must be one that the text has.
pub(super) fn text(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(POLICY.to_string(), |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text.replace(from, to)
    })
}

/// Parses the changed policy.
pub(super) fn policy(changes: &[(&str, &str)]) -> Policy {
    Policy::parse(text(changes).as_bytes()).unwrap()
}

/// The time of the tests: 2026-11-30T12:00:00Z.
pub(super) fn now() -> UnixSeconds {
    UnixSeconds::from_rfc3339("2026-11-30T12:00:00Z").unwrap()
}

/// What a request shows, owned.
pub(super) struct World {
    pub head: RequestHead,
    pub cpu: Option<SnpFields>,
    /// Instead of `cpu`.
    pub td: Option<tdx::Td>,
    pub line: Option<Line>,
    pub vlek_provider: Option<String>,
    pub gpus: Vec<Option<GpuView>>,
    pub facts: Option<Facts>,
    pub launched: Launched,
}

/// The image of the agent that `init_data` names.
pub(super) const IMAGE: &str = "sha256:abababababababababababababababababababababababababababababababab";

/// Init data that configures the agent of `World::launched`.
pub(super) fn init_data() -> String {
    let (store, roots) = ("01".repeat(16), ["02".repeat(32), "03".repeat(32)]);
    format!(
        "version = '0.1.0'\nalgorithm = 'sha384'\n\n[data]\n'claviger-agent-image' = '{IMAGE}'\n\
         'claviger-agent.toml' = \"\"\"\ntenant = 'acme'\nkeys = ['models/llama-7b', 'models/llama-13b']\n\
         audience = 'https://vault.example'\n[pins]\nmode = 'real'\nstore = '{store}'\n\
         roots = ['{}', '{}']\n\"\"\"\n",
        roots[0], roots[1]
    )
}

pub(super) const TCB: Tcb = Tcb { fmc: None, boot_loader: 10, tee: 0, snp: 23, microcode: 84 };

impl World {
    /// A request that the policy grants without a warning.
    pub(super) fn good() -> Self {
        Self {
            head: head(),
            cpu: Some(snp()),
            td: None,
            line: Some(Line::Genoa),
            vlek_provider: None,
            gpus: vec![Some(gpu(1))],
            facts: Some(facts(1)),
            launched: Launched::Absent,
        }
    }

    /// A request of the agent that `init_data` configures, launched with that document.
    pub(super) fn launched(document: &str) -> Self {
        let pins = PinnedRoots {
            mode: Mode::Real,
            store: StoreId::new([1; 16]),
            roots: [Digest::new([2; 32]), Digest::new([3; 32])],
        };
        let mut world = Self::good();
        world.head.service_root = pins.id();
        world.head.audience = Some("https://vault.example".parse().unwrap());
        let document = InitData::parse(document.as_bytes()).unwrap();
        world.snp().host_data = document.register();
        world.launched = Launched::With(Box::new(document));
        world
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            head: &self.head,
            cpu: match (&self.td, &self.cpu) {
                (Some(td), _) => Some(CpuView::Tdx(td.view())),
                (None, Some(report)) => Some(CpuView::Snp(self.snp_view(report))),
                (None, None) => None,
            },
            launched: &self.launched,
            gpus: self.gpus.clone(),
            facts: self.facts.as_ref(),
        }
    }

    pub(super) fn snp_view<'a>(&'a self, report: &'a SnpFields) -> SnpView<'a> {
        SnpView { report, line: self.line, vlek_provider: self.vlek_provider.as_deref() }
    }

    pub(super) fn snp(&mut self) -> &mut SnpFields {
        self.cpu.as_mut().unwrap()
    }

    pub(super) fn gpu(&mut self) -> &mut GpuView {
        self.gpus[0].as_mut().unwrap()
    }

    pub(super) fn facts(&mut self) -> &mut Facts {
        self.facts.as_mut().unwrap()
    }

    pub(super) fn device(&mut self) -> &mut DeviceFacts {
        &mut self.facts().devices[0]
    }

    /// Adds a second GPU with evidence and facts of its own.
    pub(super) fn second(&mut self) {
        self.gpus.push(Some(gpu(2)));
        self.facts = Some(facts(2));
    }
}

pub(super) fn function(address: &str, class: &str) -> PciFunction {
    PciFunction { address: address.to_string(), class: class.to_string(), ..PciFunction::of_gpu(0) }
}

fn head() -> RequestHead {
    let (tenant, key) = ("acme".parse().unwrap(), "models/llama-7b".parse().unwrap());
    RequestHead::release(tenant, vec![key], &[2; 32], &[3; 32])
}

fn snp() -> SnpFields {
    let version = FirmwareVersion { major: 1, minor: 55, build: 40 };
    SnpFields {
        version: 5,
        guest_svn: 2,
        policy: GuestPolicy(0x3_0000),
        family_id: [0; 16],
        image_id: [0; 16],
        vmpl: 0,
        current_tcb: TCB,
        platform_info: PlatformInfo(0x24),
        author_key_en: false,
        mask_chip_key: false,
        signer: Signer::Vcek,
        report_data: [0; 64],
        measurement: Digest::new([1; 48]),
        host_data: Digest::new([2; 32]),
        id_key_digest: Digest::new([3; 48]),
        author_key_digest: Digest::new([0; 48]),
        report_id: Digest::new([4; 32]),
        report_id_ma: Digest::new([0xff; 32]),
        reported_tcb: TCB,
        cpuid: Some(Cpuid { family: 0x19, model: 0x11, stepping: 1 }),
        chip_id: [5; 64],
        committed_tcb: TCB,
        current_version: version,
        committed_version: version,
        launch_tcb: TCB,
        launch_mitigation_vector: Some(1),
        current_mitigation_vector: Some(1),
    }
}

fn gpu(pdi: u8) -> GpuView {
    GpuView {
        architecture: Some(Architecture::Hopper),
        mode: GpuMode::Spt,
        pdi: Some(Pdi::new([pdi; 8])),
        driver: Some("580.95.05".parse().unwrap()),
        vbios: Some("96.00.9F.00.01".parse().unwrap()),
    }
}

/// Facts of GPUs whose PDIs repeat one byte: the first counts from 1. NVML may write the VBIOS in lower case.
fn facts(gpus: u8) -> Facts {
    let gpu = |pdi| (Pdi::new([pdi; 8]), "96.00.9f.00.01".to_string());
    Facts::whole("580.95.05", &(1..=gpus).map(gpu).collect::<Vec<_>>())
}
