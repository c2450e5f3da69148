//! Many threads launch at once: through us on a stream each, by raw calls on a stream each, and by raw calls on one stream
//! behind a lock.

use std::sync::{Barrier, Mutex, PoisonError};
use std::time::Instant;

use millstream::CubeCount;

use super::{PATIENCE, Rig, higher};
use crate::error::BenchError;
use crate::kernels::empty;
use crate::raw::Parameters;
use crate::report::{Row, Target};

const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// Of the better of the raw ones.
const TARGET: Target = Target::OfRaw(1.0);

/// Millions a second of `count` done by each of so many threads, which `body` does.
fn together(
    rig: &Rig<'_>,
    threads: usize,
    count: usize,
    body: impl Fn(usize) -> Result<(), BenchError> + Sync,
) -> Result<f64, BenchError> {
    let gate = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let one = |thread| {
            let (gate, body) = (&gate, &body);
            scope.spawn(move || {
                let bound = rig.gpu.bind();
                gate.wait();
                bound.and_then(|()| body(thread))
            })
        };
        let all: Vec<_> = (0..threads).map(one).collect();
        gate.wait();
        let begun = Instant::now();
        let ended = all.into_iter().map(|thread| {
            let ended = thread.join();
            ended.unwrap_or(Err(BenchError::Panicked))
        });
        // All are joined before the first failure is told.
        let ended: Vec<_> = ended.collect();
        let spent = begun.elapsed();
        ended.into_iter().collect::<Result<(), _>>()?;
        Ok((count * threads) as f64 / spent.as_secs_f64() / 1e6)
    })
}

pub(super) fn measure(rig: &Rig<'_>) -> Result<Vec<Row>, BenchError> {
    let gpu = rig.gpu;
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
        let by_us = |thread: usize| {
            for _ in 0..count {
                streams[thread].launch(&ours, CubeCount::single(), ())?;
            }
            Ok(streams[thread].sync().wait()?)
        };
        let by_own_streams = |thread: usize| {
            let mut none = Parameters::new(&[]);
            for _ in 0..count {
                raw.launch(&raw_streams[thread], &mut none)?;
            }
            raw_streams[thread].synchronize()
        };
        let by_one_stream = |_| {
            let mut none = Parameters::new(&[]);
            let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
            for _ in 0..count {
                raw.launch(&lock(), &mut none)?;
            }
            lock().synchronize()
        };
        let [ours, own, locked] = rig.alternate([
            &mut || together(rig, threads, count, by_us),
            &mut || together(rig, threads, count, by_own_streams),
            &mut || together(rig, threads, count, by_one_stream),
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
            row("beside the better raw")
                .raw(best)
                .ours(ours)
                .target(TARGET),
        );
    }
    device.close(PATIENCE);
    Ok(rows)
}
