//! Two streams: handing work over from one to the other, and overlapping kernels.

use std::time::Instant;

use millstream::{CubeCount, update, write};
use millstream_harness::{RecordRow, time_each};

use super::{PATIENCE, Rig};
use crate::error::BenchError;
use crate::kernels::{WORDS, bump, spin};
use crate::raw::{self, Parameters};
use crate::rows::{in_us, rates, row};

/// Launches on the two streams in turn, each after the one before. The raw side records an event for each launch and
/// makes the other stream wait for it; on our side the launches update the same buffer.
pub(super) fn hand_over(rig: &Rig) -> Result<Vec<RecordRow>, BenchError> {
    let (gpu, hops) = (&rig.gpu, rig.count(2_000, 8));
    let device = rig.device()?;
    let client = device.new_client();
    let kernel = bump(&client)?;
    let streams = [client.new_stream(), client.new_stream()];
    let handle = streams[0].create(&[0_u32; WORDS])?;

    let raw_kernel = gpu.kernel(c"bump")?;
    let buffer = gpu.memory(4 * WORDS)?;
    let raw_streams = [gpu.stream()?, gpu.stream()?];
    let events = [gpu.event(false)?, gpu.event(false)?];
    let mut parameters = Parameters::new(&[buffer.address()]);

    let sides = rig.alternate([
        &mut || {
            let hop = |hop: usize| {
                let (here, there) = (hop % 2, (hop + 1) % 2);
                raw_kernel.launch(&raw_streams[here], &mut parameters)?;
                events[here].record(&raw_streams[here])?;
                raw_streams[there].wait_for(&events[here])
            };
            time_each(hops, hop, || raw_streams[hops % 2].synchronize())
        },
        &mut || {
            let hop = |hop: usize| {
                Ok(streams[hop % 2].launch(&kernel, CubeCount::single(), (update(&handle),))?)
            };
            // The stream of the last launch, which runs after all others.
            time_each(hops, hop, || Ok(streams[(hops + 1) % 2].sync().wait()?))
        },
    ])?;
    device.close(PATIENCE);
    let name = "launch handed over between two streams";
    Ok(vec![row(name, "us", sides.map(in_us))])
}

/// The speedup of long kernels of one warp on two streams over one stream; at most 2. The target is below the raw
/// speedup, since the start and the end of a sample do not overlap.
pub(super) fn overlap(rig: &Rig) -> Result<Vec<RecordRow>, BenchError> {
    let (gpu, count) = (&rig.gpu, rig.count(20, 4));
    // Each iteration depends on the one before: about a millisecond for all.
    let iterations = rig.count(400_000, 100) as u32;
    let device = rig.device()?;
    let client = device.new_client();
    let kernel = spin(&client)?;
    let streams = [client.new_stream(), client.new_stream()];
    let handles = [
        streams[0].empty::<u32>(WORDS)?,
        streams[1].empty::<u32>(WORDS)?,
    ];

    let raw_kernel = gpu.kernel(c"spin")?;
    let raw_streams = [gpu.stream()?, gpu.stream()?];
    let buffers = [gpu.memory(4 * WORDS)?, gpu.memory(4 * WORDS)?];
    let mut parameters = buffers
        .each_ref()
        .map(|buffer| Parameters::new(&[buffer.address(), u64::from(iterations)]));

    // Both distribute the launches over the first `used` streams, in turn, and return seconds.
    let mut raw_seconds = |used: usize| {
        let start = Instant::now();
        for turn in 0..count {
            raw_kernel.launch(&raw_streams[turn % used], &mut parameters[turn % used])?;
        }
        raw_streams[..used]
            .iter()
            .try_for_each(raw::Stream::synchronize)?;
        Ok::<_, BenchError>(start.elapsed().as_secs_f64())
    };
    let our_seconds = |used: usize| {
        let start = Instant::now();
        for turn in 0..count {
            let arguments = (write(&handles[turn % used]), iterations);
            streams[turn % used].launch(&kernel, CubeCount::single(), arguments)?;
        }
        for stream in &streams[..used] {
            stream.sync().wait()?;
        }
        Ok::<_, BenchError>(start.elapsed().as_secs_f64())
    };
    let sides = rig.alternate([&mut || Ok(raw_seconds(1)? / raw_seconds(2)?), &mut || {
        Ok(our_seconds(1)? / our_seconds(2)?)
    }])?;
    device.close(PATIENCE);
    let name = "speedup of two streams over one";
    Ok(vec![rates(name, "times", sides, 0.95)])
}
