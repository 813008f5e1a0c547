//! For each rule a violation that it must find, and the nearest thing that it must let pass.

use std::path::Path;

use crate::files;
use crate::house::House;
use crate::rules::{self, Count, Door, Row, Sign, Word};

const ROOMS: &[Row] =
    &[("wire", &[]), ("verify", &["wire"]), ("lease", &["wire", "verify"]), ("sim", &["wire"])];

/// Expects one violation that holds each of the words.
fn one(violations: Vec<String>, words: &[&str]) {
    assert_eq!(violations.len(), 1, "{violations:?}");
    for word in words {
        assert!(violations[0].contains(word), "{violations:?} does not speak of {word}");
    }
}

fn none(violations: Vec<String>) {
    assert!(violations.is_empty(), "{violations:?}");
}

fn imports(path: &str, text: &str) -> Vec<String> {
    rules::imports(
        &House::planted(&[(path, text)]),
        ROOMS,
        &[("lease/pure.rs", &["wire"])],
        &["sim"],
        &[("verify/terms.rs", "wire")],
    )
}

#[test]
fn a_row_that_names_a_lower_room_is_found() {
    one(rules::rows_point_upwards(&[("a", &["b"]), ("b", &[])]), &["row a names b"]);
    one(rules::rows_point_upwards(&[("a", &[]), ("a", &[])]), &["two rows"]);
    one(rules::rows_point_upwards(&[("a", &["a"])]), &["row a names a"]);
    none(rules::rows_point_upwards(ROOMS));
}

#[test]
fn an_import_against_the_direction_is_found() {
    one(imports("src/verify/a.rs", "use crate::lease::Held;"), &["src/verify/a.rs:1", "lease"]);
    one(imports("src/verify/a.rs", "fn f() {\n crate::lease::hold() }"), &["src/verify/a.rs:2"]);
    one(imports("src/verify/a.rs", "use crate::{wire::Check, lease};"), &["lease"]);
    one(imports("src/verify.rs", "#[serde(with = \"crate::lease::hex\")] struct S;"), &["lease"]);
    one(imports("src/verify/a.rs", "use crate::verdict::V;"), &["verdict"]);
    one(imports("src/lease/pure.rs", "use crate::verify::V;"), &["lease/pure.rs", "verify"]);
    none(imports("src/lease/a.rs", "use crate::{verify::V, wire, lease::b}; // use crate::sim;\n"));
}

#[test]
fn test_code_may_import_the_simulator_and_nothing_else_below() {
    none(imports("src/verify/a.rs", "#[cfg(test)] mod tests { use crate::sim::Vendor; }"));
    one(imports("src/verify/a.rs", "use crate::sim::Vendor; #[cfg(test)] mod tests {}"), &["sim"]);
    one(imports("src/verify/a.rs", "#[cfg(test)] mod tests { use crate::lease::L; }"), &["lease"]);
    let files =
        [("src/verify/mod.rs", "#[cfg(test)] mod fake;"), ("src/verify/fake.rs", "use crate::sim::Vendor;")];
    none(rules::imports(&House::planted(&files), ROOMS, &[], &["sim"], &[]));
}

#[test]
fn ways_around_the_table_are_found() {
    one(imports("src/verify/a.rs", "use super::super::lease::L;"), &["climbs"]);
    one(imports("src/verify/a.rs", "use crate as house;"), &["whole crate"]);
    one(imports("src/verify/a.rs", "use crate::*;"), &["whole crate"]);
    one(imports("src/verify/a.rs", "use std as s;"), &["standard crate"]);
    one(imports("src/verify/mod.rs", "pub use crate::wire::Check;"), &["hands on", "wire"]);
    none(imports("src/verify/terms.rs", "pub use crate::wire::Check;"));
    one(imports("src/verify/terms.rs", "use crate::wire::Check;"), &["hands on nothing of wire"]);
    one(imports("src/verify/mod.rs", "pub(crate) use crate::wire::Check;"), &["hands on"]);
    none(imports(
        "src/verify/mod.rs",
        "pub use crate::verify::a::A; pub(super) fn f() {} use crate::wire::Check;",
    ));
}

#[test]
fn a_room_without_a_row_is_found() {
    one(imports("src/attic/mod.rs", ""), &["attic", "without a row"]);
    one(imports("src/attic.rs", "fn f() {}"), &["attic"]);
}

#[test]
fn a_sibling_s_import_is_found() {
    let plant =
        |text| rules::siblings(&House::planted(&[("src/http/guest.rs", text)]), "http", &["guest", "log"]);
    one(plant("use super::log::tile;"), &["guest imports its sibling log"]);
    one(plant("use crate::http::log::tile;"), &["sibling"]);
    none(plant("use super::error::Error; use crate::http::guest::x;"));
}

const DOORS: &[Door] = &[
    Door {
        name: "files",
        signs: &[Sign::Begins("std::fs"), Sign::Method("exists"), Sign::Macro("env")],
        places: &["lease"],
        tests: true,
    },
    Door { name: "the clock", signs: &[Sign::Tokens("Instant")], places: &[], tests: false },
];

#[test]
fn a_door_in_the_wrong_room_is_found() {
    let plant = |text| rules::doors(&House::planted(&[("src/wire/a.rs", text)]), DOORS);
    one(plant("use std::fs;"), &["src/wire/a.rs:1", "files"]);
    one(plant("use std::{io, fs::File};"), &["files"]);
    one(plant("fn f() { ::std::fs::read(x); }"), &["files"]);
    one(plant("fn f() { path.exists() }"), &["files"]);
    one(plant("fn f() { env!(\"HOME\") }"), &["files"]);
    one(plant("#[std::fs::x] fn f() {}"), &["files"]);
    none(plant(
        "use std::fsx; fn exists() { exists(); env(); } // std::fs::read()\nconst S: &str = \"std::fs\";",
    ));
}

#[test]
fn test_code_may_read_files_and_no_clock() {
    let plant = |text| rules::doors(&House::planted(&[("src/wire/a.rs", text)]), DOORS);
    none(plant("#[cfg(test)] mod tests { use std::fs; }"));
    one(plant("#[cfg(test)] mod tests { use std::time::Instant; }"), &["clock"]);
}

#[test]
fn a_door_that_nobody_needs_is_found() {
    let unused = House::planted(&[("src/lease/mod.rs", "fn f() {}")]);
    one(rules::doors(&unused, DOORS), &["lease does not need files"]);
    none(rules::doors(&House::planted(&[("src/lease/mod.rs", "use std::fs;")]), DOORS));
}

fn counted(sign: Sign, path: &str, text: &str) -> Vec<String> {
    let places = [("lease/hold.rs", Count::Exactly(1)), ("verify", Count::Free)];
    let word = Word { name: "word", sign, places: Box::leak(Box::new(places)) };
    rules::counted(&House::planted(&[(path, text)]), &[word])
}

#[test]
fn a_word_out_of_its_place_is_found() {
    let signs = [
        (Sign::Tokens("Transaction for"), "impl<T> wire::Transaction for Fake<T> {}"),
        (Sign::Ends("txn::run"), "fn f() { txn::run(tx, work) }"),
        (Sign::Ends("txn::run"), "use crate::wire::txn::{run};"),
        (Sign::Ends("txn::run"), "use crate::wire::txn::*;"),
        (Sign::Ends("lease::hold"), "fn f() { lease::hold(txn) }"),
        (Sign::Ends("ReplyKey::sign"), "fn f() { identity::ReplyKey::sign(&key, b) }"),
        (Sign::Method("stage"), "fn f() { txn.stage(1) }"),
        (Sign::Method("stage"), "fn f() { txn.stage::<u8>(1) }"),
        (Sign::Tokens("expose_secret"), "fn f() { key\n.expose_secret() }"),
        (Sign::Tokens("as_shown"), "fn f() { list.map(Untrusted::as_shown) }"),
        (Sign::Tokens("unwrap_and_seal ("), "fn f() { unwrap_and_seal(c, held) }"),
    ];
    for (sign, text) in signs {
        one(counted(sign, "src/wire/a.rs", text), &["src/wire/a.rs", "no place"]);
        none(counted(sign, "src/verify/a.rs", text));
        none(counted(sign, "src/lease/hold.rs", text));
        none(counted(sign, "src/wire/a.rs", &format!("#[cfg(test)] mod tests {{ {text} }}")));
        none(counted(sign, "src/wire/a.rs", &format!("/* {text} */ const S: &str = r#\"{text}\"#;")));
    }
}

#[test]
fn a_word_too_often_or_not_at_all_is_found() {
    let sign = Sign::Method("stage");
    one(
        counted(sign, "src/lease/hold.rs", "fn f() { t.stage(1); t.stage(2); }"),
        &["expected", "1 times, found 2"],
    );
    one(counted(sign, "src/lease/hold.rs", "fn f() {}"), &["1 times, found 0"]);
    none(counted(sign, "src/lease/other.rs", "fn f() {}"));
}

#[test]
fn a_gate_with_an_opening_is_found() {
    let gates =
        |path: &str, text: &str| rules::gates(&House::planted(&[(path, text)]), &[("Held", "lease/hold.rs")]);
    let here = |text| gates("src/lease/hold.rs", text);
    none(here("#[must_use] #[derive(Debug)] pub struct Held<T>(T); impl Clone for Other<Held> {}"));
    one(here("#[derive(Debug)] pub struct Held(u8);"), &["must_use"]);
    one(here("#[must_use] pub struct Held { pub x: u8 }"), &["visible field"]);
    one(here("#[must_use] #[derive(Debug, Clone)] struct Held;"), &["derives Clone"]);
    one(here("#[must_use] struct Held; impl<T> From<Vec<T>> for Held where T: Copy {}"), &["From"]);
    one(here("#[must_use] struct Held; impl std::default::Default for super::Held {}"), &["Default"]);
    one(here("struct Other;"), &["is not there"]);
    one(gates("src/lease/b.rs", "#[must_use] struct Held(u8);"), &["lease/hold.rs alone"]);
    none(gates("src/wire/a.rs", "fn f() {}"));
}

#[test]
fn a_file_out_of_shape_is_found() {
    let plant = |text: &str| files::shape(&House::planted(&[("src/wire/a.rs", text)]));
    none(plant("//! A file.\n"));
    one(plant("fn f() {}\n"), &["first line"]);
    one(plant("//!\n"), &["first line"]);
    let lines = |n: usize| format!("//! A file.\n{}", "\n".repeat(n - 1));
    none(plant(&lines(700)));
    one(plant(&lines(701)), &["701 lines"]);
    let table = |n| files::shape(&House::planted(&[("src/wire/codes.rs", &lines(n))]));
    none(table(1500));
    one(table(1501), &["1501 lines"]);
    let code = |n: usize| format!("//! A file.\n{}", "x".repeat(n));
    none(plant(&code(110)));
    one(plant(&code(111)), &["src/wire/a.rs:2", "111 columns"]);
    let comment = |n: usize| format!("//! A file.\n{}", "/".repeat(n));
    none(plant(&comment(120)));
    one(plant(&comment(121)), &["121 columns"]);
    let text = |n: usize| format!("//! A file.\n\"{}\"", "x".repeat(n - 2));
    none(plant(&text(120)));
    one(plant(&text(121)), &["121 columns"]);
    let page = |n: usize| format!("//! A file.\nconst A: &str = \"\\\nhelp\n{}\n\";", "x".repeat(n));
    none(plant(&page(120)));
    one(plant(&page(121)), &["src/wire/a.rs:4", "121 columns"]);
    let text = text(202);
    one(plant(&text), &["202 columns"]);
    none(files::shape(&House::planted(&[("src/wire/codes.rs", &text)])));
}

#[test]
fn a_file_that_is_not_compiled_is_found() {
    let files = [
        ("src/lib.rs", "pub mod wire;"),
        ("src/wire/mod.rs", "mod a; // mod b;\n"),
        ("src/wire/a.rs", "mod c;"),
        ("src/wire/a/c.rs", ""),
    ];
    none(files::reached(&House::planted(&files)));
    let lost = [files.as_slice(), &[("src/wire/b.rs", "")]].concat();
    one(files::reached(&House::planted(&lost)), &["src/wire/b.rs"]);
}

#[test]
fn words_not_used_are_found() {
    let plant = |path, text| {
        files::vocabulary(&House::planted(&[(path, text)]), &["util", "manager"], &["todo", "include"])
    };
    one(plant("src/wire/a.rs", "struct LeaseManager;"), &["manager", "LeaseManager"]);
    one(plant("src/wire/a.rs", "fn bit_util() {}"), &["util"]);
    one(plant("src/wire/util.rs", ""), &["src/wire/util.rs"]);
    one(plant("tests/it/a.rs", "fn f() { todo!() }"), &["todo!"]);
    one(plant("src/wire/a.rs", "include!(\"x\");"), &["include!"]);
    one(plant("src/wire/a.rs", "#[path = \"x.rs\"] mod x;"), &["where its module says"]);
    none(plant("src/wire/a.rs", "fn utility(path: &str) { include_str!(path); } // manager, todo!\n"));
}

#[test]
fn phrases_are_found_in_every_file() {
    let plant = |path, text| files::phrases(&House::planted(&[(path, text)]), &["LATER", "/machine/"]);
    one(plant("src/wire/a.rs", "\n// LATER: more"), &["src/wire/a.rs:2", "LATER"]);
    one(plant("README.md", "see /machine/x"), &["README.md:1"]);
    one(plant("tests/run", "cd /machine/"), &["tests/run"]);
    none(plant("README.md", "LATERAL /machines/"));
    none(plant("Cargo.lock", "LATER"));
}

#[test]
fn a_stranger_at_the_top_is_found() {
    let names = |list: &[&str]| list.iter().map(|name| name.to_string()).collect();
    one(files::top(&names(&["src", "notes.md", ".gitignore"]), &["src"]), &["notes.md"]);
}

#[test]
fn unsafe_code_is_found_wherever_it_stands() {
    let plant =
        |path, text, allowed: &[(&str, usize)]| files::unsafe_code(&House::planted(&[(path, text)]), allowed);
    none(plant("src/wire/a.rs", "#![deny(unsafe_code)] // unsafe\n", &[]));
    one(plant("tests/it/a.rs", "unsafe fn f() {}", &[]), &["`unsafe`"]);
    one(plant("src/wire/a.rs", "#[allow(dead_code, unsafe_code)] fn f() {}", &[]), &["1 times; expected 0"]);
    one(plant("src/wire/a.rs", "#[expect(unsafe_code)] fn f() {}", &[]), &["1 times"]);
    none(plant("src/agent/nvml.rs", "#[allow(unsafe_code)] unsafe fn f() {}", &[("agent/nvml.rs", 1)]));
    one(plant("src/agent/nvml.rs", "fn f() {}", &[("agent/nvml.rs", 1)]), &["0 times; expected 1"]);
    one(plant("src/agent/a.rs", "fn f() {}", &[("agent/nvml.rs", 1)]), &["is not there"]);
}

#[test]
fn a_certificate_beside_its_table_is_found() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("certs");
    let sources = std::fs::read_to_string(folder.join("SOURCES")).unwrap();
    let changed = |from: &str, to: &str| files::certificates(&folder, &sources.replacen(from, to, 1));
    one(changed("sha256  4c65", "sha256  4c66"), &["amd-ark-genoa.der", "SHA-256"]);
    one(changed("  origin", "  source"), &["amd-ark-genoa.der", "origin"]);
    one(
        changed("\n\namd-ark-milan.der", "\n\nstranger.der\n\namd-ark-milan.der"),
        &["stranger.der is no file"],
    );
    let renamed = changed("\namd-ark-milan.der", "\namd-ark-turin.der");
    assert!(renamed.iter().any(|text| text.contains("amd-ark-milan.der: has no row")), "{renamed:?}");
    assert!(renamed.iter().any(|text| text.contains("amd-ark-turin.der has two rows")), "{renamed:?}");
}
