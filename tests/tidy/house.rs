//! The files that the rules look at: read from the repository, or planted by a test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::scan::{Scan, scan};

/// One source file.
pub struct File {
    /// Path from the root of the repository, with `/`.
    pub path: String,
    pub text: String,
    pub scan: Scan,
}

impl File {
    /// Returns the path below `src/`.
    pub fn place(&self) -> &str {
        self.path.strip_prefix("src/").unwrap_or(&self.path)
    }

    /// Returns the room; `None` for `lib.rs` and what is not in `src`. `main.rs` belongs to `cli`.
    pub fn room(&self) -> Option<&str> {
        let place = self.path.strip_prefix("src/")?;
        match place {
            "lib.rs" => None,
            "main.rs" => Some("cli"),
            _ => Some(place.split('/').next()?.trim_end_matches(".rs")),
        }
    }

    /// Writes where something is.
    pub fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path)
    }
}

/// Every text file of the repository; those of Rust are scanned.
pub struct House {
    pub sources: Vec<File>,
    /// Path and content of each other text file.
    pub texts: BTreeMap<String, String>,
    /// Names at the top of the repository.
    pub top: BTreeSet<String>,
}

impl House {
    /// Reads the repository; what is hidden, built or shared from outside is left out.
    pub fn read(root: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut top = BTreeSet::new();
        for entry in fs::read_dir(root).expect("the repository is readable") {
            let entry = entry.expect("the repository is readable");
            let name = entry.file_name().into_string().expect("names are UTF-8");
            if [".git", "target", "shared"].contains(&name.as_str()) {
                continue;
            }
            top.insert(name.clone());
            collect(&entry.path(), name, &mut files);
        }
        Self::of(files, top)
    }

    /// Makes a house of planted files.
    pub fn planted(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
        Self::of(files, BTreeSet::new())
    }

    fn of(files: BTreeMap<String, String>, top: BTreeSet<String>) -> Self {
        let (rust, texts): (BTreeMap<_, _>, BTreeMap<_, _>) =
            files.into_iter().partition(|(path, _)| path.ends_with(".rs"));
        let test_only = test_only(&rust);
        let source = |(path, text): (String, String)| {
            let test = !path.starts_with("src/") || test_only.contains(&path);
            File { scan: scan(&text, &module(&path), test), path, text }
        };
        Self { sources: rust.into_iter().map(source).collect(), texts, top }
    }

    /// Returns the files of `src`.
    pub fn src(&self) -> impl Iterator<Item = &File> {
        self.sources.iter().filter(|file| file.path.starts_with("src/"))
    }

    /// Returns the rooms that exist.
    pub fn rooms(&self) -> BTreeSet<&str> {
        self.src().filter(|file| file.path != "src/main.rs").filter_map(File::room).collect()
    }

    /// Tells whether there is such a room, or such a file below `src/`.
    pub fn has(&self, place: &str) -> bool {
        self.src().any(|file| file.path != "src/main.rs" && stands_in(file, place))
    }

    /// Returns the files that the `mod` lines of `lib.rs` and `main.rs` lead to.
    pub fn reachable(&self) -> BTreeSet<&str> {
        let mut found: BTreeSet<&str> = BTreeSet::new();
        let mut open = vec!["src/lib.rs", "src/main.rs"];
        while let Some(path) = open.pop() {
            let Some(file) = self.sources.iter().find(|file| file.path == path) else { continue };
            if !found.insert(&file.path) {
                continue;
            }
            for child in &file.scan.children {
                let names = files_of(&child.module);
                open.extend(
                    self.sources.iter().map(|f| f.path.as_str()).filter(|p| names.contains(&p.to_string())),
                );
            }
        }
        found
    }
}

/// Tells whether a file is `place` (a path below `src/`) or stands in the room `place`.
pub fn stands_in(file: &File, place: &str) -> bool {
    match place.contains('.') || place.contains('/') {
        true => file.place() == place,
        false => file.room() == Some(place),
    }
}

fn collect(path: &Path, name: String, files: &mut BTreeMap<String, String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("the repository is readable") {
            let entry = entry.expect("the repository is readable");
            let below = entry.file_name().into_string().expect("names are UTF-8");
            collect(&entry.path(), format!("{name}/{below}"), files);
        }
    } else if let Ok(text) = fs::read_to_string(path) {
        files.insert(name, text);
    }
}

/// `src/a/b.rs` and `src/a/b/mod.rs` are the module `a::b`.
fn module(path: &str) -> Vec<String> {
    let place = path.strip_prefix("src/").unwrap_or("").trim_end_matches(".rs");
    let segments = place.split('/').filter(|segment| !["lib", "main", "mod", ""].contains(segment));
    segments.map(str::to_string).collect()
}

fn files_of(module: &[String]) -> [String; 2] {
    let path = module.join("/");
    [format!("src/{path}.rs"), format!("src/{path}/mod.rs")]
}

/// Files that stand behind a `#[cfg(test)] mod name;`, and the files below them.
fn test_only(rust: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = BTreeSet::new();
    loop {
        let before = found.len();
        for (path, text) in rust.iter().filter(|(path, _)| path.starts_with("src/")) {
            let children = scan(text, &module(path), found.contains(path)).children;
            for child in children.iter().filter(|child| child.test) {
                found.extend(files_of(&child.module).into_iter().filter(|path| rust.contains_key(path)));
            }
        }
        if found.len() == before {
            return found;
        }
    }
}
