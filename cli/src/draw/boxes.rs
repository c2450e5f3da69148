//! The box of a node: its text, wrapped, and the room that it takes.

use super::dot::Node;

/// Width of a letter: the font is monospaced.
const LETTER_WIDTH: f64 = 6.65;
/// Height of a line.
pub(super) const LINE: f64 = 15.0;
/// Between the text of a box and its edge.
pub(super) const PADDING: f64 = 9.0;
/// Most letters of a line, and most lines of a box. The tooltip has all of the text.
const LINE_LETTERS: usize = 46;
const LINES_MAX: usize = 6;

/// A node's text as it is drawn, and the room that it takes.
pub(crate) struct Box {
    pub(super) lines: Vec<String>,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Box {
    pub(crate) fn new(node: &Node) -> Self {
        let mut lines: Vec<String> = node.label.lines().flat_map(wrapped).collect();
        if lines.len() > LINES_MAX {
            lines.truncate(LINES_MAX - 1);
            lines.push("…".to_owned());
        }
        let longest = lines.iter().map(|line| line.chars().count()).max();
        let side = if node.is_round {
            2.2 * PADDING
        } else {
            PADDING
        };
        Self {
            width: longest.unwrap_or(0) as f64 * LETTER_WIDTH + 2.0 * side,
            height: lines.len().max(1) as f64 * LINE + PADDING,
            lines,
        }
    }
}

/// A line in pieces of the longest that are drawn, cut behind a space where there is one.
fn wrapped(line: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut length = 0;
    for word in line.split_inclusive(' ') {
        let mut letters: Vec<char> = word.chars().collect();
        if length > 0 && length + letters.len() > LINE_LETTERS {
            pieces.push(std::mem::take(&mut piece));
            length = 0;
        }
        while letters.len() > LINE_LETTERS {
            pieces.push(letters.drain(..LINE_LETTERS).collect());
        }
        length += letters.len();
        piece.extend(letters);
    }
    if !piece.is_empty() || pieces.is_empty() {
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_and_short_ones_kept() {
        assert_eq!(wrapped("b1 = b0"), ["b1 = b0"]);
        assert_eq!(wrapped(""), [""]);
        let long = "b1 = ((b0 - (sum(b0) * 0.0078125)) / sqrt(((sum(b0) * 0.0078125) + 0.00001)))";
        let pieces = wrapped(long);
        assert!(
            pieces.len() == 2
                && pieces
                    .iter()
                    .all(|piece| piece.chars().count() <= LINE_LETTERS)
        );
        assert_eq!(pieces.concat(), long);
        assert_eq!(wrapped(&"x".repeat(100)).len(), 3);
    }
}
