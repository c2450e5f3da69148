//! Splits text into words and signs, with their lines.

/// A word (`ld.global.f32`, `%r1`, `0f3F800000`) or a sign.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) line: u32,
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

/// Returns all tokens, without comments.
pub(super) fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    let ends =
        |from: usize, end: &str| text[from..].find(end).map(|place| from + place + end.len());
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            b'/' if text[at..].starts_with("//") => at = ends(at, "\n").unwrap_or(bytes.len()),
            b'/' if text[at..].starts_with("/*") => {
                at = ends(at + 2, "*/").ok_or("unterminated comment")?;
            }
            b'"' => at = ends(at + 1, "\"").ok_or("unterminated string")?,
            byte if is_word_byte(byte) => {
                while let Some(byte) = bytes.get(at)
                    && (is_word_byte(*byte) || text[at..].starts_with("::"))
                {
                    // `shared::cta` is one word.
                    at += if *byte == b':' { 2 } else { 1 };
                }
            }
            byte if byte.is_ascii() => at += 1,
            _ => return Err(format!("line {line}: non-ASCII character")),
        }
        let piece = &text[start..at];
        if !piece.starts_with([' ', '\t', '\r', '\n', '"'])
            && !piece.starts_with("//")
            && !piece.starts_with("/*")
        {
            found.push(Token { text: piece, line });
        }
        line += piece.matches('\n').count() as u32;
    }
    Ok(found)
}
