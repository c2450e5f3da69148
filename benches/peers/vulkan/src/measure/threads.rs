//! Launches from [`THREADS`] threads, each on words of its own: millstream with a stream each; the raw side with a
//! recorder each and a mutex around one queue, which a thread locks for each batch; wgpu with its one queue.

use std::sync::{Barrier, Mutex};
use std::time::Instant;

use millstream_harness::Summary;

use super::Rig;
use crate::WORDS;
use crate::error::BenchError;
use crate::ours::Ours;
use crate::raw::{Memory, Place, Recorder, counting, set_empty_dispatches};
use crate::report::Row;

const THREADS: usize = 4;
const BATCHES: [usize; 3] = [1, 10, 100];
/// The launches of each thread in a sample.
const LAUNCHES: usize = 500;
/// The same with empty dispatches.
const HOST_LAUNCHES: usize = 10_000;
/// The times of wgpu's rate that are the goal.
const OF_PEER_MIN: f64 = 3.0;

/// Runs `body` on each thread with its element. Returns thousands of launches per second.
fn rate<T: Send>(
    launches: usize,
    each: &mut [T],
    body: impl Fn(&mut T) -> Result<(), BenchError> + Sync,
) -> Result<f64, BenchError> {
    let (count, barrier) = (each.len() * launches, Barrier::new(each.len() + 1));
    std::thread::scope(|scope| {
        let spawn = |element| {
            let (barrier, body) = (&barrier, &body);
            scope.spawn(move || {
                barrier.wait();
                body(element)
            })
        };
        let spawned: Vec<_> = each.iter_mut().map(spawn).collect();
        barrier.wait();
        let start = Instant::now();
        let results = spawned
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err(BenchError::Panicked)));
        // Joins all threads before it returns the first error.
        let results: Vec<_> = results.collect();
        let spent = start.elapsed();
        results.into_iter().collect::<Result<(), _>>()?;
        Ok(count as f64 / spent.as_secs_f64() / 1e3)
    })
}

/// Launches in batches on one thread of the raw side.
fn raw_launches(
    (recorder, memory): &mut (Recorder<'_>, Memory<'_>),
    launches: usize,
    batch: usize,
    queue: &Mutex<()>,
) -> Result<(), BenchError> {
    for _ in 0..launches / batch {
        for _ in 0..batch {
            recorder.barrier()?;
            recorder.launch(memory.address)?;
        }
        recorder.submit_after(None, Some(queue))?;
    }
    recorder.finish()
}

fn our_rate(
    ours: &Ours,
    launches: usize,
) -> Result<impl FnMut() -> Result<f64, BenchError>, BenchError> {
    let streams = (0..THREADS).map(|_| {
        let stream = ours.stream();
        let values = stream.create(&[0_u32; WORDS])?;
        Ok((stream, values))
    });
    let mut streams = streams.collect::<Result<Vec<_>, BenchError>>()?;
    Ok(move || {
        rate(launches, &mut streams, |(stream, values)| {
            for _ in 0..launches {
                ours.launch(stream, values)?;
            }
            Ok(stream.sync().wait()?)
        })
    })
}

fn raw_sides<'a>(
    rig: &'a Rig,
    device: &ash::Device,
) -> Result<Vec<(Recorder<'a>, Memory<'a>)>, BenchError> {
    let each = (0..THREADS).map(|_| {
        let recorder = Recorder::through(&rig.gpu, device, 0)?;
        Ok((recorder, Memory::new(&rig.gpu, 4 * WORDS, Place::Device)?))
    });
    each.collect()
}

/// Returns the rows beside the raw side and beside wgpu.
fn both(batch: usize, kind: &str, [ours, raw, peer]: [Summary; 3]) -> [Row; 2] {
    let row = |other| {
        let name = format!("4 threads, {other} in batches of {batch}{kind}");
        Row::rate(name, "thousand/s", ours)
    };
    [
        row("raw with a mutex").raw(raw),
        row("wgpu").peer(peer).at_least_of_peer(OF_PEER_MIN),
    ]
}

pub(super) fn measure(rig: &Rig) -> Result<Vec<Row>, BenchError> {
    let mut ours = our_rate(&rig.ours, LAUNCHES)?;
    let mut recorders = raw_sides(rig, &rig.gpu.device)?;
    let mut bound: Vec<_> = (0..THREADS).map(|_| [rig.peer.bound()]).collect();
    let queue = Mutex::new(());
    let mut rows = Vec::new();
    for batch in BATCHES {
        let [ours, raw, peer] = rig.alternate([
            &mut || ours(),
            &mut || {
                rate(LAUNCHES, &mut recorders, |side| {
                    raw_launches(side, LAUNCHES, batch, &queue)
                })
            },
            &mut || {
                rate(LAUNCHES, &mut bound, |bound| {
                    for _ in 1..LAUNCHES / batch {
                        rig.peer.launch(batch, bound);
                    }
                    let last = rig.peer.launch(batch, bound);
                    rig.peer.wait(Some(last))
                })
            },
        ])?;
        rows.extend(both(batch, "", [ours, raw, peer]));
    }
    Ok(rows)
}

/// Measures the same with dispatches without cubes, so that nothing is executed. Millstream and the raw side call the
/// driver through counting functions.
pub(super) fn host_part(rig: &Rig) -> Result<Vec<Row>, BenchError> {
    let device = counting(&rig.gpu);
    let adopted = Ours::adopt(&rig.gpu, &device)?;
    let mut bound: Vec<_> = (0..THREADS).map(|_| [rig.peer.bound()]).collect();
    let mut rows = Vec::new();
    {
        let mut ours = our_rate(&adopted, HOST_LAUNCHES)?;
        let mut recorders = raw_sides(rig, &device)?;
        let queue = Mutex::new(());
        set_empty_dispatches(true);
        for batch in BATCHES {
            let [ours, raw, peer] = rig.alternate([
                &mut || ours(),
                &mut || {
                    rate(HOST_LAUNCHES, &mut recorders, |side| {
                        raw_launches(side, HOST_LAUNCHES, batch, &queue)
                    })
                },
                &mut || {
                    rate(HOST_LAUNCHES, &mut bound, |bound| {
                        for _ in 1..HOST_LAUNCHES / batch {
                            rig.peer.launch_empty(batch, bound);
                        }
                        let last = rig.peer.launch_empty(batch, bound);
                        rig.peer.wait(Some(last))
                    })
                },
            ])?;
            rows.extend(both(batch, ", empty", [ours, raw, peer]));
        }
        set_empty_dispatches(false);
    }
    Ok(rows)
}
