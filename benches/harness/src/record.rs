//! The samples of one subject as a file, and as a section of `benches/RESULTS.md`.
//!
//! A bench writes a [`Record`]: every sample, not only medians, with the command, the commit and the machine. The command
//! `cargo run -p millstream-harness` writes the tables of the page from all records in `benches/samples`.

use std::path::Path;
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::format::{digits_or_dash, ratio};
use crate::machine::{commit, machine, today};
use crate::{Limit, Table, median};

/// The notes of a record that was taken on a fake driver. The tables of the page have no such record.
pub const MEANINGLESS: &str =
    "These figures are meaningless: they were measured on the fake driver, not on a GPU.";

/// The samples of one subject, and how they were taken.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The command that took them.
    pub command: String,
    /// The commit that was measured.
    pub commit: String,
    /// The day, in UTC.
    pub date: String,
    /// The processor, and other properties of the machine.
    pub machine: String,
    /// What a reader must know beside that, as Markdown. For a person to fill in.
    #[serde(default)]
    pub notes: String,
    /// The sides that are compared: ours first.
    pub sides: Vec<String>,
    /// The rows.
    pub rows: Vec<RecordRow>,
}

/// The samples of one measure.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RecordRow {
    /// The measure, which names the row.
    pub measure: String,
    /// The unit of the samples.
    pub unit: String,
    /// The limit of our median.
    pub limit: Option<Limit>,
    /// The samples of each side; none if the side was not measured.
    pub samples: Vec<Vec<f64>>,
    /// The reasons why samples are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

impl RecordRow {
    /// Returns the median of a side, if it was measured.
    pub fn median(&self, side: usize) -> Option<f64> {
        let samples = self.samples.get(side)?;
        (!samples.is_empty()).then(|| median(samples))
    }

    /// Returns whether our median keeps the limit; none if either is missing.
    pub fn is_reached(&self) -> Option<bool> {
        Some(self.limit?.holds(self.median(0)?))
    }

    /// Returns our median divided by that of the second side.
    pub fn ratio(&self) -> Option<f64> {
        let ratio = self.median(0)? / self.median(1)?;
        ratio.is_finite().then_some(ratio)
    }
}

impl Record {
    /// Creates the record of this process, which `command` and the arguments have started.
    pub fn of_now(command: &str, sides: &[&str], rows: Vec<RecordRow>) -> Self {
        let command = [command.to_owned()].into_iter();
        Self {
            command: command
                .chain(std::env::args().skip(1))
                .collect::<Vec<_>>()
                .join(" "),
            commit: commit(),
            date: today(),
            machine: machine(),
            notes: String::new(),
            sides: sides.iter().map(|side| (*side).to_owned()).collect(),
            rows,
        }
    }

    /// Prints the machine, the table and the failures, and writes the record to the file, if there is one.
    ///
    /// # Errors
    ///
    /// That of the file.
    pub fn report(&self, file: Option<&Path>) -> io::Result<()> {
        println!("{}\n{}", self.machine, self.table("NO").text());
        for row in &self.rows {
            for failure in &row.failures {
                println!("{}: {failure}", row.measure);
            }
        }
        match file {
            Some(file) => fs::write(file, serde_json::to_string_pretty(self)? + "\n"),
            None => Ok(()),
        }
    }

    /// Returns the medians as a table; with the ratio of ours to the second side, if there is one. `missed` marks a row
    /// whose limit is not kept; without limits, there is no column for them.
    pub fn table(&self, missed: &str) -> Table {
        let sides = self.sides.len();
        let ratios = usize::from(sides > 1);
        let limits = match self.rows.iter().any(|row| row.limit.is_some()) {
            true => 2,
            false => 0,
        };
        let header = ["measure", "unit"].into_iter();
        let header = header.chain(self.sides.iter().map(String::as_str));
        let header = header.chain(["ratio"].into_iter().take(ratios));
        let header = header.chain(["limit", ""].into_iter().take(limits));
        let mut table = Table::new(header, 2..2 + sides + ratios + limits.min(1));
        for row in &self.rows {
            let mut cells = vec![row.measure.clone(), row.unit.clone()];
            cells.extend((0..sides).map(|side| digits_or_dash(row.median(side))));
            cells.extend([ratio(row.ratio())].into_iter().take(ratios));
            cells.push(
                row.limit
                    .map_or_else(String::new, |limit| limit.to_string()),
            );
            cells.push(match row.is_reached() {
                Some(true) => "reached".to_owned(),
                Some(false) => missed.to_owned(),
                None => String::new(),
            });
            table.row(cells);
        }
        table
    }

    /// Returns the section of the page: how the samples were taken, the notes, and the table. Returns none for figures of
    /// a fake driver.
    pub fn section(&self) -> Option<String> {
        let Self {
            command,
            commit,
            date,
            machine,
            notes,
            ..
        } = self;
        if notes.contains(MEANINGLESS) {
            return None;
        }
        let counts = self.rows.iter().flat_map(|row| &row.samples).map(Vec::len);
        let medians = match counts.max() {
            None | Some(0 | 1) => String::new(),
            Some(most) => format!("Medians of up to {most} samples. "),
        };
        let table = self.table("**missed**").markdown();
        Some(format!(
            "`{command}`; {commit}, {date}; {machine}. {medians}{notes}\n\n{table}"
        ))
    }
}

/// Replaces the text between two markers of a page. Returns none unless the page has each once, in this order.
pub fn replace_section(page: &str, (begin, end): (&str, &str), section: &str) -> Option<String> {
    let (before, rest) = page.split_once(begin)?;
    let (old, after) = rest.split_once(end)?;
    let has_marker = |text: &str| text.contains(begin) || text.contains(end);
    let repeated = [before, old, after].into_iter().any(has_marker);
    (!repeated).then(|| format!("{before}{begin}\n{section}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKERS: (&str, &str) = ("<!-- a -->", "<!-- b -->");

    fn row(limit: Limit, samples: [&[f64]; 2]) -> RecordRow {
        RecordRow {
            measure: "m".into(),
            unit: "ns".into(),
            limit: Some(limit),
            samples: samples.map(Vec::from).into(),
            failures: Vec::new(),
        }
    }

    #[test]
    fn a_row_is_judged_by_its_median() {
        let slow = row(Limit::AtMost(2.0), [&[1.0, 3.0, 9.0], &[6.0]]);
        assert_eq!((slow.is_reached(), slow.ratio()), (Some(false), Some(0.5)));
        let missing = row(Limit::AtMost(2.0), [&[], &[6.0]]);
        assert_eq!((missing.is_reached(), missing.ratio()), (None, None));
        let nothing = row(Limit::AtMost(0.0), [&[0.0], &[0.0]]);
        assert_eq!((nothing.is_reached(), nothing.ratio()), (Some(true), None));
    }

    #[test]
    fn a_section_has_the_command_the_commit_and_the_machine() {
        let record = Record {
            command: "cargo bench".into(),
            commit: "abc".into(),
            date: "2026-11-29".into(),
            machine: "two cores".into(),
            notes: "Quiet.".into(),
            sides: vec!["ours".into(), "peer".into()],
            rows: vec![row(Limit::AtMost(2.0), [&[1.0, 3.0, 9.0], &[6.0]])],
        };
        let expected = "\
            `cargo bench`; abc, 2026-11-29; two cores. Medians of up to 3 samples. Quiet.\n\n\
            | measure | unit | ours | peer | ratio | limit |            |\n\
            | ------- | ---- | ---: | ---: | ----: | ----: | ---------- |\n\
            | m       | ns   | 3.00 | 6.00 |  0.50 |  <= 2 | **missed** |\n";
        assert_eq!(record.section().as_deref(), Some(expected));
        let fake = Record {
            notes: MEANINGLESS.into(),
            ..record
        };
        assert_eq!(fake.section(), None);
    }

    #[test]
    fn replacing_a_section_is_idempotent() {
        let page = "above\n<!-- a -->\nold\n<!-- b -->\nbelow\n";
        let once = replace_section(page, MARKERS, "new").unwrap();
        assert_eq!(once, "above\n<!-- a -->\nnew\n<!-- b -->\nbelow\n");
        assert_eq!(replace_section(&once, MARKERS, "new").unwrap(), once);
    }

    #[test]
    fn a_page_with_missing_repeated_or_swapped_markers_is_refused() {
        for page in ["", "A", "B A", "A B B", "A A B"] {
            let page = page.replace('A', MARKERS.0).replace('B', MARKERS.1);
            assert_eq!(replace_section(&page, MARKERS, "new"), None, "{page}");
        }
    }
}
