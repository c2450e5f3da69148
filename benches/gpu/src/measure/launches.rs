//! The cost per launch of many small kernels from one thread, including the wait for the last.

use millstream::{CubeCount, KernelHandle, Stream, kernel::Arguments, update};
use millstream_harness::{RecordRow, time_each};

use super::{PATIENCE, Rig};
use crate::error::BenchError;
use crate::kernels::{SCALARS, WORDS, empty, touch};
use crate::raw::{self, Kernel, Parameters};
use crate::rows::times;

/// A share of the raw loop's speed.
const SHARE: f64 = 0.95;

fn raw_loop(
    count: usize,
    kernel: &Kernel,
    stream: &raw::Stream,
    parameters: &mut Parameters,
) -> Result<f64, BenchError> {
    let launch = |_| kernel.launch(stream, parameters);
    time_each(count, launch, || stream.synchronize())
}

fn our_loop<A: Arguments>(
    count: usize,
    kernel: &KernelHandle,
    stream: &Stream,
    arguments: impl Fn() -> A,
) -> Result<f64, BenchError> {
    let launch = |_| Ok(stream.launch(kernel, CubeCount::single(), arguments())?);
    time_each(count, launch, || Ok(stream.sync().wait()?))
}

pub(super) fn measure(rig: &Rig) -> Result<Vec<RecordRow>, BenchError> {
    let (gpu, count) = (&rig.gpu, rig.count(20_000, 64));
    let device = rig.device()?;
    let client = device.new_client();
    let (ours_empty, ours_touch) = (empty(&client)?, touch(&client)?);
    let stream = client.new_stream();
    let [a, b, c] = [
        stream.create(&[0_u32; WORDS])?,
        stream.create(&[0_u32; WORDS])?,
        stream.create(&[0_u32; WORDS])?,
    ];

    let (raw_empty, raw_touch) = (gpu.kernel(c"empty")?, gpu.kernel(c"touch")?);
    let buffers = [
        gpu.memory(4 * WORDS)?,
        gpu.memory(4 * WORDS)?,
        gpu.memory(4 * WORDS)?,
    ];
    let values = buffers.iter().map(raw::Memory::address);
    let values: Vec<u64> = values.chain((0..SCALARS).map(u64::from)).collect();
    let (mut none, mut all) = (Parameters::new(&[]), Parameters::new(&values));
    let raw_stream = gpu.stream()?;

    let bare = rig.alternate([
        &mut || raw_loop(count, &raw_empty, &raw_stream, &mut none),
        &mut || our_loop(count, &ours_empty, &stream, || ()),
    ])?;
    let arguments = || {
        (
            update(&a),
            update(&b),
            update(&c),
            0_u32,
            1_u32,
            2_u32,
            3_u32,
            4_u32,
            5_u32,
            6_u32,
            7_u32,
        )
    };
    let full = rig.alternate([
        &mut || raw_loop(count, &raw_touch, &raw_stream, &mut all),
        &mut || our_loop(count, &ours_touch, &stream, arguments),
    ])?;
    device.close(PATIENCE);
    Ok(vec![
        times("launch, no arguments, one thread", "ns", bare, SHARE),
        times("launch, 3 buffers + 8 words, one thread", "ns", full, SHARE),
    ])
}
