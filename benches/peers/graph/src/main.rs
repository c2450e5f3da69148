//! Benches our graphs and other tensor libraries side by side: one process, one thread that computes, `f32`.
//!
//! The result of every contender is checked, to 1e-4, before it is timed. The contenders are sampled in turn, so that
//! the machine's drift affects all of them.
//!
//! - [`work`]: the computations, their inputs, and their expected results.
//! - [`rows`]: the rows of the table and their targets.
//! - [`contenders`]: the libraries.
//! - [`measure`]: the measurement of a row.
//! - [`report`]: the table, JSON, the plot.
//! - [`curve`]: the cost of scheduling against the number of nodes.

mod contenders;
mod curve;
mod measure;
mod report;
mod rows;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use contenders::{Contender, Fault};
use measure::{Effort, measure};
use report::Measured;

/// Measures our graphs and other tensor libraries side by side, and prints a table or one JSON object per row.
#[derive(Parser)]
struct Arguments {
    /// Measure only the rows whose name contains this text.
    #[arg(long, value_name = "SUBSTRING", default_value = "")]
    row: String,
    /// Measure only this contender.
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// Take shorter samples and fewer rounds; do not quote the figures.
    #[arg(long)]
    quick: bool,
    /// Print one JSON object per row instead of the table.
    #[arg(long)]
    json: bool,
    /// Number of rounds; the figures are medians of the rounds.
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Print the cost of scheduling against the number of nodes instead of the rows.
    #[arg(long)]
    curve: bool,
    /// Number of threads that compute, of ours; peers have one.
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Also draw the rows to an SVG file.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

fn main() -> ExitCode {
    one_thread();
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the peers compute on one thread, by the environment variable that all of them read.
fn one_thread() {
    // SAFETY: no other thread has started, or none that reads the environment.
    unsafe { std::env::set_var("RAYON_NUM_THREADS", "1") };
}

fn run(arguments: &Arguments) -> Result<(), Fault> {
    let rounds = arguments
        .rounds
        .unwrap_or(if arguments.quick { 3 } else { 11 })
        .max(1);
    if arguments.curve {
        return curve::curve(rounds.min(5), arguments.quick, arguments.json);
    }
    let sample = Duration::from_millis(if arguments.quick { 2 } else { 20 });
    let effort = Effort { rounds, sample };
    let contenders = contenders::all(arguments.threads)?;
    let names: Vec<&str> = contenders
        .iter()
        .map(|contender| contender.name())
        .collect();
    let only = arguments.only.as_deref();
    let all = measured(&arguments.row, only, &contenders, effort, |measured| {
        if arguments.json {
            println!("{}", report::json(measured, &names)?);
        }
        Ok(())
    })?;
    if !arguments.json {
        print!("{}", report::table(&all, &names));
    }
    if let Some(file) = &arguments.plot {
        std::fs::write(file, report::drawing(&all, &names))?;
    }
    Ok(())
}

fn measured(
    named: &str,
    only: Option<&str>,
    contenders: &[Box<dyn Contender>],
    effort: Effort,
    mut each: impl FnMut(&Measured) -> Result<(), Fault>,
) -> Result<Vec<Measured>, Fault> {
    let mut all = Vec::new();
    for row in rows::rows() {
        if !row.name.contains(named) {
            continue;
        }
        let cells = measure(&row, only, contenders, effort);
        let measured = Measured { row, cells };
        each(&measured)?;
        all.push(measured);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Cell;

    #[test]
    fn every_row_runs_and_comes_out_right_everywhere() {
        one_thread();
        let contenders = contenders::all(1).expect("the contenders can be opened");
        let names: Vec<&str> = contenders
            .iter()
            .map(|contender| contender.name())
            .collect();
        let effort = Effort {
            rounds: 1,
            sample: Duration::ZERO,
        };
        let all =
            measured("", None, &contenders, effort, |_| Ok(())).expect("the rows can be measured");
        assert_eq!(all.len(), rows::rows().len());
        for measured in &all {
            for (name, cell) in names.iter().zip(&measured.cells) {
                assert!(
                    !matches!(cell, Cell::Failed(_)),
                    "{}, {name}: {cell:?}",
                    measured.row.name
                );
            }
            assert!(matches!(&measured.cells[0], Cell::Seconds(all) if all.len() == 1));
            report::json(measured, &names).expect("the row is valid JSON");
        }
        let table = report::table(&all, &names);
        assert_eq!(table.lines().count(), all.len() + 2, "{table}");
    }

    #[test]
    fn the_curve_is_drawn() {
        curve::curve(1, true, true).expect("our graphs and ug's can be scheduled");
    }
}
