//! `fairness`: measures the latency of a small client beside a greedy one, in virtual time. The same seed gives the
//! same figures.

use std::process::ExitCode;

use clap::Parser;
use millstream_swarm::fairness::{Row, table};

/// Measures the latency of a small client beside a greedy one, in virtual time.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// The seed, which determines the lengths of the long tasks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Prints a JSON array instead of a table.
    #[arg(long)]
    json: bool,
}

/// The length of the longest bar, in characters.
const BAR: f64 = 40.0;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let rows = match table(arguments.seed) {
        Ok(rows) => rows,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    match arguments.json {
        true => println!("{:#}", serde_json::json!(rows)),
        false => text(&rows),
    }
    match rows.iter().all(|row| row.max_us <= row.bound_us) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn text(rows: &[Row]) {
    println!(
        "latency of a short task (10 us) beside 4 greedy streams of long ones (50 to 150 us), virtual us"
    );
    println!(
        "{:6} {:10} {:28} {:>7} {:>7} {:>7} {:>7} {:>9} {:>5}",
        "queues", "strategy", "", "p50", "p99", "max", "bound", "greedy/ms", "busy"
    );
    let longest = rows.iter().map(|row| row.p99_us).fold(1.0, f64::max);
    for row in rows {
        let bar = "#".repeat((row.p99_us / longest * BAR).ceil() as usize);
        println!(
            "{:6} {:10} {:28} {:7.0} {:7.0} {:7.0} {:7.0} {:9.2} {:4.0}% {bar}",
            row.queues,
            format!("{:?}", row.strategy),
            row.scenario.name,
            row.p50_us,
            row.p99_us,
            row.max_us,
            row.bound_us,
            row.greedy_per_ms,
            row.busy * 100.0,
        );
    }
}
