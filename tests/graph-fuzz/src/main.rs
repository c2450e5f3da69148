//! `graph-fuzz`: reads cases, one for each line, and writes the findings of each as a JSON object, one for each line.

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use millstream_graph_fuzz::{Case, CaseError, Finding, Mode, Runner};
use serde::Serialize;

/// Runs cases from the standard input, and writes the findings of each.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// The modes, unless a case names its own. Default: all modes that need no GPU.
    #[arg(long, value_delimiter = ',', value_name = "MODES")]
    modes: Vec<String>,
    /// Prints the location of panics, including those in kernels.
    #[arg(long)]
    loud: bool,
}

/// The result of a case.
#[derive(Serialize)]
struct Answer<'a> {
    name: &'a str,
    /// Empty if the case passes.
    findings: &'a [Finding],
    /// The reason why the line is not a case.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Longer than any case takes, on any busy machine.
const HANGS_AFTER: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let modes = arguments.modes.iter().map(|word| Mode::of(word));
    let modes = match modes.collect::<Result<Vec<_>, _>>() {
        Ok(modes) if modes.is_empty() => Mode::WITHOUT_GPU.to_vec(),
        Ok(modes) => modes,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    if !arguments.loud {
        // A panic is reported as a finding.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let watch = watch();
    let mut runner = Runner::default();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else {
            return ExitCode::FAILURE;
        };
        watch.fetch_add(1, Ordering::Relaxed);
        let answer = match Case::parse(&line) {
            Ok(case) => answer(&case.name, runner.run(&case, &modes)),
            Err(error) => answer("", Err(error)),
        };
        watch.fetch_add(1, Ordering::Relaxed);
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{answer}")
            .and_then(|()| out.flush())
            .is_err()
        {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn answer(name: &str, ran: Result<Vec<Finding>, CaseError>) -> String {
    let (findings, error) = match ran {
        Ok(findings) => (findings, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let findings = &findings[..];
    let answer = Answer {
        name,
        findings,
        error,
    };
    serde_json::to_string(&answer).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
}

/// Counts the starts and ends of cases. If a case hangs, the process exits, and the script that waits for an answer
/// sees the exit code.
fn watch() -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let watched = count.clone();
    std::thread::spawn(move || {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let now = watched.load(Ordering::Relaxed);
            if now != last || now.is_multiple_of(2) {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > HANGS_AFTER {
                std::process::exit(3);
            }
        }
    });
    count
}
