//! `cargo xtask`: runs the checks of millstream beyond `cargo test`.
//!
//! `cargo xtask` lists the suites with their usual times. `cargo xtask ci` runs the suites that every change must pass,
//! and ends with a table of times. After a failure the remaining suites still run.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use suites::{CI, DEEP, Suite};

mod budgets;
mod capi;
mod cargo;
mod clock;
mod models;
mod mpi;
mod mutants;
mod suites;
mod targets;
mod vulkan;

use cargo::Cargo;
use clock::{minutes, times};

/// Run the checks of millstream beyond `cargo test`.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", after_help = list())]
struct Arguments {
    /// Run these suites, or `ci` for all that every change must pass; without any, list the suites.
    #[arg(value_name = "SUITE", value_parser = parse_suite)]
    suites: Vec<String>,
    /// Require that `Cargo.lock` is up to date.
    #[arg(long)]
    locked: bool,
    /// Run only the tests whose names contain TEXT.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Run all mutants instead of a few.
    #[arg(long)]
    all: bool,
}

fn parse_suite(name: &str) -> Result<String, String> {
    let mut suites = CI.iter().chain(DEEP);
    match name == "ci" || suites.any(|suite| suite.name == name) {
        true => Ok(name.to_owned()),
        false => Err("unknown suite; run `cargo xtask` to list all suites".to_owned()),
    }
}

/// Lists the suites, one per line.
fn list() -> String {
    let mut text = String::from("Suites, with their usual CPU minutes (-: not measured):\n");
    let in_ci = "in `ci`, which every change must pass after `cargo test`";
    for (title, suites) in [(in_ci, CI), ("deep, run by name only", DEEP)] {
        text += &format!("\n  {title}:\n");
        for Suite {
            name,
            minutes,
            about,
            ..
        } in suites
        {
            text += &format!("    {name:<12} {minutes:>4}  {about}\n");
        }
    }
    text
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.suites.is_empty() {
        println!(
            "cargo xtask ci | SUITE... [--locked] [--only TEXT] [--all]\n\n{}",
            list()
        );
        return ExitCode::SUCCESS;
    }
    let cargo = Cargo {
        locked: arguments.locked,
        only: arguments.only,
        all: arguments.all,
    };
    let names = |name: &str| arguments.suites.iter().any(|chosen| chosen == name);
    let of_ci = CI.iter().filter(|suite| names(suite.name) || names("ci"));
    let deep = DEEP.iter().filter(|suite| names(suite.name));
    let (begun, mut rows) = (Instant::now(), Vec::new());
    for suite in of_ci.chain(deep) {
        println!("== {}: {}", suite.name, suite.about);
        let before = times(begun);
        let result = (suite.run)(&cargo);
        if result.is_err() {
            println!("== {} FAILED", suite.name);
        }
        let after = times(begun);
        let taken = [0, 1].map(|which| after[which].saturating_sub(before[which]));
        rows.push((suite.name, result, taken));
    }
    print_table(&rows, times(begun));
    print_failures(&rows)
}

/// A suite that ran.
type Row = (&'static str, cargo::Outcome, [Duration; 2]);

fn print_table(rows: &[Row], total: [Duration; 2]) {
    let print = |name: &str, result: &str, [wall, cpu]: [String; 2]| {
        println!("{name:<12} {result:<7} {cpu:>9} {wall:>9}");
    };
    println!();
    print("suite", "", ["wall", "CPU"].map(str::to_owned));
    for (name, result, taken) in rows {
        let result = if result.is_ok() { "passed" } else { "FAILED" };
        print(name, result, taken.map(minutes));
    }
    print("total", "", total.map(minutes));
}

/// Prints the errors after the table: a service that keeps only the end of a log keeps the reasons.
fn print_failures(rows: &[Row]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for (name, result, _) in rows {
        if let Err(error) = result {
            println!("\n== {name} FAILED: {error}");
            code = ExitCode::FAILURE;
        }
    }
    code
}
