//! Copies between host memory and the GPU, and within the GPU. The slices and vectors of users are pageable memory, so
//! our copies are compared with raw copies of pageable memory. Raw copies of pinned memory are shown in addition.

use std::ffi::c_void;

use millstream::{Handle, Stream};
use millstream_harness::{RecordRow, time_each};

use super::{PATIENCE, Rig};
use crate::error::BenchError;
use crate::rows::{Samples, in_us, rates, raw_row, row};

const SMALL_BYTES: usize = 4 << 10;
const LARGE_BYTES: usize = 64 << 20;
/// A share of the raw copy's bandwidth.
const SHARE: f64 = 0.98;

/// Returns the nanoseconds of a copy. `copy` waits until it has completed.
fn copy_ns(
    count: usize,
    mut copy: impl FnMut() -> Result<(), BenchError>,
) -> Result<f64, BenchError> {
    time_each(count, |_| copy(), || Ok(()))
}

/// Nanoseconds of a copy to and from the GPU: raw with pinned memory, raw with pageable memory, and ours.
struct HostCopies {
    upload: [Samples; 3],
    readback: [Samples; 3],
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
) -> Result<[Samples; 2], BenchError> {
    let (gpu, count) = (&rig.gpu, rig.count(10, 1));
    let (source, target) = (gpu.memory(LARGE_BYTES)?, gpu.memory(LARGE_BYTES)?);
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
fn bandwidth(ns: Samples) -> Samples {
    ns.into_iter().map(|ns| LARGE_BYTES as f64 / ns).collect()
}

pub(super) fn measure(rig: &Rig) -> Result<Vec<RecordRow>, BenchError> {
    let device = rig.device()?;
    let stream = device.new_client().new_stream();
    let small = host_copies(rig, &stream, SMALL_BYTES, rig.count(1_000, 4))?;
    let large = host_copies(rig, &stream, LARGE_BYTES, rig.count(10, 1))?;
    let (from, to) = (
        stream.create(&vec![1_u8; LARGE_BYTES])?,
        stream.empty(LARGE_BYTES)?,
    );
    let within = gpu_copies(rig, &stream, [&from, &to])?;
    drop((from, to));
    device.close(PATIENCE);

    let mut rows = Vec::new();
    for (copy, figures) in [("upload", small.upload), ("readback", small.readback)] {
        let [pinned, pageable, ours] = figures.map(in_us);
        let name = |memory| format!("4 KiB {copy} with its wait, {memory}");
        rows.push(raw_row(name("pinned"), "us", pinned));
        rows.push(row(name("pageable"), "us", [pageable, ours]));
    }
    for (copy, figures) in [("upload", large.upload), ("readback", large.readback)] {
        let [pinned, pageable, ours] = figures.map(bandwidth);
        let name = |memory| format!("64 MiB {copy}, {memory}");
        rows.push(raw_row(name("pinned"), "GB/s", pinned));
        rows.push(rates(name("pageable"), "GB/s", [pageable, ours], SHARE));
    }
    let within = within.map(bandwidth);
    rows.push(rates("64 MiB copy within the GPU", "GB/s", within, SHARE));
    Ok(rows)
}
