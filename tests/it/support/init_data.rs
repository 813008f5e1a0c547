//! The init data of the guests in order: what they name, and the requests of such guests.

use claviger::protocol::init_data::{Algorithm, InitData};
use claviger::protocol::role::PinnedRoots;
use claviger::sim::{Cpu as _, init_data};
use claviger::wire::Digest;
use claviger::wire::ids::{Mode, StoreId};

use super::plan::Plan;

/// The image of the agent that the document names.
pub const IMAGE: &str = "sha256:ab0123456789abcdefab0123456789abcdefab0123456789abcdefab01234567";

/// The service that the document pins.
pub fn pins() -> PinnedRoots {
    PinnedRoots {
        mode: Mode::Real,
        store: StoreId::new([5; 16]),
        roots: [Digest::new([6; 32]), Digest::new([7; 32])],
    }
}

/// The agent's configuration of the guest in order.
pub fn configuration() -> String {
    let PinnedRoots { store, roots: [one, other], .. } = pins();
    format!(
        "service = \"https://keys.example:8443\"\nca_file = \"/etc/ca.pem\"\ntenant = \"acme\"\n\
         keys = [\"models/llama\", \"models/data\"]\naudience = \"https://vault.example\"\n\
         out_dir = \"/run/claviger/keys\"\nrun_dir = \"/run/claviger/instance\"\n\
         [pins]\nmode = \"real\"\nstore = \"{store}\"\nroots = [\"{one}\", \"{other}\"]\n"
    )
}

/// The document of the guest in order.
pub fn document(algorithm: Algorithm) -> Vec<u8> {
    init_data::document(algorithm, IMAGE, &configuration())
}

impl Plan {
    /// A request of a guest of SEV-SNP whose agent is fixed by init data in code and configuration. It is granted.
    pub fn by_init_data() -> Self {
        let mut plan = Self::in_order();
        plan.launch(&document(Algorithm::Sha256));
        plan.policy_says("agent_configured_by = \"image\"", "agent_configured_by = \"init_data\"");
        plan.agent_by_init_data();
        plan
    }

    /// The same of a guest of TDX.
    pub fn tdx_by_init_data() -> Self {
        let mut plan = Self::tdx();
        plan.agent_by_init_data();
        plan
    }

    fn agent_by_init_data(&mut self) {
        let by_init_data = format!("agent_fixed_by = \"init_data\"\nagent_images = [\"{IMAGE}\"]");
        self.policy_says("agent_fixed_by = \"image\"", &by_init_data);
    }

    /// Launches the guest with a document that it sends, and lets the policy list its digest.
    pub fn launch(&mut self, document: &[u8]) {
        let before = self.register();
        self.launch_unlisted(document);
        let now = self.register();
        if before != now {
            self.policy_says(&before, &now);
        }
    }

    /// Launches the guest with a document that it sends and whose digest the policy does not know.
    pub fn launch_unlisted(&mut self, document: &[u8]) {
        let init_data = InitData::parse(document).unwrap();
        match &mut self.td {
            Some(td) => td.launch(&init_data),
            None => self.machine.cpu.launch(&init_data),
        }
        self.init_data = Some(document.to_vec());
    }

    /// What HOST_DATA or MRCONFIGID holds, as policies write it.
    fn register(&self) -> String {
        match &self.td {
            Some(td) => hex::encode(td.quote.td.mr_config_id),
            None => hex::encode(self.machine.cpu.snp.host_data),
        }
    }
}
