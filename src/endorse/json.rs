//! A strict reader of the JSON that Intel signs: member by member, bounded, each name once.

use std::borrow::Cow;

use crate::wire::limits;

/// Nothing follows, each member stands once, and each value has the form that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotJson {
    /// Where, from the first byte.
    pub offset: usize,
    /// What should have stood there.
    pub expected: &'static str,
}

/// Reads values one after another, without building a tree: nothing is allocated that nobody asked for.
///
/// Shape: RFC 8259 in UTF-8; nesting at most `JSON_DEPTH_MAX`; at most `JSON_MEMBERS_MAX` members in an object, their
/// names without escapes and each once; whole numbers from 0 to 2^64 - 1 where a number is asked for.
///
/// Source: RFC 8259.
#[derive(Clone, Debug)]
pub(super) struct Json<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Json<'a> {
    /// Starts at the first byte.
    ///
    /// Errors: `NotJson` unless it is UTF-8.
    pub fn new(bytes: &'a [u8]) -> Result<Self, NotJson> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self { text, at: 0, depth: 0 }),
            Err(error) => Err(NotJson { offset: error.valid_up_to(), expected: "UTF-8" }),
        }
    }

    /// Returns an error that speaks of this place.
    pub fn wrong(&self, expected: &'static str) -> NotJson {
        NotJson { offset: self.at, expected }
    }

    /// Reads an object, handing each name with the reader at its value to `member`, which reads or skips that value.
    ///
    /// Errors: `NotJson`, and those of `member`.
    pub fn object<E: From<NotJson>>(
        &mut self,
        mut member: impl FnMut(&'a str, &mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut seen: Vec<&'a str> = Vec::new();
        self.enter('{', "an object")?;
        if self.leave('}') {
            return Ok(());
        }
        loop {
            let place = self.wrong("another name, each stands once");
            let name = self.name()?;
            if seen.contains(&name) {
                return Err(place.into());
            }
            if seen.len() == limits::JSON_MEMBERS_MAX {
                return Err(self.wrong("fewer members").into());
            }
            seen.push(name);
            self.symbol(':', "a colon")?;
            self.space();
            member(name, self)?;
            if self.leave('}') {
                return Ok(());
            }
            self.symbol(',', "a comma or the end of the object")?;
        }
    }

    /// Reads a list of at most `count_max` values, each by `item`.
    ///
    /// Errors: `NotJson`, and those of `item`.
    pub fn list<T, E: From<NotJson>>(
        &mut self,
        count_max: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        let mut items = Vec::new();
        self.enter('[', "a list")?;
        if self.leave(']') {
            return Ok(items);
        }
        loop {
            self.space();
            if items.len() == count_max {
                return Err(self.wrong("fewer items in the list").into());
            }
            items.push(item(self)?);
            if self.leave(']') {
                return Ok(items);
            }
            self.symbol(',', "a comma or the end of the list")?;
        }
    }

    /// Reads a text of at most `len_max` bytes as it is written.
    ///
    /// Errors: `NotJson`.
    pub fn text(&mut self, len_max: usize) -> Result<Cow<'a, str>, NotJson> {
        self.space();
        let start = self.wrong("a text");
        let too_long = NotJson { expected: "a shorter text", ..start };
        let written = self.string().ok_or(start)?;
        if written.len() > len_max {
            return Err(too_long);
        }
        if !written.contains('\\') {
            return Ok(Cow::Borrowed(written));
        }
        unescaped(written).map(Cow::Owned).ok_or(NotJson { expected: "known escapes in the text", ..start })
    }

    /// Reads a whole number.
    ///
    /// Errors: `NotJson` for a sign, a fraction, an exponent, a leading zero or a number beyond 64 bits.
    pub fn number(&mut self) -> Result<u64, NotJson> {
        self.space();
        let wrong = self.wrong("a whole number");
        let written = self.scalar();
        let plain = written.bytes().all(|byte| byte.is_ascii_digit());
        if !plain || (written.len() > 1 && written.starts_with('0')) {
            return Err(wrong);
        }
        written.parse().map_err(|_| wrong)
    }

    /// Passes over a value of any kind and returns its bytes as they stand.
    ///
    /// Errors: `NotJson`.
    pub fn skip(&mut self) -> Result<&'a str, NotJson> {
        self.space();
        let start = self.at;
        match self.peek() {
            Some('{') => self.object(|_, inner| inner.skip().map(drop))?,
            // The bytes that there are bound the list.
            Some('[') => drop(self.list(self.text.len(), |inner| inner.skip().map(drop))?),
            Some('"') => drop(self.text(self.text.len())?),
            Some(_) | None => {
                let wrong = self.wrong("a value");
                let written = self.scalar();
                if !matches!(written, "true" | "false" | "null") && !is_number(written) {
                    return Err(wrong);
                }
            }
        }
        self.text.get(start..self.at).ok_or(self.wrong("a value"))
    }

    /// Ends the document.
    ///
    /// Errors: `NotJson` if anything but white space is left.
    pub fn finish(mut self) -> Result<(), NotJson> {
        self.space();
        match self.at == self.text.len() {
            true => Ok(()),
            false => Err(self.wrong("nothing more")),
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn symbol(&mut self, symbol: char, expected: &'static str) -> Result<(), NotJson> {
        self.space();
        if self.peek() != Some(symbol) {
            return Err(self.wrong(expected));
        }
        self.at += symbol.len_utf8();
        Ok(())
    }

    fn enter(&mut self, symbol: char, expected: &'static str) -> Result<(), NotJson> {
        self.symbol(symbol, expected)?;
        self.depth += 1;
        match self.depth > limits::JSON_DEPTH_MAX {
            true => Err(self.wrong("less nesting")),
            false => Ok(()),
        }
    }

    /// Goes out of an object or list if it ends here.
    fn leave(&mut self, symbol: char) -> bool {
        let ends = self.symbol(symbol, "").is_ok();
        self.depth -= usize::from(ends);
        ends
    }

    fn name(&mut self) -> Result<&'a str, NotJson> {
        self.space();
        let wrong = self.wrong("a name without escapes");
        self.string().filter(|name| !name.contains('\\')).ok_or(wrong)
    }

    /// Takes a string with its quotes; gives what stands between them, escapes and all.
    fn string(&mut self) -> Option<&'a str> {
        let inside = self.rest().strip_prefix('"')?;
        let mut escaped = false;
        for (at, byte) in inside.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    self.at += at + 2;
                    return inside.get(..at);
                }
                0..0x20 => return None,
                _ => {}
            }
        }
        None
    }

    /// Takes what is neither object, list nor text.
    fn scalar(&mut self) -> &'a str {
        let rest = self.rest();
        let len = rest.find([',', ']', '}', ' ', '\t', '\n', '\r']).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).unwrap_or_default()
    }
}

/// Tells whether a text is a number of JSON, whole or not.
fn is_number(written: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = written.strip_prefix('-').unwrap_or(written);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.strip_prefix(['+', '-']).unwrap_or(exponent)),
        None => (unsigned, "0"),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    digits(whole) && (whole == "0" || !whole.starts_with('0')) && digits(fraction) && digits(exponent)
}

/// Resolves escapes; `None` for one that is unknown or half of a pair.
fn unescaped(written: &str) -> Option<String> {
    let mut out = String::with_capacity(written.len());
    let mut rest = written;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let kind = after.chars().next()?;
        rest = after.get(kind.len_utf8()..)?;
        match kind {
            '"' | '\\' | '/' => out.push(kind),
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'u' => {
                let (first, after) = unit(rest)?;
                let mut units = vec![first];
                rest = after;
                if (0xd800..0xdc00).contains(&first) {
                    let (second, after) = unit(rest.strip_prefix("\\u")?)?;
                    units.push(second);
                    rest = after;
                }
                out.push_str(&String::from_utf16(&units).ok()?);
            }
            _ => return None,
        }
    }
    out.push_str(rest);
    Some(out)
}

/// Takes four hexadecimal digits off the front.
fn unit(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u16::from_str_radix(digits, 16).ok())?.map(|unit| (unit, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(text: &str) -> Result<(), NotJson> {
        let mut json = Json::new(text.as_bytes())?;
        json.skip()?;
        json.finish()
    }

    #[test]
    fn takes_what_serde_takes_and_refuses_what_it_refuses() {
        let texts = [
            "{}",
            "[]",
            "{ }",
            "[ ]",
            "0",
            "-0",
            "1.5e+3",
            "01",
            "1.",
            ".5",
            "-",
            "1e",
            "+1",
            "true",
            "nul",
            "",
            " {\"a\" : [1 , 2]\n}\t",
            "{\"a\":1,}",
            "[1,]",
            "[,1]",
            "{,}",
            "{\"a\"}",
            "{a:1}",
            "[1 2]",
            "\"\\u0041\"",
            "\"\\ud83d\\ude00\"",
            "\"\\ud83d\"",
            "\"\\ud83dx\"",
            "\"\\ude00\"",
            "\"\\x\"",
            "\"\\u00g0\"",
            "\"\\u+041\"",
            "\"a",
            "\"\n\"",
            "[1]]",
            "[1] x",
            "{\"a\":{}}",
            "[[[]]]",
            "{]",
            "[}",
            "\u{a0}1",
            "\"\\",
            "tru e",
            "1,2",
            "{\"a\":1 \"b\":2}",
            "{\"a\":\"}\"}",
            "[\"]\",\"\\\"\"]",
            "\"\u{e9}\"",
            "[-1,0.0,1E9,2e-2]",
            "1x",
            "--1",
        ];
        for text in texts {
            let theirs = serde_json::from_str::<serde_json::Value>(text).is_ok();
            assert_eq!(skip(text).is_ok(), theirs, "{text}");
        }
    }

    #[test]
    fn a_text_is_what_its_escapes_say() {
        for text in [r#""a\n\"\\\/\b\f\r\t""#, r#""\u0041\ud83d\ude00é""#, r#""\u0000""#, r#""""#] {
            let theirs: String = serde_json::from_str(text).unwrap();
            assert_eq!(Json::new(text.as_bytes()).unwrap().text(64).unwrap(), theirs);
        }
        let mut json = Json::new(b"\"abc\"").unwrap();
        assert_eq!(json.clone().text(3).unwrap(), "abc");
        assert_eq!(json.text(2).unwrap_err().expected, "a shorter text");
    }

    #[test]
    fn a_name_stands_once_however_it_is_written() {
        assert!(skip(r#"{"a":1,"b":{"a":1}}"#).is_ok());
        assert_eq!(skip(r#"{"a":1,"a":2}"#).unwrap_err().offset, 7);
        assert_eq!(skip(r#"{"a":1,"\u0061":2}"#).unwrap_err().expected, "a name without escapes");
        assert!(skip(r#"[{"b":[{"a":1,"a":1}]}]"#).is_err());
    }

    #[test]
    fn nesting_members_and_items_have_bounds() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(skip(&nested(limits::JSON_DEPTH_MAX)).is_ok());
        assert_eq!(skip(&nested(limits::JSON_DEPTH_MAX + 1)).unwrap_err().expected, "less nesting");
        // Far more than a stack would bear.
        assert!(skip(&"[".repeat(1_000_000)).is_err());
        let members = |count: usize| {
            let members: Vec<_> = (0..count).map(|at| format!("\"{at}\":0")).collect();
            format!("{{{}}}", members.join(","))
        };
        assert!(skip(&members(limits::JSON_MEMBERS_MAX)).is_ok());
        assert_eq!(skip(&members(limits::JSON_MEMBERS_MAX + 1)).unwrap_err().expected, "fewer members");
        let items = |max| Json::new(b"[1,2]").unwrap().list(max, Json::number);
        assert_eq!(items(2).unwrap(), [1, 2]);
        assert_eq!(items(1).unwrap_err().expected, "fewer items in the list");
    }

    #[test]
    fn numbers_are_whole_and_have_one_spelling() {
        let number = |text: &str| Json::new(text.as_bytes()).unwrap().number();
        assert_eq!(number("18446744073709551615"), Ok(u64::MAX));
        assert_eq!((number("0"), number(" 7 ")), (Ok(0), Ok(7)));
        for bad in ["18446744073709551616", "-1", "1.0", "1e2", "007", "", "\"1\"", "true", "+1"] {
            assert!(number(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn skipping_gives_the_bytes_as_they_stand() {
        let mut json = Json::new(br#" {"a": {"b" :1 } ,"c":2}"#).unwrap();
        let mut kept = "";
        json.object::<NotJson>(|name, inner| {
            let raw = inner.skip()?;
            if name == "a" {
                kept = raw;
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(kept, r#"{"b" :1 }"#);
    }
}
