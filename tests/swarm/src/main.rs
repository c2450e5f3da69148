//! `swarm`: runs random programs until its time is up, shows how far it is, and makes what fails small.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use millstream_swarm::{Case, Figures, Verdict};

/// Random programs on the adversarial device, checked against plain arrays.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// How long to go on.
    #[arg(long, value_name = "M", default_value_t = 1.0, value_parser = minutes)]
    minutes: f64,
    /// How many programs to run at most; the time ends it earlier.
    #[arg(long, value_name = "N")]
    programs: Option<u64>,
    /// The first seed; the following programs have the following ones.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs one case, of this seed and these steps, as a failure is printed.
    #[arg(long, value_delimiter = ',')]
    steps: Option<Vec<u32>>,
    /// Prints what fails as it is, without making it small.
    #[arg(long)]
    whole: bool,
    /// Prints one JSON object instead of a sentence.
    #[arg(long)]
    json: bool,
}

/// A week: longer than anybody waits for a swarm.
const MINUTES_MAX: f64 = 7.0 * 24.0 * 60.0;

fn minutes(given: &str) -> Result<f64, String> {
    match given.parse::<f64>() {
        Ok(minutes) if minutes > 0.0 && minutes <= MINUTES_MAX => Ok(minutes),
        Ok(_) => Err(format!("it must be more than 0 and at most {MINUTES_MAX}")),
        Err(error) => Err(error.to_string()),
    }
}

/// How long a failing case is made smaller.
const SHRINKING: Duration = Duration::from_secs(20);

/// What a run of the swarm came to.
#[derive(Default)]
struct Tally {
    programs: u64,
    figures: Figures,
    seconds: f64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Kernels panic on purpose; what they say is part of the programs.
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
                println!("right: what it computes, and what it does");
                ExitCode::SUCCESS
            }
            Verdict::Wrong(what) => {
                eprintln!("{what}");
                ExitCode::FAILURE
            }
        };
    }
    match swarm(&arguments) {
        Ok(tally) => {
            tell(&arguments, &tally);
            ExitCode::SUCCESS
        }
        Err((case, what, programs)) => {
            eprintln!("program {programs} (seed {}) is wrong: {what}", case.seed);
            if arguments.whole {
                return ExitCode::FAILURE;
            }
            let small = case.shrunk(SHRINKING);
            eprintln!("the {} of its steps that matter:", small.steps.len());
            eprintln!("  cargo run --release -p millstream-swarm -- {small}");
            ExitCode::FAILURE
        }
    }
}

/// Programs until the time is up, or the first that is wrong.
fn swarm(arguments: &Arguments) -> Result<Tally, (Case, String, u64)> {
    let begin = Instant::now();
    let time = Duration::from_secs_f64(arguments.minutes * 60.0);
    let bar = ProgressBar::new(time.as_secs());
    let style = ProgressStyle::with_template("{bar:40} {elapsed} of {len} s  {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut tally = Tally::default();
    let most = arguments.programs.unwrap_or(u64::MAX);
    while tally.programs < most && begin.elapsed() < time {
        let case = Case::new(arguments.seed.wrapping_add(tally.programs));
        tally.programs += 1;
        match case.run() {
            Verdict::Right(figures) => tally.figures = tally.figures.and(figures),
            Verdict::Wrong(what) => {
                bar.finish_and_clear();
                return Err((case, what, tally.programs));
            }
        }
        if tally.programs.is_multiple_of(64) {
            bar.set_position(begin.elapsed().as_secs());
            bar.set_message(format!("{} programs, all right", tally.programs));
        }
    }
    bar.finish_and_clear();
    tally.seconds = begin.elapsed().as_secs_f64();
    Ok(tally)
}

fn tell(arguments: &Arguments, tally: &Tally) {
    let (first, last) = (arguments.seed, arguments.seed.wrapping_add(tally.programs));
    let figures = tally.figures;
    match arguments.json {
        false => println!(
            "{} programs right in {:.0} s (seeds {first}..{last}): {} tasks, {} waits, {} of no use, {} faults",
            tally.programs,
            tally.seconds,
            figures.tasks,
            figures.waits,
            figures.needless_waits,
            figures.faults
        ),
        true => println!(
            r#"{{"programs":{},"seconds":{:.1},"first_seed":{first},"tasks":{},"waits":{},"needless_waits":{},"faults":{}}}"#,
            tally.programs,
            tally.seconds,
            figures.tasks,
            figures.waits,
            figures.needless_waits,
            figures.faults
        ),
    }
}
