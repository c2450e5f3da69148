//! The rows of the report. Each takes one sample at a time, so that rows can take turns and a slowdown of the
//! machine affects all of them.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use millstream::{CubeCount, Error, Stream, report::Stats, update};

use super::rig::{RECORDED, Rig};
use crate::units::counted;

/// Takes one sample of a row.
pub(super) type Sample = Box<dyn FnMut(&Rig) -> Result<f64, Error>>;

/// Launches that fit in the mailbox, so that the caller never waits for room.
const BURST: usize = 200;
/// How long the device is idle before each wait of the idle row.
const PAUSE: Duration = Duration::from_millis(1);
/// The bytes that one sample moves at least.
const MOVED_BYTES: usize = 32 << 20;

/// The amount of work in one sample: some milliseconds. Figures of a quick load are too noisy to publish.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// Launches of all threads together.
    launches: usize,
    /// Consecutive calls that are each waited for.
    waits: usize,
    /// Waits that each follow a pause.
    pauses: usize,
}

impl Load {
    pub(super) fn new(quick: bool) -> Self {
        let (launches, waits, pauses) = match quick {
            true => (1_000, 20, 2),
            false => (20_000, 500, 10),
        };
        Self {
            launches,
            waits,
            pauses,
        }
    }
}

/// A row of the report: an operation and the function that measures it.
pub(super) struct Row {
    pub(super) name: String,
    /// `copies` is the time of a `memcpy` of the same bytes between host buffers that have been touched before.
    pub(super) unit: &'static str,
    /// The number of launching threads, in rows that vary it.
    pub(super) threads: Option<usize>,
    pub(super) sample: Sample,
}

/// Returns all rows for up to `threads` threads, in the order of the report.
pub(super) fn all(rig: &Rig, load: Load, threads: usize) -> Vec<Row> {
    let (launches, waits) = (load.launches, load.waits);
    let mut rows = Vec::new();
    let mut add = |name: String, unit, threads, sample| {
        rows.push(Row {
            name,
            unit,
            threads,
            sample,
        });
    };
    add("launch, caller's side".into(), "ns", None, launch(launches));
    let sample = timed(1e3, waits, Rig::launch_and_wait);
    add("launch and wait".into(), "us", None, sample);
    let name = "launch and wait after 1 ms idle";
    add(name.into(), "us", None, idle_wait(load.pauses));
    for threads in thread_counts(threads) {
        let name = format!("launches, {}", counted(threads, "thread"));
        let sample = throughput(rig, launches, threads);
        add(name, "million/s", Some(threads), sample);
    }
    add(
        "batch size, 1 thread".into(),
        "tasks",
        None,
        batch(launches),
    );
    let name = "replay, per recorded task";
    add(name.into(), "ns", None, replayed(launches));
    let name = "task after another stream's task";
    add(name.into(), "ns", None, hand_over(rig, launches));
    let name = "hazards without a wait, 2 streams";
    add(name.into(), "%", None, implied(rig, launches / 8));
    let sample = timed(1.0, launches, Rig::empty_and_drop);
    add("allocate and drop".into(), "ns", None, sample);
    for (size, bytes) in [("4 KiB", 4 << 10), ("4 MiB", 4 << 20)] {
        let values = vec![7_u8; bytes];
        // Every size moves about as many bytes per sample.
        let times = (waits * (16 << 10) / bytes).clamp(1, waits);
        let round_trip = move |rig: &Rig| rig.create_and_read(&values).map(drop);
        let sample = timed(1e3, times, round_trip);
        add(format!("{size} round trip"), "us", None, sample);
    }
    for mib in [1, 4, 64] {
        let name = |operation| format!("{mib} MiB {operation}, in warm copies");
        add(name("upload"), "copies", None, upload(mib << 20));
        add(name("download"), "copies", None, download(mib << 20));
    }
    rows
}

/// Returns the powers of two below `most`, then `most`.
fn thread_counts(most: usize) -> impl Iterator<Item = usize> {
    let doubled = std::iter::successors(Some(1), |count| Some(count * 2));
    doubled.take_while(move |count| *count < most).chain([most])
}

/// Returns the nanoseconds of each of `count` things that `work` does.
fn ns_each(count: usize, work: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed().as_nanos() as f64 / count as f64)
}

/// Measures the time of one `work`, averaged over `count` calls, in units of `unit_ns`.
fn timed(unit_ns: f64, count: usize, work: impl Fn(&Rig) -> Result<(), Error> + 'static) -> Sample {
    Box::new(move |rig| Ok(ns_each(count, || (0..count).try_for_each(|_| work(rig)))? / unit_ns))
}

fn launch(launches: usize) -> Sample {
    let bursts = launches.div_ceil(BURST);
    Box::new(move |rig| {
        let mut ns = 0.0;
        for _ in 0..bursts {
            let launch = |_| rig.stream.launch(&rig.empty, CubeCount::single(), ());
            ns += ns_each(BURST, || (0..BURST).try_for_each(launch))?;
            rig.stream.sync().wait()?;
        }
        Ok(ns / bursts as f64)
    })
}

fn idle_wait(pauses: usize) -> Sample {
    Box::new(move |rig| {
        let mut ns = 0.0;
        for _ in 0..pauses {
            thread::sleep(PAUSE);
            ns += ns_each(1, || rig.launch_and_wait())?;
        }
        Ok(ns / 1e3 / pauses as f64)
    })
}

fn throughput(rig: &Rig, launches: usize, threads: usize) -> Sample {
    let streams: Vec<Stream> = (0..threads).map(|_| rig.client.new_stream()).collect();
    let all = launches / threads * threads;
    Box::new(move |rig| Ok(1e3 / ns_each(all, || rig.launch_from_threads(&streams, launches))?))
}

/// Returns the device's counters before and after `work`.
fn stats_around(rig: &Rig, work: impl FnOnce() -> Result<(), Error>) -> Result<[Stats; 2], Error> {
    let before = rig.device.stats()?;
    work()?;
    Ok([before, rig.device.stats()?])
}

fn batch(launches: usize) -> Sample {
    Box::new(move |rig| {
        let streams = std::slice::from_ref(&rig.stream);
        let work = || rig.launch_from_threads(streams, launches);
        let [before, after] = stats_around(rig, work)?;
        let (tasks, batches) = (after.tasks - before.tasks, after.batches - before.batches);
        Ok(tasks as f64 / batches.max(1) as f64)
    })
}

fn replayed(launches: usize) -> Sample {
    let (times, mut recording) = (launches.div_ceil(RECORDED), None);
    Box::new(move |rig| {
        let recording = match &recording {
            Some(recording) => recording,
            None => recording.insert(rig.recording()?),
        };
        ns_each(times * RECORDED, || rig.replay(recording, times))
    })
}

fn two_streams(rig: &Rig) -> [Stream; 2] {
    [rig.client.new_stream(), rig.client.new_stream()]
}

fn hand_over(rig: &Rig, launches: usize) -> Sample {
    let streams = two_streams(rig);
    Box::new(move |rig| ns_each(launches, || rig.hand_over(&streams, launches)))
}

/// Measures the share of hazards that need no wait.
///
/// One stream touches four parts of a buffer from the first to the last, the other from the last to the first. The
/// first wait for the other queue's latest task implies the waits for the tasks before it.
fn implied(rig: &Rig, rounds: usize) -> Sample {
    let [there, back] = two_streams(rig);
    Box::new(move |rig| {
        let part = |index: usize| rig.buffer.slice(64 * index..64 * (index + 1));
        let parts = [part(0)?, part(1)?, part(2)?, part(3)?];
        let touch =
            |stream: &Stream, part| stream.launch(&rig.touch, CubeCount::single(), (update(part),));
        let [before, after] = stats_around(rig, || {
            for _ in 0..rounds {
                parts.iter().try_for_each(|part| touch(&there, part))?;
                parts.iter().rev().try_for_each(|part| touch(&back, part))?;
            }
            rig.device.sync().wait()
        })?;
        let issued = after.waits_issued - before.waits_issued;
        let implied = after.waits_implied - before.waits_implied;
        Ok(match issued + implied {
            0 => 100.0, // both streams are assigned to one queue, whose order suffices
            all => 100.0 * implied as f64 / all as f64,
        })
    })
}

/// Measures `move_bytes` in units of a `memcpy` of the same bytes between touched host buffers.
///
/// Both take turns, so that a slowdown of the machine affects both.
fn in_copies(
    bytes: usize,
    mut move_bytes: impl FnMut(&Rig, &[u8]) -> Result<(), Error> + 'static,
) -> Sample {
    let (source, mut target) = (vec![7_u8; bytes], vec![0_u8; bytes]);
    let times = (MOVED_BYTES / bytes).max(1);
    Box::new(move |rig| {
        let (mut copies_ns, mut moves_ns) = (0.0, 0.0);
        for _ in 0..times {
            copies_ns += ns_each(1, || {
                target.copy_from_slice(black_box(&source));
                black_box(&mut target);
                Ok(())
            })?;
            moves_ns += ns_each(1, || move_bytes(rig, &source))?;
        }
        Ok(moves_ns / copies_ns)
    })
}

fn upload(bytes: usize) -> Sample {
    in_copies(bytes, |rig, values| {
        let _handle = rig.stream.create(values)?;
        rig.stream.sync().wait()
    })
}

fn download(bytes: usize) -> Sample {
    let (mut handle, mut memory) = (None, Vec::new());
    in_copies(bytes, move |rig, values| {
        let handle = match &handle {
            Some(handle) => handle,
            None => handle.insert(rig.stream.create(values)?),
        };
        let read = rig.stream.read_into(handle, std::mem::take(&mut memory));
        memory = read.wait()?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counts_double_up_to_the_maximum() {
        let of = |most| thread_counts(most).collect::<Vec<_>>();
        assert_eq!(of(1), [1]);
        assert_eq!(of(6), [1, 2, 4, 6]);
        assert_eq!(of(8), [1, 2, 4, 8]);
    }
}
