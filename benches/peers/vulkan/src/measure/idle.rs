//! Waits after the device was idle, so that every thread that takes part has gone to sleep.

use std::time::{Duration, Instant};

use millstream_harness::Summary;

use super::{Rig, in_us};
use crate::WORDS;
use crate::error::BenchError;
use crate::raw::{Memory, Place, Recorder};
use crate::report::Row;

/// The time without work before each wait.
const IDLE: Duration = Duration::from_millis(2);
/// The waits of a sample.
const WAITS: u32 = 10;

/// Returns the nanoseconds of `work` after idle times.
fn sample(mut work: impl FnMut() -> Result<(), BenchError>) -> Result<f64, BenchError> {
    let mut spent = Duration::ZERO;
    for _ in 0..WAITS {
        std::thread::sleep(IDLE);
        let start = Instant::now();
        work()?;
        spent += start.elapsed();
    }
    Ok((spent / WAITS).as_nanos() as f64)
}

pub(super) fn measure(rig: &Rig) -> Result<Vec<Row>, BenchError> {
    let stream = rig.ours.stream();
    let values = stream.create(&[0_u32; WORDS])?;
    let memory = Memory::new(&rig.gpu, 4 * WORDS, Place::Device)?;
    let mut recorder = Recorder::new(&rig.gpu, 0)?;
    let bound = [rig.peer.bound()];
    stream.sync().wait()?;
    // The raw side reads the value that the semaphore has reached.
    let empty = rig.alternate([
        &mut || sample(|| Ok(stream.sync().wait()?)),
        &mut || sample(|| recorder.finish()),
        &mut || sample(|| rig.peer.wait(None)),
    ])?;
    let launch = rig.alternate([
        &mut || {
            sample(|| {
                rig.ours.launch(&stream, &values)?;
                Ok(stream.sync().wait()?)
            })
        },
        &mut || {
            sample(|| {
                recorder.barrier()?;
                recorder.launch(memory.address)?;
                recorder.submit()?;
                recorder.finish()
            })
        },
        &mut || {
            sample(|| {
                let index = rig.peer.launch(1, &bound);
                rig.peer.wait(Some(index))
            })
        },
    ])?;
    let rows = [
        ("sync after idle, empty queue", empty),
        ("launch and sync after idle", launch),
    ];
    let row = |(name, [ours, raw, peer]): (&str, [Summary; 3])| {
        let row = Row::cost(name, "us", in_us(ours));
        row.raw(in_us(raw)).peer(in_us(peer))
    };
    Ok(rows.map(row).into())
}
