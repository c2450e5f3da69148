//! The time per launch of batches of launches from one thread: until the calls have returned, and until the wait for the
//! last has.
//!
//! Dependent launches add to the same words. Independent ones add to the words of [`BUFFERS`] buffers in turn; all sides
//! need a barrier when a buffer comes again.

use std::time::{Duration, Instant};

use millstream::{Handle, Stream};

use super::Rig;
use crate::WORDS;
use crate::error::BenchError;
use crate::ours::Ours;
use crate::raw::{Memory, Place, Recorder, counting, set_empty_dispatches};
use crate::report::Row;

const BATCHES: [usize; 4] = [1, 10, 100, 1000];
/// The number of buffers of independent launches.
const BUFFERS: usize = 64;
/// The launches of a sample, in batches.
const LAUNCHES: usize = 2000;
/// The most batches of a sample.
const SAMPLED_MAX: usize = 200;

/// Returns the batches to measure on this number of buffers. On several buffers a batch has several launches.
fn batches(buffers: usize) -> impl Iterator<Item = usize> {
    BATCHES
        .into_iter()
        .filter(move |count| buffers == 1 || *count > 1)
}

/// Returns the nanoseconds per launch of batches of `count` launches: of the submission, and with the wait.
pub(super) fn sample<T>(
    count: usize,
    mut submit: impl FnMut() -> Result<T, BenchError>,
    mut wait: impl FnMut(T) -> Result<(), BenchError>,
) -> Result<[f64; 2], BenchError> {
    let batches = (LAUNCHES / count).clamp(1, SAMPLED_MAX);
    let (mut submitting, mut all) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..batches {
        let start = Instant::now();
        let submitted = submit()?;
        submitting += start.elapsed();
        wait(submitted)?;
        all += start.elapsed();
    }
    let each = |spent: Duration| spent.as_nanos() as f64 / (batches * count) as f64;
    Ok([each(submitting), each(all)])
}

fn our_sample(
    count: usize,
    ours: &Ours,
    stream: &Stream,
    buffers: &[Handle<u32>],
) -> Result<[f64; 2], BenchError> {
    let submit = || {
        let mut turns = buffers.iter().cycle().take(count);
        turns.try_for_each(|buffer| ours.launch(stream, buffer))
    };
    sample(count, submit, |()| Ok(stream.sync().wait()?))
}

fn raw_sample(
    count: usize,
    recorder: &mut Recorder<'_>,
    buffers: &[Memory<'_>],
) -> Result<[f64; 2], BenchError> {
    let submit = |recorder: &mut Recorder<'_>| {
        for nth in 0..count {
            let index = nth % buffers.len();
            if index == 0 {
                // Also before the first: submissions do not order memory accesses.
                recorder.barrier()?;
            }
            recorder.launch(buffers[index].address)?;
        }
        recorder.submit()
    };
    let recorder = std::cell::RefCell::new(recorder);
    sample(
        count,
        || submit(&mut recorder.borrow_mut()),
        |value| recorder.borrow_mut().wait(value),
    )
}

fn name(count: usize, buffers: usize, part: usize) -> String {
    let part = ["submit", "with wait"][part];
    match (count, buffers) {
        (1, _) => format!("1 launch, {part}"),
        (_, 1) => format!("{count} dependent launches, {part}"),
        _ => format!("{count} independent launches, {part}"),
    }
}

pub(super) fn measure(rig: &Rig) -> Result<Vec<Row>, BenchError> {
    let (stream, mut recorder) = (rig.ours.stream(), Recorder::new(&rig.gpu, 0)?);
    let mut rows = Vec::new();
    for buffers in [1, BUFFERS] {
        let handles = (0..buffers).map(|_| stream.create(&[0_u32; WORDS]));
        let handles = handles.collect::<Result<Vec<_>, _>>()?;
        let memory = (0..buffers).map(|_| Memory::new(&rig.gpu, 4 * WORDS, Place::Device));
        let memory = memory.collect::<Result<Vec<_>, _>>()?;
        let bound: Vec<_> = (0..buffers).map(|_| rig.peer.bound()).collect();
        for count in batches(buffers) {
            let [ours, raw, peer] = rig.alternate_pairs([
                &mut || our_sample(count, &rig.ours, &stream, &handles),
                &mut || raw_sample(count, &mut recorder, &memory),
                &mut || {
                    let submit = || Ok(rig.peer.launch(count, &bound));
                    sample(count, submit, |index| rig.peer.wait(Some(index)))
                },
            ])?;
            for part in 0..2 {
                let row = Row::cost(name(count, buffers, part), "ns each", ours[part]);
                rows.push(row.raw(raw[part]).peer(peer[part]));
            }
        }
        recorder.finish()?;
    }
    Ok(rows)
}

/// Measures the same with dispatches without cubes, so that nothing is executed. Millstream and the raw side call the
/// driver through counting functions.
pub(super) fn host_part(rig: &Rig) -> Result<Vec<Row>, BenchError> {
    let device = counting(&rig.gpu);
    let ours = Ours::adopt(&rig.gpu, &device)?;
    let stream = ours.stream();
    let mut recorder = Recorder::through(&rig.gpu, &device, 0)?;
    let mut rows = Vec::new();
    set_empty_dispatches(true);
    for buffers in [1, BUFFERS] {
        let handles = (0..buffers).map(|_| stream.create(&[0_u32; WORDS]));
        let handles = handles.collect::<Result<Vec<_>, _>>()?;
        let memory = (0..buffers).map(|_| Memory::new(&rig.gpu, 4 * WORDS, Place::Device));
        let memory = memory.collect::<Result<Vec<_>, _>>()?;
        let bound: Vec<_> = (0..buffers).map(|_| rig.peer.bound()).collect();
        for count in batches(buffers) {
            let [ours, raw, peer] = rig.alternate_pairs([
                &mut || our_sample(count, &ours, &stream, &handles),
                &mut || raw_sample(count, &mut recorder, &memory),
                &mut || {
                    let submit = || Ok(rig.peer.launch_empty(count, &bound));
                    sample(count, submit, |index| rig.peer.wait(Some(index)))
                },
            ])?;
            for part in 0..2 {
                let name = name(count, buffers, part) + ", empty";
                let row = Row::cost(name, "ns each", ours[part]);
                rows.push(row.raw(raw[part]).peer(peer[part]));
            }
        }
        recorder.finish()?;
    }
    set_empty_dispatches(false);
    drop((stream, ours));
    Ok(rows)
}
