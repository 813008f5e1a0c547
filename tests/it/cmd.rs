//! The listings in `tests/cmd`: what a person sees of each command, and of each error that a person can cause.
//!
//! A listing begins with the command line; then exit status, standard output and standard error follow. Commands run in
//! a folder of simulated evidence that this test mints; what is random in it is written as `<n hex digits>`.
//! `CLAVIGER_BLESS=1` writes what came out: read the difference before it is committed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use claviger::protocol::facts::Switch;
use claviger::protocol::init_data::Algorithm;
use claviger::sim::intel::fault::{CollateralFault, Fault, Item, LogFault, PlatformFault, TdFault, When};
use claviger::sim::intel::{DirectBoot, PlatformTcb, RuntimeEvent, RuntimeLog, TdxGuest};
use claviger::sim::rim::{RimKind, RimOptions, reference_values};
use claviger::sim::{GpuEvidence, Machine, Node, SnpFields, Vendors};
use serde_json::{Value, json};

use super::scratch::{Scratch, pem};
use super::support::Plan;
use super::support::init_data::document;

const NONCE: [u8; 32] = [0x42; 32];
const REPORT_DATA: [u8; 64] = [0x17; 64];
/// Longer runs of hex digits are keys, digests and identities: new in each run, or of no interest.
const HEX_MIN: usize = 16;

#[test]
fn each_command_shows_what_its_listing_says() {
    let scratch = Scratch::new("cmd");
    mint(&scratch);
    let bless = std::env::var_os("CLAVIGER_BLESS").is_some();
    let listings = listings();
    assert!(listings.len() > 40, "{}", listings.len());
    let mut wrong = Vec::new();
    for path in &listings {
        let listing = std::fs::read_to_string(path).unwrap();
        let call = listing.lines().next().and_then(|line| line.strip_prefix("$ claviger")).unwrap();
        let shown = shown(call, &scratch);
        if bless {
            std::fs::write(path, &shown).unwrap();
        } else if shown != listing {
            wrong.push(format!("{}:\n{}", path.display(), difference(&listing, &shown)));
        }
    }
    println!("listings: {} of {}", listings.len() - wrong.len(), listings.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_exit_status_of_a_command_has_a_listing() {
    let mut seen = BTreeSet::new();
    for path in listings() {
        let listing = std::fs::read_to_string(path).unwrap();
        seen.extend(listing.lines().find_map(|line| line.strip_prefix("exit ")).map(str::to_string));
    }
    assert_eq!(seen, ["0", "1", "2", "3"].map(str::to_string).into());
}

fn listings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cmd");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn shown(call: &str, scratch: &Scratch) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_claviger"))
        .args(call.split_whitespace())
        .current_dir(scratch.path())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| without_hex(std::str::from_utf8(bytes).unwrap());
    let mut shown = format!("$ claviger{call}\nexit {}\n", output.status.code().unwrap());
    for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        if !bytes.is_empty() {
            shown.push_str(&format!("--- {name}\n{}", text(bytes)));
        }
    }
    shown
}

/// Writes each long run of hex digits as its length, and the simulated GPUs' UUIDs, new in each run, as such.
fn without_hex(text: &str) -> String {
    let mut out = String::new();
    let mut run = String::new();
    for next in text.chars().map(Some).chain([None]) {
        match next {
            Some(digit) if digit.is_ascii_hexdigit() => run.push(digit),
            other => {
                match run.len() < HEX_MIN {
                    true => out.push_str(&run),
                    false => out.push_str(&format!("<{} hex digits>", run.len())),
                }
                run.clear();
                out.extend(other);
            }
        }
    }
    // Trailing blanks do not survive editors.
    let lines: Vec<&str> = out.split('\n').map(str::trim_end).collect();
    without_uuids(&lines.join("\n"))
}

fn without_uuids(text: &str) -> String {
    let mut parts = text.split("GPU-");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let uuid = part.chars().take_while(|next| next.is_ascii_hexdigit() || *next == '-').count();
        match uuid {
            36 => out.push_str(&format!("GPU-<uuid>{}", &part[uuid..])),
            _ => out.push_str(&format!("GPU-{part}")),
        }
    }
    out
}

fn difference(expected: &str, actual: &str) -> String {
    let mut lines = Vec::new();
    let (expected, actual): (Vec<_>, Vec<_>) = (expected.lines().collect(), actual.lines().collect());
    for at in 0..expected.len().max(actual.len()) {
        let (left, right) = (expected.get(at).unwrap_or(&""), actual.get(at).unwrap_or(&""));
        if left != right {
            lines.push(format!("  line {}\n    - {left}\n    + {right}", at + 1));
        }
    }
    lines.join("\n")
}

/// Mints a machine with two GPUs and writes its evidence in every form that people have.
fn mint(scratch: &Scratch) {
    let vendors = Vendors::shared().unwrap();
    let machine = Machine::new(vendors, 2).unwrap();
    let write = |name: &str, bytes: &[u8]| drop(scratch.write(name, bytes));
    let files = machine.endorsements(vendors, vendors.now).unwrap();
    for (name, bytes) in files.named() {
        write(&name, &bytes);
    }
    write("device-root.der", vendors.nvidia.device_root_der());
    write("rim-root.der", vendors.nvidia.rim_root_der());
    write("vek.pem", pem(&files.cpu.vek).as_bytes());
    write("chain.pem", format!("{}{}", pem(&files.cpu.ask), pem(&files.cpu.ark)).as_bytes());
    let other = reference_values(RimKind::Vbios, "96.00.5E.00.01");
    let other = vendors.nvidia.rim(RimKind::Vbios, "96.00.5E.00.01", &other, &RimOptions::default()).unwrap();
    write("vbios-other.swidtag", &other);
    let report = machine.cpu_report(REPORT_DATA).unwrap();
    write("report.bin", &report);
    write("report.hex", format!("0x{}\n", hex::encode(&report)).as_bytes());
    write("report.b64", STANDARD.encode(&report).as_bytes());
    write("report.b64url", URL_SAFE_NO_PAD.encode(&report).as_bytes());
    write("short.bin", &report[..1183]);
    let debug = SnpFields { policy: machine.cpu.snp.policy | 1 << 19, ..machine.cpu.snp.clone() };
    write("debug.bin", &machine.cpu.chip.report(&debug).unwrap());
    mint_td(vendors, scratch);
    mint_init_data(scratch);
    let shown = machine.gpu_reports(NONCE).unwrap();
    let entry = |shown: &GpuEvidence| {
        json!({
            "evidence": STANDARD.encode(&shown.report),
            "certificate": STANDARD.encode(&shown.chain_pem),
            "arch": "HOPPER",
        })
    };
    write("gpu.bin", &shown[0].report);
    write("gpu.pem", &shown[0].chain_pem);
    let list = |name: &str, list: Value| write(name, list.to_string().as_bytes());
    list("one.json", json!([entry(&shown[0])]));
    list("two.json", json!({ "nonce": "", "evidence_list": [entry(&shown[0]), entry(&shown[1])] }));
    list("twice.json", json!([entry(&shown[0]), entry(&shown[1]), entry(&shown[0])]));
    let mut altered = shown[1].clone();
    *altered.report.last_mut().unwrap() ^= 1;
    list("second-altered.json", json!([entry(&shown[0]), entry(&altered)]));
    list("none.json", json!([]));
    list("seventeen.json", json!(vec![entry(&shown[0]); 17]));
    list("seventeen-less-one.json", json!(vec![entry(&shown[0]); 16]));
    list("object.json", json!({ "evidence": [] }));
    list("no-base64.json", json!([{ "evidence": "%", "certificate": "" }]));
    list("no-certificate.json", json!([{ "evidence": "AAAA" }]));
    mint_node(vendors, scratch);
    write("object-empty.json", b"{}");
    write("deep.json", "[".repeat(100_000).as_bytes());
    write("empty", b"");
    write("words.txt", b"This is no evidence.\n");
    write("large", &vec![0; 1024 * 1024 + 1]);
    std::fs::create_dir(scratch.path().join("folder")).unwrap();
    recorded(scratch);
    #[cfg(feature = "measure")]
    images(scratch);
}

/// Mints two linked Blackwell GPUs, and one GPU and one switch of a node of Hopper.
fn mint_node(vendors: &Vendors, scratch: &Scratch) {
    let write = |name: &str, bytes: &[u8]| drop(scratch.write(name, bytes));
    let list = |name: &str, shown: &[GpuEvidence]| {
        let entry = |shown: &GpuEvidence| {
            json!({
                "evidence": STANDARD.encode(&shown.report),
                "certificate": STANDARD.encode(&shown.chain_pem),
            })
        };
        write(name, json!(shown.iter().map(entry).collect::<Vec<_>>()).to_string().as_bytes());
    };
    let give = |prefix: &str, node: &Node| {
        let files = node.endorsements(&vendors.nvidia, vendors.now).unwrap();
        for (name, bytes) in files.rims.iter().chain(&files.ocsp) {
            write(&format!("{prefix}-{name}"), bytes);
        }
        node.evidence(NONCE).unwrap()
    };
    list("mpt.json", &give("mpt", &Node::mpt(&vendors.nvidia, 2).unwrap()));
    let mut node = Node::ppcie(&vendors.nvidia).unwrap();
    node.gpus.truncate(1);
    node.switches.truncate(1);
    let shown = give("ppcie", &node);
    list("ppcie-gpu.json", &shown[..1]);
    list("ppcie-switch.json", &shown[1..]);
    write("switch.bin", &shown[1].report);
    write("switch.pem", &shown[1].chain_pem);
}

/// Requests as an agent keeps them, with their policy and what is at hand for them.
fn recorded(scratch: &Scratch) {
    let write = |name: &str, bytes: &[u8]| drop(scratch.write(name, bytes));
    let mut plan = Plan::in_order();
    plan.send();
    write("bundle.json", &plan.body);
    write("policy.toml", plan.policy.as_bytes());
    for folder in ["given", "roots"] {
        std::fs::create_dir(scratch.path().join(folder)).unwrap();
    }
    for (name, bytes) in plan.machine.endorsements(plan.vendors, plan.now).unwrap().named() {
        write(&format!("given/{name}"), &bytes);
    }
    let (amd, nvidia) = (&plan.vendors.amd, &plan.vendors.nvidia);
    write("roots/ark.der", amd.ark_der());
    write("roots/ask.der", amd.ask_der());
    write("roots/device.der", nvidia.device_root_der());
    write("roots/rim.der", nvidia.rim_root_der());
    plan.device().mig_current = Switch::On;
    plan.send();
    write("bundle-mig.json", &plan.body);
    write("tinfoil-v4.json", br#"{"format":"https://tinfoil.sh/predicate/attestation/v4"}"#);
}

/// Firmware and what goes with it, always the same.
#[cfg(feature = "measure")]
fn images(scratch: &Scratch) {
    use super::measure::oracle::Image;
    let write = |name: &str, bytes: &[u8]| drop(scratch.write(name, bytes));
    write("ovmf.fd", &Image::full().bytes());
    write("ovmf-no-hashes.fd", &Image::without_hashes().bytes());
    write("ovmf-no-metadata.fd", &Image { signature: [0; 4], ..Image::full() }.bytes());
    write("zeroes.fd", &[0; 4096]);
    write("kernel", b"a kernel");
    write("initrd", b"an initrd");
    write("cmdline", b"root=/dev/dm-0 quiet\n");
}

/// Mints a TDX guest, and one with each fault that a listing shows.
fn mint_init_data(scratch: &Scratch) {
    let write = |name: &str, bytes: &[u8]| drop(scratch.write(name, bytes));
    let right = document(Algorithm::Sha384);
    write("init-data.toml", &right);
    let text = String::from_utf8(right).unwrap();
    write(
        "init-data-twice.toml",
        text.replace("[data]\n", "[data]\n\"a\" = \"\"\n\"a\" = \"\"\n").as_bytes(),
    );
    // Pins that nothing pins, and a danger.
    let loose = text.split("[pins]").next().unwrap().replace("tenant =", "danger_plaintext = true\ntenant =");
    write("init-data-loose.toml", format!("{loose}pins_file = \"/etc/pins.json\"\n'''\n").as_bytes());
    write(
        "init-data-other.toml",
        b"version = '0.1.0'\nalgorithm = 'sha256'\n[data]\n'policy.rego' = 'package agent_policy'\n",
    );
}

fn mint_td(vendors: &Vendors, scratch: &Scratch) {
    let write = |name: &str, bytes: &[u8]| drop(scratch.write(name, bytes));
    let guest = || TdxGuest::new(&vendors.intel, PlatformTcb::default()).unwrap();
    let td = guest();
    let quote = td.quote(REPORT_DATA).unwrap();
    write("intel-root.der", vendors.intel.root_der());
    write("quote.bin", &quote);
    write("quote.b64", STANDARD.encode(&quote).as_bytes());
    write("quote-short.bin", &quote[..600]);
    write("collateral.json", &td.files(&vendors.intel).unwrap().collateral);
    write("ccel.bin", &td.boot_log());
    write("runtime.json", &td.runtime_log());
    write("runtime-app.json", &RuntimeLog { events: vec![RuntimeEvent::new("app-id", b"demo")] }.json());
    let mut altered = td.boot.clone();
    altered.events.last_mut().unwrap().data[0] ^= 1;
    write("ccel-table.bin", &[&b"CCEL"[..], &[0; 52]].concat());
    write("ccel-altered.bin", &altered.bytes());
    write("sim-cmdline", format!("{}\n", DirectBoot::default().command_line).as_bytes());
    write("sim-initrd", DirectBoot::default().initrd);
    let write_faulty = |name: &str, fault: Fault| {
        let mut td = guest();
        fault.apply(&vendors.intel, &mut td, vendors.now).unwrap();
        write(&format!("{name}.bin"), &td.quote(REPORT_DATA).unwrap());
        write(&format!("{name}.json"), &td.files(&vendors.intel).unwrap().collateral);
        write(&format!("{name}-ccel.bin"), &td.boot_log());
    };
    write_faulty("td-debug", Fault::Td(TdFault::Attribute(0)));
    write_faulty("td-older", Fault::Platform(PlatformFault::Older));
    write_faulty("td-unsupported", Fault::Platform(PlatformFault::Unsupported));
    write_faulty("td-stale", Fault::Collateral(CollateralFault::Dated(Item::TcbInfo, When::Past)));
    write_faulty("td-fmspc-other", Fault::Collateral(CollateralFault::FmspcOther));
    write_faulty("td-other-boot", Fault::Log(LogFault::BootOther));
}
