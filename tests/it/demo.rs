//! `claviger demo`: every outcome is the expected one, told in few lines, and README.md shows what it says.

use std::process::Command;

const README: &str = include_str!("../../README.md");
const LINES_MAX: usize = 60;

/// Hides what differs from run to run: the port and the time.
fn settled(text: &str) -> Vec<String> {
    let hide = |line: &str, from: &str, len: usize| match line.split_once(from) {
        Some((before, rest)) => {
            let rest = rest.trim_start_matches(|byte: char| byte.is_ascii_digit() || "-:TZ".contains(byte));
            format!("{before}{from}{}{rest}", "?".repeat(len))
        }
        None => line.to_string(),
    };
    text.trim().lines().map(|line| hide(&hide(line, "127.0.0.1:", 5), "lease until ", 20)).collect()
}

#[test]
fn the_demo_ends_well_and_the_readme_shows_what_it_says() {
    let output = Command::new(env!("CARGO_BIN_EXE_claviger")).arg("demo").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}\n{complained}");
    assert!(said.lines().count() <= LINES_MAX, "{said}");
    let lines = |outcome: &str| said.lines().filter(|line| line.trim_start().starts_with(outcome)).count();
    assert_eq!((lines("granted"), lines("refused"), lines("WRONG")), (2, 13, 0), "{said}");
    for shown in ["measured-agent", "measured-event", "tdx_tcb_out_of_date", "event_log_register_mismatch"] {
        assert_eq!(said.lines().filter(|line| line.ends_with(shown)).count(), 1, "{shown}");
    }
    let (_, shown) = README.split_once("```text\nclaviger demo").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    assert_eq!(settled(&format!("claviger demo{shown}")), settled(&said));
}
