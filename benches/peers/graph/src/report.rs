//! What was measured, as a table, as JSON and as a drawing.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::contenders::BEFORE_PEERS;
use crate::measure::Cell;
use crate::rows::Row;
use crate::stats::{least, median};

/// One row and what came of everybody.
pub(crate) struct Measured {
    pub(crate) row: Row,
    pub(crate) cells: Vec<Cell>,
}

#[derive(Serialize)]
struct Line<'a> {
    row: &'a str,
    unit: &'a str,
    sides: Vec<Side<'a>>,
    best_peer: Option<&'a str>,
    ratio_to_best_peer: Option<f64>,
    target: Option<f64>,
    reached: Option<bool>,
}

#[derive(Serialize)]
struct Side<'a> {
    name: &'a str,
    median: Option<f64>,
    /// That of the fastest round.
    best: Option<f64>,
    why: Option<&'a str>,
}

impl Measured {
    /// The median and the best round of a contender, in the row's unit.
    fn figures(&self, index: usize) -> Option<(f64, f64)> {
        match self.cells.get(index)? {
            Cell::Seconds(all) if !all.is_empty() => {
                let of = |seconds| self.row.unit.of(seconds, self.row.work);
                Some((of(median(all)), of(least(all))))
            }
            _ => None,
        }
    }

    fn seconds(&self, index: usize) -> Option<f64> {
        match self.cells.get(index)? {
            Cell::Seconds(all) if !all.is_empty() => Some(median(all)),
            _ => None,
        }
    }

    /// The fastest peer, and what ours takes to it.
    fn best_peer(&self) -> Option<(usize, Option<f64>)> {
        let peers = BEFORE_PEERS..self.cells.len();
        let timed = peers.filter_map(|index| Some((index, self.seconds(index)?)));
        let (best, seconds) = timed.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((best, self.seconds(0).map(|ours| ours / seconds)))
    }

    fn reached(&self) -> Option<bool> {
        let (median, _) = self.figures(0)?;
        Some(self.row.unit.reached(median, self.row.target?))
    }

    /// What failed, as sentences.
    fn faults<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = String> + 'a {
        let cells = names.iter().zip(&self.cells);
        cells.filter_map(|(name, cell)| match cell {
            // Some errors bring their backtrace, line by line.
            Cell::Failed(why) => {
                let why = why.lines().next().unwrap_or_default();
                Some(format!("{name}, {}: {why}", self.row.name))
            }
            _ => None,
        })
    }
}

/// The table, with a line below it for whatever failed.
pub(crate) fn table(all: &[Measured], names: &[&str]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let mut head = vec!["median (best)", "unit"];
    head.extend(names);
    head.extend(["best peer", "ours to it", "ours at most", ""]);
    table.set_header(head);
    for measured in all {
        let row = &measured.row;
        let mut line = vec![row.name.to_owned(), row.unit.name().to_owned()];
        line.extend((0..names.len()).map(|index| {
            match &measured.cells[index] {
                Cell::Failed(_) => "failed".to_owned(),
                _ => measured
                    .figures(index)
                    .map_or("-".to_owned(), |(median, best)| {
                        format!("{} ({})", short(median), short(best))
                    }),
            }
        }));
        let best = measured.best_peer();
        line.push(best.map_or("-", |(best, _)| names[best]).to_owned());
        let ratio = best.and_then(|(_, ratio)| ratio);
        line.push(ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")));
        line.push(row.target.map_or("".to_owned(), |target| match row.unit {
            crate::rows::Unit::Gigaflops => format!(">= {}", short(target)),
            _ => short(target),
        }));
        line.push(match measured.reached() {
            Some(true) => "reached".to_owned(),
            Some(false) => "**missed**".to_owned(),
            None => String::new(),
        });
        table.add_row(line);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let faults = all.iter().flat_map(|measured| measured.faults(names));
    let faults: String = faults.map(|fault| format!("\n{fault}")).collect();
    format!("{table}{faults}")
}

/// One JSON object a row.
pub(crate) fn json(measured: &Measured, names: &[&str]) -> Result<String, serde_json::Error> {
    let side = |(index, name)| {
        let figures = measured.figures(index);
        Side {
            name,
            median: figures.map(|(median, _)| median),
            best: figures.map(|(_, best)| best),
            why: match &measured.cells[index] {
                Cell::Failed(why) => Some(why),
                _ => None,
            },
        }
    };
    let best = measured.best_peer();
    serde_json::to_string(&Line {
        row: measured.row.name,
        unit: measured.row.unit.name(),
        sides: names.iter().copied().enumerate().map(side).collect(),
        best_peer: best.map(|(best, _)| names[best]),
        ratio_to_best_peer: best.and_then(|(_, ratio)| ratio),
        target: measured.row.target,
        reached: measured.reached(),
    })
}

/// Bars of how much longer than ours each side takes, on a scale of tens, as an SVG drawing.
pub(crate) fn drawing(all: &[Measured], names: &[&str]) -> String {
    const COLOURS: [&str; 7] = [
        "#1f6f8b", "#888888", "#c1440e", "#e0a458", "#6a994e", "#7b5ea7", "#bc4b76",
    ];
    const LEFT: f64 = 330.0;
    const DECADE: f64 = 150.0;
    /// Ratios from a tenth to a thousand.
    const WIDTH: f64 = 4.0 * DECADE;
    let x = |ratio: f64| LEFT + ((ratio.log10() + 1.0) * DECADE).clamp(0.0, WIDTH);
    let mut y = 40.0;
    let mut body = String::new();
    for (index, name) in names.iter().enumerate() {
        let (left, colour) = (LEFT + 90.0 * index as f64, COLOURS[index % COLOURS.len()]);
        body += &format!("<rect x='{left}' y='12' width='10' height='10' fill='{colour}'/>");
        body += &format!("<text x='{}' y='21'>{name}</text>\n", left + 14.0);
    }
    for measured in all {
        let Some(ours) = measured.seconds(0).or(measured.seconds(1)) else {
            continue;
        };
        let top = y;
        for index in 0..names.len() {
            let Some(seconds) = measured.seconds(index) else {
                continue;
            };
            let (ratio, colour) = (seconds / ours, COLOURS[index % COLOURS.len()]);
            let width = x(ratio) - LEFT;
            body += &format!(
                "<rect x='{LEFT}' y='{y}' width='{width:.1}' height='9' fill='{colour}'/>"
            );
            let (right, base) = (LEFT + width + 4.0, y + 8.0);
            body += &format!("<text x='{right:.1}' y='{base}' font-size='9'>{ratio:.2}</text>\n");
            y += 11.0;
        }
        let middle = f64::midpoint(top, y) + 4.0;
        let (right, name) = (LEFT - 10.0, measured.row.name);
        body += &format!("<text x='{right}' y='{middle}' text-anchor='end'>{name}</text>\n");
        y += 12.0;
    }
    let (one, width) = (x(1.0), LEFT + WIDTH + 60.0);
    format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {y}' font-family='sans-serif' font-size='12'>\n\
         <rect width='{width}' height='{y}' fill='white'/>\n\
         <line x1='{one}' y1='30' x2='{one}' y2='{y}' stroke='#333333' stroke-dasharray='3 3'/>\n\
         {body}</svg>\n"
    )
}

/// Three digits or so.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
