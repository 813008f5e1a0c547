//! The rule on crates: what the guest's side is built of is a list that somebody has read.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Names the crates that cargo would build the agent of, and compares them with the list; none of `never` is there.
pub fn agent(root: &Path, listed: &str, never: &[&str]) -> Vec<String> {
    let said = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--target", "x86_64-unknown-linux-gnu", "--edges", "normal"])
        .args(["--no-default-features", "--features", "agent", "--prefix", "none", "--format", "{p}"])
        .current_dir(root)
        .output();
    match said {
        Ok(said) if said.status.success() => compare(&String::from_utf8_lossy(&said.stdout), listed, never),
        Ok(said) => vec![format!("cargo tree: {}", String::from_utf8_lossy(&said.stderr))],
        Err(error) => vec![format!("cargo tree: {error}")],
    }
}

/// `tree` has a name and a version per line, with repetitions; `listed` has sorted names.
fn compare(tree: &str, listed: &str, never: &[&str]) -> Vec<String> {
    let built: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    let rows: BTreeSet<&str> = listed.lines().collect();
    let mut wrong = Vec::new();
    if !rows.iter().copied().eq(listed.lines()) {
        wrong.push("agent-crates.txt: names are sorted, each once".to_string());
    }
    let name = |name: &&str| !name.is_empty();
    wrong.extend(built.difference(&rows).filter(|n| name(n)).map(|n| format!("agent-crates.txt: lacks {n}")));
    wrong.extend(rows.difference(&built).map(|n| format!("agent-crates.txt: {n} is not built")));
    wrong.extend(never.iter().filter(|n| built.contains(**n)).map(|n| format!("the agent is built of {n}")));
    wrong
}

#[test]
fn a_crate_that_comes_or_goes_is_named() {
    let tree = "claviger v0.1.0 (/x)\nhex v0.4.3\nhex v0.4.3 (*)\n";
    assert_eq!(compare(tree, "claviger\nhex\n", &["sqlx"]), Vec::<String>::new());
    assert_eq!(compare(tree, "claviger\n", &[]), ["agent-crates.txt: lacks hex"]);
    assert_eq!(compare(tree, "claviger\nhex\nserde\n", &[]), ["agent-crates.txt: serde is not built"]);
    assert_eq!(compare(tree, "hex\nclaviger\n", &[]), ["agent-crates.txt: names are sorted, each once"]);
    assert_eq!(compare(tree, "claviger\nhex\n", &["hex"]), ["the agent is built of hex"]);
}
