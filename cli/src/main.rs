//! The millstream command line: demo, timelines, benchmarks and diagnostics.
//!
//! `main` parses the arguments, runs one command and maps its result to an exit code. Commands
//! return errors; only `output` prints them.

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
    let (result, as_json) = match Cli::parse().command {
        Command::Demo(args) => (demo::run(&args), args.json),
        Command::Timeline(args) => (timeline::run(&args), args.json),
        Command::Bench(args) => (bench::run(&args), args.json),
        Command::Doctor(args) => (doctor::run(&args), args.json),
    };
    let exit = result.unwrap_or_else(|error| {
        output::error(&error, as_json);
        error.exit
    });
    ExitCode::from(exit.code())
}

/// Sends spans to the Tracy profiler, on this machine or another.
#[cfg(feature = "tracy")]
fn init_tracy() {
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    let registry = tracing_subscriber::registry();
    registry.with(tracing_tracy::TracyLayer::default()).init();
}
