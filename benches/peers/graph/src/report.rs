//! Formats results as a table, as JSON and as a plot.

use millstream_harness::{Axis, Limit, Mark, Plot, Summary, Table, digits, ratio};
use serde::Serialize;

use crate::contenders::BEFORE_PEERS;
use crate::measure::Cell;
use crate::rows::Row;

/// One row with the results of all contenders.
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
    /// The figure of the fastest round.
    best: Option<f64>,
    why: Option<&'a str>,
}

impl Measured {
    /// Returns the seconds per run of a contender.
    fn summary(&self, index: usize) -> Option<Summary> {
        match self.cells.get(index)? {
            Cell::Seconds(all) => Summary::of(all),
            _ => None,
        }
    }

    fn seconds(&self, index: usize) -> Option<f64> {
        Some(self.summary(index)?.median)
    }

    /// Returns the median and the best round of a contender, in the row's unit.
    fn figures(&self, index: usize) -> Option<(f64, f64)> {
        let summary = self.summary(index)?;
        let of = |seconds| self.row.unit.of(seconds, self.row.work);
        Some((of(summary.median), of(summary.min)))
    }

    /// Returns the table cell of a contender.
    fn cell(&self, index: usize) -> String {
        match (&self.cells[index], self.figures(index)) {
            (Cell::Failed(_), _) => "failed".to_owned(),
            (_, Some((median, best))) => format!("{} ({})", digits(median), digits(best)),
            (_, None) => "-".to_owned(),
        }
    }

    /// Returns the fastest peer, and the ratio of our time to its time.
    fn best_peer(&self) -> Option<(usize, Option<f64>)> {
        let peers = BEFORE_PEERS..self.cells.len();
        let timed = peers.filter_map(|index| Some((index, self.seconds(index)?)));
        let (best, seconds) = timed.min_by(|a, b| a.1.total_cmp(&b.1))?;
        Some((best, self.seconds(0).map(|ours| ours / seconds)))
    }

    fn reached(&self) -> Option<bool> {
        let (median, _) = self.figures(0)?;
        Some(self.row.target?.holds(median))
    }

    /// Returns the messages of the contenders that failed.
    fn faults<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = String> + 'a {
        let cells = names.iter().zip(&self.cells);
        cells.filter_map(|(name, cell)| match cell {
            // Some errors have a backtrace in further lines.
            Cell::Failed(why) => {
                let why = why.lines().next().unwrap_or_default();
                Some(format!("{name}, {}: {why}", self.row.name))
            }
            _ => None,
        })
    }
}

/// Returns the table, followed by one line per failure.
pub(crate) fn table(all: &[Measured], names: &[&str]) -> String {
    let mut head = vec!["median (best)", "unit"];
    head.extend(names);
    head.extend(["best peer", "ours to it", "target", ""]);
    let mut table = Table::new(head.iter().copied(), 2..head.len());
    for measured in all {
        let row = &measured.row;
        let mut line = vec![row.name.to_owned(), row.unit.name().to_owned()];
        line.extend((0..names.len()).map(|index| measured.cell(index)));
        let best = measured.best_peer();
        line.push(best.map_or("-", |(best, _)| names[best]).to_owned());
        line.push(ratio(best.and_then(|(_, ratio)| ratio)));
        let target = row.target.map(|limit| limit.to_string());
        line.push(target.unwrap_or_default());
        let reached = match measured.reached() {
            Some(true) => "reached",
            Some(false) => "**missed**",
            None => "",
        };
        line.push(reached.to_owned());
        table.row(line);
    }
    let faults = all.iter().flat_map(|measured| measured.faults(names));
    let faults: String = faults.map(|fault| fault + "\n").collect();
    table.markdown() + &faults
}

/// Returns a row as one JSON object.
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
        target: measured.row.target.map(Limit::value),
        reached: measured.reached(),
    })
}

/// Returns an SVG plot of each contender's time relative to ours, on a logarithmic scale.
pub(crate) fn drawing(all: &[Measured], names: &[&str]) -> String {
    const COLOURS: [&str; 7] = [
        "#1f6f8b", "#888888", "#c1440e", "#e0a458", "#6a994e", "#7b5ea7", "#bc4b76",
    ];
    let axis = Axis::logarithmic(&[0.1, 1.0, 10.0, 100.0, 1000.0]);
    let mut plot = Plot::new("Time per run, relative to ours: left of 1 is faster than ours");
    for measured in all {
        let Some(ours) = measured.seconds(0).or(measured.seconds(1)) else {
            continue;
        };
        let sides = names.iter().enumerate().filter_map(|(index, name)| {
            let times = measured.summary(index)?.map(|seconds| seconds / ours);
            Some(Mark {
                name: (*name).to_owned(),
                value: times.median,
                range: [times.lower_quartile, times.upper_quartile],
                colour: COLOURS[index % COLOURS.len()],
                note: measured.row.name.to_owned(),
            })
        });
        plot = plot.panel(measured.row.name, &axis, &sides.collect::<Vec<_>>());
    }
    plot.svg()
}
