//! Fuzzes the target `certificate_table`.

#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::run("certificate_table", bytes));
