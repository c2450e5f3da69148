//! Copies between host memory and the GPU, and within the GPU. The slices and vectors of users are pageable memory, so
//! our copies are compared with raw copies of pageable memory. Raw copies of pinned memory are shown in addition.

use std::ffi::c_void;

use millstream::{Handle, Stream};
use millstream_harness::{Summary, time_each};

use super::{PATIENCE, Rig, higher, in_us, lower};
use crate::error::BenchError;
use crate::raw;
use crate::report::{Row, Target};

const SMALL_BYTES: usize = 4 << 10;
const LARGE_BYTES: usize = 64 << 20;
/// A share of the raw copy's bandwidth.
const TARGET: Target = Target::OfRaw(0.98);

/// Returns the nanoseconds of a copy. `copy` waits until it has completed.
fn copy_ns(
    count: usize,
    mut copy: impl FnMut() -> Result<(), BenchError>,
) -> Result<f64, BenchError> {
    time_each(count, |_| copy(), || Ok(()))
}

/// Nanoseconds of a copy to and from the GPU: raw with pinned memory, raw with pageable memory, and ours.
struct HostCopies {
    upload: [Summary; 3],
    readback: [Summary; 3],
}

/// Measures copies of `bytes` between the host and the GPU.
fn host_copies(
    rig: &Rig,
    stream: &Stream,
    bytes: usize,
    count: usize,
) -> Result<HostCopies, BenchError> {
    let gpu = &rig.gpu;
    let (memory, pinned, raw_stream) = (gpu.memory(bytes)?, gpu.pinned(bytes)?, gpu.stream()?);
    let data = vec![7_u8; bytes];
    let target = stream.create(&data)?;
    let raw_upload = |from: *const c_void| {
        memory.copy_in(from, &raw_stream)?;
        raw_stream.synchronize()
    };
    let raw_readback = |to: *mut c_void| {
        memory.copy_out(to, &raw_stream)?;
        raw_stream.synchronize()
    };
    let upload = rig.alternate([
        &mut || copy_ns(count, || raw_upload(pinned.start())),
        &mut || copy_ns(count, || raw_upload(data.as_ptr().cast())),
        &mut || {
            copy_ns(count, || {
                stream.write(&target, &data)?;
                Ok(stream.sync().wait()?)
            })
        },
    ])?;
    let readback = rig.alternate([
        &mut || copy_ns(count, || raw_readback(pinned.start())),
        &mut || {
            copy_ns(count, || {
                // A new vector each time, as our readback returns.
                let mut buffer = Vec::<u8>::with_capacity(bytes);
                let copied = raw_readback(buffer.as_mut_ptr().cast());
                std::hint::black_box(&mut buffer);
                copied
            })
        },
        &mut || {
            copy_ns(count, || {
                stream.read(&target).wait().map(drop).map_err(Into::into)
            })
        },
    ])?;
    Ok(HostCopies { upload, readback })
}

/// Measures copies within the GPU's memory. Only the last of a sample is waited for.
fn gpu_copies(
    rig: &Rig,
    stream: &Stream,
    [from, to]: [&Handle<u8>; 2],
) -> Result<[Summary; 2], BenchError> {
    let (gpu, count) = (&rig.gpu, rig.plan.large_copies);
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

/// Converts nanoseconds of a large copy to gigabytes per second.
fn bandwidth(ns: Summary) -> Summary {
    ns.map(|ns| LARGE_BYTES as f64 / ns)
}

pub(super) fn measure(rig: &Rig) -> Result<Vec<Row>, BenchError> {
    let device = rig.device()?;
    let stream = device.new_client().new_stream();
    let small = host_copies(rig, &stream, SMALL_BYTES, rig.plan.copies)?;
    let large = host_copies(rig, &stream, LARGE_BYTES, rig.plan.large_copies)?;
    let (from, to) = (
        stream.create(&vec![1_u8; LARGE_BYTES])?,
        stream.empty(LARGE_BYTES)?,
    );
    let within = gpu_copies(rig, &stream, [&from, &to])?;
    drop((from, to));
    device.close(PATIENCE);

    let mut rows = Vec::new();
    for (copy, [pinned, pageable, ours]) in [("upload", small.upload), ("readback", small.readback)]
    {
        let row = |memory| lower(format!("4 KiB {copy} with its wait, {memory}"), "us");
        rows.push(row("pinned").raw(in_us(pinned)));
        rows.push(row("pageable").raw(in_us(pageable)).ours(in_us(ours)));
    }
    for (copy, figures) in [("upload", large.upload), ("readback", large.readback)] {
        let [pinned, pageable, ours] = figures.map(bandwidth);
        let row = |memory| higher(format!("64 MiB {copy}, {memory}"), "GB/s");
        rows.push(row("pinned").raw(pinned));
        rows.push(row("pageable").raw(pageable).ours(ours).target(TARGET));
    }
    let [raw, ours] = within.map(bandwidth);
    rows.push(
        higher("64 MiB copy within the GPU", "GB/s")
            .raw(raw)
            .ours(ours)
            .target(TARGET),
    );
    Ok(rows)
}
