//! How a row is measured: every contender is right before it is timed, and rounds go through all of them in turn.

use std::time::{Duration, Instant};

use millstream_harness::{runs_to_fill, turns};

use crate::contenders::{Contender, Fault, Job};
use crate::rows::Row;
use crate::work::difference;

/// How far a result may be from what was worked out in `f64`.
const TOLERANCE: f64 = 1e-4;
/// Most runs of one sample.
const RUNS_MAX: u64 = 100_000;

/// How long, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    /// How long a sample takes at least.
    pub(crate) sample: Duration,
}

/// What came of one contender in one row: seconds a run, for each round.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Seconds(Vec<f64>),
    /// It has no such thing.
    None,
    /// It failed, or came out wrong: a sentence.
    Failed(String),
}

/// Measures one row, of one contender alone if one is named.
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

/// Runs a job once, holds what comes out against what must, and finds how many runs a sample takes.
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
        return Err(format!("comes out wrong: {difference}").into());
    }
    let runs = runs_to_fill(effort.sample, 1..=RUNS_MAX, |runs| {
        sample(row, &mut *job, runs).map(drop)
    })?;
    Ok((job, runs))
}

/// Seconds a run, over several runs. Pipelined runs are waited for together.
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
