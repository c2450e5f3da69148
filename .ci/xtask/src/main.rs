//! `cargo xtask`: runs the checks of millstream beyond `cargo test`.
//!
//! `cargo xtask` lists the suites with their usual times. `cargo xtask ci` runs the suites that every change must pass,
//! and ends with a table of times. After a failure the remaining suites still run.

use std::process::ExitCode;

use clap::Parser;
use suites::SUITES;

mod budgets;
mod capi;
mod cargo;
mod clock;
mod models;
mod mpi;
mod mutants;
mod python;
mod suites;
mod targets;
mod vulkan;

use cargo::Cargo;
use clock::{Clock, Taken};

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

/// The name for all suites that every change must pass.
const CI: &str = "ci";

fn parse_suite(name: &str) -> Result<String, String> {
    match name == CI || SUITES.iter().any(|suite| suite.name == name) {
        true => Ok(name.to_owned()),
        false => Err("unknown suite; run `cargo xtask` to list all suites".to_owned()),
    }
}

/// Lists the suites, one per line.
fn list() -> String {
    let mut text = String::from("Suites, with their usual CPU minutes (-: not measured):\n");
    for in_ci in [true, false] {
        text += match in_ci {
            true => "\n  in `ci`, which every change must pass after `cargo test`:\n",
            false => "\n  deep, run by name only:\n",
        };
        for suite in SUITES.iter().filter(|suite| suite.in_ci == in_ci) {
            text += &format!(
                "    {:<12} {:>4}  {}\n",
                suite.name, suite.minutes, suite.about
            );
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
    let is_chosen = |name: &str, in_ci: bool| {
        let matches = |chosen: &String| chosen == name || (in_ci && chosen == CI);
        arguments.suites.iter().any(matches)
    };
    let mut rows = Vec::new();
    for suite in SUITES
        .iter()
        .filter(|suite| is_chosen(suite.name, suite.in_ci))
    {
        println!("== {}: {}", suite.name, suite.about);
        let clock = Clock::start();
        let result = (suite.run)(&cargo);
        if result.is_err() {
            println!("== {} FAILED", suite.name);
        }
        rows.push((suite.name, result, clock.taken()));
    }
    print_table(&rows);
    print_failures(&rows)
}

/// A suite that ran.
type Row = (&'static str, cargo::Outcome, Taken);

fn print_table(rows: &[Row]) {
    println!("\n{:<12} {:<7} {:>9} {:>9}", "suite", "", "CPU", "wall");
    let mut all = Taken::default();
    for (name, result, taken) in rows {
        let result = if result.is_ok() { "passed" } else { "FAILED" };
        println!("{name:<12} {result:<7} {taken}");
        all = all + *taken;
    }
    println!("{:<12} {:<7} {all}", "total", "");
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
