//! Writes to standard output and standard error, as no other module of the command line does, and formats tables.
//!
//! Errors of writing to standard error are ignored: no channel is left to report them on.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write, stderr, stdout};
use std::sync::atomic::{AtomicUsize, Ordering};

use comfy_table::CellAlignment;
use serde_json::{Value, json};

use crate::exit::{CommandError, Exit};

/// What a command reports: the exit code, and the same facts as a JSON object and as text.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) exit: Exit,
    pub(crate) json: Value,
    pub(crate) text: String,
}

/// Prints a report on standard output, as JSON with the version and the exit code, or as text. A closed pipe (`| head`)
/// is not an error.
pub(crate) fn report(report: Report, as_json: bool) -> Result<Exit, CommandError> {
    let (exit, mut json) = (report.exit, report.json);
    json["version"] = env!("CARGO_PKG_VERSION").into();
    json["exit_code"] = (exit as u8).into();
    match print(&if as_json {
        format!("{json:#}\n")
    } else {
        report.text
    }) {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => {
            let message = "the report cannot be printed".to_owned();
            let next = "check where standard output goes; everything else is done";
            Err(CommandError::usage(message, next, Some(source.into())))
        }
        _ => Ok(exit),
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut stdout = stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
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
        let exit_code = error.exit as u8;
        let json = json!({ "exit_code": exit_code, "error": reason, "next_step": error.next });
        let _ = print(&format!("{json:#}\n"));
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

#[cfg(test)]
mod tests {
    use super::*;

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
