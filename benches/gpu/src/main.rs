//! Compares millstream on a GPU with direct ("raw") calls of the driver, in one run. `docs/hardware.md` explains the
//! results.
//!
//! The raw side and our side alternate round by round, so that drift of the machine affects both. Each group opens its
//! own device; the raw side uses the same context of the driver, with its own streams, memory and kernels.
//!
//! - [`arguments`]: the command line and the exit codes.
//! - [`raw`]: the functions of CUDA's driver, and owners for its handles.
//! - [`kernels`]: the kernels that both sides launch.
//! - [`plan`], [`run`]: the amount of work, and the loop over the groups.
//! - [`measure`]: the groups of rows; [`vulkan`]: those of Vulkan, with its raw side.
//! - [`report`], [`table`]: the results of a run and how they are printed, with `millstream-harness` as in all benches.
//! - [`import`]: writes the figures of a run to a section of `benches/RESULTS.md`.

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
mod vulkan;

use std::error::Error as _;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.command {
        Some(Command::Import(import)) => import::run(import).map(|()| ExitCode::SUCCESS),
        None => run::run(&arguments),
    };
    result.unwrap_or_else(|error| {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(source) = cause {
            message = format!("{message}: {source}");
            cause = source.source();
        }
        eprintln!("error: {message}");
        error.exit()
    })
}
