//! A scanner for the texts of programs: words, numbers and signs, with their positions. For this crate, and for the
//! parser of nests among the tests.

use std::fmt;
use std::str::FromStr;

use crate::DType;

/// The reason why a text is not a program. Lines and columns count from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
    /// The reason.
    pub why: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line, self.column, self.why
        )
    }
}

impl std::error::Error for TextError {}

/// A scanner over a text. White space separates tokens, and `#` starts a comment to the end of the line.
pub struct Scanner<'a> {
    text: &'a str,
    /// The number of bytes read.
    at: usize,
    /// The start of the last token.
    last: usize,
}

impl<'a> Scanner<'a> {
    /// Creates a scanner at the start of a text.
    pub fn new(text: &'a str) -> Self {
        let (at, last) = (0, 0);
        Self { text, at, last }
    }

    /// Returns an error at the last token.
    pub fn error(&self, why: impl Into<String>) -> TextError {
        let before = &self.text[..self.last];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        TextError {
            line: 1 + before.matches('\n').count(),
            column: 1 + before[line_start..].chars().count(),
            why: why.into(),
        }
    }

    fn skip(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with('#') {
                return;
            }
            self.at += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    /// Returns the next token without taking it: a word or number, two dots, or one sign. Empty at the end.
    pub fn peek(&mut self) -> &'a str {
        self.skip();
        let rest = &self.text[self.at..];
        &rest[..token_end(rest)]
    }

    /// Takes the next token.
    pub fn take_next(&mut self) -> &'a str {
        let token = self.peek();
        self.last = self.at;
        self.at += token.len();
        token
    }

    /// Takes the next token if it is `token`.
    pub fn take(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        if found {
            self.take_next();
        }
        found
    }

    /// Takes the next token, which must be `token`.
    pub fn expect(&mut self, token: &str) -> Result<(), TextError> {
        match self.take_next() {
            found if found == token => Ok(()),
            found => Err(self.error(format!("expected `{token}`, found {}", quoted(found)))),
        }
    }

    /// Takes a word.
    pub fn word(&mut self, what: &str) -> Result<&'a str, TextError> {
        let token = self.take_next();
        let word = token.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        if word {
            return Ok(token);
        }
        Err(self.expected(what, token))
    }

    /// Takes a string in quotes, in which `\\` stands before quotes and itself.
    pub fn string(&mut self, what: &str) -> Result<String, TextError> {
        match self.take_next() {
            "\"" => {}
            found => return Err(self.expected(what, found)),
        }
        let mut string = String::new();
        let mut letters = self.text[self.at..].char_indices();
        while let Some((at, letter)) = letters.next() {
            let letter = match letter {
                '"' => {
                    self.at += at + 1;
                    return Ok(string);
                }
                '\\' => letters.next().map_or(letter, |(_, letter)| letter),
                letter => letter,
            };
            string.push(letter);
        }
        Err(self.error("the string does not end: close it with `\"`"))
    }

    /// Takes a number.
    pub fn number<T: FromStr>(&mut self, what: &str) -> Result<T, TextError> {
        let token = self.take_next();
        token.parse().map_err(|_| self.expected(what, token))
    }

    /// Takes a `%` and a number.
    pub fn value<T: FromStr>(&mut self) -> Result<T, TextError> {
        self.expect("%")?;
        self.number("the number of a value")
    }

    /// Takes the name of an element type.
    pub fn dtype(&mut self) -> Result<DType, TextError> {
        let token = self.take_next();
        DType::from_name(token).ok_or_else(|| self.expected("an element type", token))
    }

    /// Returns the error that `what` was expected at the last token, and `found` stands there.
    pub fn expected(&self, what: &str, found: &str) -> TextError {
        self.error(format!("expected {what}, found {}", quoted(found)))
    }

    /// Checks that nothing follows.
    pub fn end(&mut self) -> Result<(), TextError> {
        match self.take_next() {
            "" => Ok(()),
            found => Err(self.expected("the end", found)),
        }
    }
}

fn quoted(token: &str) -> String {
    match token {
        "" => "the end".to_owned(),
        token => format!("`{token}`"),
    }
}

/// Returns the end of the first token: `1.5e-7` is one, `0..1` is not.
fn token_end(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let number = is_digit(0) || (rest.starts_with('-') && is_digit(1));
    let mut end = 0;
    while let Some(byte) = bytes.get(end) {
        let exponent = end > 0 && matches!(bytes[end - 1], b'e' | b'E') && is_digit(end + 1);
        match byte {
            b'_' => {}
            byte if byte.is_ascii_alphanumeric() => {}
            b'.' if number && end > 0 && is_digit(end + 1) => {}
            b'-' | b'+' if number && (end == 0 || exponent) => {}
            _ => break,
        }
        end += 1;
    }
    match (end, rest.chars().next()) {
        (0, Some(_)) if rest.starts_with("..") || rest.starts_with("+=") => 2,
        (0, Some(sign)) => sign.len_utf8(),
        (end, _) => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_words_numbers_and_signs() {
        let mut scanner = Scanner::new("%1: f32 = const -1.5e-7 # not read\n for a[%3] in 0..1 +=");
        let mut tokens = Vec::new();
        while !scanner.peek().is_empty() {
            tokens.push(scanner.take_next());
        }
        let expected = "% 1 : f32 = const -1.5e-7 for a [ % 3 ] in 0 .. 1 +=";
        assert_eq!(tokens.join(" "), expected);
    }

    #[test]
    fn error_has_the_line_and_column_of_the_token() {
        let mut scanner = Scanner::new("one\n  tw\u{e9} three");
        scanner.take_next();
        scanner.take_next();
        assert_eq!(scanner.take_next(), "\u{e9}");
        let error = scanner.error("is odd");
        assert_eq!(error.to_string(), "line 2, column 5: is odd");
    }
}
