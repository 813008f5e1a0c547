//! What fixes the agent's code and its configuration: on whose word, and the rules about init data.
//!
//! A host writes HOST_DATA and MRCONFIGID, and so chooses the init data. What stands in a document therefore counts
//! only beside the rule of `cpu.snp.workload` or `cpu.tdx.workload` that lists its digest; `Binding::read` sees to it
//! that there is such a rule wherever one of these is asked for.

use serde::Serialize;

use super::document::{Binding, FixedBy, Grade};
use super::reason::{Reason, listed};
use super::view::View;
use crate::protocol::head::RequestHead;
use crate::protocol::init_data::{AGENT_CONFIGURATION, AGENT_IMAGE, AgentNames, ImageDigest, InitData};
use crate::verify::Subject;
use crate::verify::init_data::Launched;
use crate::wire::Code;

/// On whose word something is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The init data that the CPU signed, and that the policy lists, says it; that the measured image enforces what it
    /// says is the operator's word still.
    InitDataChecked,
    /// The policy says it, and nothing in the evidence shows it.
    OperatorsWord,
}

impl Basis {
    /// Returns the word as results and entries write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::InitDataChecked => "init_data_checked",
            Self::OperatorsWord => "operators_word",
        }
    }

    fn of(fixed: FixedBy) -> Self {
        match fixed {
            FixedBy::Image => Self::OperatorsWord,
            FixedBy::InitData => Self::InitDataChecked,
        }
    }
}

/// What fixes the agent of a guest that was granted, as results show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentFixed {
    pub least_grade: Grade,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_fixed_by: Option<FixedBy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_fixed_basis: Option<Basis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_configured_by: Option<FixedBy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_configured_basis: Option<Basis>,
    /// The image that the init data names, where it is the init data that fixes the agent's code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_image: Option<ImageDigest>,
}

impl AgentFixed {
    /// Says it of a request that keeps `rules`.
    pub(super) fn of(binding: &Binding, view: &View<'_>) -> Self {
        let Binding { least_grade, agent_fixed_by, agent_configured_by, .. } = binding;
        let document = view.launched.document().filter(|_| *agent_fixed_by == Some(FixedBy::InitData));
        Self {
            least_grade: *least_grade,
            agent_fixed_by: *agent_fixed_by,
            agent_fixed_basis: agent_fixed_by.map(Basis::of),
            agent_configured_by: *agent_configured_by,
            agent_configured_basis: agent_configured_by.map(Basis::of),
            agent_image: document.and_then(InitData::agent_image),
        }
    }
}

/// What the init data must say, where the policy lets it fix the agent's code or configuration.
pub(super) fn rules(binding: &Binding, view: &View<'_>) -> Vec<Reason> {
    let by_init_data = |fixed: Option<FixedBy>| fixed == Some(FixedBy::InitData);
    let (code, configuration) =
        (by_init_data(binding.agent_fixed_by), by_init_data(binding.agent_configured_by));
    if !code && !configuration {
        return Vec::new();
    }
    let init_data = match view.launched {
        Launched::With(init_data) => init_data,
        Launched::Absent => {
            let expected = "the init data of the launch, which binding names";
            return vec![reason(Code::InitDataMissing).expected(expected).actual("none")];
        }
        // The check says what was found.
        Launched::Refused(code) => return vec![reason(*code)],
    };
    let image = code.then(|| image(binding, init_data)).flatten();
    let configuration = configuration.then(|| configured(init_data, view.head)).flatten();
    image.into_iter().chain(configuration).collect()
}

fn reason(code: Code) -> Reason {
    Reason::new(Subject::Cpu, code)
}

fn image(binding: &Binding, init_data: &InitData) -> Option<Reason> {
    let named = init_data.agent_image();
    match named.is_some_and(|named| binding.agent_images.contains(&named)) {
        true => None,
        false => {
            let actual = named.map_or(format!("no {AGENT_IMAGE}"), |named| named.to_string());
            let expected = listed("binding.agent_images", &binding.agent_images);
            Some(reason(Code::AgentImageNotListed).expected(expected).actual(actual))
        }
    }
}

/// Compares a request with the configuration that the measured image gives to its agent. An agent that was configured
/// so asks for nothing else: whoever asks for something else was redirected, or is no such agent.
fn configured(init_data: &InitData, head: &RequestHead) -> Option<Reason> {
    let Some(agent) = init_data.agent() else {
        let reason =
            reason(Code::AgentConfigurationMismatch).expected(format!("a text {AGENT_CONFIGURATION}"));
        return Some(reason.actual("none in the init data"));
    };
    let differing = differing(agent, head);
    if differing.is_empty() {
        return None;
    }
    let joined =
        |side: fn(&(String, String)) -> &str| differing.iter().map(side).collect::<Vec<_>>().join("; ");
    let reason = reason(Code::AgentConfigurationMismatch).expected(joined(|(expected, _)| expected));
    Some(reason.actual(joined(|(_, actual)| actual)))
}

/// Lists what differs: what the configuration says, then what the request says.
fn differing(agent: &AgentNames, head: &RequestHead) -> Vec<(String, String)> {
    let mut differing = Vec::new();
    let mut differs = |expected: String, actual: String| differing.push((expected, actual));
    if agent.tenant != head.tenant {
        differs(format!("tenant {}", agent.tenant), format!("tenant {}", head.tenant));
    }
    let root = agent.pins.as_ref().map(|pins| pins.id());
    if root != Some(head.service_root) {
        let pinned = root.map_or("pins, written out".to_string(), |root| format!("service root {root}"));
        differs(pinned, format!("service root {}", head.service_root));
    }
    let foreign: Vec<&str> =
        head.keys.iter().filter(|key| !agent.keys.contains(key)).map(|key| key.text()).collect();
    if !foreign.is_empty() {
        differs(listed("keys", &agent.keys), format!("keys {}", foreign.join(" ")));
    }
    if let Some(asked) = head.audience.as_ref().filter(|asked| agent.audience.as_ref() != Some(asked)) {
        let configured =
            agent.audience.as_ref().map_or("no audience".to_string(), |own| format!("audience {own}"));
        differs(configured, format!("audience {asked}"));
    }
    if agent.kem() != head.kem {
        differs(format!("kem {}", agent.kem().suite()), format!("kem {}", head.kem.suite()));
    }
    differing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::fixture::{self, World};

    fn codes(world: &World, binding: &Binding) -> Vec<Code> {
        rules(binding, &world.view()).into_iter().map(|reason| reason.code).collect()
    }

    /// Binding by init data in code and configuration.
    fn binding() -> Binding {
        Binding {
            least_grade: Grade::MeasuredAgent,
            agent_fixed_by: Some(FixedBy::InitData),
            agent_configured_by: Some(FixedBy::InitData),
            agent_images: vec![fixture::IMAGE.parse().unwrap()],
        }
    }

    #[test]
    fn init_data_that_names_image_and_configuration_passes() {
        let world = World::launched(&fixture::init_data());
        assert_eq!(codes(&world, &binding()), []);
        let fixed = AgentFixed::of(&binding(), &world.view());
        assert_eq!(fixed.agent_image.unwrap().to_string(), fixture::IMAGE);
        let shown = serde_json::to_value(&fixed).unwrap();
        assert_eq!(shown["agent_fixed_basis"], "init_data_checked");
        assert_eq!(shown["agent_configured_basis"], "init_data_checked");
    }

    #[test]
    fn what_the_image_fixes_stays_the_operator_s_word_and_asks_for_no_init_data() {
        let by_image = Binding {
            agent_fixed_by: Some(FixedBy::Image),
            agent_configured_by: Some(FixedBy::Image),
            agent_images: Vec::new(),
            ..binding()
        };
        for world in [World::good(), World::launched("version = '0.1.0'\nalgorithm = 'sha256'\n[data]\n")] {
            assert_eq!(codes(&world, &by_image), []);
            let fixed = AgentFixed::of(&by_image, &world.view());
            assert_eq!((fixed.agent_fixed_basis, fixed.agent_image), (Some(Basis::OperatorsWord), None));
        }
    }

    #[test]
    fn absence_is_refused_once_and_a_refusal_keeps_its_code() {
        let mut world = World::good();
        assert_eq!(codes(&world, &binding()), [Code::InitDataMissing]);
        for code in [Code::InitDataMalformed, Code::InitDataMismatch] {
            world.launched = Launched::Refused(code);
            assert_eq!(codes(&world, &binding()), [code]);
        }
    }

    #[test]
    fn each_half_asks_for_its_own_text() {
        let nothing = World::launched("version = '0.1.0'\nalgorithm = 'sha256'\n[data]\n");
        let both = [Code::AgentImageNotListed, Code::AgentConfigurationMismatch];
        assert_eq!(codes(&nothing, &binding()), both);
        let code = Binding { agent_configured_by: Some(FixedBy::Image), ..binding() };
        assert_eq!(codes(&nothing, &code), [Code::AgentImageNotListed]);
        let configuration = Binding { agent_fixed_by: Some(FixedBy::Image), ..binding() };
        assert_eq!(codes(&nothing, &configuration), [Code::AgentConfigurationMismatch]);
    }

    #[test]
    fn another_image_is_not_listed() {
        let other = fixture::IMAGE.replace("ab", "ac");
        let world = World::launched(&fixture::init_data().replace(fixture::IMAGE, &other));
        assert_eq!(codes(&world, &binding()), [Code::AgentImageNotListed]);
        let listed = Binding {
            agent_images: vec![fixture::IMAGE.parse().unwrap(), other.parse().unwrap()],
            ..binding()
        };
        assert_eq!(codes(&world, &listed), []);
    }

    #[test]
    fn a_request_that_the_configuration_does_not_cover_is_refused() {
        let right = fixture::init_data();
        for (from, to, said) in [
            ("tenant = 'acme'", "tenant = 'other'", "tenant other"),
            (
                "keys = ['models/llama-7b', 'models/llama-13b']",
                "keys = ['models/llama-13b']",
                "models/llama-13b",
            ),
            ("keys = ['models/llama-7b', 'models/llama-13b']", "", "keys"),
            (
                "audience = 'https://vault.example'",
                "audience = 'https://evil.example'",
                "https://evil.example",
            ),
            ("audience = 'https://vault.example'", "", "no audience"),
            ("store = '0101", "store = '0201", "service root"),
            ("mode = 'real'", "mode = 'simulated'", "service root"),
            ("tenant =", "kem = 'x25519'\ntenant =", "x25519"),
        ] {
            let altered = right.replacen(from, to, 1);
            assert_ne!(altered, right, "{from}");
            let world = World::launched(&altered);
            let found = rules(&binding(), &world.view());
            assert_eq!(found.len(), 1, "{to}: {found:?}");
            assert_eq!(found[0].code, Code::AgentConfigurationMismatch, "{to}");
            assert!(found[0].expected.as_ref().unwrap().contains(said), "{to}: {found:?}");
        }
        let without = format!("{}\"\"\"\n", right.split("[pins]").next().unwrap());
        let found = rules(&binding(), &World::launched(&without).view());
        assert_eq!(found[0].expected.as_ref().unwrap(), "pins, written out");
    }

    #[test]
    fn a_request_may_ask_for_less() {
        let mut world = World::launched(&fixture::init_data());
        world.head.keys.clear();
        world.head.audience = None;
        assert_eq!(codes(&world, &binding()), []);
    }
}
