//! `graph-fuzz`: reads cases, one a line, and answers what is wrong with each, one JSON object a line.

use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use millstream_graph_fuzz::{Bench, Case, CaseError, Finding, Mode};
use serde::Serialize;

/// Runs the cases that it reads, and answers what is wrong with each.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    /// The modes, unless a case names its own; all that need no GPU, if none is given.
    #[arg(long, value_delimiter = ',', value_name = "MODES")]
    modes: Vec<String>,
    /// Says where a panic came from, of kernels too.
    #[arg(long)]
    loud: bool,
}

/// What is answered for a case.
#[derive(Serialize)]
struct Answer<'a> {
    name: &'a str,
    /// Nothing, if it is right.
    findings: &'a [Finding],
    /// Why it is no case.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Longer than any case takes, on however busy a machine.
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
        // A panic is a finding, and told as one.
        std::panic::set_hook(Box::new(|_| {}));
    }
    let watch = watch();
    let mut bench = Bench::default();
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else {
            return ExitCode::FAILURE;
        };
        watch.fetch_add(1, Ordering::Relaxed);
        let answer = match Case::parse(&line) {
            Ok(case) => answer(&case.name, bench.run(&case, &modes)),
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

/// Counts begins and ends of cases. If one takes for ever, the process ends, and the driver that waits for an answer sees its exit.
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
