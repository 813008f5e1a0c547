//! The house's own rules: which room may import which, which doors and words stand where, and what a file looks like.
//!
//! The tables below and the style page say the same; they change together. Each exception must still be needed. What
//! each rule refuses stands in `tidy/planted.rs`.
//!
//! Where the tables differ from the style page's words, and why:
//!
//! - `custody` also imports `protocol` and `identity`: the folder of `claviger init` holds the role keys and their
//!   certificates beside the wrapping key, and one file reads and writes both with the same care.
//! - `verify/terms.rs` hands on names of `evidence` and `endorse` that policies and claims speak of (levels, TCB
//!   states), so that `policy` compares typed values without importing parsers.
//! - `cli/serve.rs` binds the listeners, since only the room that wires adapters knows the configuration;
//!   `cli/simulate.rs` has the socket of a simulated machine;
//!   `cli/demo.rs` asks the environment for the folder of temporary files.
//! - `http/log.rs` also makes an answer of its own: tiles are bytes that everybody may read, not replies.
//! - `Recorded` is minted three times, as the style page says; `Sealed`, `Appended` and `Part` count as gates too.
//! - The table of codes is longer than 700 lines: three lines a row, one row a code.

#![expect(clippy::expect_used, reason = "a test may stop where the repository is not readable")]

#[path = "tidy/crates.rs"]
mod crates;
#[path = "tidy/files.rs"]
mod files;
#[path = "tidy/house.rs"]
mod house;
#[path = "tidy/lexer.rs"]
mod lexer;
#[path = "tidy/planted.rs"]
mod planted;
#[path = "tidy/rules.rs"]
mod rules;
#[path = "tidy/scan.rs"]
mod scan;

use std::path::Path;
use std::sync::LazyLock;

use house::House;
use rules::Count::{Exactly, Free};
use rules::Sign::{Begins, Ends, Macro, Method, Tokens};
use rules::{Door, Row, Word};

/// Rooms in floor order, and what each may import. A row may stand before its room does.
const ROOMS: &[Row] = &[
    ("wire", &[]),
    ("protocol", &["wire"]),
    ("identity", &["wire", "protocol"]),
    ("evidence", &["wire"]),
    ("endorse", &["wire"]),
    ("verify", &["wire", "protocol", "identity", "evidence", "endorse"]),
    ("policy", &["wire", "protocol", "identity", "verify"]),
    ("lease", &["wire", "protocol", "identity", "verify", "policy"]),
    ("keys", &["wire", "protocol", "identity", "verify", "policy", "lease"]),
    ("audit", &["wire", "protocol", "identity", "verify", "policy", "lease", "keys"]),
    (
        "release",
        &[
            "wire", "protocol", "identity", "evidence", "endorse", "verify", "policy", "lease", "keys",
            "audit",
        ],
    ),
    ("govern", &["wire", "protocol", "identity", "policy", "lease", "keys", "audit"]),
    ("usage", &["wire", "lease", "audit"]),
    ("workbench", &["wire", "protocol", "identity", "verify", "policy", "audit", "release", "govern"]),
    (
        "http",
        &[
            "wire",
            "protocol",
            "identity",
            "verify",
            "policy",
            "lease",
            "keys",
            "audit",
            "release",
            "govern",
            "usage",
            "workbench",
        ],
    ),
    (
        "store",
        &[
            "wire", "protocol", "identity", "endorse", "verify", "policy", "lease", "keys", "audit",
            "govern", "usage",
        ],
    ),
    ("custody", &["wire", "protocol", "identity", "keys"]),
    ("fetch", &["wire", "endorse", "verify"]),
    ("model", &["wire"]),
    ("agent", &["wire", "protocol", "model"]),
    ("sim", &["wire", "protocol", "evidence", "endorse", "agent"]),
    (
        "cli",
        &[
            "wire",
            "protocol",
            "identity",
            "evidence",
            "endorse",
            "verify",
            "policy",
            "lease",
            "keys",
            "audit",
            "release",
            "govern",
            "usage",
            "workbench",
            "http",
            "store",
            "custody",
            "fetch",
            "model",
            "agent",
            "sim",
        ],
    ),
];

/// Files that may import less than their room: feature `verifier` builds `judge` without `lease`, `keys` and `audit`.
const NARROWER: &[Row] = &[
    ("release/judge.rs", &["wire", "protocol", "identity", "evidence", "endorse", "verify", "policy"]),
    ("release/recording.rs", &["wire", "protocol", "identity", "evidence", "endorse", "verify", "policy"]),
];

/// Files that hand on types of another room, and that room. Policies speak of what evidence calls its fields.
const HANDED_ON: &[(&str, &str)] = &[("verify/terms.rs", "endorse"), ("verify/terms.rs", "evidence")];

/// What code behind `#[cfg(test)]` may import beyond the row: evidence to test with comes from the simulator.
const IN_TESTS: &[&str] = &["sim"];

const HTTP_SIBLINGS: &[&str] = &["guest", "kbs", "operator", "review", "log", "health"];

/// The door list. The rooms from `wire` to `audit` have no clock, no files and no network.
const DOORS: &[Door] = &[
    Door {
        name: "the clock",
        signs: &[
            Tokens("SystemTime"),
            Tokens("Instant"),
            Tokens("now_utc"),
            Tokens("now_local"),
            Begins("tokio::time"),
        ],
        places: &["http", "fetch", "agent", "cli"],
        tests: false,
    },
    Door {
        name: "files",
        signs: &[
            Begins("std::fs"),
            Begins("rustix::fs"),
            Begins("tokio::fs"),
            Begins("std::os::unix::fs"),
            Method("canonicalize"),
            Method("exists"),
            Method("is_dir"),
            Method("is_file"),
            Method("read_dir"),
            Method("try_exists"),
        ],
        places: &["store", "custody", "fetch", "agent", "cli"],
        tests: true,
    },
    Door {
        name: "the environment",
        signs: &[Begins("std::env"), Macro("env"), Macro("option_env")],
        places: &["release/ear.rs", "agent", "cli/demo.rs"],
        tests: true,
    },
    Door {
        name: "processes",
        signs: &[Ends("process::Command"), Begins("rustix::process"), Begins("tokio::process")],
        places: &[
            "custody",
            "agent/deliver/socket.rs",
            "agent/folder.rs",
            "agent/life.rs",
            "agent/watch.rs",
            "agent/workload.rs",
            "cli/lockdown.rs",
        ],
        tests: false,
    },
    Door {
        name: "the network",
        signs: &[
            Tokens("TcpListener"),
            Tokens("TcpStream"),
            Tokens("ToSocketAddrs"),
            Tokens("UdpSocket"),
            Tokens("UnixListener"),
            Tokens("UnixStream"),
            Begins("rustix::net"),
            Begins("ureq"),
            Begins("hyper"),
            Begins("hyper_util"),
            Begins("tokio_rustls"),
        ],
        places: &["http", "agent", "cli/serve.rs", "cli/simulate.rs"],
        tests: false,
    },
    Door { name: "SQL", signs: &[Begins("sqlx")], places: &["store"], tests: false },
    Door { name: "axum", signs: &[Begins("axum"), Begins("tower")], places: &["http"], tests: false },
    Door {
        name: "serde",
        signs: &[Tokens("Serialize"), Tokens("Deserialize")],
        places: &[
            "wire",
            "protocol",
            "identity/bundle.rs",
            "identity/keyfile.rs",
            "evidence",
            "verify",
            "policy",
            "keys/context.rs",
            "keys/enrol.rs",
            "audit",
            "release",
            "http",
            "agent",
            "cli",
        ],
        tests: true,
    },
    Door {
        name: "logging",
        signs: &[
            Begins("tracing"),
            Begins("tracing_subscriber"),
            Macro("print"),
            Macro("println"),
            Macro("eprint"),
            Macro("eprintln"),
            Begins("std::io::stdout"),
            Begins("std::io::stderr"),
            Begins("std::io::stdin"),
        ],
        places: &["http", "fetch", "agent", "cli"],
        tests: true,
    },
    Door {
        name: "a provider of cryptography",
        signs: &[Begins("aws_lc_rs")],
        places: &["wire/crypto.rs"],
        tests: false,
    },
    Door { name: "HPKE", signs: &[Begins("hpke")], places: &["protocol/sealing.rs"], tests: false },
];

/// What Rust cannot keep. A second call site of a gate's constructor needs a reason in review.
const WORDS: &[Word] = &[
    Word { name: "impl Transaction", sign: Tokens("Transaction for"), places: &[("store", Free)] },
    Word { name: "txn::run", sign: Ends("txn::run"), places: &[("store", Free)] },
    Word { name: "as_shown", sign: Tokens("as_shown"), places: OPENERS },
    Word { name: "into_shown", sign: Tokens("into_shown"), places: OPENERS },
    Word { name: "lease::hold(", sign: Ends("lease::hold"), places: &[("release", Exactly(1))] },
    Word { name: "hold(", sign: Tokens("hold ("), places: &[("release", Exactly(1))] },
    Word { name: "Permit::local", sign: Ends("Permit::local"), places: &[("govern", Free), ("cli", Free)] },
    // What a guest hears is recorded, or a problem without a signature.
    Word {
        name: "Response::new",
        sign: Ends("Response::new"),
        places: &[("http/error.rs", Exactly(1)), ("http/log.rs", Exactly(1))],
    },
    Word {
        name: "http::error::json",
        sign: Ends("error::json"),
        places: &[("http/health.rs", Exactly(1)), ("http/operator.rs", Exactly(1))],
    },
    Word {
        name: "unwrap_and_seal(",
        sign: Tokens("unwrap_and_seal ("),
        places: &[("keys/seal.rs", Exactly(1)), ("release", Exactly(1))],
    },
    // A method call shows no type: `.sign(` is counted, and the key is not named on the way to it.
    Word { name: "ReplyKey::sign", sign: Ends("ReplyKey::sign"), places: &[] },
    Word {
        name: ".sign(",
        sign: Method("sign"),
        places: &[
            ("wire/crypto.rs", Exactly(5)),
            ("identity", Free),
            ("audit", Free),
            ("release/ear.rs", Exactly(1)),
            ("release/reply.rs", Exactly(1)),
            ("agent", Free),
            ("sim", Free),
            ("cli", Free),
        ],
    },
    Word {
        name: ".stage(",
        sign: Method("stage"),
        places: &[
            ("lease", Free),
            ("audit", Free),
            ("govern", Free),
            ("release/attest.rs", Exactly(2)),
            ("release/lapse.rs", Exactly(1)),
            ("release/standing.rs", Exactly(2)),
            ("release/strangers.rs", Exactly(1)),
            // Sweeps what is over: nothing that a gate stands for.
            ("cli/serve.rs", Exactly(1)),
        ],
    },
    Word { name: "Authentic::new", sign: Ends("Authentic::new"), places: &[("verify/part.rs", Exactly(1))] },
    Word {
        name: "expose_secret",
        sign: Tokens("expose_secret"),
        places: &[
            ("wire/crypto.rs", Exactly(6)),
            ("wire/secret.rs", Exactly(2)),
            ("protocol/sealing.rs", Exactly(3)),
            ("identity/keyfile.rs", Exactly(2)),
            ("identity/keys.rs", Exactly(4)),
            ("keys/wrap.rs", Exactly(4)),
            ("custody/file.rs", Exactly(3)),
            ("custody/folder.rs", Exactly(3)),
            ("custody/wrapping.rs", Exactly(5)),
            ("agent/deliver.rs", Exactly(2)),
            ("agent/deliver/descriptors.rs", Exactly(1)),
            ("agent/deliver/keyring.rs", Exactly(1)),
            ("agent/deliver/socket.rs", Exactly(2)),
            ("agent/instance.rs", Exactly(2)),
            ("cli/demo/guests.rs", Exactly(1)),
        ],
    },
];

/// Who opens what nobody has checked: its own file, the verifier, and the reader of activations.
const OPENERS: &[(&str, rules::Count)] =
    &[("wire/untrusted.rs", Exactly(1)), ("verify", Free), ("policy/in_force.rs", Free)];

/// Gates and the files that mint them.
const GATES: &[(&str, &str)] = &[
    ("Staged", "wire/txn.rs"),
    ("Fresh", "identity/challenge.rs"),
    ("Authentic", "verify/authentic.rs"),
    ("Part", "verify/part.rs"),
    ("Verified", "verify/binding.rs"),
    ("InForce", "policy/in_force.rs"),
    ("Granted", "policy/decide.rs"),
    ("Redeemed", "lease/redeem.rs"),
    ("Held", "lease/hold.rs"),
    ("SealedKey", "keys/seal.rs"),
    ("Sealed", "keys/seal.rs"),
    ("Appended", "audit/append.rs"),
    ("Recorded", "audit/recorded.rs"),
    ("Permit", "govern/permit.rs"),
];

/// Files that lift `unsafe_code`, and how often: the driver's library and the ioctls of `/dev/sev-guest`; locked pages,
/// when they come.
const UNSAFE: &[(&str, usize)] = &[("agent/system/ffi.rs", 1), ("agent/system/ioctl.rs", 1)];

const NOT_USED: &[&str] = &[
    "util",
    "utils",
    "helper",
    "helpers",
    "manager",
    "managers",
    "common",
    "golden",
    "goldens",
    "whitelist",
    "blacklist",
];

/// No server, no database and no parser of evidence runs inside of a guest.
const NOT_IN_THE_AGENT: &[&str] =
    &["asn1-rs", "axum", "hyper", "quick-xml", "rcgen", "sqlx", "tokio", "tracing-subscriber", "x509-parser"];

const MACROS: &[&str] = &["dbg", "include", "todo", "unimplemented"];

/// In two pieces, so that this file does not hold them.
const PHRASES: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("/wo", "rk/"),
    concat!("/tmp", "/w/"),
    concat!("/ro", "ot/"),
    concat!("crates", ".io"),
    concat!("py", "pi.org"),
    concat!("python", "hosted.org"),
    concat!("npm", "js.org"),
    concat!("debian", ".org"),
];

const TOP: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "benches",
    "certs",
    "deploy",
    "policies",
    "src",
    "tests",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Read once for all tests.
static HOUSE: LazyLock<House> = LazyLock::new(|| House::read(root()));

fn holds(violations: Vec<String>) {
    assert!(violations.is_empty(), "\n{}\n", violations.join("\n"));
}

#[test]
fn the_table_of_rooms_has_one_direction() {
    holds(rules::rows_point_upwards(ROOMS));
}

#[test]
fn rooms_import_what_their_rows_name() {
    holds(rules::imports(&HOUSE, ROOMS, NARROWER, IN_TESTS, HANDED_ON));
    holds(rules::siblings(&HOUSE, "http", HTTP_SIBLINGS));
}

#[test]
fn doors_stand_where_the_list_says() {
    holds(rules::doors(&HOUSE, DOORS));
}

#[test]
fn words_that_rust_cannot_guard_stand_in_their_places() {
    holds(rules::counted(&HOUSE, WORDS));
    holds(files::unsafe_code(&HOUSE, UNSAFE));
}

#[test]
fn gates_stand_in_their_files_and_are_made_nowhere_else() {
    holds(rules::gates(&HOUSE, GATES));
}

#[test]
fn files_have_their_shape_and_are_compiled() {
    holds(files::shape(&HOUSE));
    holds(files::reached(&HOUSE));
    holds(files::top(&HOUSE.top, TOP));
}

#[test]
fn the_field_s_words_are_used_and_nothing_is_left_for_later() {
    holds(files::vocabulary(&HOUSE, NOT_USED, MACROS));
    holds(files::phrases(&HOUSE, PHRASES));
}

#[test]
fn the_agent_is_built_of_the_crates_of_its_list() {
    let listed = std::fs::read_to_string(root().join("tests/agent-crates.txt")).unwrap();
    holds(crates::agent(root(), &listed, NOT_IN_THE_AGENT));
}

#[test]
fn pinned_certificates_are_those_of_their_table() {
    let folder = root().join("certs");
    let sources = std::fs::read_to_string(folder.join("SOURCES")).unwrap();
    holds(files::certificates(&folder, &sources));
}
