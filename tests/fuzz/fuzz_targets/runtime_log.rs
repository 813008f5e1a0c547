//! Fuzzes the target `runtime_log`.

#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::run("runtime_log", bytes));
