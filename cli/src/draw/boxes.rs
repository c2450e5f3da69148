//! The box of a node: its wrapped text and its size.

use super::dot::Node;

/// The width of a character of the monospaced font.
const CHAR_WIDTH: f64 = 6.65;
/// The height of a line.
pub(super) const LINE: f64 = 15.0;
/// The distance between the text of a box and its border.
pub(super) const PADDING: f64 = 9.0;
/// The most characters of a line, and the most lines of a box. The tooltip has the whole text.
const LINE_CHARS: usize = 46;
const LINES_MAX: usize = 6;

/// The wrapped text of a node, and the size of its box.
pub(crate) struct NodeBox {
    pub(super) lines: Vec<String>,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl NodeBox {
    pub(crate) fn new(node: &Node) -> Self {
        let mut lines: Vec<String> = node.label.lines().flat_map(wrap).collect();
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
            width: longest.unwrap_or(0) as f64 * CHAR_WIDTH + 2.0 * side,
            height: lines.len().max(1) as f64 * LINE + PADDING,
            lines,
        }
    }
}

/// Splits a line into pieces of at most [`LINE_CHARS`] characters, after a space if there is one.
fn wrap(line: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    let mut length = 0;
    for word in line.split_inclusive(' ') {
        let mut chars: Vec<char> = word.chars().collect();
        if length > 0 && length + chars.len() > LINE_CHARS {
            pieces.push(std::mem::take(&mut piece));
            length = 0;
        }
        while chars.len() > LINE_CHARS {
            pieces.push(chars.drain(..LINE_CHARS).collect());
        }
        length += chars.len();
        piece.extend(chars);
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
    fn only_long_lines_are_wrapped() {
        assert_eq!(wrap("b1 = b0"), ["b1 = b0"]);
        assert_eq!(wrap(""), [""]);
        let long = "b1 = ((b0 - (sum(b0) * 0.0078125)) / sqrt(((sum(b0) * 0.0078125) + 0.00001)))";
        let pieces = wrap(long);
        assert!(
            pieces.len() == 2
                && pieces
                    .iter()
                    .all(|piece| piece.chars().count() <= LINE_CHARS)
        );
        assert_eq!(pieces.concat(), long);
        assert_eq!(wrap(&"x".repeat(100)).len(), 3);
    }
}
