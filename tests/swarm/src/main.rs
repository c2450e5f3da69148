//! `swarm`: runs random programs until its time is up, shows its progress, and reduces a program that fails.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use millstream_swarm::{Case, Figures, Verdict, minutes};
use serde::Serialize;

/// Runs random programs on the simulator and checks their results.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// How long to run, in minutes.
    #[arg(long, value_name = "M", default_value_t = 1.0, value_parser = minutes)]
    minutes: f64,
    /// The maximum number of programs; the time may end the run earlier.
    #[arg(long, value_name = "N")]
    programs: Option<u64>,
    /// The seed of the first program; each further program has the next seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs only the program of `--seed` with these steps, as printed for a failure.
    #[arg(long, value_delimiter = ',')]
    steps: Option<Vec<u32>>,
    /// Does not reduce a program that fails.
    #[arg(long)]
    whole: bool,
    /// Prints a JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// The time for reducing a failing case.
const REDUCE_TIME: Duration = Duration::from_secs(20);

/// The totals of a run.
#[derive(Default, Serialize)]
struct Totals {
    programs: u64,
    figures: Figures,
    seconds: f64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Kernels panic on purpose, so panics are not printed.
    std::panic::set_hook(Box::new(|_| {}));
    if let Some(steps) = arguments.steps.clone() {
        let seed = arguments.seed;
        return match (Case {
            steps,
            ..Case::new(seed)
        })
        .run()
        {
            Verdict::Right(_) => {
                println!("the program is right");
                ExitCode::SUCCESS
            }
            Verdict::Wrong(what) => {
                eprintln!("{what}");
                ExitCode::FAILURE
            }
        };
    }
    match swarm(&arguments) {
        Ok(totals) => {
            print_totals(&arguments, &totals);
            ExitCode::SUCCESS
        }
        Err((case, what, programs)) => {
            eprintln!("program {programs} (seed {}) is wrong: {what}", case.seed);
            if arguments.whole {
                return ExitCode::FAILURE;
            }
            let small = case.shrunk(REDUCE_TIME);
            eprintln!("reduced to {} steps:", small.steps.len());
            eprintln!("  cargo run --release -p millstream-swarm -- {small}");
            ExitCode::FAILURE
        }
    }
}

/// Runs programs until the time is up or one is wrong. The error has that case, its message and its number.
fn swarm(arguments: &Arguments) -> Result<Totals, (Case, String, u64)> {
    let start = Instant::now();
    let time = Duration::from_secs_f64(arguments.minutes * 60.0);
    let bar = ProgressBar::new(time.as_secs());
    let style = ProgressStyle::with_template("{bar:40} {elapsed} of {len} s  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut totals = Totals::default();
    let most = arguments.programs.unwrap_or(u64::MAX);
    while totals.programs < most && start.elapsed() < time {
        let case = Case::new(arguments.seed.wrapping_add(totals.programs));
        totals.programs += 1;
        match case.run() {
            Verdict::Right(figures) => totals.figures = totals.figures.and(figures),
            Verdict::Wrong(what) => {
                bar.finish_and_clear();
                return Err((case, what, totals.programs));
            }
        }
        if totals.programs.is_multiple_of(64) {
            bar.set_position(start.elapsed().as_secs());
            bar.set_message(format!("{} programs right", totals.programs));
        }
    }
    bar.finish_and_clear();
    totals.seconds = start.elapsed().as_secs_f64();
    Ok(totals)
}

/// Prints the totals as text or JSON.
fn print_totals(arguments: &Arguments, totals: &Totals) {
    let (first, last) = (arguments.seed, arguments.seed.wrapping_add(totals.programs));
    let Totals {
        programs,
        figures,
        seconds,
    } = totals;
    match arguments.json {
        true => println!(
            "{}",
            serde_json::json!({ "first_seed": first, "totals": totals })
        ),
        false => println!(
            "{programs} programs right in {seconds:.0} s (seeds {first}..{last}): {figures:?}"
        ),
    }
}
