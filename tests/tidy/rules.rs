//! The rules on rooms, doors, words and gates. Each gives a sentence per violation; none means that it holds.

use std::collections::BTreeSet;

use crate::house::{File, House, stands_in};
use crate::lexer::{Kind, Token};
use crate::scan::{Named, words};

/// One row of the table of rooms: name, and what it may import.
pub type Row = (&'static str, &'static [&'static str]);

/// How something shows in a source text.
#[derive(Clone, Copy, Debug)]
pub enum Sign {
    /// A path that begins so, such as `std::fs`.
    Begins(&'static str),
    /// A path that ends so, such as `txn::run`, or a glob that brings it.
    Ends(&'static str),
    /// A macro call.
    Macro(&'static str),
    /// A method call, `.name(`.
    Method(&'static str),
    /// Tokens in a row, joined by blanks.
    Tokens(&'static str),
}

/// What may stand in some places alone.
pub struct Door {
    pub name: &'static str,
    pub signs: &'static [Sign],
    /// Rooms or files; each that exists must need it.
    pub places: &'static [&'static str],
    /// Whether test code may use it anywhere.
    pub tests: bool,
}

/// A word that Rust cannot guard, with its number of occurrences in each file or room.
pub struct Word {
    pub name: &'static str,
    pub sign: Sign,
    pub places: &'static [(&'static str, Count)],
}

/// How often a word stands in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// So often, no more and no less.
    Exactly(usize),
    /// The style page names the place; how often is free, also not at all.
    Free,
}

/// Rule 1: a row names rows above it alone. (Rooms are listed once.)
pub fn rows_point_upwards(rows: &[Row]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut above: BTreeSet<&str> = BTreeSet::new();
    for (room, imports) in rows {
        let below = imports.iter().filter(|import| !above.contains(*import));
        wrong.extend(below.map(|import| format!("row {room} names {import}, which does not stand above it")));
        if !above.insert(room) {
            wrong.push(format!("room {room} has two rows"));
        }
    }
    wrong
}

/// Rules 1 and 2: rooms import rooms of their row; paths stay inside; every room has a row. `narrower` are files that
/// may import less than their room; test code may also import `in_tests`; a file of `handed_on` may re-export from
/// another room.
pub fn imports(
    house: &House,
    rows: &[Row],
    narrower: &[Row],
    in_tests: &[&str],
    handed_on: &[(&str, &str)],
) -> Vec<String> {
    let mut handed = BTreeSet::new();
    let mut wrong: Vec<String> = house
        .rooms()
        .into_iter()
        .filter(|room| !rows.iter().any(|(row, _)| row == room))
        .map(|room| format!("src/{room}: a room without a row"))
        .collect();
    for file in house.src() {
        let Some(room) = file.room() else { continue };
        let row = narrower.iter().find(|(path, _)| *path == file.place());
        let Some((_, allowed)) = row.or(rows.iter().find(|(row, _)| *row == room)) else { continue };
        for path in &file.scan.named {
            let ok = |target: &str| {
                target == room || allowed.contains(&target) || (path.test && in_tests.contains(&target))
            };
            let target = path.segments.first().map(String::as_str);
            let text = path.text();
            let at = file.at(path.line);
            match target {
                _ if path.climbs => wrong.push(format!("{at}: `super` climbs out of {room} to {text}")),
                None | Some("*") if path.inside => wrong.push(format!("{at}: names the whole crate")),
                Some("std" | "core" | "alloc") if path.segments.len() == 1 || path.segments[1] == "*" => {
                    wrong.push(format!("{at}: names all of a standard crate"));
                }
                Some(target) if path.inside && !ok(target) => {
                    wrong.push(format!(
                        "{at}: {} imports {text}; its row does not name {target}",
                        file.place()
                    ));
                }
                Some(target) if path.inside && path.public_use && target != room => {
                    if handed_on.contains(&(file.place(), target)) {
                        handed.insert((file.place(), target));
                        continue;
                    }
                    wrong
                        .push(format!("{at}: {room} hands on {text}, so that others import {target} unseen"));
                }
                _ => {}
            }
        }
    }
    let unneeded =
        handed_on.iter().filter(|(place, _)| house.has(place)).filter(|row| !handed.contains(*row));
    wrong.extend(unneeded.map(|(place, room)| format!("{place}: hands on nothing of {room}")));
    wrong
}

/// The files of `http` that must not import one another.
pub fn siblings(house: &House, room: &str, siblings: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in house.src().filter(|file| file.room() == Some(room)) {
        let own = file.place().split('/').nth(1).unwrap_or("").trim_end_matches(".rs");
        if !siblings.contains(&own) {
            continue;
        }
        for path in file.scan.named.iter().filter(|path| path.inside) {
            if let [first, second, ..] = path.segments.as_slice()
                && first == room
                && second != own
                && siblings.contains(&second.as_str())
            {
                wrong.push(format!("{}: {own} imports its sibling {second}", file.at(path.line)));
            }
        }
    }
    wrong
}

/// Rule 3: doors are used where the list says, and there they are needed.
pub fn doors(house: &House, doors: &[Door]) -> Vec<String> {
    let mut wrong = Vec::new();
    for door in doors {
        let mut needed: BTreeSet<&str> = BTreeSet::new();
        for file in house.src() {
            let found = door.signs.iter().flat_map(|sign| occurrences(file, *sign));
            for (line, test) in found.collect::<BTreeSet<_>>() {
                if test && door.tests {
                    continue;
                }
                let places: Vec<_> = door.places.iter().filter(|place| stands_in(file, place)).collect();
                if places.is_empty() {
                    wrong.push(format!("{}: {} has no place here", file.at(line), door.name));
                }
                needed.extend(places);
            }
        }
        for place in door.places.iter().filter(|place| house.has(place) && !needed.contains(*place)) {
            wrong.push(format!("door list: {place} does not need {}", door.name));
        }
    }
    wrong
}

/// Rule 6: words stand in their places, as often as the list says. Test code is left out.
pub fn counted(house: &House, list: &[Word]) -> Vec<String> {
    let mut wrong = Vec::new();
    for word in list {
        let count = |file: &File| occurrences(file, word.sign).iter().filter(|(_, test)| !test).count();
        for file in house.src().filter(|file| count(file) > 0) {
            if !word.places.iter().any(|(place, _)| stands_in(file, place)) {
                wrong.push(format!("{}: `{}` has no place here", file.path, word.name));
            }
        }
        for (place, expected) in word.places {
            let files = house.src().filter(|file| stands_in(file, place));
            let actual: usize = files.map(count).sum();
            if let Count::Exactly(expected) = expected
                && house.has(place)
                && actual != *expected
            {
                wrong.push(format!("{place}: expected `{}` {expected} times, found {actual}", word.name));
            }
        }
    }
    wrong
}

/// Gates stand in their file, with private fields, `#[must_use]`, and no way to copy or make one from nothing.
pub fn gates(house: &House, gates: &[(&str, &str)]) -> Vec<String> {
    const FORBIDDEN: [&str; 6] = ["Clone", "Copy", "Default", "Deserialize", "From", "TryFrom"];
    let mut wrong = Vec::new();
    for (gate, place) in gates {
        let mut found = false;
        for file in house.src() {
            for defined in file.scan.defined.iter().filter(|defined| defined.name == *gate) {
                let at = file.at(defined.line);
                found |= file.place() == *place;
                if file.place() != *place {
                    wrong.push(format!("{at}: gate {gate} stands in {place} alone"));
                }
                if defined.public_field {
                    wrong.push(format!("{at}: gate {gate} has a visible field"));
                }
                if !defined.attributes.iter().any(|attribute| attribute.starts_with("must_use")) {
                    wrong.push(format!("{at}: gate {gate} lacks `must_use`"));
                }
                let derived = |name: &&&str| {
                    let derives =
                        defined.attributes.iter().filter(|attribute| attribute.starts_with("derive"));
                    derives.flat_map(|attribute| attribute.split(' ')).any(|word| word == **name)
                };
                wrong.extend(
                    FORBIDDEN.iter().filter(derived).map(|name| format!("{at}: {gate} derives {name}")),
                );
            }
            for (name, line) in implemented(&file.scan.tokens, gate) {
                if FORBIDDEN.contains(&name.as_str()) {
                    wrong.push(format!("{}: {name} is implemented for gate {gate}", file.at(line)));
                }
            }
        }
        if house.has(place) && !found {
            wrong.push(format!("src/{place}: gate {gate} is not there"));
        }
    }
    wrong
}

/// Lists the traits that `impl Trait for Type` headers implement for `name`.
fn implemented(tokens: &[Token], name: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for start in (0..tokens.len()).filter(|at| tokens[*at].is_word("impl")) {
        let header: Vec<&Token> =
            tokens[start + 1..].iter().take_while(|t| !t.is_mark("{") && !t.is_mark(";")).collect();
        let Some(at) = header.iter().rposition(|token| token.is_word("for")) else { continue };
        let outer = |tokens: &[&Token]| {
            let mut depth = 0_i32;
            let mut last = None;
            for token in tokens {
                match token.text.as_str() {
                    "<" => depth += 1,
                    ">" => depth -= 1,
                    "where" => break,
                    _ if depth == 0 && token.kind == Kind::Word => last = Some(token.text.clone()),
                    _ => {}
                }
            }
            last
        };
        if outer(&header[at + 1..]).as_deref() == Some(name)
            && let Some(implemented) = outer(&header[..at])
        {
            found.push((implemented, tokens[start].line));
        }
    }
    found
}

/// Lists line and kind (test code or not) of each occurrence of a sign.
pub fn occurrences(file: &File, sign: Sign) -> Vec<(usize, bool)> {
    let tokens = &file.scan.tokens;
    let at = |matches: &dyn Fn(usize) -> bool| -> Vec<(usize, bool)> {
        (0..tokens.len()).filter(|n| matches(*n)).map(|n| (tokens[n].line, file.scan.tests[n])).collect()
    };
    let paths = |matches: &dyn Fn(&Named) -> bool| -> Vec<(usize, bool)> {
        file.scan.named.iter().filter(|path| matches(path)).map(|path| (path.line, path.test)).collect()
    };
    let next = |n: usize, mark: &str| tokens.get(n).is_some_and(|token| token.is_mark(mark));
    match sign {
        Sign::Begins(text) => paths(&|path| {
            !path.inside && (path.text() == text || path.text().starts_with(&format!("{text}::")))
        }),
        Sign::Ends(text) => {
            let (module, _) = text.rsplit_once("::").unwrap_or((text, ""));
            let glob = format!("{module}::*");
            let ends = |path: &str, end: &str| path == end || path.ends_with(&format!("::{end}"));
            paths(&|path| ends(&path.text(), text) || ends(&path.text(), &glob))
        }
        Sign::Macro(name) => at(&|n| tokens[n].is_word(name) && next(n + 1, "!")),
        Sign::Method(name) => at(&|n| {
            let called = next(n + 1, "(") || next(n + 1, "::");
            n > 0 && tokens[n - 1].is_mark(".") && tokens[n].is_word(name) && called
        }),
        Sign::Tokens(text) => {
            let length = text.split(' ').count();
            at(&|n| {
                tokens[n].kind != Kind::Text && tokens.get(n..n + length).is_some_and(|t| words(t) == text)
            })
        }
    }
}
