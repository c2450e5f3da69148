//! `cargo xtask`: the checks of millstream beyond `cargo test`, each by its name.
//!
//! `cargo xtask` lists them with what each usually takes, `cargo xtask ci` runs those that every change must pass and ends with a table
//! of where the time went. A suite runs to its end, and so do the suites after one that failed.

use std::process::ExitCode;

use clap::Parser;
use suites::SUITES;

mod cargo;
mod clock;
mod models;
mod mutants;
mod suites;
mod targets;

use cargo::Cargo;
use clock::{Clock, Taken};

/// The checks of millstream beyond `cargo test`, each by its name.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", after_help = list())]
struct Arguments {
    /// `ci`, or the names of suites; without any, they are listed.
    #[arg(value_name = "SUITE", value_parser = known)]
    suites: Vec<String>,
    /// Requires that `Cargo.lock` is up to date.
    #[arg(long)]
    locked: bool,
    /// Runs only the tests whose names contain this.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Runs all mutants, and writes their table in `docs/testing.md`.
    #[arg(long)]
    all: bool,
}

/// The name of all suites that every change must pass.
const CI: &str = "ci";

fn known(name: &str) -> Result<String, String> {
    match name == CI || SUITES.iter().any(|suite| suite.name == name) {
        true => Ok(name.to_owned()),
        false => Err("no suite has this name; `cargo xtask` lists them".to_owned()),
    }
}

/// The suites, a line each.
fn list() -> String {
    let mut text =
        String::from("Suites, and the CPU minutes that each usually takes (-: not measured):\n");
    for in_ci in [true, false] {
        text += match in_ci {
            true => "\n  in `ci`, what every change must pass after `cargo test`:\n",
            false => "\n  deep, by name only:\n",
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
        let is_it = |chosen: &String| chosen == name || (in_ci && chosen == CI);
        arguments.suites.iter().any(is_it)
    };
    let mut rows = Vec::new();
    for suite in SUITES
        .iter()
        .filter(|suite| is_chosen(suite.name, suite.in_ci))
    {
        println!("== {}: {}", suite.name, suite.about);
        let clock = Clock::start();
        let result = (suite.run)(&cargo);
        if let Err(why) = &result {
            eprintln!("== {} FAILED: {why}", suite.name);
        }
        rows.push((suite.name, result.is_ok(), clock.taken()));
    }
    print_table(&rows);
    match rows.iter().all(|(_, passed, _)| *passed) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn print_table(rows: &[(&str, bool, Taken)]) {
    println!("\n{:<12} {:<7} {:>9} {:>9}", "suite", "", "CPU", "wall");
    let mut all = Taken::default();
    for (name, passed, taken) in rows {
        let result = if *passed { "passed" } else { "FAILED" };
        println!("{name:<12} {result:<7} {taken}");
        all = all + *taken;
    }
    println!("{:<12} {:<7} {all}", "together", "");
}
