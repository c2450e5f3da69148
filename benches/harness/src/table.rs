//! Tables, as text for a terminal and as Markdown.

use std::ops::Range;

use comfy_table::CellAlignment;
use comfy_table::presets::UTF8_FULL_CONDENSED;

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

    /// Returns the table with borders, for a terminal, without a line break at its end.
    pub fn text(&self) -> String {
        let mut table = comfy_table::Table::new();
        table
            .load_style(UTF8_FULL_CONDENSED.with_rounded_corners())
            .set_header(&self.lines[0])
            .add_rows(&self.lines[1..]);
        for index in self.figures.clone() {
            if let Some(column) = table.column_mut(index) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table.to_string()
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

    fn sample() -> Table {
        let mut table = Table::new(["measure", "ns", ""], 1..2);
        table.row(["a|b", "1.23", "reached"]);
        table.row(["c"]);
        table
    }

    #[test]
    fn markdown_has_one_line_per_row_and_replaces_pipes_in_cells() {
        let markdown = sample().markdown();
        let expected = "\
            | measure |   ns |         |\n\
            | ------- | ---: | ------- |\n\
            | a/b     | 1.23 | reached |\n\
            | c       |      |         |\n";
        assert_eq!(markdown, expected);
    }

    #[test]
    fn figures_are_aligned_to_the_right() {
        let text = sample().text();
        let line = text.lines().find(|line| line.contains("a|b")).unwrap();
        assert!(line.contains("│ a|b     ┆ 1.23 ┆ reached │"), "{text}");
        let header = text.lines().find(|line| line.contains("measure")).unwrap();
        assert!(header.contains("┆   ns ┆"), "{text}");
    }
}
