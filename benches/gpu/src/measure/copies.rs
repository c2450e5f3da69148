//! Copies between a user's memory and the GPU, and within it. A user's slices and vectors are pageable: that is the raw
//! copy that ours is held against; the pinned one is there to be seen beside it.

use std::ffi::c_void;

use millstream::{Handle, Stream};
use millstream_harness::{Figure, time_each};

use super::{PATIENCE, Rig, higher, in_us, lower};
use crate::error::BenchError;
use crate::raw;
use crate::report::{Row, Target};

const SMALL_BYTES: usize = 4 << 10;
const LARGE_BYTES: usize = 64 << 20;
/// Of a raw copy's bandwidth.
const TARGET: Target = Target::OfRaw(0.98);

/// Nanoseconds of each copy, which is waited for.
fn each(count: usize, mut copy: impl FnMut() -> Result<(), BenchError>) -> Result<f64, BenchError> {
    time_each(count, |_| copy(), || Ok(()))
}

/// What copying so many bytes takes: by raw calls from and to pinned memory, from and to pageable memory, and by us; in and
/// out.
struct Ways {
    r#in: [Figure; 3],
    out: [Figure; 3],
}

fn ways(rig: &Rig<'_>, stream: &Stream, bytes: usize, count: usize) -> Result<Ways, BenchError> {
    let gpu = rig.gpu;
    let (memory, pinned, raw_stream) = (gpu.memory(bytes)?, gpu.pinned(bytes)?, gpu.stream()?);
    let data = vec![7_u8; bytes];
    let target = stream.create(&data)?;
    let raw_in = |from: *const c_void| {
        memory.copy_in(from, &raw_stream)?;
        raw_stream.synchronize()
    };
    let raw_out = |to: *mut c_void| {
        memory.copy_out(to, &raw_stream)?;
        raw_stream.synchronize()
    };
    let r#in = rig.alternate([
        &mut || each(count, || raw_in(pinned.start())),
        &mut || each(count, || raw_in(data.as_ptr().cast())),
        &mut || {
            each(count, || {
                stream.write(&target, &data)?;
                Ok(stream.sync().wait()?)
            })
        },
    ])?;
    let out = rig.alternate([
        &mut || each(count, || raw_out(pinned.start())),
        &mut || {
            each(count, || {
                // A vector of its own, as ours answers.
                let mut room = Vec::<u8>::with_capacity(bytes);
                let copied = raw_out(room.as_mut_ptr().cast());
                std::hint::black_box(&mut room);
                copied
            })
        },
        &mut || {
            each(count, || {
                stream.read(&target).wait().map(drop).map_err(Into::into)
            })
        },
    ])?;
    Ok(Ways { r#in, out })
}

/// Copies within the GPU's memory, in a row.
fn within(
    rig: &Rig<'_>,
    stream: &Stream,
    [from, to]: [&Handle<u8>; 2],
) -> Result<[Figure; 2], BenchError> {
    let (gpu, count) = (rig.gpu, rig.plan.large_copies);
    let (source, target): (raw::Memory<'_>, _) =
        (gpu.memory(LARGE_BYTES)?, gpu.memory(LARGE_BYTES)?);
    let raw_stream = gpu.stream()?;
    let filled = vec![7_u8; LARGE_BYTES];
    source.copy_in(filled.as_ptr().cast(), &raw_stream)?;
    raw_stream.synchronize()?;
    rig.alternate([
        &mut || {
            let copy = |_| source.copy_to(&target, &raw_stream);
            time_each(count, copy, || raw_stream.synchronize())
        },
        &mut || {
            let copy = |_| Ok(stream.copy(from, to)?);
            time_each(count, copy, || Ok(stream.sync().wait()?))
        },
    ])
}

/// Gigabytes a second of large copies.
fn bandwidth(ns: Figure) -> Figure {
    ns.map(|ns| LARGE_BYTES as f64 / ns)
}

pub(super) fn measure(rig: &Rig<'_>) -> Result<Vec<Row>, BenchError> {
    let device = rig.device()?;
    let stream = device.new_client().new_stream();
    let small = ways(rig, &stream, SMALL_BYTES, rig.plan.copies)?;
    let large = ways(rig, &stream, LARGE_BYTES, rig.plan.large_copies)?;
    let (from, to) = (
        stream.create(&vec![1_u8; LARGE_BYTES])?,
        stream.empty(LARGE_BYTES)?,
    );
    let within = within(rig, &stream, [&from, &to])?;
    drop((from, to));
    device.close(PATIENCE);

    let mut rows = Vec::new();
    for (way, [pinned, pageable, ours]) in [("in", small.r#in), ("out", small.out)] {
        let row = |kind| lower(format!("4 KiB {way} and waited for, {kind}"), "us");
        rows.push(row("pinned").raw(in_us(pinned)));
        rows.push(row("pageable").raw(in_us(pageable)).ours(in_us(ours)));
    }
    for (way, figures) in [("in", large.r#in), ("out", large.out)] {
        let [pinned, pageable, ours] = figures.map(bandwidth);
        let row = |kind| higher(format!("64 MiB {way}, {kind}"), "GB/s");
        rows.push(row("pinned").raw(pinned));
        rows.push(row("pageable").raw(pageable).ours(ours).target(TARGET));
    }
    let [raw, ours] = within.map(bandwidth);
    rows.push(
        higher("64 MiB within the GPU", "GB/s")
            .raw(raw)
            .ours(ours)
            .target(TARGET),
    );
    Ok(rows)
}
