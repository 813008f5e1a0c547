//! Fuzzes the target `gpu_chain`.

#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::run("gpu_chain", bytes));
