//! The millstream command line: the demo, the soak, what they are doing, the drawer of schedules, timelines, the bench and the doctor.
//!
//! Thin: reads the arguments, runs a command, turns its answer into an exit code. The commands
//! return errors; only `output` prints them.

mod args;
mod bench;
mod completions;
mod demo;
mod doctor;
mod draw;
mod exit;
mod help;
mod output;
#[cfg(test)]
mod scratch;
mod soak;
mod svg;
mod timeline;
mod top;
mod units;
mod xml;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};

fn main() -> ExitCode {
    #[cfg(feature = "tracy")]
    tell_tracy();
    let (result, as_json) = match Cli::parse().command {
        Command::Demo(args) => (demo::run(&args), args.json),
        Command::Soak(args) => (soak::run(&args), args.json),
        Command::Draw(args) => (draw::run(&args), args.json),
        Command::Timeline(args) => (timeline::run(&args), args.json),
        Command::Bench(args) => (bench::run(&args), args.json),
        Command::Top(args) => (top::run(&args), args.json),
        Command::Doctor(args) => (doctor::run(&args), args.json),
        Command::Completions(args) => (completions::run(&args), false),
    };
    let exit = result.unwrap_or_else(|error| {
        output::error(&error, as_json);
        error.exit()
    });
    ExitCode::from(exit.code())
}

/// Sends spans to whoever listens: the Tracy profiler, on this machine or another.
#[cfg(feature = "tracy")]
fn tell_tracy() {
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    let registry = tracing_subscriber::registry();
    registry.with(tracing_tracy::TracyLayer::default()).init();
}
