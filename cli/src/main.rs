//! The millstream command line: demo, timelines, benchmarks and diagnostics.
//!
//! `main` parses the arguments, runs one command, prints its report or error, and ends with its exit code. Only `output`
//! prints.

mod args;
mod bench;
mod demo;
mod device;
mod doctor;
mod exit;
mod output;
mod svg;
mod timeline;
mod units;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

fn main() -> ExitCode {
    #[cfg(feature = "tracy")]
    init_tracy();
    let Cli { command, json } = Cli::parse();
    let report = match &command {
        Command::Demo(args) => demo::run(args),
        Command::Timeline(args) => timeline::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Doctor(args) => doctor::run(args),
    };
    let printed = report.and_then(|report| output::report(report, json));
    let exit = printed.unwrap_or_else(|error| {
        output::error(&error, json);
        error.exit
    });
    ExitCode::from(exit as u8)
}

/// Sends spans to the Tracy profiler, on this machine or another.
#[cfg(feature = "tracy")]
fn init_tracy() {
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    let registry = tracing_subscriber::registry();
    registry.with(tracing_tracy::TracyLayer::default()).init();
}
