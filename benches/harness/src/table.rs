//! Tables as Markdown, padded so that they are legible on a terminal, too.

use std::ops::Range;

/// A header and rows of cells.
///
/// ```
/// let mut table = millstream_harness::Table::new(["path", "ns"], 1..2);
/// table.row(["a launch", "34.4"]);
/// assert_eq!(table.markdown(), "| path     |   ns |\n| -------- | ---: |\n| a launch | 34.4 |\n");
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    /// The header, then the rows; every line has as many cells as the header.
    lines: Vec<Vec<String>>,
    figures: Range<usize>,
}

impl Table {
    /// Creates a table without rows. The columns of `figures` hold numbers, and are aligned to the right.
    pub fn new<S: Into<String>>(
        header: impl IntoIterator<Item = S>,
        figures: Range<usize>,
    ) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Self {
            lines: vec![header],
            figures,
        }
    }

    /// Adds a row. Missing cells are empty; cells beyond the header are dropped.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        cells.resize(self.lines[0].len(), String::new());
        self.lines.push(cells);
    }

    /// Returns the table as padded Markdown, without a line break at its end.
    pub fn text(&self) -> String {
        self.markdown().trim_end().to_owned()
    }

    /// Returns the table as padded Markdown, with a line break at its end.
    pub fn markdown(&self) -> String {
        let (header, rows) = self.lines.split_at(1);
        let width = |column: usize| {
            let cells = self.lines.iter().map(|line| line[column].chars().count());
            cells.fold(3, usize::max)
        };
        let rule = (0..header[0].len()).map(|column| match self.figures.contains(&column) {
            true => "-".repeat(width(column) - 1) + ":",
            false => "-".repeat(width(column)),
        });
        let mut text = String::new();
        for line in header.iter().chain([&rule.collect()]).chain(rows) {
            for (column, cell) in line.iter().enumerate() {
                let (cell, width) = (cell.replace('|', "/"), width(column));
                text += &match self.figures.contains(&column) {
                    true => format!("| {cell:>width$} "),
                    false => format!("| {cell:<width$} "),
                };
            }
            text += "|\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_one_line_per_row_and_replaces_pipes_in_cells() {
        let mut table = Table::new(["measure", "ns", ""], 1..2);
        table.row(["a|b", "1.23", "reached"]);
        table.row(["c"]);
        let expected = "\
            | measure |   ns |         |\n\
            | ------- | ---: | ------- |\n\
            | a/b     | 1.23 | reached |\n\
            | c       |      |         |";
        assert_eq!(table.text(), expected);
        assert_eq!(table.markdown(), format!("{expected}\n"));
    }
}
