//! A stream of tokens with one position.

use crate::operands::parse_integer;
use crate::tokens::{Token, tokens};
use crate::types::Type;

/// Returns an error message with the line of a token.
pub(super) fn error_at(token: Token<'_>, message: &str) -> String {
    format!("line {}: {message}", token.line)
}

pub(super) struct TokenStream<'a> {
    tokens: Vec<Token<'a>>,
    pub(super) at: usize,
}

impl<'a> TokenStream<'a> {
    pub(super) fn new(text: &'a str) -> Result<Self, String> {
        Ok(Self {
            tokens: tokens(text)?,
            at: 0,
        })
    }

    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        let token = self.tokens.get(self.at).copied();
        self.at += 1;
        token
    }

    pub(super) fn expect_any(&mut self) -> Result<Token<'a>, String> {
        self.next()
            .ok_or_else(|| "unexpected end of the text".to_owned())
    }

    /// Consumes the next token if it is `text`. Returns whether it did.
    pub(super) fn accept(&mut self, text: &str) -> bool {
        let next = self.tokens.get(self.at);
        let matches = next.is_some_and(|token| token.text == text);
        self.at += usize::from(matches);
        matches
    }

    pub(super) fn expect(&mut self, text: &str) -> Result<(), String> {
        let token = self.expect_any()?;
        match token.text == text {
            true => Ok(()),
            false => Err(error_at(
                token,
                &format!("expected `{text}`, got `{}`", token.text),
            )),
        }
    }

    pub(super) fn number(&mut self) -> Result<usize, String> {
        let token = self.expect_any()?;
        let number = parse_integer(token.text).map(|number| number as usize);
        number.ok_or_else(|| error_at(token, &format!("`{}` is not a number", token.text)))
    }

    pub(super) fn skip_line(&mut self, line: u32) {
        let rest = self.tokens[self.at..].iter();
        self.at += rest.take_while(|token| token.line == line).count();
    }

    /// Consumes and returns the tokens before one of these signs.
    pub(super) fn until(&mut self, ends: &[&str]) -> Result<Vec<Token<'a>>, String> {
        let mut found = Vec::new();
        loop {
            let token = self.expect_any()?;
            if ends.contains(&token.text) {
                self.at -= 1;
                return Ok(found);
            }
            found.push(token);
        }
    }

    /// Skips a block in braces.
    pub(super) fn skip_braces(&mut self) -> Result<(), String> {
        self.expect("{")?;
        let mut depth = 1;
        while depth > 0 {
            match self.expect_any()?.text {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// Parses an optional `.align 8` and a type. Returns the alignment and the type.
    pub(super) fn aligned_type(&mut self) -> Result<(usize, Type), String> {
        let mut align = None;
        if self.accept(".align") {
            align = Some(self.number()?);
        }
        let token = self.expect_any()?;
        let ty = token.text.strip_prefix('.').and_then(Type::named);
        let ty = ty.ok_or_else(|| error_at(token, &format!("unknown type `{}`", token.text)))?;
        Ok((align.unwrap_or(usize::from(ty.bytes())), ty))
    }

    /// Parses `[16]`, `[2][3]` or nothing, and returns the number of elements; `None` for `[]`.
    pub(super) fn count(&mut self) -> Result<Option<usize>, String> {
        let mut count = Some(1);
        while self.accept("[") {
            if self.accept("]") {
                count = None;
                continue;
            }
            let number = self.number()?;
            count = count.and_then(|count: usize| count.checked_mul(number));
            self.expect("]")?;
        }
        Ok(count)
    }
}
