//! The tokens of a RIM: tags and text of the one XML dialect that NVIDIA's documents are written in.

use crate::endorse::error::Error;

/// Attributes of one tag. `Meta`, the richest, has 13; a resource has 6 and one for each alternative.
const ATTRIBUTES_MAX: usize = 6 + super::ALTERNATIVES_MAX;

/// A start tag, or an empty element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    pub name: &'a str,
    /// Names and values in the order of the document, declarations of namespaces among them.
    pub attributes: Vec<(&'a str, &'a str)>,
    /// Whether it was written `<.../>`.
    pub empty: bool,
}

/// What a document consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Start(Tag<'a>),
    End(&'a str),
    Text(&'a str),
}

/// Cuts a document into tokens, each byte into exactly one.
///
/// Shape: visible ASCII, blanks and line feeds. One blank before each attribute, double quotes around its value, no
/// other blank in a tag. No `&`, so no entity; a tag begins with a letter, so there is no comment, CDATA section,
/// processing instruction, declaration or DOCTYPE.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'a> {
    rest: &'a str,
    len: usize,
}

impl<'a> Tokens<'a> {
    /// Starts at the first byte.
    ///
    /// Errors: `RimSyntax` for a byte outside the alphabet.
    pub fn new(document: &'a [u8]) -> Result<Self, Error> {
        let allowed = |byte: &u8| matches!(*byte, b'\n' | b' '..=b'~') && *byte != b'&';
        match document.iter().position(|byte| !allowed(byte)) {
            None => {}
            Some(offset) => return Err(wrong(offset, "visible ASCII, blanks and line feeds, and no `&`")),
        }
        let rest = std::str::from_utf8(document).map_err(|_| wrong(0, "ASCII"))?;
        Ok(Self { rest, len: document.len() })
    }

    /// Returns the offset of the next token.
    pub fn offset(&self) -> usize {
        self.len - self.rest.len()
    }

    /// Tells whether the next token is text.
    pub fn at_text(&self) -> bool {
        !self.rest.is_empty() && !self.rest.starts_with('<')
    }

    /// Tells whether the next token is a start tag of that name.
    pub fn at_start(&self, name: &str) -> bool {
        let after = self.rest.strip_prefix('<').and_then(|rest| rest.strip_prefix(name));
        after.is_some_and(|after| after.starts_with([' ', '>', '/']))
    }

    /// Returns an error that speaks of this place.
    pub fn wrong(&self, expected: &str) -> Error {
        wrong(self.offset(), expected)
    }

    /// Takes the next token; `None` at the end.
    ///
    /// Errors: `RimSyntax`.
    pub fn token(&mut self) -> Result<Option<Token<'a>>, Error> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        if let Some(rest) = self.rest.strip_prefix("</") {
            self.rest = rest;
            let name = self.name()?;
            self.expect(">")?;
            return Ok(Some(Token::End(name)));
        }
        if let Some(rest) = self.rest.strip_prefix('<') {
            self.rest = rest;
            return self.tag().map(|tag| Some(Token::Start(tag)));
        }
        let text = self.until(|c| c == '<');
        match text.contains('>') {
            true => Err(self.wrong("no `>` in the text before")),
            false => Ok(Some(Token::Text(text))),
        }
    }

    fn tag(&mut self) -> Result<Tag<'a>, Error> {
        let name = self.name()?;
        let mut attributes = Vec::new();
        loop {
            if let Some(rest) = self.rest.strip_prefix('>') {
                self.rest = rest;
                return Ok(Tag { name, attributes, empty: false });
            }
            if let Some(rest) = self.rest.strip_prefix("/>") {
                self.rest = rest;
                return Ok(Tag { name, attributes, empty: true });
            }
            if attributes.len() == ATTRIBUTES_MAX {
                return Err(self.wrong(&format!("at most {ATTRIBUTES_MAX} attributes")));
            }
            self.expect(" ")?;
            let attribute = self.name()?;
            if attributes.iter().any(|(have, _)| *have == attribute) {
                return Err(self.wrong("each attribute once"));
            }
            self.expect("=\"")?;
            let value = self.until(|c| matches!(c, '"' | '<' | '>' | '\n'));
            self.expect("\"")?;
            attributes.push((attribute, value));
        }
    }

    /// Takes a name: letters and digits with at most one colon inside, beginning with a letter on both sides of it.
    fn name(&mut self) -> Result<&'a str, Error> {
        let at = self.offset();
        let name = self.until(|c| !c.is_ascii_alphanumeric() && c != ':');
        let part = |part: &str| part.starts_with(|c: char| c.is_ascii_alphabetic()) && !part.contains(':');
        let well_formed = match name.split_once(':') {
            None => part(name),
            Some((prefix, local)) => part(prefix) && part(local),
        };
        if well_formed { Ok(name) } else { Err(wrong(at, "a name")) }
    }

    fn until(&mut self, ends: impl Fn(char) -> bool) -> &'a str {
        let at = self.rest.find(ends).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(at);
        self.rest = rest;
        taken
    }

    fn expect(&mut self, text: &str) -> Result<(), Error> {
        match self.rest.strip_prefix(text) {
            None => Err(self.wrong(&format!("`{text}`"))),
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
        }
    }
}

fn wrong(offset: usize, expected: &str) -> Error {
    Error::RimSyntax { offset, expected: expected.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(document: &str) -> Result<Vec<Token<'_>>, Error> {
        let mut tokens = Tokens::new(document.as_bytes())?;
        let mut found = Vec::new();
        while let Some(token) = tokens.token()? {
            found.push(token);
        }
        Ok(found)
    }

    #[test]
    fn takes_tags_attributes_and_text_in_order() {
        let tag = |name, attributes: &[(&'static str, &'static str)], empty| {
            Token::Start(Tag { name, attributes: attributes.to_vec(), empty })
        };
        assert_eq!(
            all("<a x=\"1\" b:y=\"\">\n  t<b:c/></a>").unwrap(),
            [
                tag("a", &[("x", "1"), ("b:y", "")], false),
                Token::Text("\n  t"),
                tag("b:c", &[], true),
                Token::End("a"),
            ]
        );
    }

    #[test]
    fn refuses_what_the_dialect_does_not_have() {
        let bad = [
            ("comment", "<a><!-- x --></a>"),
            ("CDATA", "<a><![CDATA[x]]></a>"),
            ("processing instruction", "<?x y?><a></a>"),
            ("XML declaration", "<?xml version=\"1.0\"?><a></a>"),
            ("DOCTYPE", "<!DOCTYPE a><a></a>"),
            ("entity", "<a>&lt;</a>"),
            ("entity in a value", "<a x=\"&#48;\"></a>"),
            ("carriage return", "<a>\r\n</a>"),
            ("tab", "<a\tx=\"1\"></a>"),
            ("two blanks", "<a  x=\"1\"></a>"),
            ("blank before >", "<a x=\"1\" ></a>"),
            ("blank before />", "<a x=\"1\" />"),
            ("blank in an end tag", "<a></a >"),
            ("blank around =", "<a x =\"1\"></a>"),
            ("single quotes", "<a x='1'></a>"),
            ("no quotes", "<a x=1></a>"),
            ("line feed in a tag", "<a\nx=\"1\"></a>"),
            ("line feed in a value", "<a x=\"1\n\"></a>"),
            ("< in a value", "<a x=\"<\"></a>"),
            ("> in a value", "<a x=\">\"></a>"),
            ("> in text", "<a>]]></a>"),
            ("value without an end", "<a x=\"1></a>"),
            ("tag without an end", "<a"),
            ("the same attribute twice", "<a x=\"1\" x=\"1\"></a>"),
            ("empty name", "<>"),
            ("name that begins with a digit", "<1a></1a>"),
            ("name that begins with a colon", "<:a></:a>"),
            ("name that ends with a colon", "<a:></a:>"),
            ("name with two colons", "<a:b:c/>"),
            ("beyond ASCII", "<a>\u{e4}</a>"),
            ("NUL", "<a>\0</a>"),
            ("byte order mark", "\u{feff}<a></a>"),
        ];
        for (what, document) in bad {
            assert!(matches!(all(document), Err(Error::RimSyntax { .. })), "{what}");
        }
    }

    #[test]
    fn counts_attributes_before_keeping_them() {
        let tag = |count: usize| {
            let attributes: String = (0..count).map(|at| format!(" x{at}=\"\"")).collect();
            format!("<a{attributes}/>")
        };
        assert!(all(&tag(ATTRIBUTES_MAX)).is_ok());
        assert!(all(&tag(ATTRIBUTES_MAX + 1)).is_err());
    }
}
