//! Reads tokens one at a time, over syn's cursor, with errors on the token at hand.
//!
//! Knows tokens, brackets and comma-separated lists; nothing of schedules.

use super::words::{Errors, either, suggestion};
use proc_macro2::{Delimiter, Ident, Span, TokenTree};
use syn::buffer::Cursor;
use syn::{Error, Lit, Result};

/// A place in a token stream, up to the end of the brackets that it is in.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    cursor: Cursor<'a>,
    /// Where the end is: the closing bracket, if there is one.
    close: Option<Span>,
}

/// A literal number as written.
pub(super) struct Number {
    /// Its digits, with point and exponent if any, without underscores.
    pub(super) digits: String,
    /// What follows them without a space, such as `MiB`.
    pub(super) suffix: String,
    /// The literal.
    pub(super) span: Span,
}

impl<'a> Reader<'a> {
    /// Reads a whole stream.
    pub(super) fn new(cursor: Cursor<'a>) -> Self {
        Self { cursor, close: None }
    }

    /// Whether nothing is left before the closing bracket.
    pub(super) fn at_end(&self) -> bool {
        self.cursor.eof()
    }

    /// The token at hand; at the end, the closing bracket or the last token.
    pub(super) fn span(&self) -> Span {
        match self.close {
            Some(close) if self.at_end() => close,
            None if self.at_end() => self.cursor.prev_span(),
            _ => self.cursor.span(),
        }
    }

    /// `expected <what>, found <token>` on the token at hand.
    pub(super) fn expected(&self, what: &str) -> Error {
        let found = match self.cursor.token_tree() {
            None => "the end".to_owned(),
            Some((TokenTree::Group(group), _)) => match group.delimiter() {
                Delimiter::Parenthesis => "`(`".to_owned(),
                Delimiter::Brace => "`{`".to_owned(),
                Delimiter::Bracket => "`[`".to_owned(),
                Delimiter::None => format!("`{group}`"),
            },
            Some((token, _)) => format!("`{token}`"),
        };
        Error::new(self.span(), format!("expected {what}, found {found}"))
    }

    /// The identifier at hand, if it is one, without reading it.
    pub(super) fn peek_ident(&self) -> Option<Ident> {
        self.cursor.ident().map(|(ident, _)| ident)
    }

    /// Whether brackets of this kind come next.
    pub(super) fn peek_group(&self, delimiter: Delimiter) -> bool {
        self.cursor.group(delimiter).is_some()
    }

    /// Any identifier, keywords included.
    pub(super) fn ident(&mut self, what: &str) -> Result<Ident> {
        let (ident, rest) = self.cursor.ident().ok_or_else(|| self.expected(what))?;
        self.cursor = rest;
        Ok(ident)
    }

    /// This very identifier.
    pub(super) fn word(&mut self, word: &str) -> Result<Span> {
        match self.peek_ident() {
            Some(ident) if ident == word => self.ident(word).map(|ident| ident.span()),
            _ => Err(self.expected(&format!("`{word}`"))),
        }
    }

    /// One of these identifiers, by its index.
    pub(super) fn one_of(&mut self, words: &[&str]) -> Result<(usize, Span)> {
        let found = self.peek_ident().ok_or_else(|| self.expected(&either(words)))?;
        let written = found.to_string();
        match words.iter().position(|word| *word == written) {
            Some(index) => Ok((index, self.ident(&written)?.span())),
            None => {
                let mut message = self.expected(&either(words)).to_string();
                message += &suggestion(&written, words);
                Err(Error::new(found.span(), message))
            }
        }
    }

    /// A punctuation character if it is at hand.
    pub(super) fn try_punct(&mut self, character: char) -> bool {
        match self.cursor.punct() {
            Some((punct, rest)) if punct.as_char() == character => {
                self.cursor = rest;
                true
            }
            _ => false,
        }
    }

    /// A mark of one or more punctuation characters.
    pub(super) fn mark(&mut self, mark: &str) -> Result<()> {
        let start = *self;
        for character in mark.chars() {
            if !self.try_punct(character) {
                return Err(start.expected(&format!("`{mark}`")));
            }
        }
        Ok(())
    }

    /// A literal number.
    pub(super) fn number(&mut self, what: &str) -> Result<Number> {
        let (literal, rest) = self.cursor.literal().ok_or_else(|| self.expected(what))?;
        let span = literal.span();
        let (digits, suffix) = match Lit::new(literal) {
            Lit::Int(int) => (int.base10_digits().to_owned(), int.suffix().to_owned()),
            Lit::Float(float) => (float.base10_digits().to_owned(), float.suffix().to_owned()),
            _ => return Err(self.expected(what)),
        };
        self.cursor = rest;
        Ok(Number { digits, suffix, span })
    }

    /// A whole number without a suffix.
    pub(super) fn whole(&mut self, what: &str) -> Result<(u32, Span)> {
        let start = *self;
        let number = self.number(what)?;
        if number.suffix.is_empty() { Ok((number.whole(what)?, number.span)) } else { Err(start.expected(what)) }
    }

    /// What is inside brackets of this kind.
    pub(super) fn group(&mut self, delimiter: Delimiter, what: &str) -> Result<Reader<'a>> {
        let (inside, span, rest) = self.cursor.group(delimiter).ok_or_else(|| self.expected(what))?;
        self.cursor = rest;
        Ok(Reader { cursor: inside, close: Some(span.close()) })
    }

    /// Nothing more.
    pub(super) fn end(&self, what: &str) -> Result<()> {
        if self.at_end() { Ok(()) } else { Err(self.expected(what)) }
    }

    /// Reads past the next token, brackets with all that is in them.
    pub(super) fn skip(&mut self) -> Option<TokenTree> {
        let (token, rest) = self.cursor.token_tree()?;
        self.cursor = rest;
        Some(token)
    }

    /// Comma-separated entries up to the end. After a bad one goes on behind the next comma; after a missing comma, at
    /// once if what follows looks like `name: value`.
    pub(super) fn list(&mut self, mut entry: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let mut errors = Errors::default();
        while !self.at_end() {
            let read = entry(self);
            let missing = read.is_ok() && !self.at_end() && !self.try_punct(',');
            if missing {
                errors.add(self.expected("`,`"));
            }
            if errors.keep(read).is_none() || (missing && !self.peek_entry()) {
                while !self.at_end() && !self.try_punct(',') {
                    self.skip();
                }
            }
        }
        errors.finish(())
    }

    /// Whether `name:` comes next.
    fn peek_entry(&self) -> bool {
        let after = self.cursor.ident().and_then(|(_, rest)| rest.punct());
        after.is_some_and(|(punct, _)| punct.as_char() == ':')
    }

    /// Comma-separated `name: value` entries up to the end, each known and each once. Gives the names that were there,
    /// also those with a bad value, and the error, so that the caller can add what is missing.
    pub(super) fn record(
        &mut self,
        what: &str,
        known: &[&'static str],
        mut entry: impl FnMut(usize, &Ident, &mut Self) -> Result<()>,
    ) -> (Vec<&'static str>, Errors) {
        let mut seen: Vec<&'static str> = Vec::new();
        let mut errors = Errors::default();
        let read = self.list(|reader| {
            let name = reader.ident(&format!("a {what}"))?;
            let written = name.to_string();
            let Some(index) = known.iter().position(|word| *word == written) else {
                let near = suggestion(&written, known);
                let message = format!("unknown {what} `{written}`{near}; the {what}s are {}", known.join(", "));
                return Err(Error::new(name.span(), message));
            };
            if seen.contains(&known[index]) {
                return Err(Error::new(name.span(), format!("duplicate {what} `{written}`")));
            }
            seen.push(known[index]);
            reader.mark(":")?;
            entry(index, &name, reader)
        });
        errors.keep(read);
        (seen, errors)
    }
}

impl Number {
    /// The number, if it is whole and fits 32 bits.
    pub(super) fn whole(&self, what: &str) -> Result<u32> {
        self.digits
            .parse()
            .map_err(|_| Error::new(self.span, format!("expected {what} below 2^32, found `{}`", self.digits)))
    }
}
