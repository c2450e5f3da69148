//! Recorded tasks that are replayed, compared with a graph of the same launches. Each launch depends on the
//! one before. Changed replays bind another buffer to every task.

use millstream::{CubeCount, Handle, Recording, Stream, update};
use millstream_harness::{RecordRow, time_each};

use super::{PATIENCE, Rig};
use crate::error::BenchError;
use crate::kernels::{WORDS, bump};
use crate::raw::{Graph, Parameters};
use crate::rows::{in_us, raw_row, times};

const TASKS: [usize; 3] = [10, 100, 1_000];
/// A share of the graph's speed.
const SHARE: f64 = 0.98;

fn record(
    stream: &Stream,
    kernel: &millstream::KernelHandle,
    tasks: usize,
    buffer: &Handle<u32>,
) -> Result<Recording, BenchError> {
    Ok(stream.record(|recorder| {
        (0..tasks).try_for_each(|_| recorder.launch(kernel, CubeCount::single(), (update(buffer),)))
    })?)
}

pub(super) fn measure(rig: &Rig) -> Result<Vec<RecordRow>, BenchError> {
    let gpu = &rig.gpu;
    let device = rig.device()?;
    let client = device.new_client();
    let kernel = bump(&client)?;
    let stream = client.new_stream();
    let handles = [
        stream.create(&[0_u32; WORDS])?,
        stream.create(&[0_u32; WORDS])?,
    ];

    let raw_kernel = gpu.kernel(c"bump")?;
    let raw_stream = gpu.stream()?;
    let buffers = [gpu.memory(4 * WORDS)?, gpu.memory(4 * WORDS)?];
    let mut parameters = buffers
        .each_ref()
        .map(|buffer| Parameters::new(&[buffer.address()]));

    let mut rows = Vec::new();
    for tasks in TASKS {
        let replays = (rig.count(50_000, 1_000) / tasks).max(1);
        let recording = record(&stream, &kernel, tasks, &handles[0])?;
        let graph = Graph::new(&raw_kernel, &mut parameters[0], tasks)?;
        let raw_wait = || raw_stream.synchronize();
        let our_wait = || Ok(stream.sync().wait()?);
        let unchanged = rig.alternate([
            &mut || time_each(replays, |_| graph.launch(&raw_stream), raw_wait),
            &mut || time_each(replays, |_| Ok(recording.replay(&stream)?), our_wait),
        ])?;
        let changed = rig.alternate([
            &mut || {
                let replay = |turn: usize| {
                    graph.change_all(&raw_kernel, &mut parameters[turn % 2])?;
                    graph.launch(&raw_stream)
                };
                time_each(replays, replay, raw_wait)
            },
            &mut || {
                let replay =
                    |turn: usize| Ok(recording.replay_with(&stream, &[(0, &handles[turn % 2])])?);
                time_each(replays, replay, our_wait)
            },
        ])?;
        let node = unchanged[0].iter().map(|ns| ns / tasks as f64).collect();
        rows.push(raw_row(
            format!("graph of {tasks} nodes, per node"),
            "ns",
            node,
        ));
        for (name, sides) in [("unchanged", unchanged), ("every buffer changed", changed)] {
            let name = format!("{tasks} tasks replayed, {name}");
            rows.push(times(name, "us", sides.map(in_us), SHARE));
        }
    }
    device.close(PATIENCE);
    Ok(rows)
}
