//! `cargo xtask`: runs the checks of millstream beyond `cargo test`.
//!
//! `cargo xtask` lists the suites with their usual times. `cargo xtask ci` runs the suites that every change must pass,
//! and ends with a table of times. After a failure the remaining suites still run.

use std::process::ExitCode;
use std::time::{Duration, Instant};

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

const USAGE: &str = "\
cargo xtask ci | SUITE... [--locked] [--only TEXT] [--all]
  --locked     require that `Cargo.lock` is up to date
  --only TEXT  run only the tests whose names contain TEXT
  --all        run all mutants instead of a few
";

/// Reads the arguments: the names of suites, and the options of all of them. By hand: `cargo test` has built the libraries
/// that parse options with other features, so that CI would build them a second time.
fn parse(mut arguments: impl Iterator<Item = String>) -> Result<(Vec<String>, Cargo), String> {
    let (mut names, mut cargo) = (Vec::new(), Cargo::default());
    while let Some(argument) = arguments.next() {
        let mut suites = CI.iter().chain(DEEP);
        match argument.as_str() {
            "--locked" => cargo.locked = true,
            "--all" => cargo.all = true,
            "--only" => cargo.only = Some(arguments.next().ok_or("`--only` needs a text")?),
            name if name == "ci" || suites.any(|suite| suite.name == name) => names.push(argument),
            _ => return Err(format!("no suite or option is named `{argument}`")),
        }
    }
    Ok((names, cargo))
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
    let (chosen, cargo) = match parse(std::env::args().skip(1)) {
        Ok((names, cargo)) if !names.is_empty() => (names, cargo),
        Ok(_) => {
            println!("{USAGE}\n{}", list());
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("error: {error}\n\n{USAGE}\n{}", list());
            return ExitCode::from(2);
        }
    };
    let names = |name: &str| chosen.iter().any(|chosen| chosen == name);
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
