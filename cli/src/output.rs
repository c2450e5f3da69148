//! Writes to standard output and standard error; no other module of the command line does.
//!
//! Errors of writing to standard error are ignored: no channel is left to report them on.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::atomic::{AtomicUsize, Ordering};

use comfy_table::CellAlignment;
use serde::Serialize;

use crate::exit::CommandError;

/// Prints text on standard output. A closed pipe (`| head`) is not an error.
pub(crate) fn text(text: &str) -> Result<(), CommandError> {
    let mut stdout = stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(unprintable(error)),
        _ => Ok(()),
    }
}

fn unprintable(source: io::Error) -> CommandError {
    let next = "check where standard output goes; everything else is done";
    CommandError::usage(
        "the report cannot be printed".to_owned(),
        next,
        Some(source.into()),
    )
}

/// Prints one JSON object on standard output.
pub(crate) fn json(value: &impl Serialize) -> Result<(), CommandError> {
    match serde_json::to_string_pretty(value) {
        Ok(json) => text(&(json + "\n")),
        Err(error) => Err(unprintable(error.into())),
    }
}

/// Prints an error with its chain of causes and the next step, and on standard output as JSON if requested.
pub(crate) fn error(error: &CommandError, as_json: bool) {
    let mut reason = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        reason = format!("{reason}: {source}");
        cause = source.source();
    }
    if as_json {
        let _ = json(&serde_json::json!({
            "exit_code": error.exit.code(),
            "error": reason,
            "next_step": error.next,
        }));
    }
    let _ = writeln!(stderr(), "error: {reason}\n next: {}", error.next);
}

/// A line on standard error that says how much is done. Nothing is written if that is not a terminal. Any thread may
/// advance it.
pub(crate) struct Progress {
    message: &'static str,
    steps: usize,
    done: AtomicUsize,
}

impl Progress {
    pub(crate) fn new(message: &'static str, steps: usize) -> Self {
        Self {
            message,
            steps,
            done: AtomicUsize::new(0),
        }
    }

    pub(crate) fn step(&self) {
        // Relaxed: no data depends on the number.
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if stderr().is_terminal() {
            let _ = write!(stderr(), "\r  {} {done}/{} ", self.message, self.steps);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if stderr().is_terminal() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// Lines of cells in columns. The first column, and the last if it is text, are aligned to the left.
pub(crate) struct Table(comfy_table::Table);

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        let mut table = comfy_table::Table::new();
        table
            .load_style(comfy_table::presets::NOTHING)
            .set_header(header);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((2, 0));
            if index > 0 {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Self(table)
    }

    pub(crate) fn ends_in_text(mut self) -> Self {
        if let Some(last) = self.0.column_iter_mut().last() {
            last.set_cell_alignment(CellAlignment::Left);
        }
        self
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.add_row(cells);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.0.trim_fmt())
    }
}

/// The width of a terminal that every line of prose fits, in characters.
pub(crate) const COLUMNS: usize = 80;

/// Wraps a list item at spaces to at most `COLUMNS` characters, and indents its further lines. A longer word, such as a
/// path, stays whole, so that it can be copied.
pub(crate) fn item(sentence: &str) -> String {
    let (mut wrapped, mut width) = (String::from("-"), 1);
    for word in sentence.split(' ') {
        let length = word.chars().count();
        if width + 1 + length > COLUMNS {
            wrapped.push_str("\n ");
            width = 1;
        }
        wrapped.push(' ');
        wrapped.push_str(word);
        width += 1 + length;
    }
    wrapped + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_is_wrapped_at_spaces_and_a_long_word_stays_whole() {
        let text = item("four ".repeat(20).trim_end());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].len(), 76, "{text}");
        assert_eq!(lines[1], "  four four four four four");
        let path = "/".repeat(2 * COLUMNS);
        assert_eq!(item(&format!("in {path}.")), format!("- in\n  {path}.\n"));
    }

    #[test]
    fn columns_of_figures_are_aligned_to_the_right() {
        let mut table = Table::new(&["name", "µs", "why"]).ends_in_text();
        table.row(["a", "10", "x"].map(str::to_owned));
        table.row(["long name", "7", ""].map(str::to_owned));
        assert_eq!(
            table.to_string(),
            "  name       µs  why\n  a          10  x\n  long name   7\n"
        );
    }
}
