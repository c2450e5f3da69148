//! The samples of the rows: how each operation is measured.

use std::hint::black_box;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use millstream::graph::{Graph, Schedule};
use millstream::tune::{Effort, Fastest, Policy, StreamClock, Tunable, TunableSet, Tuner};
use millstream::{CubeCount, DType, Stats, Stream, update};
use millstream_harness::{ns_each, time_each};

use super::load::{Load, Sample, SampleError};
use super::rig::{RECORDED, Rig};

/// Launches that fit in the mailbox, so that the caller never waits for room.
const BURST: usize = 200;
/// How long the device is idle before each wait of the idle row.
const PAUSE: Duration = Duration::from_millis(1);
/// The bytes that one sample moves at least.
const MOVED_BYTES: usize = 32 << 20;
/// Rows and columns of the matrices of the graph.
const WIDTH: usize = 64;
/// Tuned keys.
const KEYS: u32 = 16;

/// Measures the nanoseconds of one `work`, averaged over `count` calls.
fn timed(
    rig: &Rc<Rig>,
    count: usize,
    work: impl Fn(&Rig) -> Result<(), SampleError> + 'static,
) -> Sample {
    let rig = rig.clone();
    Box::new(move || time_each(count, |_| work(&rig), || Ok(())))
}

/// Converts the samples from nanoseconds to microseconds.
fn in_us(mut sample: Sample) -> Sample {
    Box::new(move || sample().map(|ns| ns / 1e3))
}

pub(super) fn launch(rig: &Rc<Rig>, load: Load) -> Sample {
    let rig = rig.clone();
    let bursts = load.launches.div_ceil(BURST);
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

pub(super) fn wait(rig: &Rc<Rig>, load: Load) -> Sample {
    in_us(timed(rig, load.waits, |rig| Ok(rig.launch_and_wait()?)))
}

pub(super) fn idle_wait(rig: &Rc<Rig>, load: Load) -> Sample {
    let rig = rig.clone();
    Box::new(move || {
        let mut all = Duration::ZERO;
        for _ in 0..load.pauses {
            thread::sleep(PAUSE);
            let begun = Instant::now();
            rig.launch_and_wait()?;
            all += begun.elapsed();
        }
        Ok(all.as_nanos() as f64 / 1e3 / load.pauses as f64)
    })
}

pub(super) fn throughput(rig: &Rc<Rig>, load: Load, threads: usize) -> Sample {
    let rig = rig.clone();
    let streams: Vec<Stream> = (0..threads).map(|_| rig.client.new_stream()).collect();
    Box::new(move || {
        let begun = Instant::now();
        rig.launch_from_threads(&streams, load.launches)?;
        Ok(1e3 / ns_each(begun, load.launches / threads * threads))
    })
}

/// Returns the device's counters before and after `work`.
fn stats_around(
    rig: &Rig,
    work: impl FnOnce(&Rig) -> Result<(), SampleError>,
) -> Result<[Stats; 2], SampleError> {
    let before = rig.device.stats()?;
    work(rig)?;
    Ok([before, rig.device.stats()?])
}

pub(super) fn batch(rig: &Rc<Rig>, load: Load) -> Sample {
    let rig = rig.clone();
    Box::new(move || {
        let streams = std::slice::from_ref(&rig.stream);
        let work = |rig: &Rig| Ok(rig.launch_from_threads(streams, load.launches)?);
        let [before, after] = stats_around(&rig, work)?;
        let (tasks, batches) = (after.tasks - before.tasks, after.batches - before.batches);
        Ok(tasks as f64 / batches.max(1) as f64)
    })
}

pub(super) fn replayed(rig: &Rc<Rig>, load: Load) -> Sample {
    let rig = rig.clone();
    let (times, mut recording) = (load.launches.div_ceil(RECORDED), None);
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

pub(super) fn hand_over(rig: &Rc<Rig>, load: Load) -> Sample {
    let (rig, streams) = (rig.clone(), two_streams(rig));
    Box::new(move || {
        let begun = Instant::now();
        rig.hand_over(&streams, load.launches)?;
        Ok(ns_each(begun, load.launches))
    })
}

/// Measures the share of hazards that need no wait.
///
/// One stream touches four parts of a buffer from the first to the last, the other from the last to the first. The
/// first wait for the other queue's latest task implies the waits for the tasks before it.
pub(super) fn implied(rig: &Rc<Rig>, load: Load) -> Sample {
    let (rig, [there, back]) = (rig.clone(), two_streams(rig));
    let rounds = load.launches / 8;
    Box::new(move || {
        let part = |index: usize| rig.buffer.slice(64 * index..64 * (index + 1));
        let parts = [part(0)?, part(1)?, part(2)?, part(3)?];
        let touch =
            |stream: &Stream, part| stream.launch(&rig.touch, CubeCount::single(), (update(part),));
        let [before, after] = stats_around(&rig, |rig| {
            for _ in 0..rounds {
                parts.iter().try_for_each(|part| touch(&there, part))?;
                parts.iter().rev().try_for_each(|part| touch(&back, part))?;
            }
            Ok(rig.device.sync().wait()?)
        })?;
        let issued = after.waits_issued - before.waits_issued;
        let implied = after.waits_implied - before.waits_implied;
        Ok(match issued + implied {
            0 => 100.0, // both streams are assigned to one queue, whose order suffices
            all => 100.0 * implied as f64 / all as f64,
        })
    })
}

pub(super) fn allocate(rig: &Rc<Rig>, load: Load) -> Sample {
    timed(rig, load.launches, |rig| Ok(rig.empty_and_drop()?))
}

pub(super) fn round_trip(rig: &Rc<Rig>, load: Load, bytes: usize) -> Sample {
    let values = vec![7_u8; bytes];
    // Every size moves about as many bytes per sample.
    let times = (load.waits * (16 << 10) / bytes).clamp(1, load.waits);
    in_us(timed(rig, times, move |rig| {
        Ok(rig.create_and_read(&values).map(drop)?)
    }))
}

/// Measures `move_bytes` in units of a `memcpy` of the same bytes between touched host buffers.
///
/// Both take turns, so that a slowdown of the machine affects both.
fn in_copies(
    bytes: usize,
    mut move_bytes: impl FnMut(&[u8]) -> Result<(), SampleError> + 'static,
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

pub(super) fn upload(rig: &Rc<Rig>, bytes: usize) -> Sample {
    let rig = rig.clone();
    in_copies(bytes, move |values| {
        let _handle = rig.stream.create(values)?;
        Ok(rig.stream.sync().wait()?)
    })
}

pub(super) fn download(rig: &Rc<Rig>, bytes: usize) -> Sample {
    let rig = rig.clone();
    let (mut handle, mut memory) = (None, Vec::new());
    in_copies(bytes, move |values| {
        let handle = match &handle {
            Some(handle) => handle,
            None => handle.insert(rig.stream.create(values)?),
        };
        memory = rig
            .stream
            .read_into(handle, std::mem::take(&mut memory))
            .wait()?;
        Ok(())
    })
}

pub(super) fn graph_step(rig: &Rc<Rig>, load: Load) -> Result<Sample, SampleError> {
    let graph = Graph::new();
    let [x, w] = ["x", "w"].map(|name| graph.input(name, DType::F32, [WIDTH, WIDTH]));
    let step = (x.matmul(&w) + 1.0).relu().softmax(-1).sum(0);
    let compiled = Schedule::create_one(&step)?.compile(&rig.client)?;
    let ones = rig.stream.create(&[1.0_f32; WIDTH * WIDTH])?;
    Ok(in_us(timed(rig, load.waits / 2, move |rig| {
        let run = compiled.run().input(&x, &ones).input(&w, &ones);
        let outputs = run.submit(&rig.stream)?;
        outputs[0].read::<f32>(&rig.stream)?.wait()?;
        Ok(())
    })))
}

pub(super) fn lookup(rig: &Rc<Rig>, load: Load) -> Result<Sample, SampleError> {
    let set = TunableSet::new("fill", |_: &u32, buffer: &millstream::Handle<u32>| {
        buffer.clone()
    });
    let candidate = |name, stream: Stream| {
        Tunable::new(name, move |buffer: millstream::Handle<u32>| {
            stream.fill(&buffer, 0)
        })
    };
    let set = set
        .with(candidate("one", rig.stream.clone()))
        .with(candidate("other", rig.stream.clone()));
    let tuner = Tuner::with_effort(Effort::default().samples(1));
    let mut clock = StreamClock::new(&rig.stream);
    for key in 0..KEYS {
        tuner.choose(&set, &key, &rig.buffer, &mut clock, Policy::Wait)?;
    }
    let lookups = load.launches;
    Ok(Box::new(move || {
        let begun = Instant::now();
        for lookup in 0..lookups {
            let known = tuner.fastest(std::hint::black_box(&(lookup as u32 % KEYS)));
            if !matches!(known, Fastest::Hit(_)) {
                return Err("the tuner no longer has a tuned key".into());
            }
        }
        Ok(ns_each(begun, lookups))
    }))
}
