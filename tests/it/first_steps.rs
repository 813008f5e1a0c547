//! What a person meets first: commands on a new place, and the words that a wrong call is answered with.

use std::process::{Command, Output};

use super::scratch::Scratch;

const CONFIG: &str = "[service]\ndir = \"service\"\nissuer = \"https://claviger.test\"\n\
    [guest]\nlisten = \"127.0.0.1:0\"\ndanger_plaintext = true\n\
    [operator]\nlisten = \"127.0.0.1:0\"\ndanger_plaintext = true\n\
    [health]\nlisten = \"127.0.0.1:0\"\n[endorsements]\ndir = \"service\"\n";

struct Place(Scratch);

impl Place {
    fn new(name: &str) -> Self {
        let place = Self(Scratch::new(name));
        place.0.write("claviger.toml", CONFIG.as_bytes());
        place
    }

    fn run(&self, line: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_claviger"));
        command.args(line.split_whitespace()).current_dir(self.0.path()).output().unwrap()
    }

    /// Runs a command, which must end with this status; returns all that it said.
    #[track_caller]
    fn says(&self, status: i32, line: &str) -> String {
        let output = self.run(line);
        let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
        assert_eq!(output.status.code(), Some(status), "{said}");
        said
    }
}

#[track_caller]
fn tells(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "{word:?} in {said}");
    }
}

#[test]
fn init_names_every_step_up_to_the_first_release() {
    let place = Place::new("first-init");
    let said = place.says(0, "init --dir service");
    tells(&said, &["[endorsements]", "claviger policy activate", "claviger key add", "claviger serve"]);
}

#[test]
fn a_key_that_no_policy_selects_and_a_key_that_exists_are_told() {
    let place = Place::new("first-key");
    place.says(0, "init --dir service");
    place.0.write("model.key", &[7; 32]);
    let add =
        "key add --config claviger.toml --tenant acme --key models/a --selector models/* --from model.key";
    let first = place.says(0, add);
    tells(
        &first,
        &["version 1 enrolled\n", "warning: no policy of tenant acme that selects models/a is in force"],
    );
    let policies = concat!(env!("CARGO_MANIFEST_DIR"), "/policies/genoa-h100.toml");
    let activated = place.says(0, &format!("policy activate --config claviger.toml {policies}"));
    tells(&activated, &["cpu.snp.code.measurements[0] looks like a placeholder"]);
    let second = place.says(0, add);
    tells(&second, &["version 2 enrolled; the key existed, and this version takes its place\n"]);
    assert!(!second.contains("warning"), "{second}");
}

#[test]
fn what_is_no_database_is_a_wrong_file_and_not_a_store_that_is_away() {
    let place = Place::new("first-audit");
    place.says(0, "init --dir service");
    let pins = place.run("identity show --pins --dir service").stdout;
    place.0.write("pins.json", &pins);
    place.0.write("words.db", b"this is no database at all");
    let verify = |database: &str| {
        format!("audit verify --database {database} --service service/service/service.json --pins pins.json")
    };
    let none = place.says(2, &verify("nope.db"));
    tells(&none, &["nope.db: ", "No such file"]);
    let words = place.says(2, &verify("words.db"));
    tells(&words, &["words.db: expected an SQLite database"]);
    place.says(2, &verify("service"));
    place.says(0, &verify("service/store.db"));
}

#[test]
fn a_simulated_machine_takes_a_new_folder_and_at_least_one_gpu() {
    let place = Place::new("first-simulate");
    std::fs::create_dir(place.0.path().join("machine")).unwrap();
    let exists = place.says(2, "simulate --dir machine");
    tells(&exists, &["machine: exists already", "remove this one, or name another"]);
    for count in ["0", "17"] {
        tells(&place.says(2, &format!("simulate --dir new --gpus {count}")), &["expected 1 to 16 GPUs"]);
    }
    assert!(!place.0.path().join("new").exists());
}

#[test]
fn a_machine_that_does_not_run_is_told_with_how_to_start_it() {
    let place = Place::new("first-agent");
    let said = place.says(2, "agent --config agent.toml --simulated-machine nosock");
    tells(&said, &["nosock: ", "claviger simulate --dir DIR"]);
}

#[test]
fn a_beginning_of_a_code_finds_it_in_any_case() {
    let place = Place::new("first-explain");
    tells(&place.says(2, "explain snp_crl"), &["the nearest is `snp_crl_"]);
    tells(&place.says(0, "explain SNP_DEBUG"), &["snp_debug\n"]);
}

#[test]
fn the_catalogue_shows_the_support_list() {
    let place = Place::new("first-catalogue");
    let said = place.says(0, "catalogue");
    tells(&said, &["support list", "genoa", "GH100: driver ", "read on 20"]);
}

#[test]
fn a_policy_is_told_of_with_line_example_and_nearest_name() {
    let place = Place::new("first-policy");
    let whole = include_str!("../../policies/qemu-tdx-h100-directboot.toml");
    let check = |from: &str, to: &str, status| {
        assert!(whole.contains(from), "{from}");
        place.0.write("policy.toml", whole.replacen(from, to, 1).as_bytes());
        place.says(status, "policy check policy.toml")
    };
    tells(&check("tenant =", "tenant", 2), &["policy.toml: ", "not well-formed TOML, line "]);
    tells(&check("type = \"", "type = \"eevent_tag\" #", 2), &["is `event_tag` meant?"]);
    let risk = |until: &str| {
        format!("[[accept_risks]]\nid = \"rim-signer-on-hold\"\nby = \"a\"\nuntil = {until}\n\n[gpu]")
    };
    tells(&check("[gpu]", &risk("\"2027-03-01\""), 2), &["expected a time such as 2027-03-01T00:00:00Z"]);
    let past = check("[gpu]", &risk("2020-01-01T00:00:00Z"), 0);
    tells(&past, &["warning: accept_risks: rim-signer-on-hold has ended at 2020-01-01T00:00:00Z"]);
    tells(&check("[gpu]", "[approvals]\n\n[gpu]", 2), &["policy_section_not_built"]);
}
