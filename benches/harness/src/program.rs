//! A bench as a program: `cargo bench --bench BENCH [-- ROW] [--json=FILE]`.

use std::io;
use std::path::PathBuf;

use crate::{Record, RecordRow};

/// The rows that the arguments want, and where to write them.
#[derive(Debug)]
pub struct Program {
    /// Only rows whose name contains this text are measured.
    only: String,
    json: Option<PathBuf>,
    record: Record,
}

impl Program {
    /// Reads the arguments of this process, which `command` has started. It compares `sides`: ours first.
    pub fn new(command: &str, sides: &[&str]) -> Self {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let mut names = arguments.iter().filter(|text| !text.starts_with('-'));
        let mut files = arguments
            .iter()
            .filter_map(|text| text.strip_prefix("--json="));
        Self {
            only: names.next().cloned().unwrap_or_default(),
            json: files.next().map(PathBuf::from),
            record: Record::of_now(command, sides, Vec::new()),
        }
    }

    /// Returns whether a row is wanted.
    pub fn wants(&self, measure: &str) -> bool {
        measure.contains(&self.only)
    }

    /// Adds the samples of a row, one list for each side.
    pub fn row(&mut self, measure: &str, unit: &str, samples: Vec<Vec<f64>>) {
        eprintln!("measured: {measure}");
        self.record.rows.push(RecordRow {
            measure: measure.to_owned(),
            unit: unit.to_owned(),
            limit: None,
            samples,
            failures: Vec::new(),
        });
    }

    /// Prints the table, and writes the record to the file that the arguments name.
    ///
    /// # Errors
    ///
    /// That of the file.
    pub fn report(&self) -> io::Result<()> {
        self.record.report(self.json.as_deref())
    }
}
