//! Fuzzes the target `qe_identity`.

#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::run("qe_identity", bytes));
