//! TOML and JSON as one tree, read field by field: each error names the full path, each unknown field its nearest name.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::str::FromStr;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::error::Error;
use crate::wire::limits;
use crate::wire::text::{foreign, reason};

/// How alike an unknown and a known name must be for the one to be suggested.
const LIKENESS_MIN: f64 = 0.75;

/// Reads a document into a tree. JSON begins with `{`, everything else is TOML.
///
/// Shape: UTF-8, at most `len_max` bytes, nesting at most `JSON_DEPTH_MAX`; each field once; numbers whole.
///
/// Errors: `DocumentLength`, `DocumentDepth`, `DocumentSyntax`, `FieldRepeated`.
pub(super) fn read(bytes: &[u8], len_max: usize) -> Result<Value, Error> {
    if bytes.len() > len_max {
        return Err(Error::DocumentLength { len: bytes.len(), len_max });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| Error::DocumentSyntax {
        what: format!("UTF-8, at offset {}", error.valid_up_to()),
    })?;
    let tree = match text.trim_start().starts_with('{') {
        true => json(text)?,
        false => {
            let table: toml::Table = text.parse().map_err(|error: toml::de::Error| not_toml(text, &error))?;
            from_toml("", toml::Value::Table(table))?
        }
    };
    match depth(&tree) > limits::JSON_DEPTH_MAX {
        true => Err(Error::DocumentDepth),
        false => Ok(tree),
    }
}

fn json(text: &str) -> Result<Value, Error> {
    let repeated = RefCell::new(None);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let tree = Strict { path: String::new(), repeated: &repeated }
        .deserialize(&mut deserializer)
        .and_then(|tree| deserializer.end().map(|()| tree));
    match (tree, repeated.into_inner()) {
        (_, Some(path)) => Err(Error::FieldRepeated { path }),
        (Ok(tree), None) => Ok(tree),
        (Err(error), None) => {
            let (line, column) = (error.line(), error.column());
            let said = error.to_string();
            let said = said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said);
            Err(malformed("JSON", (line, column), said))
        }
    }
}

fn malformed(language: &str, (line, column): (usize, usize), said: &str) -> Error {
    Error::DocumentSyntax { what: format!("{language}, line {line}, column {column}: {}", reason(said)) }
}

fn not_toml(text: &str, error: &toml::de::Error) -> Error {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before.get(line_start..).unwrap_or_default().chars().count() + 1;
    malformed("TOML", (before.matches('\n').count() + 1, column), error.message())
}

fn from_toml(path: &str, value: toml::Value) -> Result<Value, Error> {
    Ok(match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Boolean(flag) => Value::Bool(flag),
        // A time may be written bare; its text is what JSON would hold.
        toml::Value::Datetime(time) => Value::String(time.to_string()),
        toml::Value::Float(_) => {
            return Err(Error::FieldValue {
                path: path.to_string(),
                what: "expected a whole number".to_string(),
            });
        }
        toml::Value::Array(array) => Value::Array(
            array
                .into_iter()
                .enumerate()
                .map(|(at, inner)| from_toml(&format!("{path}[{at}]"), inner))
                .collect::<Result<_, _>>()?,
        ),
        toml::Value::Table(table) => Value::Object(
            table
                .into_iter()
                .map(|(name, inner)| Ok((name.clone(), from_toml(&join(path, &name), inner)?)))
                .collect::<Result<_, Error>>()?,
        ),
    })
}

fn depth(tree: &Value) -> usize {
    match tree {
        Value::Array(array) => 1 + array.iter().map(depth).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Joins a path and a name; a foreign name is shown safely.
fn join(path: &str, name: &str) -> String {
    let plain = name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let shown = if plain { name.to_string() } else { foreign(name) };
    match path.is_empty() {
        true => shown,
        false => format!("{path}.{shown}"),
    }
}

/// Reads JSON into a tree and notices repeated fields, which `serde_json::Value` lets win silently.
struct Strict<'r> {
    path: String,
    repeated: &'r RefCell<Option<String>>,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text, a whole number, true, false, a list or an object")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, list.len());
            match seq.next_element_seed(Strict { path, repeated: self.repeated })? {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let path = join(&self.path, &name);
            if object.contains_key(&name) {
                *self.repeated.borrow_mut() = Some(path);
                return Err(serde::de::Error::custom("a field stands twice"));
            }
            let value = map.next_value_seed(Strict { path, repeated: self.repeated })?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

/// A value with the path that leads to it.
#[derive(Clone, Debug)]
pub(super) struct Node<'d> {
    path: String,
    value: &'d Value,
}

/// An object whose fields are all known.
#[derive(Clone, Debug)]
pub(super) struct Table<'d> {
    path: String,
    map: &'d Map<String, Value>,
    names: &'static [&'static str],
}

/// Finds the known name that is most alike.
pub(crate) fn nearest<'n>(name: &str, names: &[&'n str]) -> Option<&'n str> {
    let name = name.to_lowercase();
    let alike = |known: &&'n str| {
        let lower = known.to_lowercase();
        match strsim::osa_distance(&name, &lower) {
            // One letter wrong, missing, too many, or two that changed places: short names need it.
            0 | 1 => (1.0, *known),
            _ => (strsim::jaro_winkler(&name, &lower), *known),
        }
    };
    let (likeness, known) = names.iter().map(alike).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (likeness >= LIKENESS_MIN).then_some(known)
}

impl<'d> Node<'d> {
    /// Starts at the root.
    pub(super) fn root(value: &'d Value) -> Self {
        Self { path: String::new(), value }
    }

    /// Returns the path, as errors show it.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Says what is wrong here.
    pub(super) fn wrong(&self, what: impl Into<String>) -> Error {
        let path = if self.path.is_empty() { "the document".to_string() } else { self.path.clone() };
        Error::FieldValue { path, what: what.into() }
    }

    fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            Value::Array(_) => "a list",
            Value::Object(_) => "a section",
        }
    }

    fn expected(&self, expected: &str) -> Error {
        self.wrong(format!("expected {expected}; {} given", self.kind()))
    }

    /// Reads an object that may hold these names and no others.
    ///
    /// Errors: `FieldUnknown`, before anything else is said of the object.
    pub(super) fn table(&self, names: &'static [&'static str]) -> Result<Table<'d>, Error> {
        let Value::Object(map) = self.value else { return Err(self.expected("a section")) };
        if let Some(name) = map.keys().find(|name| !names.contains(&name.as_str())) {
            return Err(Error::FieldUnknown { path: join(&self.path, name), nearest: nearest(name, names) });
        }
        Ok(Table { path: self.path.clone(), map, names })
    }

    /// Reads a list of one to `POLICY_LIST_MAX` entries, each once.
    pub(super) fn list<T: PartialEq>(
        &self,
        read: impl Fn(&Node<'d>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let Value::Array(array) = self.value else { return Err(self.expected("a list")) };
        if array.is_empty() || array.len() > limits::POLICY_LIST_MAX {
            let given = array.len();
            return Err(
                self.wrong(format!("expected 1 to {} entries; {given} given", limits::POLICY_LIST_MAX))
            );
        }
        let mut list: Vec<T> = Vec::new();
        for (at, value) in array.iter().enumerate() {
            let node = Node { path: format!("{}[{at}]", self.path), value };
            let entry = read(&node)?;
            if list.contains(&entry) {
                return Err(node.wrong("the entry stands twice"));
            }
            list.push(entry);
        }
        Ok(list)
    }

    /// Reads an object whose names are free: short texts, each with a value.
    pub(super) fn map<T>(
        &self,
        read: impl Fn(&Node<'d>) -> Result<T, Error>,
    ) -> Result<BTreeMap<String, T>, Error> {
        let Value::Object(map) = self.value else { return Err(self.expected("a section")) };
        if map.len() > limits::POLICY_LIST_MAX {
            return Err(self.wrong(format!("expected at most {} entries", limits::POLICY_LIST_MAX)));
        }
        map.iter()
            .map(|(name, value)| {
                let node = Node { path: join(&self.path, name), value };
                Ok((name.clone(), read(&node)?))
            })
            .collect()
    }

    /// Tells whether the value is a list.
    pub(super) fn is_list(&self) -> bool {
        self.value.is_array()
    }

    /// Tells whether the value is a list without entries.
    pub(super) fn is_empty_list(&self) -> bool {
        self.value.as_array().is_some_and(Vec::is_empty)
    }

    /// Reads true or false.
    pub(super) fn flag(&self) -> Result<bool, Error> {
        self.value.as_bool().ok_or_else(|| self.expected("true or false"))
    }

    /// Reads a whole number inside a range.
    pub(super) fn number<T: TryFrom<u64>>(&self, range: std::ops::RangeInclusive<u64>) -> Result<T, Error> {
        let (least, most) = (range.start(), range.end());
        if !self.value.is_number() {
            return Err(self.expected("a whole number"));
        }
        let number = self.value.as_u64().filter(|number| range.contains(number));
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| self.wrong(format!("expected {least} to {most}; {} given", self.value)))
    }

    /// Reads a text.
    pub(super) fn text(&self) -> Result<&'d str, Error> {
        self.value.as_str().ok_or_else(|| self.expected("a text"))
    }

    /// Reads a short text for people: 1 to `POLICY_TEXT_LEN_MAX` characters, none of them a control character.
    pub(super) fn words(&self) -> Result<String, Error> {
        let text = self.text()?;
        let fits = (1..=limits::POLICY_TEXT_LEN_MAX).contains(&text.chars().count());
        match fits && !text.chars().any(char::is_control) && text.trim() == text {
            true => Ok(text.to_string()),
            false => Err(self.wrong(format!(
                "expected 1 to {} characters without control characters",
                limits::POLICY_TEXT_LEN_MAX
            ))),
        }
    }

    /// Reads a text that a type parses.
    pub(super) fn parsed<T: FromStr<Err = String>>(&self) -> Result<T, Error> {
        self.text()?.parse().map_err(|what: String| self.wrong(what))
    }

    /// Reads one of some words.
    pub(super) fn word<T: Copy>(&self, words: &[(&'static str, T)]) -> Result<T, Error> {
        let text = self.text()?;
        words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
            self.wrong(format!("expected {}; {} given", known.join(" or "), foreign(text)))
        })
    }
}

impl<'d> Table<'d> {
    /// Returns the path of a field, whether it is there or not.
    pub(super) fn at(&self, name: &str) -> String {
        join(&self.path, name)
    }

    /// Finds a field.
    pub(super) fn optional(&self, name: &'static str) -> Option<Node<'d>> {
        debug_assert!(self.names.contains(&name), "{name} is not in the schema of {}", self.path);
        self.map.get(name).map(|value| Node { path: self.at(name), value })
    }

    /// Finds a field that must be there.
    ///
    /// Errors: `FieldMissing`.
    pub(super) fn required(&self, name: &'static str) -> Result<Node<'d>, Error> {
        self.optional(name).ok_or_else(|| Error::FieldMissing { path: self.at(name) })
    }

    /// Reads a flag, or takes its default where it is absent.
    pub(super) fn flag(&self, name: &'static str, absent: bool) -> Result<bool, Error> {
        self.optional(name).map_or(Ok(absent), |node| node.flag())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_field_is_refused_with_its_path() {
        let repeated = |path: &str| Err(Error::FieldRepeated { path: path.to_string() });
        assert_eq!(read(br#"{"a":1,"a":1}"#, 100), repeated("a"));
        assert_eq!(read(br#"{"a":[{"b":{"c":1,"c":2}}]}"#, 100), repeated("a[0].b.c"));
        assert!(read(b"a = 1\na = 2\n", 100).is_err());
    }

    #[test]
    fn what_is_malformed_is_named_with_line_and_column() {
        let said = |text: &[u8]| read(text, 100).unwrap_err().to_string();
        assert_eq!(
            said(b"a = 1\n\n  a = 2\n"),
            "the document is not well-formed TOML, line 3, column 3: duplicate key"
        );
        assert_eq!(
            said(b"{\"a\":1,\n \"b\" 2}"),
            "the document is not well-formed JSON, line 2, column 6: expected `:`"
        );
        assert_eq!(said(b"a = \"\xff\""), "the document is not well-formed UTF-8, at offset 5");
    }

    #[test]
    fn bounds_of_length_and_depth_have_two_sides() {
        let text = b"{\"a\":1}";
        assert!(read(text, text.len()).is_ok());
        assert_eq!(
            read(text, text.len() - 1),
            Err(Error::DocumentLength { len: text.len(), len_max: text.len() - 1 })
        );
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(read(nested(limits::JSON_DEPTH_MAX).as_bytes(), 1000).is_ok());
        assert_eq!(read(nested(limits::JSON_DEPTH_MAX + 1).as_bytes(), 1000), Err(Error::DocumentDepth));
        assert!(read(nested(10_000).as_bytes(), 100_000).is_err());
        let toml = format!("a = {}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(read(toml.as_bytes(), 100_000).is_err());
    }

    #[test]
    fn both_languages_give_one_tree() {
        let toml = read(b"n = 1\nt = 2027-01-01T00:00:00Z\n[s]\nf = true\nl = ['x']\n", 1000).unwrap();
        let json = br#"{"n":1,"t":"2027-01-01T00:00:00Z","s":{"f":true,"l":["x"]}}"#;
        assert_eq!(toml, read(json, 1000).unwrap());
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for bad in
            [&b"{\"a\":1.5}"[..], b"{\"a\":null}", b"{\"a\":1} x", b"a = 1.5", b"a: 1\n", b"\xff", b"{"]
        {
            assert!(read(bad, 100).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_unknown_field_is_named_with_the_nearest_one() {
        let tree = read(b"[s]\nmesurements = 1\n", 100).unwrap();
        let root = Node::root(&tree).table(&["s"]).unwrap();
        let error = root.required("s").unwrap().table(&["measurements", "other"]).unwrap_err();
        let expected = Error::FieldUnknown { path: "s.mesurements".into(), nearest: Some("measurements") };
        assert_eq!(error, expected);
        assert_eq!(nearest("zzz", &["measurements"]), None);
        assert_eq!(nearest("Measurements", &["measurements"]), Some("measurements"));
    }
}
