//! Measures a row: checks the result of every contender before it is timed, and then samples all of them in turn.

use std::time::{Duration, Instant};

use millstream_harness::{runs_to_fill, turns};

use crate::contenders::{Contender, Fault, Job};
use crate::rows::Row;
use crate::work::difference;

/// The tolerated difference of a result from the one in `f64`.
const TOLERANCE: f64 = 1e-4;
/// The most runs of one sample.
const RUNS_MAX: u64 = 100_000;

/// The length and number of samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// The least time of a sample.
    pub(crate) sample: Duration,
}

/// The result of one contender in one row.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    /// Seconds per run, for each round.
    Seconds(Vec<f64>),
    /// The contender does not support the work.
    None,
    /// The contender failed, or its result is wrong; the message.
    Failed(String),
}

/// Measures one row: of all contenders, or only of the contender `only`.
pub(crate) fn measure(
    row: &Row,
    only: Option<&str>,
    contenders: &[Box<dyn Contender>],
    effort: Effort,
) -> Vec<Cell> {
    let inputs = row.work.inputs();
    let expected = row.work.plainly(&inputs);
    let mut cells = Vec::new();
    let mut jobs = Vec::new();
    for contender in contenders {
        let job = if only.is_none_or(|only| only == contender.name()) {
            let job = contender.job(row.work, row.what, &inputs);
            let begin = |job| begin(row, job, &expected, effort);
            job.and_then(|job| job.map(begin).transpose())
        } else {
            Ok(None)
        };
        let (cell, job) = match job {
            Ok(Some(job)) => (Cell::Seconds(Vec::new()), Some(job)),
            Ok(None) => (Cell::None, None),
            Err(why) => (Cell::Failed(why.to_string()), None),
        };
        cells.push(cell);
        jobs.push(job);
    }
    for turn in turns(jobs.len(), 1..=effort.rounds) {
        let Some((job, runs)) = &mut jobs[turn.index] else {
            continue;
        };
        match (sample(row, &mut **job, *runs), &mut cells[turn.index]) {
            (Ok(seconds), Cell::Seconds(all)) => all.push(seconds),
            (Err(why), cell) => *cell = Cell::Failed(why.to_string()),
            _ => {}
        }
    }
    cells
}

type Begun<'a> = (Box<dyn Job + 'a>, u64);

/// Runs a job once, compares its result with the expected one, and determines the number of runs per sample.
fn begin<'a>(
    row: &Row,
    mut job: Box<dyn Job + 'a>,
    expected: &[f64],
    effort: Effort,
) -> Result<Begun<'a>, Fault> {
    job.run()?;
    job.wait()?;
    if let Some(got) = job.output()?
        && let Some(difference) = difference(&got, expected, TOLERANCE)
    {
        return Err(format!("wrong result: {difference}").into());
    }
    let runs = runs_to_fill(effort.sample, 1..=RUNS_MAX, |runs| {
        sample(row, &mut *job, runs).map(drop)
    })?;
    Ok((job, runs))
}

/// Takes a sample of several runs, and returns the seconds per run. Pipelined runs have one wait at the end.
fn sample(row: &Row, job: &mut dyn Job, runs: u64) -> Result<f64, Fault> {
    let start = Instant::now();
    for _ in 0..runs {
        job.run()?;
        if !row.pipelined {
            job.wait()?;
        }
    }
    job.wait()?;
    Ok(start.elapsed().as_secs_f64() / runs as f64)
}
