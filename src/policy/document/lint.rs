//! What a policy allows and a reader should see: one sentence each.

use serde_json::Value;

use super::{FixedBy, Grade, Policy, RegisterValue, Smt, SnpPlatform, TdxRules, XfamFeature};
use crate::policy::events::admits_any_content;
use crate::protocol::head::Kem;
use crate::wire::UnixSeconds;

/// Sentences, collected.
#[derive(Default)]
struct Warnings(Vec<String>);

impl Warnings {
    fn warn(&mut self, on: bool, what: impl Into<String>) {
        if on {
            self.0.push(what.into());
        }
    }
}

impl Policy {
    /// Lists what is allowed here and deserves a second look, one sentence each.
    pub fn lint(&self) -> Vec<String> {
        let mut warnings = Warnings::default();
        warnings.warn(
            self.keys.iter().any(|selector| selector.covers_all()),
            "keys: `*` selects every key of the tenant",
        );
        warnings
            .warn(self.kem.contains(&Kem::X25519), "kem: x25519 alone does not withstand a quantum computer");
        warnings.warn(
            self.binding.least_grade < Grade::MeasuredAgent,
            "binding: nobody vouches for the agent's code",
        );
        let fixed = [self.binding.agent_fixed_by, self.binding.agent_configured_by];
        warnings.warn(
            fixed.contains(&Some(FixedBy::InitData)),
            "binding: init data fixes what the measured image enforces, and nothing in evidence shows that it does",
        );
        if let Some(rules) = &self.cpu.snp {
            snp(&mut warnings, &rules.platform);
        }
        if let Some(rules) = &self.cpu.tdx {
            tdx(&mut warnings, rules);
        }
        warnings.warn(self.gpu.allow_virtualization_none, "gpu: virtualization mode `none` is accepted");
        warnings.warn(
            !self.gpu.combinations.is_empty(),
            "gpu.combinations: the vendors do not state these as supported",
        );
        for risk in &self.accept_risks {
            warnings.warn(true, format!("accept_risks: {} until {}", risk.id.text(), risk.until));
        }
        warnings.0
    }

    /// Lists what was accepted until a time that has passed, one sentence each.
    pub fn ended(&self, now: UnixSeconds) -> Vec<String> {
        let mut ended = Warnings::default();
        for risk in &self.accept_risks {
            let (id, until) = (risk.id.text(), risk.until);
            ended.warn(now > until, format!("accept_risks: {id} has ended at {until} and accepts nothing"));
        }
        for accepted in self.cpu.tdx.iter().flat_map(|rules| &rules.platform.tcb.accept) {
            let Some(until) = accepted.until else { continue };
            let status = &accepted.status;
            ended.warn(
                now > until,
                format!("cpu.tdx.tcb.accept: {status} has ended at {until} and accepts nothing"),
            );
        }
        ended.0
    }

    /// Lists the values that nobody measured, as the shipped policies have them, one sentence each.
    pub fn placeholders(&self) -> Vec<String> {
        let mut warnings = Warnings::default();
        // Of a policy that was parsed there is a document.
        if let Ok(document) = serde_json::to_value(self) {
            placeholders("", &document, &mut warnings);
        }
        warnings.0
    }
}

/// Goes through a document for digests that repeat a few bytes: no hash does.
fn placeholders(path: &str, value: &Value, warnings: &mut Warnings) {
    match value {
        Value::Array(list) => {
            for (at, inner) in list.iter().enumerate() {
                placeholders(&format!("{path}[{at}]"), inner, warnings);
            }
        }
        Value::Object(map) => {
            for (name, inner) in map {
                let dot = if path.is_empty() { "" } else { "." };
                placeholders(&format!("{path}{dot}{name}"), inner, warnings);
            }
        }
        Value::String(text) => {
            let bytes = hex::decode(text).unwrap_or_default();
            let repeats = |period| bytes.iter().zip(bytes.iter().skip(period)).all(|(one, next)| one == next);
            warnings.warn(
                bytes.len() >= DIGEST_LEN_MIN && (1..=PERIOD_MAX).any(repeats),
                format!("{path} looks like a placeholder: put in the value of your own"),
            );
        }
        Value::Bool(_) | Value::Null | Value::Number(_) => {}
    }
}

/// Bytes of the shortest digest that a policy has.
const DIGEST_LEN_MIN: usize = 32;
/// Bytes of the longest pattern that is taken for one.
const PERIOD_MAX: usize = 4;

fn snp(warnings: &mut Warnings, platform: &SnpPlatform) {
    warnings.warn(platform.smt == Smt::Allow, "cpu.snp.smt: sibling threads can attack the guest");
    warnings.warn(platform.allow_report_version_2, "cpu.snp: version-2 reports do not name their CPU");
    warnings.warn(platform.allow_provisional_firmware, "cpu.snp: provisional firmware can be rolled back");
    warnings.warn(platform.allow_cxl, "cpu.snp: memory on CXL devices is allowed");
    warnings.warn(!platform.require_alias_check, "cpu.snp: aliased memory (BadRAM) is not noticed");
    warnings.warn(!platform.vlek_providers.is_empty(), "cpu.snp: a VLEK names a provider, not a chip");
    warnings.warn(
        !platform.vlek_providers.is_empty() && platform.chips.is_some(),
        "cpu.snp: no VLEK is bound to a chip; beside `chips`, those of `vlek_providers` are refused all the same",
    );
    for line in &platform.lines {
        let floor = platform.tcb.iter().any(|floor| floor.line == *line);
        warnings.warn(!floor, format!("cpu.snp.tcb: no floor for {}; its guests are refused", line.text()));
    }
}

fn tdx(warnings: &mut Warnings, rules: &TdxRules) {
    let platform = &rules.platform;
    for accepted in &platform.tcb.accept {
        let advisories = match accepted.advisories.is_empty() {
            true => "without advisories".to_string(),
            false => format!("with {}", accepted.advisories.join(" ")),
        };
        warnings.warn(true, format!("cpu.tdx.tcb.accept: {} {advisories}", accepted.status));
    }
    warnings.warn(
        platform.tcb.evaluation_least.is_none(),
        "cpu.tdx.tcb.evaluation_least: absent, an older list of TCB levels counts until its window ends",
    );
    warnings.warn(platform.allow_perfmon, "cpu.tdx: performance counters can be watched from outside");
    for bit in &platform.attribute_bits {
        warnings.warn(true, format!("cpu.tdx.attribute_bits: bit {bit} is accepted"));
    }
    for (name, feature) in [("pt", XfamFeature::Pt), ("lbr", XfamFeature::Lbr)] {
        let on = platform.xfam.contains(&feature);
        warnings.warn(on, format!("cpu.tdx.xfam: `{name}` records what the guest runs"));
    }
    warnings.warn(
        !platform.service_tds.is_empty(),
        "cpu.tdx.service_tds: a service TD can act on the guest's behalf",
    );
    let code = &rules.code;
    let registers = [("code.rtmr0", &code.rtmr0), ("code.rtmr1", &code.rtmr1), ("code.rtmr2", &code.rtmr2)];
    let workload = rules.workload.rtmr3.iter().map(|rtmr3| ("workload.rtmr3", rtmr3));
    for (name, value) in registers.into_iter().chain(workload) {
        let RegisterValue::Events(events) = value else { continue };
        for kind in events.others.iter().filter(|kind| admits_any_content(**kind)) {
            // A type is the log's word, and code in the tables could rewrite it.
            let what = match events.register == 0 {
                true => "any content, the host's ACPI tables among it, whose code the guest's kernel may run",
                false => "any content",
            };
            warnings.warn(true, format!("cpu.tdx.{name}.others: `{kind}` admits {what}"));
        }
    }
}
