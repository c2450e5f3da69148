//! The cost of driver calls for the calling thread. Calls are made in bursts that are shorter than the queue depth at
//! which a stream blocks its caller, and the wait for their work is not timed.

use std::time::{Duration, Instant};

use millstream_harness::RecordRow;

use super::Rig;
use crate::error::BenchError;
use crate::raw::{Parameters, Stream};
use crate::rows::raw_row;

/// Calls before the stream is synchronized.
const BURST: usize = 256;
/// The size of an allocation from a pool.
const ALLOCATION_BYTES: usize = 64 << 10;

/// Returns the nanoseconds of a call.
fn call_ns(
    stream: &Stream,
    calls: usize,
    mut call: impl FnMut() -> Result<(), BenchError>,
) -> Result<f64, BenchError> {
    let mut spent = Duration::ZERO;
    let mut left = calls;
    while left > 0 {
        let burst = left.min(BURST);
        let start = Instant::now();
        for _ in 0..burst {
            call()?;
        }
        spent += start.elapsed();
        stream.synchronize()?;
        left -= burst;
    }
    Ok(spent.as_nanos() as f64 / calls as f64)
}

pub(super) fn measure(rig: &Rig) -> Result<Vec<RecordRow>, BenchError> {
    let (gpu, calls) = (&rig.gpu, rig.count(4_096, 16));
    let (stream, other) = (gpu.stream()?, gpu.stream()?);
    let empty = gpu.kernel(c"empty")?;
    let (untimed, timed) = (gpu.event(false)?, gpu.event(true)?);
    let pool = gpu.pool()?;
    let mut none = Parameters::new(&[]);
    let elsewhere = gpu.event(false)?;
    elsewhere.record(&other)?;
    other.synchronize()?;
    untimed.record(&stream)?;
    stream.synchronize()?;
    let figures = rig.alternate([
        &mut || call_ns(&stream, calls, || empty.launch(&stream, &mut none)),
        &mut || call_ns(&stream, calls, || untimed.record(&stream)),
        &mut || call_ns(&stream, calls, || timed.record(&stream)),
        &mut || call_ns(&stream, calls, || stream.wait_for(&elsewhere)),
        &mut || call_ns(&stream, calls, || untimed.query()),
        &mut || {
            call_ns(&stream, calls, || {
                pool.allocate_and_free(ALLOCATION_BYTES, &stream)
            })
        },
    ])?;
    let names = [
        "cuLaunchKernel, no arguments",
        "cuEventRecord, untimed",
        "cuEventRecord, timed",
        "cuStreamWaitEvent",
        "cuEventQuery",
        "64 KiB from a pool, allocated and freed",
    ];
    let rows = names.into_iter().zip(figures);
    Ok(rows
        .map(|(name, samples)| raw_row(name, "ns", samples))
        .collect())
}
