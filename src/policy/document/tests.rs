//! Tests of the document: what it fixes, what it refuses, and its one digest.

use super::*;
use crate::policy::fixture::{POLICY, POLICY_JSON, now, policy, text};
use crate::wire::Code;

const SAME: &[(&str, &str)] = &[];
const MEASUREMENT: &str =
    "\"010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101\"";
const HOST_DATA: &str = "host_data = [\"0202020202020202020202020202020202020202020202020202020202020202\"]";
const ZERO_48: &str =
    "\"000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\"";

fn error(changes: &[(&str, &str)]) -> Error {
    Policy::parse(text(changes).as_bytes()).unwrap_err()
}

fn code(changes: &[(&str, &str)]) -> Code {
    error(changes).code()
}

#[test]
fn toml_and_json_of_one_policy_have_one_digest() {
    let (toml, json) = (policy(SAME), Policy::parse(POLICY_JSON.as_bytes()).unwrap());
    assert_eq!(toml, json);
    assert_eq!(toml.digest(), json.digest());
    let comment = Policy::parse(format!("# A comment.\n{POLICY}").as_bytes()).unwrap();
    assert_eq!(comment.digest(), toml.digest());
}

#[test]
fn a_default_written_out_changes_nothing_and_any_other_value_does() {
    let digest = policy(SAME).digest().unwrap();
    let defaults = [
        ("name = \"llama\"", "name = \"llama\"\nkem = ['x-wing']"),
        ("vmpl = 0", "vmpl = 0\nrequire_alias_check = true\nallow_cxl = false"),
        ("[gpu]", "[lease]\nseconds = 600\non_conflict = 'refuse'\n[gpu]"),
        ("[gpu]", "[freshness]\nchallenge_age_s_max = 120\n[gpu]"),
        ("[binding]", "[binding]\nleast_grade = 'measured-agent'"),
        (
            "microcode = 84 }",
            "microcode = 84 }\nlaunch = { boot_loader = 10, tee = 0, snp = 23, microcode = 84 }",
        ),
    ];
    for default in defaults {
        assert_eq!(policy(&[default]).digest().unwrap(), digest, "{}", default.1);
    }
    let others = [
        ("name = \"llama\"", "name = \"llama\"\nkem = ['x25519']"),
        ("vmpl = 0", "vmpl = 1"),
        ("[gpu]", "[lease]\nseconds = 599\n[gpu]"),
        ("[gpu]", "[freshness]\nchallenge_age_s_max = 119\n[gpu]"),
        ("snp = 23", "snp = 24"),
        ("tenant = \"acme\"", "tenant = \"acmf\""),
    ];
    for other in others {
        assert_ne!(policy(&[other]).digest().unwrap(), digest, "{}", other.1);
    }
}

#[test]
fn the_canonical_form_parses_to_the_same_policy() {
    let risk = "[[accept_risks]]\nid = 'amd-crl-stale'\nby = 'A. Person'\nuntil = 2027-01-01T00:00:00Z\n\
                max_age_days = 30\n[gpu]";
    let chips = "count = 1\nchips = ['0101010101010101']\ncombinations = [{ line = 'genoa', architecture = 'hopper', \
                 driver_branch = 550, vbios = '96.00.9f.00.01' }]";
    let full =
        policy(&[("[gpu]", risk), ("count = 1", chips), ("vmpl = 0", "vmpl = 0\nvlek_providers = ['CN=a']")]);
    for policy in [policy(SAME), full] {
        let canonical = policy.canonical().unwrap();
        let again = Policy::parse(&canonical).unwrap();
        assert_eq!(again, policy);
        assert_eq!(again.canonical().unwrap(), canonical);
    }
}

#[test]
fn every_default_is_the_strict_one() {
    let policy = policy(&[("smt = \"allow\"\n", "")]);
    let platform = &policy.cpu.snp.as_ref().unwrap().platform;
    assert_eq!(platform.smt, Smt::Refuse);
    let allowed = [
        platform.allow_cxl,
        platform.allow_provisional_firmware,
        platform.allow_report_version_2,
        policy.gpu.allow_virtualization_none,
        !platform.require_alias_check,
    ];
    assert_eq!(allowed, [false; 5]);
    assert!(platform.vlek_providers.is_empty() && policy.accept_risks.is_empty());
    assert_eq!(policy.kem, [Kem::XWing]);
    assert_eq!((policy.lease.seconds, policy.lease.on_conflict), (600, OnConflict::Refuse));
    assert_eq!(policy.binding.least_grade, Grade::MeasuredAgent);
    assert!(policy.lint().is_empty(), "{:?}", policy.lint());
}

#[test]
fn an_unknown_field_is_refused_with_its_path_and_the_nearest_name() {
    let cases = [
        ("keys = [", "kesy = [", "kesy", Some("keys")),
        ("measurements = [", "mesurements = [", "cpu.snp.code.mesurements", Some("measurements")),
        ("vmpl = 0", "vmlp = 0", "cpu.snp.vmlp", Some("vmpl")),
        ("snp = 23", "spn = 23", "cpu.snp.tcb[0].reported.spn", Some("snp")),
        ("count = 1", "cuont = 1", "gpu.cuont", Some("count")),
        ("[binding]", "[xyzzy]", "xyzzy", None),
    ];
    for (from, to, path, nearest) in cases {
        assert_eq!(error(&[(from, to)]), Error::FieldUnknown { path: path.to_string(), nearest }, "{to}");
    }
}

#[test]
fn a_policy_that_does_not_fix_code_is_refused() {
    let cases = [("[cpu.snp.code]\n", "[cpu.snp.code]\n#"), ("[", "[")];
    let absent = Error::CodeNotFixed {
        path: "cpu.snp.code".to_string(),
        what: "expected measurements or id_key_digests".to_string(),
    };
    assert_eq!(error(&cases[..1]), absent);
    for wrong in ["", ZERO_48, "\"*\"", "\"\"", "\" \"", "\"0101*\""] {
        assert_eq!(code(&[(MEASUREMENT, wrong)]), Code::PolicyCodeNotFixed, "{wrong}");
    }
    for wrong in ["\"01\"", "\"0101\", 1", "1"] {
        assert_eq!(code(&[(MEASUREMENT, wrong)]), Code::PolicyFieldInvalid, "{wrong}");
    }
    let keys = |digest: &str| format!("id_key_digests = [{digest}]\nguest_svn_least = 1");
    let line = format!("measurements = [{MEASUREMENT}]");
    assert!(Policy::parse(text(&[(&line, &keys(MEASUREMENT))]).as_bytes()).is_ok());
    assert_eq!(code(&[(&line, &keys(ZERO_48))]), Code::PolicyCodeNotFixed);
    assert_eq!(code(&[(&line, &keys(""))]), Code::PolicyCodeNotFixed);
    let without_svn = format!("id_key_digests = [{MEASUREMENT}]");
    assert_eq!(code(&[(&line, &without_svn)]), Code::PolicyFieldMissing);
    let both = format!("{line}\nid_key_digests = [{MEASUREMENT}]");
    assert_eq!(code(&[(&line, &both)]), Code::PolicyFieldInvalid);
}

#[test]
fn host_data_alone_fixes_no_code() {
    let block = format!("[cpu.snp.code]\nmeasurements = [{MEASUREMENT}]\n");
    assert_eq!(code(&[(&block, "")]), Code::PolicyCodeNotFixed);
}

#[test]
fn a_policy_that_does_not_fix_workload_and_tenant_is_refused() {
    let zero = HOST_DATA.replace("02", "00");
    for wrong in [
        "",
        "host_data = []",
        "workload_in_image = false",
        "host_data = [\"*\"]",
        "host_data = [\"\"]",
        &zero,
    ] {
        assert_eq!(code(&[(HOST_DATA, wrong)]), Code::PolicyWorkloadNotFixed, "{wrong}");
    }
    let block = format!("[cpu.snp.workload]\n{HOST_DATA}\n");
    assert_eq!(code(&[(&block, "")]), Code::PolicyWorkloadNotFixed);
    assert!(policy(&[(HOST_DATA, "workload_in_image = true")]).cpu.snp.unwrap().workload.workload_in_image);
}

#[test]
fn known_sections_and_profiles_that_are_not_built_have_their_own_codes() {
    for section in ["[cpu.azure_snp]", "[cpu.azure_tdx]", "[approvals]", "[limits]", "[dates]", "[deny_rego]"]
    {
        let changed = text(&[("[gpu]", &format!("{section}\nanything = 1\n[gpu]"))]);
        let error = Policy::parse(changed.as_bytes()).unwrap_err();
        let path = section.trim_matches(['[', ']']).to_string();
        assert_eq!(error, Error::SectionNotBuilt { path });
    }
    for profile in ["node-ppcie", "node-mpt"] {
        assert_eq!(error(&[("\"single\"", &format!("\"{profile}\""))]), Error::ProfileNotBuilt { profile });
    }
    assert_eq!(code(&[("\"single\"", "\"double\"")]), Code::PolicyFieldInvalid);
}

#[test]
fn another_schema_is_refused_before_its_fields_are_read() {
    let other = text(&[("release-policy/1", "release-policy/2"), ("keys =", "schlüssel =")]);
    assert!(matches!(Policy::parse(other.as_bytes()), Err(Error::DocumentSyntax { .. })));
    let other = text(&[("release-policy/1", "release-policy/2"), ("keys =", "whatever =")]);
    assert_eq!(Policy::parse(other.as_bytes()).unwrap_err().code(), Code::PolicySchemaUnknown);
    assert_eq!(code(&[("schema = \"claviger.release-policy/1\"\n", "")]), Code::PolicyFieldMissing);
}

/// Code and configuration of the agent fixed by init data.
const INIT_DATA: &str = "agent_fixed_by = 'init_data'\nagent_configured_by = 'init_data'\n\
    agent_images = ['sha256:abababababababababababababababababababababababababababababababab']\n";

#[test]
fn images_of_the_agent_are_digests_and_stand_where_init_data_names_one() {
    let binding = "agent_fixed_by = \"image\"\nagent_configured_by = \"image\"\n";
    let with = |from: &str, to: &str| {
        let altered = INIT_DATA.replacen(from, to, 1);
        assert_ne!(altered, INIT_DATA, "{from}");
        Policy::parse(text(&[(binding, &altered)]).as_bytes()).err().map(|error| error.code())
    };
    let invalid = Some(Code::PolicyFieldInvalid);
    assert_eq!(with("sha256:ab", "sha256:cd"), None);
    assert_eq!(with("sha256:", ""), invalid);
    assert_eq!(with("sha256:abab", "sha256:*"), invalid);
    assert_eq!(with("sha256:abab", "latest"), invalid);
    assert_eq!(with(&"ab".repeat(32), &"00".repeat(32)), invalid, "zero was never set");
    assert_eq!(
        with("agent_fixed_by = 'init_data'", "agent_fixed_by = 'image'"),
        invalid,
        "it would mean nothing"
    );
    assert_eq!(with("agent_fixed_by = 'init_data'\n", "least_grade = 'nonce-only'\n"), invalid);
    let parsed = policy(&[(binding, INIT_DATA)]);
    assert_eq!(parsed.binding.agent_images.len(), 1);
    let again = Policy::parse(&parsed.canonical().unwrap()).unwrap();
    assert_eq!((again.digest(), again.binding), (parsed.digest(), parsed.binding.clone()));
    let lint = parsed.lint();
    assert!(lint.iter().any(|warning| warning.contains("measured image enforces")), "{lint:?}");
}

#[test]
fn an_unreachable_binding_grade_is_refused() {
    let binding = "agent_fixed_by = \"image\"\nagent_configured_by = \"image\"\n";
    let cases = [
        (binding, "", Some(Code::PolicyBindingUnreachable)),
        (binding, "agent_fixed_by = \"image\"\n", Some(Code::PolicyBindingUnreachable)),
        (binding, "least_grade = \"nonce-only\"\n", None),
        (binding, "agent_fixed_by = \"image\"\nagent_configured_by = \"init_data\"\n", None),
        (binding, INIT_DATA, None),
        (
            binding,
            "agent_fixed_by = \"init_data\"\nagent_configured_by = \"init_data\"\n",
            Some(Code::PolicyBindingUnreachable),
        ),
        (
            binding,
            "agent_fixed_by = \"init_data\"\nagent_configured_by = \"init_data\"\nagent_images = []\n",
            Some(Code::PolicyBindingUnreachable),
        ),
        ("[binding]", "[binding]\nleast_grade = \"measured-event\"", Some(Code::PolicyBindingUnreachable)),
        ("[binding]", "[binding]\nleast_grade = \"device\"", Some(Code::PolicyBindingUnreachable)),
        ("[binding]", "[binding]\nleast_grade = \"best\"", Some(Code::PolicyFieldInvalid)),
    ];
    for (from, to, expected) in cases {
        let parsed = Policy::parse(text(&[(from, to)]).as_bytes());
        assert_eq!(parsed.err().map(|error| error.code()), expected, "{to}");
    }
    for by_init_data in [INIT_DATA, "agent_fixed_by = 'image'\nagent_configured_by = 'init_data'\n"] {
        let unpinned = [(HOST_DATA, "workload_in_image = true"), (binding, by_init_data)];
        assert_eq!(code(&unpinned), Code::PolicyBindingUnreachable, "init data that nothing pins");
    }
    assert_eq!(policy(SAME).binding.grade(false), Grade::MeasuredAgent);
    let nonce_only = policy(&[(binding, "least_grade = 'nonce-only'\n")]).binding;
    assert_eq!(nonce_only.grade(false), Grade::NonceOnly);
    assert_eq!(
        nonce_only.grade(true),
        Grade::NonceOnly,
        "an event of code that nobody vouches for says nothing"
    );
}

fn accepting(risk: &str) -> Result<Policy, Error> {
    Policy::parse(text(&[("[binding]", &format!("[[accept_risks]]\n{risk}\n[binding]"))]).as_bytes())
}

#[test]
fn risks_are_accepted_by_id_person_and_date_alone() {
    let whole = "by = 'A. Person'\nuntil = '2027-01-01T00:00:00Z'\n";
    for id in ["milan-root-extraction", "rim-signer-on-hold"] {
        assert!(accepting(&format!("id = '{id}'\n{whole}")).is_ok(), "{id}");
        assert!(accepting(&format!("id = '{id}'\n{whole}max_age_days = 3")).is_err(), "{id}");
    }
    assert!(accepting(&format!("id = 'amd-crl-stale'\n{whole}max_age_days = 30")).is_ok());
    let cases = [
        (format!("id = 'amd-crl-stale'\n{whole}"), Code::PolicyFieldMissing),
        (format!("id = 'amd-crl-stale'\n{whole}max_age_days = 0"), Code::PolicyFieldInvalid),
        (format!("id = 'gpu-relay'\n{whole}"), Code::PolicyRiskUnknown),
        (format!("id = 'mig'\n{whole}"), Code::PolicyRiskUnknown),
        ("id = 'rim-signer-on-hold'\nby = 'a'".to_string(), Code::PolicyFieldMissing),
        ("id = 'rim-signer-on-hold'\nuntil = '2027-01-01T00:00:00Z'".to_string(), Code::PolicyFieldMissing),
        (
            "id = 'rim-signer-on-hold'\nby = ''\nuntil = '2027-01-01T00:00:00Z'".to_string(),
            Code::PolicyFieldInvalid,
        ),
        ("id = 'rim-signer-on-hold'\nby = 'a'\nuntil = 'always'".to_string(), Code::PolicyFieldInvalid),
        ("id = 'rim-signer-on-hold'\nby = 'a'\nuntil = 2027-01-01".to_string(), Code::PolicyFieldInvalid),
    ];
    for (risk, expected) in cases {
        assert_eq!(accepting(&risk).unwrap_err().code(), expected, "{risk}");
    }
    let twice = format!(
        "id = 'rim-signer-on-hold'\n{whole}[[accept_risks]]\nid = 'rim-signer-on-hold'\nby = 'b'\n\
         until = '2027-01-01T00:00:00Z'"
    );
    assert_eq!(accepting(&twice).unwrap_err().code(), Code::PolicyFieldInvalid);
}

#[test]
fn an_acceptance_ends_with_its_last_second() {
    let policy = accepting("id = 'rim-signer-on-hold'\nby = 'a'\nuntil = '2026-11-30T12:00:00Z'").unwrap();
    assert_eq!(policy.rim_hold(now()), Hold::AcceptedForRimSigner);
    assert_eq!(policy.rim_hold(now().plus(1)), Hold::Refused);
    assert!(matches!(policy.acceptance(Acceptable::RimSignerOnHold, now().plus(1)), Acceptance::Expired(_)));
    assert_eq!(policy.acceptance(Acceptable::AmdCrlStale, now()), Acceptance::Refused);
}

#[test]
fn numbers_have_two_sides() {
    let lease = |seconds: i64| {
        Policy::parse(text(&[("[gpu]", &format!("[lease]\nseconds = {seconds}\n[gpu]"))]).as_bytes()).is_ok()
    };
    assert_eq!([59, 60, 600, 601, -1].map(lease), [false, true, true, false, false]);
    let age = |seconds: i64| {
        let section = format!("[freshness]\nchallenge_age_s_max = {seconds}\n[gpu]");
        Policy::parse(text(&[("[gpu]", &section)]).as_bytes()).is_ok()
    };
    assert_eq!([9, 10, 120, 121].map(age), [false, true, true, false]);
    let vmpl = |vmpl: i64| Policy::parse(text(&[("vmpl = 0", &format!("vmpl = {vmpl}"))]).as_bytes()).is_ok();
    assert_eq!([0, 3, 4, 4_294_967_295].map(vmpl), [true, true, false, false]);
    let count =
        |count: i64| Policy::parse(text(&[("count = 1", &format!("count = {count}"))]).as_bytes()).is_ok();
    assert_eq!([0, 1, 2].map(count), [false, true, false]);
    assert_eq!(code(&[("vmpl = 0\n", "")]), Code::PolicyFieldMissing, "VMPL must be stated");
}

#[test]
fn lists_are_bounded_and_hold_each_entry_once() {
    let keys = |count: usize| {
        let list: Vec<String> = (0..count).map(|at| format!("\"k{at}\"")).collect();
        Policy::parse(text(&[("\"models/llama-*\"", &list.join(","))]).as_bytes())
            .map(|_| ())
            .map_err(|e| e.code())
    };
    assert_eq!(keys(limits::POLICY_LIST_MAX), Ok(()));
    assert_eq!(keys(limits::POLICY_LIST_MAX + 1), Err(Code::PolicyFieldInvalid));
    assert_eq!(keys(0), Err(Code::PolicyFieldInvalid));
    assert_eq!(code(&[("\"models/llama-*\"", "\"a\", \"a\"")]), Code::PolicyFieldInvalid);
    let name = |len: usize| {
        accepting(&format!(
            "id = 'rim-signer-on-hold'\nby = '{}'\nuntil = '2027-01-01T00:00:00Z'",
            "x".repeat(len)
        ))
        .is_ok()
    };
    assert_eq!([limits::POLICY_TEXT_LEN_MAX, limits::POLICY_TEXT_LEN_MAX + 1].map(name), [true, false]);
}

#[test]
fn a_policy_must_select_keys_or_name_an_audience() {
    let (keys, audiences) = ("keys = [\"models/llama-*\"]\n", "audiences = [\"https://vault.example\"]\n");
    assert!(policy(&[(keys, "")]).keys.is_empty());
    assert!(policy(&[(audiences, "")]).audiences.is_empty());
    assert_eq!(code(&[(keys, ""), (audiences, "")]), Code::PolicyFieldMissing);
}

#[test]
fn a_floor_is_for_models_of_its_line_in_its_layout() {
    assert_eq!(code(&[("models = [0x11]", "models = [0x01]")]), Code::PolicyFieldInvalid, "a Milan model");
    assert_eq!(code(&[("snp = 23", "fmc = 1, snp = 23")]), Code::PolicyFieldInvalid);
    assert_eq!(
        code(&[("line = \"genoa\"\nmodels = [0x11]", "line = \"turin\"\nmodels = [0x02]")]),
        Code::PolicyFieldMissing
    );
    assert_eq!(code(&[("snp = 23, ", "")]), Code::PolicyFieldMissing);
    assert_eq!(code(&[("snp = 23", "snp = 256")]), Code::PolicyFieldInvalid);
    let warned = policy(&[("lines = [\"genoa\"]", "lines = [\"genoa\", \"turin\"]")]).lint();
    assert!(warned.iter().any(|warning| warning.contains("no floor for Turin")), "{warned:?}");
}

#[test]
fn the_whole_document_is_bounded() {
    let padded = |len: usize| format!("{POLICY}#{}", "x".repeat(len - POLICY.len() - 1));
    assert!(Policy::parse(padded(limits::POLICY_LEN_MAX).as_bytes()).is_ok());
    let error = Policy::parse(padded(limits::POLICY_LEN_MAX + 1).as_bytes()).unwrap_err();
    assert_eq!(error.code(), Code::PolicyMalformed);
}

#[test]
fn json_may_not_repeat_a_field() {
    let repeated = POLICY_JSON.replacen("\"vmpl\": 0", "\"vmpl\": 1, \"vmpl\": 0", 1);
    let expected = Error::FieldRepeated { path: "cpu.snp.vmpl".to_string() };
    assert_eq!(Policy::parse(repeated.as_bytes()), Err(expected));
}

#[test]
fn what_is_wide_is_linted() {
    let wide =
        policy(&[("\"models/llama-*\"", "\"*\""), ("vmpl = 0", "vmpl = 0\nallow_report_version_2 = true")]);
    assert_eq!(wide.lint().len(), 3, "{:?}", wide.lint());
}

#[test]
fn a_list_of_chips_beside_providers_is_linted() {
    let providers = "vmpl = 0\nvlek_providers = ['CN=a']";
    let chips = format!("{providers}\nchips = ['{}01']", "02".repeat(63));
    let contradicts = |changed: &str| {
        let lint = policy(&[("vmpl = 0", changed)]).lint();
        assert!(lint.iter().any(|warning| warning.contains("a VLEK names a provider")), "{lint:?}");
        lint.iter().any(|warning| warning.contains("no VLEK is bound to a chip"))
    };
    assert!(contradicts(&chips));
    assert!(!contradicts(providers));
}

#[test]
fn values_that_repeat_a_few_bytes_look_like_placeholders() {
    let said = policy(SAME).placeholders();
    let expected = ["cpu.snp.code.measurements[0]", "cpu.snp.workload.host_data[0]"];
    let expected =
        expected.map(|path| format!("{path} looks like a placeholder: put in the value of your own"));
    assert_eq!(said, expected);
    let measured =
        "8df741baa3a54c094403ab33821da470e757ca1703345e1b0aa7471a00a58418a1ab8131819fe281b91c889ace4f90d0";
    let (ones, four) = ("01".repeat(48), "c0dec0df".repeat(12));
    assert_eq!(policy(&[(ones.as_str(), measured)]).placeholders(), expected[1..]);
    assert_eq!(policy(&[(ones.as_str(), four.as_str())]).placeholders(), expected);
}

#[test]
fn an_end_that_has_passed_is_told_from_the_second_after_it() {
    let policy = accepting("id = 'rim-signer-on-hold'\nby = 'a'\nuntil = '2026-11-30T12:00:00Z'").unwrap();
    assert!(policy.ended(now()).is_empty());
    let expected = "accept_risks: rim-signer-on-hold has ended at 2026-11-30T12:00:00Z and accepts nothing";
    assert_eq!(policy.ended(now().plus(1)), [expected]);
}

#[test]
fn a_grade_that_is_not_built_is_not_offered() {
    let said = error(&[("[binding]", "[binding]\nleast_grade = 'devise'")]).to_string();
    let expected =
        "binding.least_grade: expected `nonce-only` or `measured-agent` or `measured-event`; `devise` given";
    assert_eq!(said, expected);
}
