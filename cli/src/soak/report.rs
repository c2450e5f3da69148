//! The report of a soak, as data and as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use millstream_testkit::Count;
use serde::Serialize;

use super::sparkline;
use super::verdict::{
    self, Checked, Closed, FAIRNESS_MIN, Figures, GROWTH_MAX_BYTES, Growth, Left, Sample,
};
use crate::args::{Backend, SoakArgs};
use crate::demo::bytes;
use crate::exit::Exit;

/// Columns of a plot.
const PLOT_WIDTH: usize = 60;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Settings {
    pub(crate) backend: Backend,
    pub(crate) threads: u64,
    pub(crate) seed: u64,
    pub(crate) faults: bool,
    pub(crate) minutes: Option<f64>,
    pub(crate) rounds: Option<u64>,
}

impl Settings {
    pub(crate) fn of(args: &SoakArgs) -> Self {
        Self {
            backend: args.backend,
            threads: args.threads,
            seed: args.seed,
            faults: args.has_faults(),
            minutes: args.rounds.is_none().then_some(args.minutes),
            rounds: args.rounds,
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    version: &'static str,
    exit_code: u8,
    settings: Settings,
    seconds: f64,
    steps_per_second: f64,
    /// How often the device was lost and reopened.
    losses: u64,
    counts: BTreeMap<Count, u64>,
    memory: Option<Growth>,
    even: Vec<u64>,
    threads: Option<(usize, usize)>,
    left: Option<Left>,
    closed: Closed,
    checked: Option<Checked>,
    violations: Vec<String>,
    samples: Vec<Sample>,
}

impl Report {
    pub(crate) fn new(
        settings: Settings,
        seconds: f64,
        losses: u64,
        counts: BTreeMap<Count, u64>,
        figures: Figures,
    ) -> Self {
        let violations = verdict::judge(&figures);
        let steps = counts.get(&Count::Steps).copied().unwrap_or(0);
        let mut report = Self {
            version: env!("CARGO_PKG_VERSION"),
            exit_code: 0,
            settings,
            seconds,
            steps_per_second: steps as f64 / seconds.max(1e-6),
            losses,
            counts,
            memory: verdict::growth(&figures.samples),
            even: figures.even,
            threads: figures.threads,
            left: figures.left,
            closed: figures.closed,
            checked: figures.checked,
            violations: violations.iter().map(ToString::to_string).collect(),
            samples: figures.samples,
        };
        report.exit_code = report.exit().code();
        report
    }

    pub(crate) fn exit(&self) -> Exit {
        match self.violations.is_empty() {
            true => Exit::Success,
            false => Exit::Failure,
        }
    }

    fn count(&self, count: Count) -> u64 {
        self.counts.get(&count).copied().unwrap_or(0)
    }
}

/// Renders the report as text.
pub(crate) fn render(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_report(&mut text, report);
    text
}

fn write_report(out: &mut String, report: &Report) -> std::fmt::Result {
    let Settings {
        backend,
        threads,
        seed,
        faults,
        ..
    } = &report.settings;
    let backend = format!("{backend:?}").to_lowercase();
    let faults = if *faults { ", with faults" } else { "" };
    writeln!(
        out,
        "{:.0} s on {backend}{faults}, {threads} threads, seed {seed}",
        report.seconds
    )?;
    writeln!(out)?;
    let count = |count| report.count(count);
    line(
        out,
        "work",
        format!(
            "{} steps, {:.0}/s; {} clients, {} streams, {} buffers with {} in total",
            count(Count::Steps),
            report.steps_per_second,
            count(Count::Clients),
            count(Count::Streams),
            count(Count::Buffers),
            bytes(count(Count::Bytes)),
        ),
    )?;
    line(
        out,
        "answers",
        format!(
            "{} requested, {} received, {} withdrawn; {} with correct data, {} with an expected failure",
            count(Count::Requests),
            count(Count::Answered),
            count(Count::Withdrawn),
            count(Count::Data),
            count(Count::Failures),
        ),
    )?;
    line(
        out,
        "refused",
        format!(
            "{} by a client's limit, {} for lack of room, {} by a lost device ({} losses)",
            count(Count::Limits),
            count(Count::Busy),
            count(Count::Lost),
            report.losses,
        ),
    )?;
    line(
        out,
        "user code",
        format!(
            "{} submitted, {} ended, {} called; {} values to drop, {} dropped; {} tasks with a token or deadline",
            count(Count::Closures),
            count(Count::Ended),
            count(Count::Called),
            count(Count::Values),
            count(Count::Dropped),
            count(Count::Cancellable),
        ),
    )?;
    if let Some(memory) = &report.memory {
        line(out, "memory", memory_line(memory))?;
    }
    line(out, "fairness", fairness_line(&report.even))?;
    if let Some((before, after)) = report.threads {
        line(out, "threads", format!("{before} before, {after} after"))?;
    }
    if let Some(checked) = &report.checked {
        let violations = checked.violations.seen;
        let redundant = checked.needless_waits;
        line(
            out,
            "checker",
            format!("{violations} violations, {redundant} redundant waits"),
        )?;
    }
    writeln!(out)?;
    if !report.samples.is_empty() {
        plots(out, &report.samples)?;
    }
    if report.violations.is_empty() {
        return writeln!(
            out,
            "clean: every answer arrived and was correct, nothing grew, nothing was left"
        );
    }
    for violation in &report.violations {
        writeln!(out, "VIOLATION {violation}")?;
    }
    Ok(())
}

fn plots(out: &mut String, samples: &[Sample]) -> std::fmt::Result {
    let plot = |of: fn(&Sample) -> f64| {
        let values: Vec<f64> = samples.iter().map(of).collect();
        sparkline::line(&values, PLOT_WIDTH)
    };
    line(out, "memory", plot(|sample| sample.resident_bytes as f64))?;
    line(out, "steps/s", plot(|sample| sample.steps_per_second))?;
    writeln!(out)
}

/// States the requirement only if there is enough work to judge it.
fn fairness_line(even: &[u64]) -> String {
    let requirement = match verdict::shares(even) {
        Some(_) => format!("min/max must be at least {FAIRNESS_MIN}"),
        None => "too little to judge".to_owned(),
    };
    format!("equal clients completed {even:?}; {requirement}")
}

fn line(out: &mut String, name: &str, text: String) -> std::fmt::Result {
    writeln!(out, "  {name:<10} {text}")
}

fn memory_line(memory: &Growth) -> String {
    let trend = match memory.judged {
        true => format!(
            "trend after the warm-up {:+.2} MiB/min, {:+.1} MiB in total (limit {:.0})",
            memory.bytes_per_minute / f64::from(1 << 20),
            memory.grown_bytes / f64::from(1 << 20),
            GROWTH_MAX_BYTES / f64::from(1 << 20),
        ),
        false => "too short for a trend".to_owned(),
    };
    format!(
        "first {}, last {}, peak {}; {trend}",
        bytes(memory.first_bytes),
        bytes(memory.last_bytes),
        bytes(memory.max_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(figures: Figures) -> Report {
        let settings = Settings {
            backend: Backend::Cpu,
            threads: 2,
            seed: 1,
            faults: false,
            minutes: None,
            rounds: Some(1),
        };
        Report::new(settings, 1.0, 0, BTreeMap::new(), figures)
    }

    #[test]
    fn violation_is_printed_and_sets_the_exit_code() {
        let clean = Figures {
            left: Some(Left::default()),
            closed: Closed {
                drained: true,
                ..Closed::default()
            },
            ..Figures::default()
        };
        let good = report(clean.clone());
        assert_eq!((good.exit(), good.exit_code), (Exit::Success, 0));
        let text = render(&good);
        assert!(text.contains("clean: every answer arrived"));
        assert!(
            text.contains("too little to judge") && !text.contains("steps/s"),
            "a figure without measurements is shown: {text}"
        );
        let leaking = Figures {
            left: Some(Left {
                live_slices: 3,
                ..Left::default()
            }),
            ..clean
        };
        let bad = report(leaking);
        assert_eq!((bad.exit(), bad.exit_code), (Exit::Failure, 1));
        let text = render(&bad);
        assert!(text.contains("VIOLATION after all handles were dropped the device still has"));
        assert!(
            text.contains("live_slices: 3") && !text.contains("clean:"),
            "{text}"
        );
    }
}
