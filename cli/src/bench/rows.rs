//! The rows of the report. Each takes one sample at a time, so that rows can take turns and a slowdown of the
//! machine affects all of them.

use std::hint::black_box;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use millstream::{CubeCount, Error, Stream, report::Stats, update};

use super::rig::{RECORDED, Rig};

/// Takes one sample of a row.
pub(super) type Sample = Box<dyn FnMut() -> Result<f64, Error>>;

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

/// The rows, in the order of the report.
#[derive(Default)]
struct Rows(Vec<Row>);

impl Rows {
    fn add(&mut self, name: impl Into<String>, unit: &'static str, sample: Sample) {
        self.0.push(Row {
            name: name.into(),
            unit,
            threads: None,
            sample,
        });
    }
}

/// Returns all rows for up to `threads` threads.
pub(super) fn all(rig: &Rc<Rig>, load: Load, threads: usize) -> Vec<Row> {
    let (launches, waits) = (load.launches, load.waits);
    let mut rows = Rows::default();
    rows.add("launch, caller's side", "ns", launch(rig, launches));
    let sample = timed(rig, 1e3, waits, Rig::launch_and_wait);
    rows.add("launch and wait", "us", sample);
    let sample = idle_wait(rig, load.pauses);
    rows.add("launch and wait after 1 ms idle", "us", sample);
    for threads in thread_counts(threads) {
        let plural = if threads == 1 { "" } else { "s" };
        let name = format!("launches, {threads} thread{plural}");
        rows.add(name, "million/s", throughput(rig, launches, threads));
        if let Some(row) = rows.0.last_mut() {
            row.threads = Some(threads);
        }
    }
    rows.add("batch size, 1 thread", "tasks", batch(rig, launches));
    rows.add("replay, per recorded task", "ns", replayed(rig, launches));
    let sample = hand_over(rig, launches);
    rows.add("task after another stream's task", "ns", sample);
    let sample = implied(rig, launches / 8);
    rows.add("hazards without a wait, 2 streams", "%", sample);
    let sample = timed(rig, 1.0, launches, Rig::empty_and_drop);
    rows.add("allocate and drop", "ns", sample);
    for (size, bytes) in [("4 KiB", 4 << 10), ("4 MiB", 4 << 20)] {
        let values = vec![7_u8; bytes];
        // Every size moves about as many bytes per sample.
        let times = (waits * (16 << 10) / bytes).clamp(1, waits);
        let round_trip = move |rig: &Rig| rig.create_and_read(&values).map(drop);
        let sample = timed(rig, 1e3, times, round_trip);
        rows.add(format!("{size} round trip"), "us", sample);
    }
    for mib in [1, 4, 64] {
        let name = |operation| format!("{mib} MiB {operation}, in warm copies");
        rows.add(name("upload"), "copies", upload(rig, mib << 20));
        rows.add(name("download"), "copies", download(rig, mib << 20));
    }
    rows.0
}

/// Returns the powers of two below `most`, then `most`.
fn thread_counts(most: usize) -> impl Iterator<Item = usize> {
    let doubled = std::iter::successors(Some(1), |count| Some(count * 2));
    doubled.take_while(move |count| *count < most).chain([most])
}

fn ns_each(begun: Instant, count: usize) -> f64 {
    begun.elapsed().as_nanos() as f64 / count as f64
}

/// Measures the time of one `work`, averaged over `count` calls, in units of `unit_ns`.
fn timed(
    rig: &Rc<Rig>,
    unit_ns: f64,
    count: usize,
    work: impl Fn(&Rig) -> Result<(), Error> + 'static,
) -> Sample {
    let rig = rig.clone();
    Box::new(move || {
        let begun = Instant::now();
        (0..count).try_for_each(|_| work(&rig))?;
        Ok(ns_each(begun, count) / unit_ns)
    })
}

fn launch(rig: &Rc<Rig>, launches: usize) -> Sample {
    let rig = rig.clone();
    let bursts = launches.div_ceil(BURST);
    Box::new(move || {
        let mut all = Duration::ZERO;
        for _ in 0..bursts {
            let begun = Instant::now();
            for _ in 0..BURST {
                rig.stream.launch(&rig.empty, CubeCount::single(), ())?;
            }
            all += begun.elapsed();
            rig.stream.sync().wait()?;
        }
        Ok(all.as_nanos() as f64 / (bursts * BURST) as f64)
    })
}

fn idle_wait(rig: &Rc<Rig>, pauses: usize) -> Sample {
    let rig = rig.clone();
    Box::new(move || {
        let mut all = Duration::ZERO;
        for _ in 0..pauses {
            thread::sleep(PAUSE);
            let begun = Instant::now();
            rig.launch_and_wait()?;
            all += begun.elapsed();
        }
        Ok(all.as_nanos() as f64 / 1e3 / pauses as f64)
    })
}

fn throughput(rig: &Rc<Rig>, launches: usize, threads: usize) -> Sample {
    let rig = rig.clone();
    let streams: Vec<Stream> = (0..threads).map(|_| rig.client.new_stream()).collect();
    Box::new(move || {
        let begun = Instant::now();
        rig.launch_from_threads(&streams, launches)?;
        Ok(1e3 / ns_each(begun, launches / threads * threads))
    })
}

/// Returns the device's counters before and after `work`.
fn stats_around(rig: &Rig, work: impl FnOnce() -> Result<(), Error>) -> Result<[Stats; 2], Error> {
    let before = rig.device.stats()?;
    work()?;
    Ok([before, rig.device.stats()?])
}

fn batch(rig: &Rc<Rig>, launches: usize) -> Sample {
    let rig = rig.clone();
    Box::new(move || {
        let streams = std::slice::from_ref(&rig.stream);
        let work = || rig.launch_from_threads(streams, launches);
        let [before, after] = stats_around(&rig, work)?;
        let (tasks, batches) = (after.tasks - before.tasks, after.batches - before.batches);
        Ok(tasks as f64 / batches.max(1) as f64)
    })
}

fn replayed(rig: &Rc<Rig>, launches: usize) -> Sample {
    let rig = rig.clone();
    let (times, mut recording) = (launches.div_ceil(RECORDED), None);
    Box::new(move || {
        let recording = match &recording {
            Some(recording) => recording,
            None => recording.insert(rig.recording()?),
        };
        let begun = Instant::now();
        rig.replay(recording, times)?;
        Ok(ns_each(begun, times * RECORDED))
    })
}

fn two_streams(rig: &Rig) -> [Stream; 2] {
    [rig.client.new_stream(), rig.client.new_stream()]
}

fn hand_over(rig: &Rc<Rig>, launches: usize) -> Sample {
    let (rig, streams) = (rig.clone(), two_streams(rig));
    Box::new(move || {
        let begun = Instant::now();
        rig.hand_over(&streams, launches)?;
        Ok(ns_each(begun, launches))
    })
}

/// Measures the share of hazards that need no wait.
///
/// One stream touches four parts of a buffer from the first to the last, the other from the last to the first. The
/// first wait for the other queue's latest task implies the waits for the tasks before it.
fn implied(rig: &Rc<Rig>, rounds: usize) -> Sample {
    let (rig, [there, back]) = (rig.clone(), two_streams(rig));
    Box::new(move || {
        let part = |index: usize| rig.buffer.slice(64 * index..64 * (index + 1));
        let parts = [part(0)?, part(1)?, part(2)?, part(3)?];
        let touch =
            |stream: &Stream, part| stream.launch(&rig.touch, CubeCount::single(), (update(part),));
        let [before, after] = stats_around(&rig, || {
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
    mut move_bytes: impl FnMut(&[u8]) -> Result<(), Error> + 'static,
) -> Sample {
    let (source, mut target) = (vec![7_u8; bytes], vec![0_u8; bytes]);
    let times = (MOVED_BYTES / bytes).max(1);
    Box::new(move || {
        let (mut copies, mut moves) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..times {
            let begun = Instant::now();
            target.copy_from_slice(black_box(&source));
            black_box(&mut target);
            copies += begun.elapsed();
            let begun = Instant::now();
            move_bytes(&source)?;
            moves += begun.elapsed();
        }
        Ok(moves.as_secs_f64() / copies.as_secs_f64())
    })
}

fn upload(rig: &Rc<Rig>, bytes: usize) -> Sample {
    let rig = rig.clone();
    in_copies(bytes, move |values| {
        let _handle = rig.stream.create(values)?;
        rig.stream.sync().wait()
    })
}

fn download(rig: &Rc<Rig>, bytes: usize) -> Sample {
    let rig = rig.clone();
    let (mut handle, mut memory) = (None, Vec::new());
    in_copies(bytes, move |values| {
        let handle = match &handle {
            Some(handle) => handle,
            None => handle.insert(rig.stream.create(values)?),
        };
        let read = rig
            .stream
            .read_into(handle, std::mem::take(&mut memory))
            .wait()?;
        memory = read;
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
