//! Many threads launch at the same time: on a stream of ours each, on a raw stream each, and on one raw stream behind a
//! lock.

use std::sync::{Barrier, Mutex, PoisonError};
use std::time::Instant;

use millstream::CubeCount;

use super::{PATIENCE, Rig, higher};
use crate::error::BenchError;
use crate::kernels::empty;
use crate::raw::Parameters;
use crate::report::{Row, Target};

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// A share of the better raw side's throughput.
const TARGET: Target = Target::OfRaw(1.0);

/// Runs `body`, which makes `count` launches, on each of the threads. Returns millions of launches per second.
fn throughput(
    rig: &Rig,
    threads: usize,
    count: usize,
    body: impl Fn(usize) -> Result<(), BenchError> + Sync,
) -> Result<f64, BenchError> {
    let barrier = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let spawn = |thread| {
            let (barrier, body) = (&barrier, &body);
            scope.spawn(move || {
                let bound = rig.gpu.bind();
                barrier.wait();
                bound.and_then(|()| body(thread))
            })
        };
        let spawned: Vec<_> = (0..threads).map(spawn).collect();
        barrier.wait();
        let start = Instant::now();
        let results = spawned
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err(BenchError::Panicked)));
        // Joins all threads before it returns the first error.
        let results: Vec<_> = results.collect();
        let spent = start.elapsed();
        results.into_iter().collect::<Result<(), _>>()?;
        Ok((count * threads) as f64 / spent.as_secs_f64() / 1e6)
    })
}

pub(super) fn measure(rig: &Rig) -> Result<Vec<Row>, BenchError> {
    let gpu = &rig.gpu;
    let device = rig.device()?;
    let client = device.new_client();
    let (ours, raw) = (empty(&client)?, gpu.kernel(c"empty")?);
    let mut rows = Vec::new();
    for threads in THREADS {
        let count = rig.plan.launches / threads;
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
        let best = if own.median > locked.median {
            own
        } else {
            locked
        };
        let row = |name: &str| higher(format!("{of}, {name}"), "million/s");
        rows.push(row("raw: a lock around one stream").raw(locked));
        rows.push(row("raw: a stream each").raw(own));
        rows.push(
            row("ours beside the better raw side")
                .raw(best)
                .ours(ours)
                .target(TARGET),
        );
    }
    device.close(PATIENCE);
    Ok(rows)
}
