//! Wraps text for terminals.

/// The width of a terminal that every line of prose fits, in characters.
pub(crate) const COLUMNS: usize = 80;

/// Wraps the lines of `text` at spaces to at most `COLUMNS` characters. Further lines of a list item are indented like
/// its text. A longer word, such as a path, stays whole, so that it can be copied.
pub(crate) fn wrapped(text: &str) -> String {
    text.lines().map(line).collect()
}

fn line(line: &str) -> String {
    let indent = if line.starts_with("- ") { "  " } else { "" };
    let (mut wrapped, mut width) = (String::new(), 0);
    for (index, word) in line.split(' ').enumerate() {
        let length = word.chars().count();
        if index > 0 && width + 1 + length > COLUMNS {
            wrapped.push('\n');
            wrapped.push_str(indent);
            width = indent.len();
        } else if index > 0 {
            wrapped.push(' ');
            width += 1;
        }
        wrapped.push_str(word);
        width += length;
    }
    wrapped + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_at_spaces_and_items_indented() {
        let item = format!("- {}\nshort\n", "four ".repeat(20).trim_end());
        let text = wrapped(&item);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0].len(), 76, "{text}");
        assert_eq!(lines[1..], ["  four four four four four", "short"]);
        assert_eq!(text.split_whitespace().count(), 1 + 20 + 1);
    }

    #[test]
    fn long_word_stays_whole() {
        let path = "/".repeat(2 * COLUMNS);
        assert_eq!(
            wrapped(&format!("- in {path}.")),
            format!("- in\n  {path}.\n")
        );
        assert_eq!(wrapped(&path), format!("{path}\n"));
    }
}
