//! Reads one source file: modules declared, paths named, types defined, and which tokens are test code.

use crate::lexer::{Kind, Token, tokens};

/// A path as it resolves inside the crate or outside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Segments after `crate` if `inside`, else as written.
    pub segments: Vec<String>,
    pub inside: bool,
    /// `super` led to the root of the crate: the path left its room.
    pub climbs: bool,
    /// Stands in a `use` that is visible outside of its module.
    pub public_use: bool,
    pub line: usize,
    pub test: bool,
}

impl Named {
    /// Returns the path as text.
    pub fn text(&self) -> String {
        self.segments.join("::")
    }
}

/// A `mod name;`: the file that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    pub module: Vec<String>,
    pub test: bool,
}

/// A `struct` or `enum` with the attributes above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defined {
    pub name: String,
    /// Each attribute, its words joined by blanks.
    pub attributes: Vec<String>,
    pub public_field: bool,
    pub line: usize,
}

/// What one file says.
#[derive(Debug, Default)]
pub struct Scan {
    pub tokens: Vec<Token>,
    /// For each token whether it is test code.
    pub tests: Vec<bool>,
    pub named: Vec<Named>,
    pub children: Vec<Child>,
    pub defined: Vec<Defined>,
    /// Every attribute, its words joined by blanks, and its line.
    pub attributes: Vec<(String, usize)>,
}

struct Scope {
    module: Vec<String>,
    test: bool,
    /// `cfg(test)` stood above the item that is being read.
    item_test: bool,
}

/// Reads a file that is the module `module`; `test` if the file as a whole is test code.
pub fn scan(source: &str, module: &[String], test: bool) -> Scan {
    let tokens = tokens(source);
    let whole = test || tokens.windows(8).any(|w| words(w) == "# ! [ cfg ( test ) ]");
    let mut walk = Walk {
        scan: Scan { tests: vec![whole; tokens.len()], ..Scan::default() },
        scopes: vec![Scope { module: module.to_vec(), test: whole, item_test: false }],
        attributes: Vec::new(),
        pending_module: None,
        tokens: &tokens,
    };
    let mut at = 0;
    while at < tokens.len() {
        at = walk.step(at);
    }
    Scan { tokens: tokens.clone(), ..walk.scan }
}

struct Walk<'a> {
    tokens: &'a [Token],
    scan: Scan,
    /// The file's own scope is the first and is never left.
    scopes: Vec<Scope>,
    /// Attributes above the item that is being read.
    attributes: Vec<String>,
    pending_module: Option<String>,
}

impl Walk<'_> {
    fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("the file's own scope is never left")
    }

    fn is_mark(&self, at: usize, mark: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is_mark(mark))
    }

    /// Reads what begins at `at`; returns where to go on.
    fn step(&mut self, at: usize) -> usize {
        let token = &self.tokens[at];
        let test = self.scope().test || self.scope().item_test;
        self.scan.tests[at] = test;
        let name = self.tokens.get(at + 1).filter(|token| token.kind == Kind::Word);
        match (token.kind, token.text.as_str(), name) {
            (Kind::Mark, "#", _) if self.is_mark(at + 1, "[") => return self.attribute(at, at + 1),
            (Kind::Mark, "#", _) if self.is_mark(at + 2, "[") => return self.attribute(at, at + 2),
            (Kind::Word, "use", _) if !self.is_mark(at + 1, "<") => return self.imports(at, test),
            (Kind::Word, "mod", Some(name)) if self.is_mark(at + 2, ";") => {
                let module = self.scope().module.iter().chain([&name.text]).cloned().collect();
                self.scan.children.push(Child { module, test });
            }
            (Kind::Word, "mod", Some(name)) => self.pending_module = Some(name.text.clone()),
            (Kind::Word, kind @ ("struct" | "enum"), Some(name)) => self.scan.defined.push(Defined {
                name: name.text.clone(),
                attributes: std::mem::take(&mut self.attributes),
                public_field: kind == "struct" && has_public_field(&self.tokens[at + 2..]),
                line: name.line,
            }),
            (Kind::Word, _, _) if begins_path(self.tokens, at) => {
                let path = resolve(&path_at(self.tokens, at), &self.scope().module, token.line, test);
                self.scan.named.push(path);
            }
            (Kind::Mark, "{" | "(" | "[", _) => self.open(token.text == "{", test),
            (Kind::Mark, "}" | ")" | "]", _) if self.scopes.len() > 1 => {
                self.scopes.pop();
            }
            (Kind::Mark, ";" | ",", _) => self.end_item(),
            _ => {}
        }
        at + 1
    }

    fn end_item(&mut self) {
        self.scope().item_test = false;
        self.attributes.clear();
    }

    fn open(&mut self, block: bool, test: bool) {
        let mut module = self.scope().module.clone();
        if block {
            self.end_item();
            module.extend(self.pending_module.take());
        }
        self.scopes.push(Scope { module, test, item_test: false });
    }

    /// An attribute of the form `#![..]` speaks of the whole file, the other of the item below it.
    fn attribute(&mut self, at: usize, open: usize) -> usize {
        let end = closing(self.tokens, open);
        let attribute = words(&self.tokens[open + 1..end]);
        self.scan.attributes.push((attribute.clone(), self.tokens[at].line));
        if open == at + 1 {
            self.scope().item_test |= is_test(&attribute);
            self.attributes.push(attribute);
        }
        let test = self.scope().test || self.scope().item_test;
        self.scan.tests[at..=end].fill(test);
        // Paths stand in attributes as they are (`derive(serde::Serialize)`) and in strings (`with = "crate::a::b"`).
        let texts = self.tokens[at..end].iter().filter(|token| token.kind == Kind::Text);
        let quoted = texts
            .flat_map(|text| tokens(&text.text))
            .map(|token| Token { line: self.tokens[at].line, ..token });
        for list in [self.tokens[at..end].to_vec(), quoted.collect()] {
            for n in (0..list.len()).filter(|n| begins_path(&list, *n)) {
                let path = resolve(&path_at(&list, n), &self.scope().module, list[n].line, test);
                self.scan.named.push(path);
            }
        }
        end + 1
    }

    fn imports(&mut self, at: usize, test: bool) -> usize {
        let end = (at..self.tokens.len()).find(|n| self.is_mark(*n, ";")).unwrap_or(self.tokens.len() - 1);
        let before = &self.tokens[..at];
        let public_use = before.last().is_some_and(|token| token.is_word("pub"))
            || words(&before[before.len().saturating_sub(4)..]) == "pub ( crate )";
        let mut trees = Vec::new();
        tree(&self.tokens[at + 1..end], &mut Vec::new(), &mut trees);
        for (segments, line) in trees {
            let path = resolve(&segments, &self.scope().module, line, test);
            self.scan.named.push(Named { public_use, ..path });
        }
        self.scan.tests[at..=end].fill(test);
        self.end_item();
        end + 1
    }
}

/// Joins the texts of tokens by blanks.
pub fn words(tokens: &[Token]) -> String {
    tokens.iter().map(|t| t.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// Only what is compiled for tests alone; `any(test, ..)` is not.
fn is_test(attribute: &str) -> bool {
    attribute == "cfg ( test )" || attribute == "test" || attribute.starts_with("cfg ( all ( test ,")
}

/// Returns the index of the bracket that closes the one at `open`.
fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.kind == Kind::Mark {
            true if ["[", "(", "{"].contains(&token.text.as_str()) => depth += 1,
            true if ["]", ")", "}"].contains(&token.text.as_str()) => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len() - 1
}

/// Tells whether the body that follows a `struct` name has a field that is visible everywhere.
fn has_public_field(rest: &[Token]) -> bool {
    let Some(open) = rest.iter().position(|t| t.is_mark("{") || t.is_mark("(") || t.is_mark(";")) else {
        return false;
    };
    if rest[open].is_mark(";") {
        return false;
    }
    let body = &rest[open + 1..closing(rest, open)];
    body.iter().any(|t| t.is_word("pub"))
}

fn begins_path(tokens: &[Token], at: usize) -> bool {
    let follows = tokens.get(at + 1).is_some_and(|t| t.is_mark("::"));
    let before = at.checked_sub(1).map(|n| &tokens[n]);
    let continues = match before {
        Some(mark) if mark.is_mark(".") => true,
        // `::std::fs` begins a path, `a::b` and `<T>::b` continue one.
        Some(mark) if mark.is_mark("::") => {
            at >= 2 && (tokens[at - 2].kind == Kind::Word || tokens[at - 2].is_mark(">"))
        }
        _ => false,
    };
    follows && !continues
}

fn path_at(tokens: &[Token], at: usize) -> Vec<String> {
    let mut segments = vec![tokens[at].text.clone()];
    let mut rest = &tokens[at + 1..];
    while let [colons, word, ..] = rest {
        if !colons.is_mark("::") || word.kind != Kind::Word {
            break;
        }
        segments.push(word.text.clone());
        rest = &rest[2..];
    }
    segments
}

/// Lists each path of a `use` tree; a glob ends in `*`, `self` and aliases are left out.
fn tree(tokens: &[Token], prefix: &mut Vec<String>, out: &mut Vec<(Vec<String>, usize)>) {
    let length = prefix.len();
    let mut at = 0;
    let line = tokens.first().map_or(0, |t| t.line);
    while at < tokens.len() {
        let token = &tokens[at];
        if token.is_mark("{") {
            let end = closing(tokens, at);
            let mut from = at + 1;
            while from < end {
                let parts = |n: &usize| tokens[*n].is_mark(",") && closing_depth(&tokens[from..*n]) == 0;
                let comma = (from..end).find(parts).unwrap_or(end);
                if from < comma {
                    tree(&tokens[from..comma], prefix, out);
                }
                from = comma + 1;
            }
            prefix.truncate(length);
            return;
        }
        if token.is_word("as") {
            break;
        }
        if token.kind == Kind::Word || token.is_mark("*") {
            prefix.push(token.text.clone());
        }
        at += 1;
    }
    let mut segments = prefix.clone();
    if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
        segments.pop();
    }
    out.push((segments, line));
    prefix.truncate(length);
}

fn closing_depth(tokens: &[Token]) -> usize {
    let open = tokens.iter().filter(|t| t.is_mark("{")).count();
    open - tokens.iter().filter(|t| t.is_mark("}")).count()
}

fn resolve(segments: &[String], module: &[String], line: usize, test: bool) -> Named {
    let path = |segments: Vec<String>, inside, climbs| Named {
        segments,
        inside,
        climbs,
        public_use: false,
        line,
        test,
    };
    match segments.first().map(String::as_str) {
        // `claviger` is what `main.rs` calls the same crate.
        Some("crate" | "claviger") => path(segments[1..].to_vec(), true, false),
        Some("self" | "super") => {
            let ups = segments.iter().filter(|segment| *segment == "super").count();
            let rest = segments.iter().filter(|segment| !["self", "super"].contains(&segment.as_str()));
            let kept = module.len().saturating_sub(ups);
            let absolute = module[..kept].iter().chain(rest).cloned().collect();
            path(absolute, true, ups > 0 && kept == 0)
        }
        _ => path(segments.to_vec(), false, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(text: &str) -> Vec<String> {
        text.split("::").map(str::to_string).collect()
    }

    fn inside(source: &str) -> Vec<(String, bool)> {
        let scan = scan(source, &module("verify::part"), false);
        scan.named.iter().filter(|path| path.inside).map(|path| (path.text(), path.test)).collect()
    }

    #[test]
    fn trees_are_listed_path_by_path() {
        let source = "use crate::{wire::{Check, code::Code as C, self}, endorse::*}; pub use crate::lease;";
        let have: Vec<_> = inside(source).into_iter().map(|(text, _)| text).collect();
        assert_eq!(have, ["wire::Check", "wire::code::Code", "wire", "endorse::*", "lease"]);
        assert!(scan(source, &module("a"), false).named[4].public_use);
    }

    #[test]
    fn paths_in_expressions_types_and_macros_are_found() {
        let source = "fn f(x: crate::keys::Key) { <X as crate::lease::T>::y(); vec![$crate::audit::z()]; }";
        let have: Vec<_> = inside(source).into_iter().map(|(text, _)| text).collect();
        assert_eq!(have, ["keys::Key", "lease::T", "audit::z"]);
        let have = inside("#[derive(crate::store::Row)] #[serde(with = \"crate::http::hex\")] struct S;");
        assert_eq!(have.len(), 2);
    }

    #[test]
    fn super_is_resolved_through_inline_modules() {
        let paths = scan(
            "mod a { use super::super::x; use super::super::super::wire; } fn f() { super::super::y() }",
            &module("verify::part"),
            false,
        );
        let have: Vec<_> = paths.named.iter().map(|path| (path.text(), path.climbs)).collect();
        assert_eq!(
            have,
            [("verify::x".to_string(), false), ("wire".to_string(), true), ("y".to_string(), true)]
        );
    }

    #[test]
    fn only_what_is_compiled_for_tests_alone_is_test_code() {
        let source = "#[cfg(test)] mod t { use crate::a; fn f() { crate::b::c() } } use crate::d;
            #[cfg(test)] use crate::e; use crate::f; #[cfg(any(test, unix))] use crate::g;
            #[cfg(all(test, unix))] mod h { use crate::i; } #[cfg(not(test))] use crate::j;";
        let have = inside(source);
        let tests: Vec<_> = have.iter().filter(|(_, test)| *test).map(|(text, _)| text.as_str()).collect();
        assert_eq!(tests, ["a", "b::c", "e", "i"]);
        assert_eq!(have.len(), 8);
    }

    #[test]
    fn a_test_field_does_not_hide_what_follows() {
        let have = inside("struct S { #[cfg(test)] a: u8, b: crate::lease::L }");
        assert_eq!(have, [("lease::L".to_string(), false)]);
    }

    #[test]
    fn child_files_and_definitions_are_listed() {
        let source = "mod a; #[cfg(test)] mod b; #[must_use] #[derive(Clone)] pub struct S<T> { pub x: T }
            struct P(u8); struct Q(pub u8);";
        let scan = scan(source, &module("verify"), false);
        let children: Vec<_> = scan.children.iter().map(|c| (c.module.join("::"), c.test)).collect();
        assert_eq!(children, [("verify::a".to_string(), false), ("verify::b".to_string(), true)]);
        assert_eq!(scan.defined[0].attributes, ["must_use", "derive ( Clone )"]);
        let public: Vec<_> = scan.defined.iter().map(|d| (d.name.as_str(), d.public_field)).collect();
        assert_eq!(public, [("S", true), ("P", false), ("Q", true)]);
    }
}
