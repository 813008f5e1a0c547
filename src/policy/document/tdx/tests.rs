//! Tests of the section `cpu.tdx`: what it fixes, what it refuses, its defaults.

use super::*;
use crate::policy::document::{Grade, Policy};
use crate::policy::fixture::tdx::{changed, exact, measured, policy_of, ruled};
use crate::policy::fixture::text as snp_text;
use crate::wire::Code;

const SAME: &[(&str, &str)] = &[];
const PLATFORM: &str = "tcb = { evaluation_least = 17 }";
const WORKLOAD: &str = "workload_in_image = true";

fn code_of(text: &str) -> Option<Code> {
    Policy::parse(text.as_bytes()).err().map(|error| error.code())
}

fn code(changes: &[(&str, &str)]) -> Option<Code> {
    code_of(&changed(&exact(), changes))
}

/// The policy with this line in the section.
fn with(line: &str) -> Option<Code> {
    code(&[(PLATFORM, &format!("{PLATFORM}\n{line}"))])
}

fn quoted(digest: Digest<48>) -> String {
    format!("\"{digest}\"")
}

#[test]
fn every_default_is_the_strict_one() {
    let policy = policy_of(&exact(), &[(PLATFORM, "")]);
    let platform = policy.cpu.tdx.unwrap().platform;
    assert_eq!(platform, TdxPlatform::default());
    assert!(platform.tcb.accept.is_empty() && platform.service_tds.is_empty() && !platform.allow_perfmon);
    assert!(!platform.xfam.contains(&XfamFeature::Pt) && !platform.xfam.contains(&XfamFeature::Lbr));
    assert_eq!(XfamFeature::mask(&platform.xfam), Xfam(0x6_5ae7), "what the fleets use, and no more");
    assert!(policy_of(&exact(), SAME).lint().is_empty(), "{:?}", policy_of(&exact(), SAME).lint());
}

#[test]
fn the_canonical_form_parses_to_the_same_policy() {
    let full = [(
        PLATFORM,
        "tcb = { evaluation_least = 17, accept = [{ status = 'OutOfDate', advisories = ['INTEL-SA-01192'], \
         until = 2027-01-01T00:00:00Z, tcb_age_days_max = 400 }, { status = 'ConfigurationNeeded' }] }\n\
         collateral_age_days_max = 7\nallow_perfmon = true\nattribute_bits = [18, 31]\nxfam = ['x87', 'sse']\n\
         ppids = ['05050505050505050505050505050505']",
    )];
    for text in [exact(), ruled(), changed(&exact(), &full)] {
        let policy = policy_of(&text, SAME);
        let canonical = policy.canonical().unwrap();
        assert_eq!(Policy::parse(&canonical).unwrap(), policy, "{}", String::from_utf8_lossy(&canonical));
    }
    assert_ne!(policy_of(&exact(), SAME).digest(), policy_of(&exact(), &full).digest());
    let default =
        policy_of(&exact(), &[(PLATFORM, "tcb = { evaluation_least = 17 }\nallow_perfmon = false")]);
    assert_eq!(default.digest(), policy_of(&exact(), SAME).digest());
}

#[test]
fn one_section_is_enough_and_both_may_stand() {
    let both = |text: &str| {
        let tdx = exact();
        let section = &tdx[tdx.find("[cpu.tdx.workload]").unwrap()..];
        format!("{text}\n[cpu.tdx]\n{PLATFORM}\n{section}")
    };
    let policy = Policy::parse(both(&snp_text(&[])).as_bytes()).unwrap();
    assert!(policy.cpu.snp.is_some() && policy.cpu.tdx.is_some());
    let none = "schema = 'claviger.release-policy/1'\ntenant = 'a'\nname = 'a'\nkeys = ['a']\n[cpu]\n";
    assert_eq!(code_of(none), Some(Code::PolicyFieldInvalid));
}

#[test]
fn a_policy_that_does_not_fix_code_is_refused() {
    let not_fixed = Some(Code::PolicyCodeNotFixed);
    let text = exact();
    for field in ["mr_td", "rtmr0", "rtmr1", "rtmr2"] {
        let line = text.lines().find(|line| line.starts_with(field)).unwrap();
        assert_eq!(code(&[(line, "")]), not_fixed, "{field} absent");
        let zero = quoted(Digest::new([0; 48]));
        for wrong in ["", "\"\"", "\" \"", "\"*\"", "\"01*\"", &zero] {
            assert_eq!(code(&[(line, &format!("{field} = [{wrong}]"))]), not_fixed, "{field} {wrong}");
        }
        assert_eq!(
            code(&[(line, &format!("{field} = [\"01\"]"))]),
            Some(Code::PolicyFieldInvalid),
            "{field}"
        );
    }
    let section = &text[text.find("[cpu.tdx.code]").unwrap()..];
    assert_eq!(code(&[(section, "")]), not_fixed);
}

#[test]
fn event_rules_that_fix_nothing_are_refused() {
    let text = exact();
    let line = text.lines().find(|line| line.starts_with("rtmr1")).unwrap();
    let kernel = measured("kernel");
    let rule = format!("{{ type = 'efi_boot_services_application', digests = ['{kernel}'] }}");
    let not_fixed = Some(Code::PolicyCodeNotFixed);
    let zero = Digest::<48>::new([0; 48]);
    let cases = [
        ("{}".to_string(), not_fixed),
        ("{ events = [] }".to_string(), not_fixed),
        ("{ others = ['efi_action'] }".to_string(), not_fixed),
        ("{ events = [{ type = 'ipl' }] }".to_string(), not_fixed),
        ("{ events = [{ type = 'ipl', digests = [] }] }".to_string(), not_fixed),
        ("{ events = [{ type = 'ipl', digests = ['*'] }] }".to_string(), not_fixed),
        (format!("{{ events = [{{ type = 'ipl', digests = ['{zero}'] }}] }}"), not_fixed),
        (format!("{{ events = [{rule}] }}"), None),
        (format!("{{ events = [{rule}], others = ['separator', 'efi_action'] }}"), None),
        // A type whose content is free lets any code call itself so, and extend the listed digest afterwards.
        (format!("{{ events = [{rule}], others = ['efi_gpt_event'] }}"), not_fixed),
        (
            format!("{{ events = [{rule}, {rule}], others = ['efi_gpt_event'] }}"),
            Some(Code::PolicyFieldInvalid),
        ),
        (format!("{{ events = [{rule}], others = ['spearator'] }}"), Some(Code::PolicyFieldInvalid)),
        ("{ events = [{ type = 'ipl', digests = ['01'] }] }".to_string(), Some(Code::PolicyFieldInvalid)),
        ("{ evnets = [] }".to_string(), Some(Code::PolicyFieldUnknown)),
        ("'any'".to_string(), Some(Code::PolicyFieldInvalid)),
    ];
    for (value, expected) in cases {
        assert_eq!(code(&[(line, &format!("rtmr1 = {value}"))]), expected, "{value}");
    }
}

#[test]
fn no_event_meets_two_rules() {
    let [first, both, second] = ["first", "both", "second"].map(measured);
    let text = exact();
    let line = text.lines().find(|line| line.starts_with("rtmr2")).unwrap();
    let rules = |one: &str, other: &str| {
        let value = format!(
            "rtmr2 = {{ events = [{{ type = 'event_tag', digests = ['{first}', '{both}'] {one} }}, {{ {other} }}] }}"
        );
        code(&[(line, &value)])
    };
    let tag = |digests: &str| format!("type = 'event_tag', digests = [{digests}]");
    let overlapping = tag(&format!("'{both}', '{second}'"));
    // A guest that measured `both` alone would have met both.
    assert_eq!(rules("", &overlapping), Some(Code::PolicyFieldInvalid));
    assert_eq!(rules("", &tag(&format!("'{second}'"))), None);
    assert_eq!(
        rules(", position = 0", &overlapping),
        None,
        "an event at a place meets the rule of that place"
    );
    assert_eq!(rules(", position = 0", &format!("{overlapping}, position = 1")), None);
    assert_eq!(rules("", &overlapping.replace("event_tag", "ipl")), None);
}

#[test]
fn beside_types_of_any_content_events_stand_at_the_first_places_without_a_gap() {
    let text = ruled();
    let others = "[cpu.tdx.code.rtmr2]\n";
    let open = (others, "[cpu.tdx.code.rtmr2]\nothers = [\"ipl\"]\n");
    assert_eq!(code_of(&changed(&text, &[open])), None);
    for (from, to) in [
        (", position = 0", ""),
        (", position = 0", ", position = 2"),
        (", position = 1", ", position = 0"),
        (", position = 1", ", position = 2"),
    ] {
        assert_eq!(
            code_of(&changed(&text, &[open, (from, to)])),
            Some(Code::PolicyCodeNotFixed),
            "{from} {to}"
        );
        assert_eq!(code_of(&changed(&text, &[(from, to)])), None, "closed, places are free: {from} {to}");
    }
    // The first register says how the firmware was set up; code that could forge it is kept out by the others.
    assert!(text.contains("others = [\"separator\", \"platform_config_flags\"]"));
}

#[test]
fn a_policy_that_does_not_fix_workload_and_tenant_is_refused() {
    let digest = measured("workload");
    let zero = Digest::<48>::new([0; 48]);
    let not_fixed = Some(Code::PolicyWorkloadNotFixed);
    let cases = [
        (String::new(), not_fixed),
        ("workload_in_image = false".to_string(), not_fixed),
        ("mr_config_id = []".to_string(), not_fixed),
        (format!("mr_config_id = ['{zero}']"), not_fixed),
        ("mr_config_id = ['*']".to_string(), not_fixed),
        (format!("mr_config_id = ['{digest}']"), None),
        (format!("rtmr3 = ['{zero}']"), not_fixed),
        (format!("rtmr3 = ['{digest}']"), None),
        (format!("rtmr3 = {{ events = [{{ type = 'runtime', digests = ['{digest}'] }}] }}"), None),
        // The measured image records events of many kinds; what it does not rule may not let another workload through.
        (
            format!(
                "rtmr3 = {{ others = ['runtime'], events = [{{ type = 'runtime', digests = ['{digest}'] }}] }}"
            ),
            not_fixed,
        ),
        (
            format!(
                "rtmr3 = {{ others = ['runtime'], events = [{{ type = 'runtime', digests = ['{digest}'], position = 0 \
                 }}] }}"
            ),
            None,
        ),
    ];
    for (value, expected) in cases {
        assert_eq!(code(&[(WORKLOAD, &value)]), expected, "{value}");
    }
    assert_eq!(code(&[("[cpu.tdx.workload]\nworkload_in_image = true", "")]), not_fixed);
}

#[test]
fn a_status_is_accepted_with_its_advisories_and_an_end() {
    let accept = |status: &str| {
        code(&[(PLATFORM, &format!("tcb = {{ evaluation_least = 17, accept = [{{ status = {status} }}] }}"))])
    };
    let (missing, invalid) = (Some(Code::PolicyFieldMissing), Some(Code::PolicyFieldInvalid));
    let cases = [
        ("'ConfigurationNeeded'", None),
        ("'SWHardeningNeeded'", missing),
        ("'SWHardeningNeeded', advisories = ['INTEL-SA-01192']", None),
        ("'ConfigurationAndSWHardeningNeeded'", missing),
        ("'OutOfDate', advisories = ['INTEL-SA-01192']", invalid),
        ("'OutOfDate', until = 2027-01-01T00:00:00Z", missing),
        ("'OutOfDate', advisories = ['INTEL-SA-01192'], until = 2027-01-01T00:00:00Z", None),
        ("'OutOfDate', advisories = ['INTEL-SA-01192'], tcb_age_days_max = 3660", None),
        ("'OutOfDate', advisories = ['INTEL-SA-01192'], tcb_age_days_max = 3661", invalid),
        ("'OutOfDate', advisories = ['INTEL-SA-01192'], tcb_age_days_max = 0", invalid),
        ("'OutOfDateConfigurationNeeded', advisories = ['INTEL-SA-01192']", invalid),
        ("'SWHardeningNeeded', advisories = ['*']", invalid),
        ("'SWHardeningNeeded', advisories = ['INTEL-SA-01192 ']", invalid),
        ("'SWHardeningNeeded', advisories = []", invalid),
        ("'SWHardeningNeeded', advisories = ['INTEL-SA-01192'], until = 'never'", invalid),
        // Nobody's to accept, or always accepted.
        ("'UpToDate'", invalid),
        ("'Revoked', advisories = ['INTEL-SA-01192'], until = 2027-01-01T00:00:00Z", invalid),
        ("'TDRelaunchAdvised', advisories = ['INTEL-SA-01192'], until = 2027-01-01T00:00:00Z", invalid),
        ("'TDRelaunchAdvisedConfigurationNeeded'", invalid),
        ("'outOfDate'", invalid),
        (
            "'ConfigurationNeeded' }, { status = 'ConfigurationNeeded', advisories = ['INTEL-SA-01192']",
            invalid,
        ),
    ];
    for (status, expected) in cases {
        assert_eq!(accept(status), expected, "{status}");
    }
    assert_eq!(code(&[(PLATFORM, "tcb = { evaluation_least = 0 }")]), invalid);
}

#[test]
fn what_a_platform_may_be_has_its_bounds() {
    let invalid = Some(Code::PolicyFieldInvalid);
    let seven = quoted(Digest::new([7; 48]));
    let zero = quoted(Digest::new([0; 48]));
    let cases = [
        ("collateral_age_days_max = 1".to_string(), None),
        ("collateral_age_days_max = 0".to_string(), invalid),
        ("attribute_bits = [18, 22, 31]".to_string(), None),
        ("attribute_bits = [0]".to_string(), invalid),
        ("attribute_bits = [17]".to_string(), invalid),
        ("attribute_bits = [23]".to_string(), invalid),
        ("attribute_bits = [29]".to_string(), invalid),
        ("attribute_bits = [63]".to_string(), invalid),
        ("xfam = ['sse', 'x87']".to_string(), None),
        ("xfam = ['sse2']".to_string(), invalid),
        ("xfam = []".to_string(), invalid),
        (format!("service_tds = [{seven}]"), None),
        (format!("service_tds = [{zero}]"), invalid),
        ("service_tds = ['*']".to_string(), invalid),
        ("ppids = ['05050505050505050505050505050505']".to_string(), None),
        ("ppids = ['00000000000000000000000000000000']".to_string(), invalid),
        ("ppids = ['0505']".to_string(), invalid),
        (format!("mr_owner = [{zero}]\nmr_owner_config = [{seven}]"), None),
    ];
    for (line, expected) in cases {
        assert_eq!(with(&line), expected, "{line}");
    }
    assert_eq!(with("allow_migratable = true"), Some(Code::PolicyFieldUnknown), "the floor has no exception");
}

#[test]
fn measured_event_is_reached_by_guests_with_a_register_that_is_free_for_it() {
    let event = ("[binding]", "[binding]\nleast_grade = \"measured-event\"");
    let unreachable = Some(Code::PolicyBindingUnreachable);
    assert_eq!(code(&[event]), None);
    assert_eq!(policy_of(&exact(), &[event]).binding.least_grade, Grade::MeasuredEvent);
    let fixed = format!("rtmr3 = ['{}']", measured("workload"));
    assert_eq!(code(&[event, (WORKLOAD, &fixed)]), unreachable, "the register would change");
    let rules =
        format!("rtmr3 = {{ events = [{{ type = 'runtime', digests = ['{}'] }}] }}", measured("workload"));
    assert_eq!(code(&[event, (WORKLOAD, &rules)]), None);
    let unfixed = ("agent_fixed_by = \"image\"\n", "");
    assert_eq!(code(&[event, unfixed]), unreachable);
    // A guest of SEV-SNP under the same policy could not have it.
    let snp = snp_text(&[event]);
    assert_eq!(code_of(&snp), unreachable);
    let tdx = exact();
    let both = format!("{snp}\n[cpu.tdx]\n{PLATFORM}\n{}", &tdx[tdx.find("[cpu.tdx.workload]").unwrap()..]);
    assert_eq!(code_of(&both), unreachable);
}

#[test]
fn init_data_is_pinned_by_mrconfigid() {
    let by = ("agent_configured_by = \"image\"", "agent_configured_by = \"init_data\"");
    assert_eq!(code(&[by]), Some(Code::PolicyBindingUnreachable));
    let pinned = format!("mr_config_id = ['{}']", measured("init data"));
    assert_eq!(code(&[by, (WORKLOAD, &pinned)]), None);
}

#[test]
fn what_is_wide_is_linted() {
    let warned = |line: &str, what: &str| {
        let lint = policy_of(&exact(), &[(PLATFORM, line)]).lint();
        assert!(lint.iter().any(|warning| warning.contains(what)), "{line}: {lint:?}");
        assert_eq!(lint.len(), 1, "{line}: {lint:?}");
    };
    let seven = quoted(Digest::new([7; 48]));
    warned("", "evaluation_least");
    warned(&format!("{PLATFORM}\nallow_perfmon = true"), "performance counters");
    warned(&format!("{PLATFORM}\nattribute_bits = [31]"), "bit 31");
    warned(&format!("{PLATFORM}\nxfam = ['x87', 'sse', 'pt']"), "`pt`");
    warned(&format!("{PLATFORM}\nservice_tds = [{seven}]"), "service TD");
    let accept = "tcb = { evaluation_least = 17, accept = [{ status = 'ConfigurationNeeded' }] }";
    warned(accept, "ConfigurationNeeded without advisories");
    let tables = policy_of(&ruled(), SAME).lint();
    assert!(tables.len() == 1 && tables[0].contains("ACPI"), "{tables:?}");
}
