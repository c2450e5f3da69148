//! The rows of the report. Each takes one sample at a time, so that rows can take turns and a slowdown of the
//! machine affects all of them.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use millstream::{Error, Handle, Stream};

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
pub(super) fn all(rig: &Rig, load: Load, threads: usize) -> Result<Vec<Row>, Error> {
    let (launches, waits) = (load.launches, load.waits);
    let mut rows = Vec::new();
    let mut add = |name: &str, unit, threads, sample| {
        rows.push(Row {
            name: name.to_owned(),
            unit,
            threads,
            sample,
        });
    };
    let sync = |rig: &Rig| rig.stream.sync().wait();
    let sample = timed_after(BURST as f64, launches / BURST, sync, |rig| {
        rig.launch(BURST)
    });
    add("launch, caller's side", "ns", None, sample);
    let sample = timed(1e3, waits, Rig::launch_and_wait);
    add("launch and wait", "us", None, sample);
    let pause = |_: &Rig| {
        thread::sleep(PAUSE);
        Ok(())
    };
    let sample = timed_after(1e3, load.pauses, pause, Rig::launch_and_wait);
    add("launch and wait after 1 ms idle", "us", None, sample);
    for threads in thread_counts(threads) {
        let name = format!("launches, {}", counted(threads, "thread"));
        let sample = throughput(rig, launches, threads);
        add(&name, "million/s", Some(threads), sample);
    }
    let (recording, times) = (rig.recording()?, launches.div_ceil(RECORDED));
    let replays = move |rig: &Rig| rig.replay(&recording, times);
    let sample = timed((times * RECORDED) as f64, 1, replays);
    add("replay, per recorded task", "ns", None, sample);
    let streams = [rig.client.new_stream(), rig.client.new_stream()];
    let hand_over = move |rig: &Rig| rig.hand_over(&streams, launches);
    let sample = timed(launches as f64, 1, hand_over);
    add("task after another stream's task", "ns", None, sample);
    let sample = timed(1.0, launches, Rig::empty_and_drop);
    add("allocate and drop", "ns", None, sample);
    for (size, bytes) in [("4 KiB", 4 << 10), ("4 MiB", 4 << 20)] {
        let values = vec![7_u8; bytes];
        // Every size moves about as many bytes per sample.
        let times = (waits * (16 << 10) / bytes).clamp(1, waits);
        let round_trip = move |rig: &Rig| rig.create_and_read(&values).map(drop);
        let sample = timed(1e3, times, round_trip);
        add(&format!("{size} round trip"), "us", None, sample);
    }
    for mib in [1, 4, 64] {
        let name = |operation| format!("{mib} MiB {operation}, in warm copies");
        let handle = rig.stream.create(&vec![7_u8; mib << 20])?;
        add(&name("upload"), "copies", None, upload(mib << 20));
        add(&name("download"), "copies", None, download(handle));
    }
    Ok(rows)
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

/// As [`timed`], with a call of `before` before each call of `work`. Its time does not count.
fn timed_after(
    unit_ns: f64,
    count: usize,
    before: impl Fn(&Rig) -> Result<(), Error> + 'static,
    work: impl Fn(&Rig) -> Result<(), Error> + 'static,
) -> Sample {
    Box::new(move |rig| {
        let mut ns = 0.0;
        for _ in 0..count {
            before(rig)?;
            ns += ns_each(1, || work(rig))?;
        }
        Ok(ns / count as f64 / unit_ns)
    })
}

fn throughput(rig: &Rig, launches: usize, threads: usize) -> Sample {
    let streams: Vec<Stream> = (0..threads).map(|_| rig.client.new_stream()).collect();
    let all = launches / threads * threads;
    Box::new(move |rig| Ok(1e3 / ns_each(all, || rig.launch_from_threads(&streams, launches))?))
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

fn download(handle: Handle<u8>) -> Sample {
    let mut memory = Vec::new();
    in_copies(handle.len(), move |rig, _| {
        let read = rig.stream.read_into(&handle, std::mem::take(&mut memory));
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
