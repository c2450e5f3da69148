//! The words of a text, from left to right.

use crate::instruction::Type;
use crate::operands::whole;
use crate::tokens::{Token, tokens};

/// What is wrong, with its line.
pub(super) fn at(token: Token<'_>, said: &str) -> String {
    format!("line {}: {said}", token.line)
}

pub(super) struct Words<'a> {
    tokens: Vec<Token<'a>>,
    pub(super) at: usize,
}

impl<'a> Words<'a> {
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

    pub(super) fn must(&mut self) -> Result<Token<'a>, String> {
        self.next()
            .ok_or_else(|| "the text ends within something".to_owned())
    }

    /// The word after this many.
    pub(super) fn peek(&self, after: usize) -> Option<&'a str> {
        self.tokens.get(self.at + after).map(|token| token.text)
    }

    /// Is this next? Then it is taken.
    pub(super) fn takes(&mut self, text: &str) -> bool {
        let is = self.peek(0) == Some(text);
        self.at += usize::from(is);
        is
    }

    pub(super) fn expect(&mut self, text: &str) -> Result<(), String> {
        let token = self.must()?;
        match token.text == text {
            true => Ok(()),
            false => Err(at(
                token,
                &format!("`{}` where `{text}` must be", token.text),
            )),
        }
    }

    pub(super) fn number(&mut self) -> Result<usize, String> {
        let token = self.must()?;
        let number = whole(token.text).map(|number| number as usize);
        number.ok_or_else(|| at(token, &format!("`{}` is no number", token.text)))
    }

    pub(super) fn skip_line(&mut self, line: u32) {
        while self
            .tokens
            .get(self.at)
            .is_some_and(|token| token.line == line)
        {
            self.at += 1;
        }
    }

    /// All words up to one of these signs, which is next then.
    pub(super) fn until(&mut self, ends: &[&str]) -> Result<Vec<Token<'a>>, String> {
        let mut found = Vec::new();
        loop {
            let token = self.must()?;
            if ends.contains(&token.text) {
                self.at -= 1;
                return Ok(found);
            }
            found.push(token);
        }
    }

    /// Passes over what is in braces, of which the first is next.
    pub(super) fn skip_braces(&mut self) -> Result<(), String> {
        self.expect("{")?;
        let mut depth = 1;
        while depth > 0 {
            match self.must()?.text {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// `.align 8`, if it is there, and the type: how it is aligned, and the type.
    pub(super) fn aligned_type(&mut self) -> Result<(usize, Type), String> {
        let mut align = None;
        if self.takes(".align") {
            align = Some(self.number()?);
        }
        let token = self.must()?;
        let ty = token.text.strip_prefix('.').and_then(Type::named);
        let ty = ty.ok_or_else(|| at(token, &format!("the type `{}`", token.text)))?;
        Ok((align.unwrap_or(usize::from(ty.bytes())), ty))
    }

    /// `[16]`, `[2][3]` or nothing: how many; none for `[]`.
    pub(super) fn count(&mut self) -> Result<Option<usize>, String> {
        let mut count = Some(1);
        while self.takes("[") {
            if self.takes("]") {
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
