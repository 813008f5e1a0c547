//! A small lexer of Rust: drops comments and keeps what the rules look at.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An identifier or keyword; a raw one without its `r#`.
    Word,
    /// `::`, or one character of punctuation.
    Mark,
    /// A string of any form, without its quotes.
    Text,
    /// A character, a number, a lifetime.
    Other,
}

/// One token and the line on which it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub text: String,
    pub line: usize,
}

impl Token {
    /// Tells whether this is the identifier or keyword `word`.
    pub fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text == word
    }

    /// Tells whether this is the punctuation `mark`.
    pub fn is_mark(&self, mark: &str) -> bool {
        self.kind == Kind::Mark && self.text == mark
    }
}

/// Splits a source text into tokens; comments and white space are left out.
pub fn tokens(source: &str) -> Vec<Token> {
    let mut lexer = Lexer { chars: source.chars().collect(), at: 0, line: 1, tokens: Vec::new() };
    while lexer.at < lexer.chars.len() {
        lexer.step();
    }
    lexer.tokens
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    tokens: Vec<Token>,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn take(&mut self) -> char {
        let taken = self.peek(0);
        self.at += 1;
        if taken == '\n' {
            self.line += 1;
        }
        taken
    }

    fn push(&mut self, kind: Kind, text: String, line: usize) {
        self.tokens.push(Token { kind, text, line });
    }

    fn step(&mut self) {
        let line = self.line;
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => {
                while self.at < self.chars.len() && self.peek(0) != '\n' {
                    self.take();
                }
            }
            ('/', '*') => self.block_comment(),
            ('"', _) => self.quoted(line),
            ('\'', _) => self.quote(line),
            (':', ':') => {
                self.at += 2;
                self.push(Kind::Mark, "::".to_string(), line);
            }
            (c, _) if c.is_whitespace() => {
                self.take();
            }
            (c, _) if c.is_alphabetic() || c == '_' => self.word(line),
            (c, _) if c.is_ascii_digit() => {
                let text = self.run_of_word();
                self.push(Kind::Other, text, line);
            }
            (c, _) => {
                self.take();
                self.push(Kind::Mark, c.to_string(), line);
            }
        }
    }

    fn run_of_word(&mut self) -> String {
        let mut text = String::new();
        while self.peek(0).is_alphanumeric() || self.peek(0) == '_' {
            text.push(self.take());
        }
        text
    }

    /// Comments of this form nest.
    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        loop {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => {
                    depth += 1;
                    self.at += 2;
                }
                ('*', '/') => {
                    depth -= 1;
                    self.at += 2;
                }
                _ => {
                    self.take();
                }
            }
            if depth == 0 || self.at >= self.chars.len() {
                return;
            }
        }
    }

    /// An identifier, or the prefix of a string: `b"`, `c"`, `r"`, `br#"`, `r#name`.
    fn word(&mut self, line: usize) {
        let text = self.run_of_word();
        let raw = matches!(text.as_str(), "r" | "br" | "cr");
        let mut hashes = 0;
        while raw && self.peek(hashes) == '#' {
            hashes += 1;
        }
        if raw && self.peek(hashes) == '"' {
            self.at += hashes + 1;
            self.raw_string(hashes, line);
        } else if text == "r" && hashes == 1 {
            self.at += 1;
            let name = self.run_of_word();
            self.push(Kind::Word, name, line);
        } else if matches!(text.as_str(), "b" | "c") && self.peek(0) == '"' {
            self.quoted(line);
        } else if text == "b" && self.peek(0) == '\'' {
            self.quote(line);
        } else {
            self.push(Kind::Word, text, line);
        }
    }

    fn raw_string(&mut self, hashes: usize, line: usize) {
        let mut text = String::new();
        while self.at < self.chars.len() {
            if self.peek(0) == '"' && (1..=hashes).all(|n| self.peek(n) == '#') {
                self.at += hashes + 1;
                break;
            }
            text.push(self.take());
        }
        self.push(Kind::Text, text, line);
    }

    fn quoted(&mut self, line: usize) {
        self.take();
        let mut text = String::new();
        while self.at < self.chars.len() {
            match self.take() {
                '"' => break,
                '\\' => {
                    self.take();
                }
                c => text.push(c),
            }
        }
        self.push(Kind::Text, text, line);
    }

    /// A character, or a lifetime: a lifetime is not closed by a second quote.
    fn quote(&mut self, line: usize) {
        self.take();
        let lifetime = self.peek(0) != '\\' && self.peek(1) != '\'';
        if lifetime {
            let name = self.run_of_word();
            self.push(Kind::Other, format!("'{name}"), line);
            return;
        }
        if self.take() == '\\' {
            self.take();
        }
        while self.at < self.chars.len() && self.take() != '\'' {}
        self.push(Kind::Other, "''".to_string(), line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        tokens(source).into_iter().filter(|t| t.kind == Kind::Word).map(|t| t.text).collect()
    }

    #[test]
    fn comments_and_strings_hold_no_words() {
        assert_eq!(words("a // b\n/* c /* d */ e */ f"), ["a", "f"]);
        assert_eq!(words(r##"a "b \" c" r#"d " e"# b"f" br"g" c"h" i"##), ["a", "i"]);
        assert_eq!(words("a \"unclosed b"), ["a"]);
    }

    #[test]
    fn a_lifetime_does_not_begin_a_character() {
        assert_eq!(words("fn f<'t>(x: &'t str) -> char { 'x' }"), ["fn", "f", "x", "str", "char"]);
        assert_eq!(words(r"['\'', b'\\', '\u{1f}', 'a'] after"), ["after"]);
    }

    #[test]
    fn raw_identifiers_are_words() {
        assert_eq!(words("r#fn br c r"), ["fn", "br", "c", "r"]);
    }

    #[test]
    fn lines_are_counted_through_strings_and_comments() {
        let last = tokens("/*\n*/ \"\n\n\" x").pop().unwrap();
        assert_eq!((last.text.as_str(), last.line), ("x", 4));
    }
}
