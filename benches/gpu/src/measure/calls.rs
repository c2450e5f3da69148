//! What calls of the driver cost the thread that makes them. They are made in bursts below the depth at which a stream
//! makes its caller wait, and what they lead to is waited for outside of the time.

use std::time::{Duration, Instant};

use super::{Rig, lower};
use crate::error::BenchError;
use crate::raw::{Parameters, Stream};
use crate::report::Row;

/// Calls in a row.
const BURST: usize = 256;
/// A small piece of a pool.
const PIECE_BYTES: usize = 64 << 10;

/// Nanoseconds of a call.
fn each(
    stream: &Stream<'_>,
    calls: usize,
    mut call: impl FnMut() -> Result<(), BenchError>,
) -> Result<f64, BenchError> {
    let mut spent = Duration::ZERO;
    let mut left = calls;
    while left > 0 {
        let burst = left.min(BURST);
        let begun = Instant::now();
        for _ in 0..burst {
            call()?;
        }
        spent += begun.elapsed();
        stream.synchronize()?;
        left -= burst;
    }
    Ok(spent.as_nanos() as f64 / calls as f64)
}

pub(super) fn measure(rig: &Rig<'_>) -> Result<Vec<Row>, BenchError> {
    let (gpu, calls) = (rig.gpu, rig.plan.calls);
    let (stream, other) = (gpu.stream()?, gpu.stream()?);
    let empty = gpu.kernel(c"empty")?;
    let (untimed, timed) = (gpu.event(false)?, gpu.event(true)?);
    let word = gpu.pinned(size_of::<u64>())?;
    let pool = gpu.pool()?;
    let mut none = Parameters::new(&[]);
    let mut value = 0;
    let elsewhere = gpu.event(false)?;
    elsewhere.record(&other)?;
    other.synchronize()?;
    untimed.record(&stream)?;
    stream.synchronize()?;
    let figures = rig.alternate([
        &mut || each(&stream, calls, || empty.launch(&stream, &mut none)),
        &mut || each(&stream, calls, || untimed.record(&stream)),
        &mut || each(&stream, calls, || timed.record(&stream)),
        &mut || each(&stream, calls, || stream.wait_for(&elsewhere)),
        &mut || each(&stream, calls, || untimed.query()),
        &mut || {
            each(&stream, calls, || {
                value += 1;
                stream.write_value(word.start() as u64, value)
            })
        },
        &mut || each(&stream, calls, || pool.take_and_give(PIECE_BYTES, &stream)),
    ])?;
    let names = [
        "cuLaunchKernel, no arguments",
        "cuEventRecord, untimed",
        "cuEventRecord, timed",
        "cuStreamWaitEvent",
        "cuEventQuery",
        "cuStreamWriteValue64",
        "64 KiB of a pool, taken and given back",
    ];
    let rows = names.into_iter().zip(figures);
    Ok(rows
        .map(|(name, figure)| lower(name, "ns").raw(figure))
        .collect())
}
