//! Whether the devices shown are one whole node: every GPU and every switch of it, each named by its neighbours.
//!
//! Promise: pure, over claims as they are shown. It says that what the devices sign of one another closes; that each of
//! them is genuine, fresh and in order is said by its own checks, and nothing here stands without them.
//!
//! What is signed: in protected PCIe (Hopper) each GPU names its switches and each switch its GPUs, and both sides
//! are compared with the serials of their BROM certificates, so that no device can be left out or exchanged. In MPT
//! (Blackwell, encrypted NVLink) a GPU names no neighbour: how many GPUs the node has, which of them are linked to one
//! another and which switches lie between is signed by nobody, and stays the word of the measured guest.

use std::collections::BTreeSet;

use super::gpu::Gpu;
use super::switch::Switch;
use crate::evidence::gpu::{Architecture, Mode};
use crate::evidence::switch::Lock;
use crate::wire::ids::Pdi;
use crate::wire::{Check, CheckName, Code};

/// GPUs of a node in protected PCIe.
pub const PPCIE_GPUS: usize = 8;
/// Switches of a node in protected PCIe.
pub const PPCIE_SWITCHES: usize = 4;
/// GPUs of a node in MPT, at least: one alone is no node.
pub const MPT_GPUS_MIN: usize = 2;

/// In which multi-GPU mode a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeMode {
    /// Blackwell with encrypted NVLink.
    Mpt,
    /// Hopper HGX: protected PCIe.
    Ppcie,
}

impl NodeMode {
    /// Returns the name as results write it: that of the GPUs' mode.
    pub fn text(self) -> &'static str {
        match self {
            Self::Mpt => Mode::Mpt.text(),
            Self::Ppcie => Mode::Ppcie.text(),
        }
    }
}

/// What one GPU says of itself and its neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuEnd {
    /// By its BROM certificate.
    pub pdi: Option<Pdi>,
    pub architecture: Option<Architecture>,
    pub mode: Mode,
    /// The switch at the other end of each link; `None` for a link that is off. Empty if it names none.
    pub links: Vec<Option<Pdi>>,
}

/// What one switch says of itself and its neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchEnd {
    /// By its BROM certificate.
    pub pdi: Option<Pdi>,
    /// The GPUs that it lists; `None` for a place without one.
    pub gpus: Vec<Option<Pdi>>,
    /// `None` if it does not say.
    pub lock: Option<Lock>,
}

impl From<&Gpu> for GpuEnd {
    fn from(gpu: &Gpu) -> Self {
        Self {
            pdi: gpu.pdi,
            architecture: gpu.architecture,
            mode: gpu.mode,
            links: gpu.report.opaque.switch_pdis.clone().unwrap_or_default(),
        }
    }
}

impl From<&Switch> for SwitchEnd {
    fn from(switch: &Switch) -> Self {
        let opaque = &switch.report.opaque;
        let gpus = opaque.gpu_pdis.map_or_else(Vec::new, |places| places.to_vec());
        Self { pdi: switch.pdi, gpus, lock: opaque.lock }
    }
}

/// A node whose devices close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub mode: NodeMode,
    pub gpus: BTreeSet<Pdi>,
    /// Empty in MPT, where no switch is attested.
    pub switches: BTreeSet<Pdi>,
}

/// Why the devices are no whole node: of several faults the one that explains the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub code: Code,
    pub expected: String,
    pub actual: String,
}

impl Fault {
    fn new(code: Code, expected: impl Into<String>, actual: impl Into<String>) -> Self {
        Self { code, expected: expected.into(), actual: actual.into() }
    }
}

/// Makes the check `topology` of what was found out.
pub fn check(closed: &Result<Node, Fault>) -> Check {
    match closed {
        Ok(_) => Check::pass(CheckName::Topology),
        Err(Fault { code, expected, actual }) => {
            Check::fail(CheckName::Topology, *code).expected(expected).actual(actual)
        }
    }
}

/// Tells whether there is a topology to speak of: several devices, and a sign of a multi-GPU mode among them. Single
/// GPUs side by side have none.
pub fn applies(gpus: &[GpuEnd], switches: &[SwitchEnd]) -> bool {
    let multi = |gpu: &GpuEnd| matches!(gpu.mode, Mode::Mpt | Mode::Ppcie);
    gpus.len() + switches.len() > 1 && (!switches.is_empty() || gpus.iter().any(multi))
}

/// Finds out whether these devices are one whole node, and no other device belongs to it.
///
/// Shape, in protected PCIe: eight Hopper GPUs, each naming the same four switches, which are those shown; four locked
/// switches, each listing the same eight GPUs, which are those shown. In MPT: two or more Blackwell GPUs, no two
/// alike, and no switch. Devices shown are named by their BROM certificates.
///
/// Errors: `Fault` with `gpu_topology_mode`, `gpu_topology_architecture`, `gpu_topology_gpu_count`,
/// `gpu_topology_switch_count`, `gpu_identity_malformed`, `gpu_duplicate_device`, `gpu_topology_switch_links`,
/// `gpu_topology_switch_sets_differ`, `gpu_topology_switches_differ`, `gpu_topology_gpu_links`,
/// `gpu_topology_gpus_differ`, `gpu_topology_switch_unlocked`, in this order.
///
/// Source: NVIDIA's PPCIE verifier, which does not compare with the certificates of the GPUs.
pub fn close(gpus: &[GpuEnd], switches: &[SwitchEnd]) -> Result<Node, Fault> {
    let mode = mode(gpus, switches)?;
    architectures(mode, gpus)?;
    counts(mode, gpus.len(), switches.len())?;
    let gpu_pdis = identities("GPU", gpus.iter().map(|gpu| gpu.pdi))?;
    let switch_pdis = identities("switch", switches.iter().map(|switch| switch.pdi))?;
    if mode == NodeMode::Ppcie {
        named_by_gpus(gpus, &switch_pdis)?;
        named_by_switches(switches, &gpu_pdis)?;
    }
    Ok(Node { mode, gpus: gpu_pdis, switches: switch_pdis })
}

/// All GPUs are in one multi-GPU mode. Without any, switches alone speak of protected PCIe.
fn mode(gpus: &[GpuEnd], switches: &[SwitchEnd]) -> Result<NodeMode, Fault> {
    let all = |mode| gpus.iter().all(|gpu| gpu.mode == mode);
    if !gpus.is_empty() && all(Mode::Mpt) {
        return Ok(NodeMode::Mpt);
    }
    if all(Mode::Ppcie) && (!gpus.is_empty() || !switches.is_empty()) {
        return Ok(NodeMode::Ppcie);
    }
    let modes: Vec<String> =
        gpus.iter().enumerate().map(|(at, gpu)| format!("GPU {at}: {}", gpu.mode.text())).collect();
    let actual = if modes.is_empty() { "no device".to_string() } else { modes.join(", ") };
    Err(Fault::new(Code::GpuTopologyMode, "all GPUs in ppcie or all in mpt", actual))
}

fn architectures(mode: NodeMode, gpus: &[GpuEnd]) -> Result<(), Fault> {
    let expected = match mode {
        NodeMode::Mpt => Architecture::Blackwell,
        NodeMode::Ppcie => Architecture::Hopper,
    };
    match gpus.iter().enumerate().find(|(_, gpu)| gpu.architecture != Some(expected)) {
        None => Ok(()),
        Some((at, gpu)) => {
            let actual = gpu.architecture.map_or("no one architecture", Architecture::text);
            let expected = format!("{} in mode {}", expected.text(), mode.text());
            Err(Fault::new(Code::GpuTopologyArchitecture, expected, format!("GPU {at}: {actual}")))
        }
    }
}

fn counts(mode: NodeMode, gpus: usize, switches: usize) -> Result<(), Fault> {
    let (gpus_fit, gpus_text, switches_expected) = match mode {
        NodeMode::Mpt => (gpus >= MPT_GPUS_MIN, format!("{MPT_GPUS_MIN} GPUs or more in mode mpt"), 0),
        NodeMode::Ppcie => (gpus == PPCIE_GPUS, format!("{PPCIE_GPUS} GPUs in mode ppcie"), PPCIE_SWITCHES),
    };
    if !gpus_fit {
        return Err(Fault::new(Code::GpuTopologyGpuCount, gpus_text, format!("{gpus} shown")));
    }
    if switches != switches_expected {
        let expected = format!("{switches_expected} switches in mode {}", mode.text());
        return Err(Fault::new(Code::GpuTopologySwitchCount, expected, format!("{switches} shown")));
    }
    Ok(())
}

/// The identities of devices, none of them twice.
fn identities(kind: &str, pdis: impl Iterator<Item = Option<Pdi>>) -> Result<BTreeSet<Pdi>, Fault> {
    let mut set = BTreeSet::new();
    for (at, pdi) in pdis.enumerate() {
        let pdi = pdi.ok_or_else(|| {
            let actual = format!("{kind} {at} shows none");
            Fault::new(Code::GpuIdentityMalformed, "a device identity in the BROM serial", actual)
        })?;
        if !set.insert(pdi) {
            let actual = format!("{kind} {at} is {pdi} again");
            return Err(Fault::new(Code::GpuDuplicateDevice, "each device once", actual));
        }
    }
    Ok(set)
}

/// Each GPU names the same four switches, and those are the ones shown.
fn named_by_gpus(gpus: &[GpuEnd], shown: &BTreeSet<Pdi>) -> Result<(), Fault> {
    let mut first: Option<BTreeSet<Pdi>> = None;
    for (at, gpu) in gpus.iter().enumerate() {
        let named: BTreeSet<Pdi> = gpu.links.iter().copied().flatten().collect();
        if named.len() != PPCIE_SWITCHES {
            let actual = format!("GPU {at} names {}", listed(&named));
            let expected = format!("{PPCIE_SWITCHES} different switches");
            return Err(Fault::new(Code::GpuTopologySwitchLinks, expected, actual));
        }
        match &first {
            None => first = Some(named),
            Some(first) if *first != named => {
                let expected = format!("the switches of GPU 0: {}", listed(first));
                let actual = format!("GPU {at} names {}", listed(&named));
                return Err(Fault::new(Code::GpuTopologySwitchSetsDiffer, expected, actual));
            }
            Some(_) => {}
        }
    }
    match first.filter(|named| named != shown) {
        None => Ok(()),
        Some(named) => {
            let expected = format!("the switches that the GPUs name: {}", listed(&named));
            Err(Fault::new(Code::GpuTopologySwitchesDiffer, expected, listed(shown)))
        }
    }
}

/// Each switch lists eight GPUs, which are the ones shown, and is locked.
fn named_by_switches(switches: &[SwitchEnd], shown: &BTreeSet<Pdi>) -> Result<(), Fault> {
    for (at, switch) in switches.iter().enumerate() {
        let named: BTreeSet<Pdi> = switch.gpus.iter().copied().flatten().collect();
        if named.len() != PPCIE_GPUS {
            let actual = format!("switch {at} lists {}", listed(&named));
            return Err(Fault::new(
                Code::GpuTopologyGpuLinks,
                format!("{PPCIE_GPUS} different GPUs"),
                actual,
            ));
        }
        if named != *shown {
            let expected = format!("the GPUs shown: {}", listed(shown));
            let actual = format!("switch {at} lists {}", listed(&named));
            return Err(Fault::new(Code::GpuTopologyGpusDiffer, expected, actual));
        }
    }
    match switches.iter().enumerate().find(|(_, switch)| switch.lock != Some(Lock::Locked)) {
        None => Ok(()),
        Some((at, switch)) => {
            let actual = switch.lock.map_or("nothing".to_string(), |lock| lock.number().to_string());
            let actual = format!("switch {at} states {actual}");
            Err(Fault::new(Code::GpuTopologySwitchUnlocked, "LOCK_STATUS 1 (locked)", actual))
        }
    }
}

/// Names devices with their number: at most as many as a report has places for.
fn listed(pdis: &BTreeSet<Pdi>) -> String {
    let names: Vec<String> = pdis.iter().map(Pdi::to_string).collect();
    format!("{} ({})", names.len(), names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pdi(byte: u8) -> Pdi {
        Pdi::new([byte; 8])
    }

    /// Devices to be changed in one place.
    struct Scene {
        gpus: Vec<GpuEnd>,
        switches: Vec<SwitchEnd>,
    }

    impl Scene {
        /// Eight Hopper GPUs 0xa0 to 0xa7 and four switches 0x50 to 0x53, as HGX boards are linked.
        fn ppcie() -> Self {
            let links: Vec<Option<Pdi>> = (0u8..18).map(|link| Some(pdi(0x50 + link % 4))).collect();
            let gpu = |number: u8| GpuEnd {
                pdi: Some(pdi(0xa0 + number)),
                architecture: Some(Architecture::Hopper),
                mode: Mode::Ppcie,
                links: links.clone(),
            };
            let switch = |number: u8| SwitchEnd {
                pdi: Some(pdi(0x50 + number)),
                gpus: (0u8..8).map(|gpu| Some(pdi(0xa0 + (gpu + number) % 8))).collect(),
                lock: Some(Lock::Locked),
            };
            Self { gpus: (0..8).map(gpu).collect(), switches: (0..4).map(switch).collect() }
        }

        fn mpt() -> Self {
            let mut scene = Self::ppcie();
            scene.switches.clear();
            for gpu in &mut scene.gpus {
                gpu.architecture = Some(Architecture::Blackwell);
                gpu.mode = Mode::Mpt;
                gpu.links.clear();
            }
            scene
        }

        fn close(&self) -> Result<Node, Fault> {
            close(&self.gpus, &self.switches)
        }
    }

    /// Changes one thing of a node that closes, and expects exactly that code.
    fn one(base: fn() -> Scene, code: Code, change: impl FnOnce(&mut Scene)) -> Fault {
        let mut scene = base();
        assert!(scene.close().is_ok());
        change(&mut scene);
        let fault = scene.close().unwrap_err();
        assert_eq!(fault.code, code, "{fault:?}");
        let check = check(&Err(fault.clone()));
        assert_eq!((check.name, check.code), (CheckName::Topology, Some(code)));
        assert!(check.expected.is_some() && check.actual.is_some() && check.hint.is_some());
        fault
    }

    #[test]
    fn a_whole_node_closes_and_names_its_devices() {
        let node = Scene::ppcie().close().unwrap();
        assert_eq!(node.mode, NodeMode::Ppcie);
        assert_eq!(node.gpus, (0xa0..0xa8).map(pdi).collect());
        assert_eq!(node.switches, (0x50..0x54).map(pdi).collect());
        assert_eq!(check(&Ok(node)), Check::pass(CheckName::Topology));
        let node = Scene::mpt().close().unwrap();
        assert_eq!((node.mode, node.gpus.len(), node.switches.len()), (NodeMode::Mpt, 8, 0));
    }

    #[test]
    fn the_order_of_devices_and_of_links_says_nothing() {
        let expected = Scene::ppcie().close();
        let mut scene = Scene::ppcie();
        scene.gpus.reverse();
        scene.switches.swap(0, 2);
        scene.gpus[3].links.rotate_left(5);
        scene.switches[1].gpus.reverse();
        assert_eq!(scene.close(), expected);
    }

    #[test]
    fn a_link_that_is_off_is_no_device() {
        let mut scene = Scene::ppcie();
        scene.gpus[2].links[0] = None;
        assert!(scene.close().is_ok(), "each switch is still reached by another link");
        one(Scene::ppcie, Code::GpuTopologySwitchLinks, |scene| {
            for link in scene.gpus[2].links.iter_mut().skip(3) {
                *link = None;
            }
        });
    }

    #[test]
    fn all_devices_are_in_one_mode() {
        for mode in [Mode::Spt, Mode::Mpt, Mode::Unknown, Mode::Contradictory] {
            one(Scene::ppcie, Code::GpuTopologyMode, |scene| scene.gpus[7].mode = mode);
        }
        one(Scene::mpt, Code::GpuTopologyMode, |scene| scene.gpus[0].mode = Mode::Ppcie);
        for mode in [Mode::Spt, Mode::Unknown] {
            let all = |scene: &mut Scene| scene.gpus.iter_mut().for_each(|gpu| gpu.mode = mode);
            one(Scene::ppcie, Code::GpuTopologyMode, all);
        }
        assert_eq!(close(&[], &[]).unwrap_err().code, Code::GpuTopologyMode);
    }

    #[test]
    fn each_mode_belongs_to_its_architecture() {
        for architecture in [None, Some(Architecture::Blackwell)] {
            one(Scene::ppcie, Code::GpuTopologyArchitecture, |scene| {
                scene.gpus[1].architecture = architecture;
            });
        }
        one(Scene::mpt, Code::GpuTopologyArchitecture, |scene| {
            scene.gpus[1].architecture = Some(Architecture::Hopper);
        });
    }

    #[test]
    fn protected_pcie_has_exactly_eight_gpus_and_four_switches() {
        one(Scene::ppcie, Code::GpuTopologyGpuCount, |scene| drop(scene.gpus.pop()));
        one(Scene::ppcie, Code::GpuTopologyGpuCount, |scene| scene.gpus.truncate(4));
        one(Scene::ppcie, Code::GpuTopologyGpuCount, |scene| scene.gpus.clear());
        one(Scene::ppcie, Code::GpuTopologyGpuCount, |scene| {
            scene.gpus.push(GpuEnd { pdi: Some(pdi(0xa8)), ..scene.gpus[0].clone() });
        });
        one(Scene::ppcie, Code::GpuTopologySwitchCount, |scene| drop(scene.switches.pop()));
        one(Scene::ppcie, Code::GpuTopologySwitchCount, |scene| scene.switches.clear());
        one(Scene::ppcie, Code::GpuTopologySwitchCount, |scene| {
            scene.switches.push(SwitchEnd { pdi: Some(pdi(0x54)), ..scene.switches[0].clone() });
        });
    }

    #[test]
    fn mpt_has_two_gpus_or_more_and_no_switch() {
        for count in [2, 4, 7] {
            let mut scene = Scene::mpt();
            scene.gpus.truncate(count);
            assert!(scene.close().is_ok(), "{count}: how many there are is not signed");
        }
        one(Scene::mpt, Code::GpuTopologyGpuCount, |scene| scene.gpus.truncate(1));
        one(Scene::mpt, Code::GpuTopologySwitchCount, |scene| {
            scene.switches.push(Scene::ppcie().switches.remove(0));
        });
    }

    #[test]
    fn every_device_has_an_identity_of_its_own() {
        one(Scene::ppcie, Code::GpuIdentityMalformed, |scene| scene.gpus[3].pdi = None);
        one(Scene::ppcie, Code::GpuIdentityMalformed, |scene| scene.switches[3].pdi = None);
        one(Scene::ppcie, Code::GpuDuplicateDevice, |scene| scene.gpus[3].pdi = scene.gpus[4].pdi);
        one(Scene::ppcie, Code::GpuDuplicateDevice, |scene| scene.switches[3].pdi = scene.switches[0].pdi);
        one(Scene::mpt, Code::GpuDuplicateDevice, |scene| scene.gpus[7].pdi = scene.gpus[0].pdi);
        one(Scene::mpt, Code::GpuIdentityMalformed, |scene| scene.gpus[7].pdi = None);
    }

    #[test]
    fn each_gpu_names_exactly_four_different_switches() {
        one(Scene::ppcie, Code::GpuTopologySwitchLinks, |scene| scene.gpus[5].links.clear());
        let fifth = one(Scene::ppcie, Code::GpuTopologySwitchLinks, |scene| {
            scene.gpus[5].links[17] = Some(pdi(0x77));
        });
        assert!(fifth.actual.starts_with("GPU 5 names 5 ("), "{}", fifth.actual);
        one(Scene::ppcie, Code::GpuTopologySwitchLinks, |scene| {
            for link in &mut scene.gpus[0].links {
                *link = link.filter(|named| *named != pdi(0x53)).or(Some(pdi(0x52)));
            }
        });
    }

    #[test]
    fn all_gpus_name_the_same_switches_and_those_are_shown() {
        let renamed = |link: &mut Option<Pdi>| {
            if *link == Some(pdi(0x53)) {
                *link = Some(pdi(0x77));
            }
        };
        one(Scene::ppcie, Code::GpuTopologySwitchSetsDiffer, |scene| {
            scene.gpus[6].links.iter_mut().for_each(renamed);
        });
        one(Scene::ppcie, Code::GpuTopologySwitchesDiffer, |scene| {
            scene.gpus.iter_mut().for_each(|gpu| gpu.links.iter_mut().for_each(renamed));
        });
        // A genuine switch of another node in the place of one of this node's.
        one(Scene::ppcie, Code::GpuTopologySwitchesDiffer, |scene| scene.switches[3].pdi = Some(pdi(0x77)));
    }

    #[test]
    fn each_switch_lists_exactly_eight_different_gpus() {
        one(Scene::ppcie, Code::GpuTopologyGpuLinks, |scene| scene.switches[1].gpus.clear());
        one(Scene::ppcie, Code::GpuTopologyGpuLinks, |scene| scene.switches[1].gpus[7] = None);
        one(Scene::ppcie, Code::GpuTopologyGpuLinks, |scene| {
            scene.switches[1].gpus[7] = scene.switches[1].gpus[6];
        });
    }

    #[test]
    fn the_gpus_that_switches_list_are_those_shown() {
        one(Scene::ppcie, Code::GpuTopologyGpusDiffer, |scene| scene.switches[2].gpus[0] = Some(pdi(0x77)));
        // All switches agree on a GPU that was not shown; another genuine one stands in its place.
        one(Scene::ppcie, Code::GpuTopologyGpusDiffer, |scene| scene.gpus[0].pdi = Some(pdi(0x77)));
    }

    #[test]
    fn every_switch_is_locked() {
        for lock in [None, Some(Lock::Other(0)), Some(Lock::Other(2))] {
            one(Scene::ppcie, Code::GpuTopologySwitchUnlocked, |scene| scene.switches[3].lock = lock);
        }
    }

    #[test]
    fn single_gpus_side_by_side_have_no_topology() {
        let mut scene = Scene::ppcie();
        assert!(applies(&scene.gpus, &scene.switches) && applies(&[], &scene.switches));
        assert!(applies(&scene.gpus, &[]) && applies(&Scene::mpt().gpus, &[]));
        assert!(!applies(&scene.gpus[..1], &[]) && !applies(&[], &scene.switches[..1]), "one device alone");
        assert!(!applies(&[], &[]));
        scene.gpus.iter_mut().for_each(|gpu| gpu.mode = Mode::Spt);
        assert!(!applies(&scene.gpus, &[]));
        assert!(applies(&scene.gpus, &scene.switches), "switches beside them are a sign");
        scene.gpus[0].mode = Mode::Ppcie;
        assert!(applies(&scene.gpus, &[]), "one is enough to ask");
    }
}
