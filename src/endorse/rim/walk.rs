//! The walk over a RIM: each token is taken once, checked against what must stand there, and written to canonical form.

use super::canonical;
use super::token::{Tag, Token, Tokens};
use crate::endorse::error::Error;

/// What an attribute has to be: its name, and its value where only one is accepted.
pub(super) type Expected = (&'static str, Option<&'static str>);

/// Where canonical bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sink {
    /// Outside of what is hashed: the rest of the signature.
    Nowhere,
    Payload,
    SignedInfo,
}

/// A walk from the first byte to the last.
pub(super) struct Walk<'a> {
    tokens: Tokens<'a>,
    /// Where tokens are written from here on.
    pub sink: Sink,
    pub payload: Vec<u8>,
    pub signed_info: Vec<u8>,
}

impl<'a> Walk<'a> {
    /// Starts at the first byte, writing to the payload.
    ///
    /// Errors: those of `Tokens::new`.
    pub fn new(document: &'a [u8]) -> Result<Self, Error> {
        Ok(Self {
            tokens: Tokens::new(document)?,
            sink: Sink::Payload,
            payload: Vec::with_capacity(document.len()),
            signed_info: Vec::new(),
        })
    }

    /// Returns an error that speaks of this place.
    pub fn wrong(&self, expected: &str) -> Error {
        self.tokens.wrong(expected)
    }

    /// Tells whether the next token is a start tag of that name.
    pub fn at_start(&self, name: &str) -> bool {
        self.tokens.at_start(name)
    }

    /// Takes a start tag with exactly these attributes in this order.
    ///
    /// Errors: `RimSyntax`.
    pub fn start(&mut self, name: &str, expected: &[Expected], empty: bool) -> Result<Tag<'a>, Error> {
        self.start_inheriting(name, expected, empty, &[])
    }

    /// Takes a start tag that is the first of its node set and repeats the declarations it inherits.
    ///
    /// Errors: `RimSyntax`.
    pub fn start_inheriting(
        &mut self,
        name: &str,
        expected: &[Expected],
        empty: bool,
        inherited: &[&str],
    ) -> Result<Tag<'a>, Error> {
        let tag = self.tag(name, empty, inherited)?;
        let names = tag.attributes.iter().map(|(name, _)| *name);
        if !names.eq(expected.iter().map(|(name, _)| *name)) {
            let list: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
            return Err(self.wrong(&format!("the attributes {} of {name} in this order", list.join(" "))));
        }
        for ((attribute, value), (_, only)) in tag.attributes.iter().zip(expected) {
            if only.is_some_and(|only| only != *value) {
                return Err(self.wrong(&format!("the one known value of {attribute} of {name}")));
            }
        }
        Ok(tag)
    }

    /// Takes a start tag whose attributes the caller checks, all but the namespaces it declares.
    ///
    /// Errors: `RimSyntax`.
    pub fn tag(&mut self, name: &str, empty: bool, inherited: &[&str]) -> Result<Tag<'a>, Error> {
        match self.tokens.token()? {
            Some(Token::Start(tag)) if tag.name == name && tag.empty == empty => {
                for (attribute, value) in &tag.attributes {
                    let known = match canonical::declared(attribute) {
                        Some(prefix) => canonical::namespace(prefix) == Some(*value),
                        None => true,
                    };
                    if !known {
                        return Err(self.wrong(&format!("the known namespace of {attribute}")));
                    }
                }
                if let Some(out) = self.out() {
                    canonical::start(out, &tag, inherited);
                }
                Ok(tag)
            }
            Some(Token::Start(_) | Token::End(_) | Token::Text(_)) | None => {
                Err(self.wrong(&format!("the element {name} before this place")))
            }
        }
    }

    /// Returns an attribute of a tag.
    ///
    /// Errors: `RimSyntax` if it has none of that name.
    pub fn value(&self, tag: &Tag<'a>, name: &str) -> Result<&'a str, Error> {
        let found = tag.attributes.iter().find(|(have, _)| *have == name);
        found.map(|(_, value)| *value).ok_or_else(|| self.wrong(&format!("the attribute {name}")))
    }

    /// Takes an end tag.
    ///
    /// Errors: `RimSyntax`.
    pub fn end(&mut self, name: &str) -> Result<(), Error> {
        match self.tokens.token()? {
            Some(Token::End(found)) if found == name => {
                if let Some(out) = self.out() {
                    canonical::end(out, name);
                }
                Ok(())
            }
            Some(Token::Start(_) | Token::End(_) | Token::Text(_)) | None => {
                Err(self.wrong(&format!("the end of {name} before this place")))
            }
        }
    }

    /// Takes the space between two elements: nothing, or a line feed with 0, 4 or 8 blanks.
    ///
    /// Errors: `RimSyntax`.
    pub fn gap(&mut self) -> Result<(), Error> {
        match self.text()? {
            None => Ok(()),
            Some("\n" | "\n    " | "\n        ") => Ok(()),
            Some(_) => Err(self.wrong("nothing or a line feed with 0, 4 or 8 blanks between elements")),
        }
    }

    /// Takes text; `None` if the next token is none.
    ///
    /// Errors: `RimSyntax`.
    pub fn text(&mut self) -> Result<Option<&'a str>, Error> {
        if !self.tokens.at_text() {
            return Ok(None);
        }
        match self.tokens.token()? {
            Some(Token::Text(text)) => {
                if let Some(out) = self.out() {
                    canonical::text(out, text);
                }
                Ok(Some(text))
            }
            Some(Token::Start(_) | Token::End(_)) | None => Err(self.wrong("text")),
        }
    }

    /// Ends the walk: at most two line feeds, which are no part of the canonical form.
    ///
    /// Errors: `RimSyntax`.
    pub fn tail(&mut self) -> Result<(), Error> {
        self.sink = Sink::Nowhere;
        match (self.text()?, self.tokens.token()?) {
            (None | Some("\n" | "\n\n"), None) => Ok(()),
            _ => Err(self.wrong("at most two line feeds after the root element")),
        }
    }

    fn out(&mut self) -> Option<&mut Vec<u8>> {
        match self.sink {
            Sink::Nowhere => None,
            Sink::Payload => Some(&mut self.payload),
            Sink::SignedInfo => Some(&mut self.signed_info),
        }
    }
}
