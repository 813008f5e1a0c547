//! The rules on files: first line, length, width, words, what stands at the top, and the pinned certificates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use claviger::wire::crypto;

use crate::house::{File, House};
use crate::lexer::Kind;

const LINES_MAX: usize = 700;
/// Three lines a row.
const TABLE_LINES_MAX: usize = 1500;
const CODE_COLUMNS_MAX: usize = 110;
/// Also of a table, and of a line that the formatter leaves because of a text in it.
const COMMENT_COLUMNS_MAX: usize = 120;
/// A line that is one text of the table of codes: a sentence is not cut.
const TEXT_COLUMNS_MAX: usize = 240;
/// The table of codes.
const TABLE: &str = "src/wire/codes.rs";

/// Each file begins with a `//!` line, is not too long, and no line is too wide.
pub fn shape(house: &House) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in &house.sources {
        let mut first = file.text.lines().next().unwrap_or("").chars();
        if !first.by_ref().take(4).eq("//! ".chars())
            || !first.next().is_some_and(|c| c.is_alphanumeric() || c == '`')
        {
            wrong.push(format!("{}: the first line is not a `//!` sentence", file.path));
        }
        let lines = file.text.lines().count();
        let lines_max = if file.path == TABLE { TABLE_LINES_MAX } else { LINES_MAX };
        if lines > lines_max {
            wrong.push(format!("{}: {lines} lines; expected at most {lines_max}", file.path));
        }
        let texts = lines_of_texts(file);
        for (number, line) in file.text.lines().enumerate() {
            let text = line.trim();
            let max = match file.path == TABLE {
                true if text.starts_with('"') && text.ends_with('"') => TEXT_COLUMNS_MAX,
                true => COMMENT_COLUMNS_MAX,
                false
                    if texts.contains(&(number + 1))
                        || text.starts_with("//")
                        || text.contains('"')
                        || text.ends_with('\\') =>
                {
                    COMMENT_COLUMNS_MAX
                }
                false => CODE_COLUMNS_MAX,
            };
            let columns = line.chars().count();
            if columns > max {
                wrong.push(format!("{}: {columns} columns; expected at most {max}", file.at(number + 1)));
            }
        }
    }
    wrong
}

/// Lists the lines that stand wholly or in part inside of a text, such as a help page.
fn lines_of_texts(file: &File) -> BTreeSet<usize> {
    let texts = file.scan.tokens.iter().filter(|token| token.kind == Kind::Text);
    texts.flat_map(|token| token.line..=token.line + token.text.matches('\n').count()).collect()
}

/// All files of `src` are compiled.
pub fn reached(house: &House) -> Vec<String> {
    let reachable = house.reachable();
    let lost = house.src().filter(|file| !reachable.contains(file.path.as_str()));
    lost.map(|file| format!("{}: no `mod` line leads here", file.path)).collect()
}

/// Names and macros that the style page does not use; `include!` and `path = ".."` would lead around the other rules.
pub fn vocabulary(house: &House, unused: &[&str], macros: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in &house.sources {
        let stem = file.path.trim_end_matches(".rs").rsplit(['/', '.']);
        let in_path = stem.flat_map(parts).filter(|part| unused.contains(&part.as_str()));
        wrong.extend(in_path.map(|part| format!("{}: `{part}` names nothing of the field", file.path)));
        let tokens = &file.scan.tokens;
        for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Word) {
            // The X.509 attribute and the crate are really called so.
            let name = token.text.replace("common_name", "cn").replace("CommonName", "Cn");
            let name = name.replace("hyper_util", "hyper");
            for part in parts(&name).iter().filter(|part| unused.contains(&part.as_str())) {
                let at = file.at(token.line);
                wrong.push(format!("{at}: `{part}` in `{}` is a word not used here", token.text));
            }
            if macros.contains(&token.text.as_str()) && tokens.get(at + 1).is_some_and(|t| t.is_mark("!")) {
                wrong.push(format!("{}: `{}!` has no place here", file.at(token.line), token.text));
            }
            let attribute = at > 0 && tokens[at - 1].is_mark("[") && token.is_word("path");
            if attribute && file.path.starts_with("src/") {
                wrong.push(format!("{}: a file stands where its module says", file.at(token.line)));
            }
        }
    }
    wrong
}

/// Splits a name at underscores and at capitals, in lower case.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = '_';
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && !before.is_uppercase()) {
            parts.push(String::new());
        }
        if c != '_' {
            parts.last_mut().expect("there is one").extend(c.to_lowercase());
        }
        before = c;
    }
    parts
}

/// Texts that no file may hold: marks of unfinished work, paths of one machine, hosts of registries. A `Cargo.lock`
/// names its registry by necessity.
pub fn phrases(house: &House, phrases: &[&str]) -> Vec<String> {
    let sources = house.sources.iter().map(|file| (&file.path, &file.text));
    let texts = house.texts.iter().filter(|(path, _)| !path.ends_with("Cargo.lock"));
    let mut wrong = Vec::new();
    for (path, text) in sources.chain(texts) {
        for (number, line) in text.lines().enumerate() {
            for phrase in phrases.iter().filter(|phrase| has_word(line, phrase)) {
                wrong.push(format!("{path}:{}: holds `{phrase}`", number + 1));
            }
        }
    }
    wrong
}

/// Tells whether `phrase` stands in `line`, not as a piece of a longer word.
fn has_word(line: &str, phrase: &str) -> bool {
    let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(phrase).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + phrase.len()..].chars().next();
        let longer_before = letter(before) && letter(phrase.chars().next());
        let longer_after = letter(after) && letter(phrase.chars().next_back());
        !longer_before && !longer_after
    })
}

/// Only what has its place stands at the top of the repository; hidden files are tools' own.
pub fn top(names: &BTreeSet<String>, allowed: &[&str]) -> Vec<String> {
    let strange = names.iter().filter(|name| !name.starts_with('.') && !allowed.contains(&name.as_str()));
    strange.map(|name| format!("{name}: does not stand at the top of the repository")).collect()
}

/// The `unsafe` keyword and lifts of its lint stand in the files listed, so often; nowhere else, tests included.
pub fn unsafe_code(house: &House, allowed: &[(&str, usize)]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in &house.sources {
        let expected = allowed.iter().find(|(path, _)| *path == file.place()).map_or(0, |(_, count)| *count);
        let lifts = |attribute: &str| {
            let words: Vec<&str> = attribute.split(' ').collect();
            words.contains(&"unsafe_code") && !words.contains(&"deny") && !words.contains(&"forbid")
        };
        let actual = file.scan.attributes.iter().filter(|(attribute, _)| lifts(attribute)).count();
        if actual != expected {
            wrong.push(format!("{}: lifts `unsafe_code` {actual} times; expected {expected}", file.path));
        }
        if expected == 0 && file.scan.tokens.iter().any(|token| token.is_word("unsafe")) {
            wrong.push(format!("{}: `unsafe` has no place here", file.path));
        }
    }
    let exists = |place: &str| house.sources.iter().any(|file: &File| file.place() == place);
    wrong.extend(
        allowed.iter().filter(|(path, _)| !exists(path)).map(|(path, _)| format!("{path}: is not there")),
    );
    wrong
}

/// One row of `certs/SOURCES` per certificate, with the digest of the file.
pub fn certificates(folder: &Path, sources: &str) -> Vec<String> {
    let mut rows: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    let mut current = "";
    let mut wrong = Vec::new();
    for line in sources.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.strip_prefix("  ") {
            None => {
                current = line;
                if rows.insert(line, BTreeMap::new()).is_some() {
                    wrong.push(format!("SOURCES: {line} has two rows"));
                }
            }
            Some(field) => {
                let (key, value) = field.split_once(' ').unwrap_or((field, ""));
                rows.entry(current).or_default().insert(key, value.trim());
            }
        }
    }
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("the folder is readable") {
        let entry = entry.expect("the folder is readable");
        let name = entry.file_name().into_string().expect("names are UTF-8");
        if name == "SOURCES" {
            continue;
        }
        let bytes = fs::read(entry.path()).expect("the file is readable");
        let digest = crypto::sha256(&[&bytes]).to_string();
        match rows.get(name.as_str()) {
            None => wrong.push(format!("certs/{name}: has no row in SOURCES")),
            Some(row) if row.get("sha256") != Some(&digest.as_str()) => {
                wrong.push(format!("certs/{name}: SHA-256 is {digest}; SOURCES says another"));
            }
            Some(row) => {
                let missing = ["what", "origin", "date"]
                    .into_iter()
                    .filter(|key| row.get(key).is_none_or(|v| v.is_empty()));
                wrong.extend(missing.map(|key| format!("SOURCES: {name} lacks `{key}`")));
            }
        }
        files.insert(name);
    }
    wrong.extend(
        rows.keys().filter(|name| !files.contains(**name)).map(|name| format!("SOURCES: {name} is no file")),
    );
    wrong
}
