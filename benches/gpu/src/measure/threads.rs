//! Many threads launch at the same time: on a stream of ours each, on a raw stream each, and on one raw stream behind a
//! lock.

use std::sync::{Mutex, PoisonError};

use millstream::CubeCount;
use millstream_harness::{RecordRow, median};

use super::{PATIENCE, Rig, on_threads};
use crate::error::BenchError;
use crate::kernels::empty;
use crate::raw::Parameters;
use crate::rows::{rates, raw_row};

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// A share of the better raw side's throughput.
const SHARE: f64 = 1.0;

/// Runs `body`, which makes `count` launches, on each of the threads. Returns millions of launches per second.
fn throughput(
    rig: &Rig,
    threads: usize,
    count: usize,
    body: impl Fn(usize) -> Result<(), BenchError> + Sync,
) -> Result<f64, BenchError> {
    let seconds = on_threads(0..threads, || rig.gpu.bind(), body)?;
    Ok((count * threads) as f64 / seconds / 1e6)
}

pub(super) fn measure(rig: &Rig) -> Result<Vec<RecordRow>, BenchError> {
    let gpu = &rig.gpu;
    let device = rig.device()?;
    let client = device.new_client();
    let (ours, raw) = (empty(&client)?, gpu.kernel(c"empty")?);
    let mut rows = Vec::new();
    for threads in THREADS {
        let count = rig.count(20_000, 64) / threads;
        let streams: Vec<_> = (0..threads).map(|_| client.new_stream()).collect();
        let raw_streams = (0..threads).map(|_| gpu.stream());
        let raw_streams = raw_streams.collect::<Result<Vec<_>, _>>()?;
        let shared = Mutex::new(gpu.stream()?);
        let on_our_streams = |thread: usize| {
            for _ in 0..count {
                streams[thread].launch(&ours, CubeCount::single(), ())?;
            }
            Ok(streams[thread].sync().wait()?)
        };
        let on_raw_streams = |thread: usize| {
            let mut none = Parameters::new(&[]);
            for _ in 0..count {
                raw.launch(&raw_streams[thread], &mut none)?;
            }
            raw_streams[thread].synchronize()
        };
        let on_one_raw_stream = |_| {
            let mut none = Parameters::new(&[]);
            let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
            for _ in 0..count {
                raw.launch(&lock(), &mut none)?;
            }
            lock().synchronize()
        };
        let [ours, own, locked] = rig.alternate([
            &mut || throughput(rig, threads, count, on_our_streams),
            &mut || throughput(rig, threads, count, on_raw_streams),
            &mut || throughput(rig, threads, count, on_one_raw_stream),
        ])?;
        let of = match threads {
            1 => "1 client thread".to_owned(),
            _ => format!("{threads} client threads"),
        };
        let best = match median(&own) > median(&locked) {
            true => own.clone(),
            false => locked.clone(),
        };
        let (unit, name) = ("million/s", |name: &str| format!("{of}, {name}"));
        rows.push(raw_row(name("raw: a lock around one stream"), unit, locked));
        rows.push(raw_row(name("raw: a stream each"), unit, own));
        let name = name("ours beside the better raw side");
        rows.push(rates(name, unit, [best, ours], SHARE));
    }
    device.close(PATIENCE);
    Ok(rows)
}
