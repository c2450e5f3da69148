//! Draws the efficiencies of all series.

use crate::Series;
use crate::machines::Figures;
use crate::runs::Point;
use millstream_harness::{Line, chart};

const COLOURS: [&str; 4] = ["#0969da", "#8250df", "#cf222e", "#bf8700"];

/// Returns the picture as SVG.
pub(crate) fn draw(all: &[Series], figures: &Figures) -> String {
    let lines = all
        .iter()
        .zip(COLOURS.iter().cycle())
        .map(|(series, colour)| {
            let point = |point: &Point| (point.ranks as f64, 100.0 * series.efficiency(point));
            Line {
                name: series.name(),
                colour,
                points: series.points.iter().map(point).collect(),
            }
        });
    let lines: Vec<_> = lines.collect();
    let title = "Efficiency of simulated ranks, in percent of the first";
    chart([title, &figures.describe()], "ranks", &lines)
}
