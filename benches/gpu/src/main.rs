//! millstream on a GPU beside raw calls of its driver, in one run: `docs/hardware.md` says how to read it.
//!
//! Raw and ours take turns, round by round, so that the machine's drift hits both. Each group opens a device of its
//! own; the raw side works in the same context of the driver, with streams, memory and kernels of its own.
//!
//! - [`arguments`]: what can be typed, and the exit codes.
//! - [`raw`]: the driver's functions, and what they make, as values.
//! - [`kernels`]: what is launched, by both sides.
//! - [`measure`]: the groups of rows.
//! - [`report`], [`table`]: what a run says, and how it is printed; by `millstream-harness`, as all benches.
//! - [`import`]: a run's figures become a section of `benches/RESULTS.md`.

mod arguments;
mod error;
mod import;
mod kernels;
mod measure;
mod plan;
mod raw;
mod report;
mod run;
mod table;

use std::error::Error as _;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.command {
        Some(Command::Import(import)) => import::run(import).map(|()| ExitCode::SUCCESS),
        None => run::run(&arguments),
    };
    done.unwrap_or_else(|error| {
        let mut said = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            said = format!("{said}: {source}");
            cause = source.source();
        }
        eprintln!("error: {said}");
        error.exit()
    })
}
