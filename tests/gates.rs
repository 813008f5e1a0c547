//! Programs that must not compile: what the gates forbid is refused by the compiler, with the expected code and item.
//!
//! `gates/NAME.fail.rs` stands outside of the crate, `gates/inside/NAME.fail.rs` is compiled as a file of the room
//! that its header names. Each has a twin `NAME.pass.rs` that does compile, so that a failure is the gate's and not a
//! slip's. A new gate is two new files; the header of the first is `// expect: CODE TEXT` (`-` for a code where rustc
//! gives none), that of both inside files `// room: NAME`.

#![expect(clippy::expect_used, reason = "a test may stop where its own invariant is broken")]

#[path = "gates/rustc.rs"]
mod rustc;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rustc::{Compiler, Fault};

/// One program and what its header says.
#[derive(Clone, Debug)]
struct Program {
    name: String,
    source: String,
    /// Code and text that each error must have; `None` for a twin that compiles.
    expect: Option<(String, String)>,
    /// Room that the file is compiled in; `None` for a program outside of the crate.
    room: Option<String>,
}

impl Program {
    fn read(path: &Path, inside: bool) -> Result<Self, String> {
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        let source = fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))?;
        let header = |key: &str| {
            let prefix = format!("// {key}: ");
            source.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_string)
        };
        let fails = file.ends_with(".fail.rs");
        let name = file.trim_end_matches(".rs").trim_end_matches(".fail").trim_end_matches(".pass");
        let expect = match (header("expect"), fails) {
            (Some(expect), true) => {
                let parts = expect.split_once(' ').map(|(code, text)| (code.to_string(), text.to_string()));
                Some(parts.ok_or(format!("{file}: expected `// expect: CODE TEXT`"))?)
            }
            (None, false) => None,
            (_, true) => return Err(format!("{file}: a program that must fail says `// expect: CODE TEXT`")),
            (_, false) => return Err(format!("{file}: a twin that compiles expects no code")),
        };
        let room = match (header("room"), inside) {
            (room @ Some(_), true) => room,
            (None, false) => None,
            _ => {
                return Err(format!(
                    "{file}: `// room: NAME` belongs to programs inside, and to each of them"
                ));
            }
        };
        Ok(Self { name: name.to_string(), source, expect, room })
    }

    /// Name of the module that the file becomes inside a room.
    fn module(&self) -> String {
        let kind = if self.expect.is_some() { "fail" } else { "pass" };
        format!("gate_{}_{kind}", self.name)
    }

    /// Judges the errors that the compiler found in this program.
    fn judge(&self, faults: &[Fault]) -> Result<(), String> {
        let name = &self.name;
        let list =
            || faults.iter().map(|f| format!("{}: {}", f.code, f.message)).collect::<Vec<_>>().join("; ");
        match &self.expect {
            None if faults.is_empty() => Ok(()),
            None => Err(format!("{name}.pass.rs does not compile: {}", list())),
            Some(_) if faults.is_empty() => Err(format!("{name}.fail.rs compiles: the gate is open")),
            Some((code, text)) => {
                match faults.iter().all(|fault| fault.code == *code && fault.message.contains(text.as_str()))
                {
                    true => Ok(()),
                    false => {
                        Err(format!("{name}.fail.rs: expected {code} with `{text}` alone, found {}", list()))
                    }
                }
            }
        }
    }
}

/// The compiler looks for errors in this order and stops after the step that has some: those of one step are
/// compiled together.
fn step(code: &str) -> u8 {
    match code {
        "E0412" | "E0423" | "E0425" | "E0432" | "E0433" | "E0603" => 0,
        "E0446" | "E0451" => 2,
        _ => 1,
    }
}

fn programs(folder: &str) -> Result<Vec<Program>, String> {
    let path = root().join("tests").join(folder);
    let mut found = Vec::new();
    let mut names: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    for entry in fs::read_dir(&path).map_err(|error| format!("{folder}: {error}"))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        if !file.ends_with(".fail.rs") && !file.ends_with(".pass.rs") {
            continue;
        }
        let program = Program::read(&path, folder.ends_with("inside"))?;
        names.entry(program.name.clone()).or_default().insert(program.expect.is_some());
        found.push(program);
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    match names.iter().find(|(_, kinds)| kinds.len() != 2) {
        Some((name, _)) => Err(format!("{folder}/{name}: a program that fails and its twin stand together")),
        None if found.is_empty() => Err(format!("{folder}: holds no program")),
        None => Ok(found),
    }
}

/// Copies the crate's sources and puts the programs into their rooms; returns the copy's `lib.rs`.
fn plant(name: &str, programs: &[&Program]) -> Result<PathBuf, String> {
    let place = rustc::folder().join(name);
    let fault = |error: std::io::Error| format!("{name}: {error}");
    if place.exists() {
        fs::remove_dir_all(&place).map_err(fault)?;
    }
    fs::create_dir_all(&place).map_err(fault)?;
    copy(&root().join("src"), &place.join("src")).map_err(fault)?;
    for folder in ["certs", "deploy", "policies"].into_iter().filter(|folder| root().join(folder).exists()) {
        std::os::unix::fs::symlink(root().join(folder), place.join(folder)).map_err(fault)?;
    }
    for program in programs {
        let room = place.join("src").join(program.room.as_deref().unwrap_or(""));
        fs::write(room.join(format!("{}.rs", program.module())), &program.source).map_err(fault)?;
        let index = room.join("mod.rs");
        let text = fs::read_to_string(&index).map_err(fault)?;
        fs::write(index, format!("{text}\nmod {};\n", program.module())).map_err(fault)?;
    }
    Ok(place.join("src/lib.rs"))
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name()))?,
            false => fs::copy(entry.path(), to.join(entry.file_name())).map(drop)?,
        }
    }
    Ok(())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compiles planted programs in one run, and judges each by the errors in its own file.
fn judge_inside(compiler: &Compiler, copy: &str, programs: &[&Program]) -> Result<Vec<String>, String> {
    let faults = compiler.library(&plant(copy, programs)?, copy)?;
    let in_file = |fault: &Fault, program: &Program| {
        Path::new(&fault.file).file_stem().is_some_and(|stem| stem == program.module().as_str())
    };
    let mut wrong = Vec::new();
    for program in programs {
        let own: Vec<_> = faults.iter().filter(|fault| in_file(fault, program)).cloned().collect();
        wrong.extend(program.judge(&own).err());
    }
    let strays = faults.iter().filter(|fault| !programs.iter().any(|program| in_file(fault, program)));
    wrong.extend(strays.map(|fault| format!("{}: {}: {}", fault.file, fault.code, fault.message)));
    Ok(wrong)
}

#[test]
fn programs_that_pass_a_gate_unlawfully_do_not_compile() -> Result<(), String> {
    let compiler = Compiler::find()?;
    let inside = programs("gates/inside")?;
    let outside = programs("gates")?;

    let passing: Vec<_> = inside.iter().filter(|program| program.expect.is_none()).collect();
    let mut wrong = judge_inside(&compiler, "pass", &passing)?;
    for number in 0..=2 {
        let of_step =
            |program: &&Program| program.expect.as_ref().is_some_and(|(code, _)| step(code) == number);
        let failing: Vec<_> = inside.iter().filter(of_step).collect();
        if !failing.is_empty() {
            wrong.extend(judge_inside(&compiler, &format!("fail{number}"), &failing)?);
        }
    }
    for program in &outside {
        let faults = compiler.program(&program.source, &program.module(), "pass")?;
        wrong.extend(program.judge(&faults).err());
    }
    println!("gates: {} programs, {} wrong", inside.len() + outside.len(), wrong.len());
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
    Ok(())
}

#[test]
fn a_gate_that_is_open_or_shut_for_another_reason_is_found() {
    let program = |expect: Option<(&str, &str)>| Program {
        name: "x".to_string(),
        source: String::new(),
        expect: expect.map(|(code, text)| (code.to_string(), text.to_string())),
        room: None,
    };
    let fault = |code: &str, message: &str| Fault {
        code: code.to_string(),
        message: message.to_string(),
        file: "x.rs".to_string(),
    };
    let gate = program(Some(("E0624", "new")));
    assert!(gate.judge(&[fault("E0624", "associated function `new` is private")]).is_ok());
    assert!(gate.judge(&[]).unwrap_err().contains("the gate is open"));
    assert!(gate.judge(&[fault("E0425", "cannot find `new`")]).is_err());
    assert!(gate.judge(&[fault("E0624", "associated function `make` is private")]).is_err());
    assert!(gate.judge(&[fault("E0624", "`new` is private"), fault("E0308", "mismatched types")]).is_err());
    assert!(program(None).judge(&[]).is_ok());
    assert!(program(None).judge(&[fault("E0308", "mismatched types")]).is_err());
}
