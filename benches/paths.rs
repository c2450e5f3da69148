//! Times the calls of the public interface, over the CPU device: `cargo bench --bench paths [-- NAME] [--json=FILE]`.
//!
//! Each bench is a complete round trip on your machine, to compare before and after a change. `benches/peers` measures
//! the runtime alone, beside a peer.
#![allow(clippy::unwrap_used, reason = "a bench that cannot run has no result")]

// The same code as in `millstream bench`, so both measure the same.
#[path = "../cli/src/bench/rig.rs"]
#[allow(dead_code, reason = "only `millstream bench` uses some of it")]
mod rig;

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Duration;

use millstream::{
    Cpu, CubeCount, Device, Handle, Kernel, read,
    report::{TraceSpan, TraceWait},
    stream::RecordedWord,
    timeline, write,
};
use millstream_harness::{Program, runs_to_fill, time_each};
use rig::Rig;

/// The minimum time of a sample.
const SAMPLE: Duration = Duration::from_millis(1);

/// Takes the samples of one bench, in nanoseconds per run.
struct Bencher {
    samples: usize,
    taken: Vec<f64>,
}

impl Bencher {
    fn bench<T>(&mut self, mut run: impl FnMut() -> T) {
        let mut sample = |runs: u64| {
            let run = |_| {
                black_box(run());
                Ok::<_, Infallible>(())
            };
            time_each(runs as usize, run, || Ok(()))
        };
        let Ok(runs) = runs_to_fill(SAMPLE, 1..=u64::MAX, |runs| sample(runs).map(drop));
        self.taken = (0..self.samples)
            .map(|_| {
                let Ok(ns) = sample(runs);
                ns
            })
            .collect();
    }
}

type SetUp = fn(&mut Bencher);

/// The benches: the name, the number of samples, and the set-up, which passes the code to time to the bencher.
const BENCHES: [(&str, usize, SetUp); 17] = [
    ("launch_from_threads, 1", 100, |b| launch_from_threads(b, 1)),
    ("launch_from_threads, 2", 100, |b| launch_from_threads(b, 2)),
    ("launch_from_threads, 4", 100, |b| launch_from_threads(b, 4)),
    ("launch_from_threads, 8", 100, |b| launch_from_threads(b, 8)),
    ("launch_profiled, 0", 100, |b| launch_profiled(b, 0)),
    ("launch_profiled, 1", 100, |b| launch_profiled(b, 1)),
    ("launch_profiled, 4", 100, |b| launch_profiled(b, 4)),
    ("create_and_read, 4 KiB", 200, |b| {
        create_and_read(b, 4 << 10);
    }),
    ("create_and_read, 4 MiB", 200, |b| {
        create_and_read(b, 4 << 20);
    }),
    ("record", 1_000, record),
    ("replay", 1_000, replay),
    ("launch with four buffers and words", 2_000, |b| {
        four_buffers_and_words(b, false);
    }),
    ("replay with four buffers and words", 2_000, |b| {
        four_buffers_and_words(b, true);
    }),
    ("empty_and_drop", 100, empty_and_drop),
    ("sync", 1_000, sync),
    ("format_a_timeline", 5, format_a_timeline),
    ("write_a_timeline", 5, write_a_timeline),
];

fn main() {
    let mut program = Program::new("cargo bench --bench paths --", &["median"]);
    for (name, samples, set_up) in BENCHES {
        if program.wants(name) {
            let taken = Vec::new();
            let mut bencher = Bencher { samples, taken };
            set_up(&mut bencher);
            program.row(name, "ns", vec![bencher.taken]);
        }
    }
    program.report().unwrap();
}

/// Launches of all threads in one sample: enough that the start of the threads and the last sync are negligible.
const LAUNCHES: usize = 10_000;

fn rig() -> Rig {
    Rig::new(Device::open(Cpu::default()).unwrap()).unwrap()
}

/// Launches empty kernels from several threads, each on its own stream, until the device has run them all.
fn launch_from_threads(bencher: &mut Bencher, threads: usize) {
    let rig = rig();
    let streams: Vec<_> = (0..threads).map(|_| rig.client.new_stream()).collect();
    bencher.bench(|| rig.launch_from_threads(&streams, LAUNCHES).unwrap());
}

/// Launches empty kernels from one thread while N profiles are open. The difference to N = 0 is the cost of profiles.
fn launch_profiled(bencher: &mut Bencher, profiles: usize) {
    let rig = rig();
    bencher.bench(|| {
        let tokens: Vec<_> = (0..profiles)
            .map(|_| rig.stream.start_profile().unwrap())
            .collect();
        for _ in 0..LAUNCHES {
            rig.stream
                .launch(&rig.empty, CubeCount::single(), ())
                .unwrap();
        }
        rig.stream.sync().wait().unwrap();
        for token in tokens {
            rig.stream.end_profile(token).wait().unwrap();
        }
    });
}

/// Copies bytes to the device and back.
fn create_and_read(bencher: &mut Bencher, bytes: usize) {
    let rig = rig();
    let values = vec![7_u8; bytes];
    bencher.bench(|| rig.create_and_read(&values).unwrap());
}

/// Records 32 launches: checks and resolves them.
fn record(bencher: &mut Bencher) {
    let rig = rig();
    bencher.bench(|| rig.recording().unwrap());
}

/// Replays 32 launches, until the device has run them all.
fn replay(bencher: &mut Bencher) {
    let rig = rig();
    let recording = rig.recording().unwrap();
    bencher.bench(|| rig.replay(&recording, 1).unwrap());
}

/// Tasks that are in the mailbox at once, on a driven device.
const DRIVEN: u64 = 256;

/// Launches or replays a fused kernel that computes nothing, with four buffers and six words that change each time.
///
/// Caller, device and worker are one thread, so the time includes the work of all three.
fn four_buffers_and_words(bencher: &mut Bencher, replayed: bool) {
    let (device, mut driver) = Device::open_driven(Cpu::default(), Default::default()).unwrap();
    let client = device.new_client();
    let stream = client.new_stream();
    let fused = ["a", "b", "c"]
        .iter()
        .fold(Kernel::new("fused"), |kernel, name| {
            kernel.reads::<f32>(*name)
        });
    let fused = (0..6).fold(fused.writes::<f32>("out"), |kernel, word| {
        kernel.scalar::<u64>(format!("w{word}"))
    });
    let fused = client.kernel(fused.native(|_, _| {})).unwrap();
    let buffers: [_; 4] = std::array::from_fn(|_| stream.create(&[0_f32; 256]).unwrap());
    let [a, b, c, out] = buffers.each_ref().map(Handle::as_bytes);
    let recording = stream.record(|r| {
        let made: [_; 4] = std::array::from_fn(|_| r.parameter::<f32>(256).unwrap());
        let [a, b, c, out] = made.each_ref().map(Handle::as_bytes);
        let bindings = [read(a), read(b), read(c), write(out)];
        let words: [_; 6] = std::array::from_fn(|word| match word {
            0..4 => RecordedWord::Value(word as u64),
            _ => RecordedWord::Slot(word as u32 - 4),
        });
        r.launch_words(&fused, CubeCount::single(), &bindings, &words)
    });
    let recording = recording.unwrap();
    let mut step = |word: u64| match replayed {
        true => recording.replay_args(&stream, &[(0, a), (1, b), (2, c), (3, out)], &[word, 1]),
        false => {
            let bindings = [read(a), read(b), read(c), write(out)];
            stream.launch_words(
                &fused,
                CubeCount::single(),
                &bindings,
                &[0, 1, 2, 3, word, 1],
            )
        }
    };
    bencher.bench(|| {
        (0..DRIVEN).try_for_each(&mut step).unwrap();
        while driver.pump(Duration::from_secs(1)) {}
    });
}

/// Allocates a buffer that no task uses, and frees it by dropping the handle.
fn empty_and_drop(bencher: &mut Bencher) {
    let rig = rig();
    bencher.bench(|| rig.empty_and_drop().unwrap());
}

/// A round trip to an idle device.
fn sync(bencher: &mut Bencher) {
    let rig = rig();
    bencher.bench(|| rig.stream.sync().wait().unwrap());
}

/// Returns a million spans with names and times of realistic lengths.
fn a_million_spans() -> Vec<TraceSpan> {
    let names: [std::sync::Arc<str>; 3] =
        ["histogram".into(), "blur_x".into(), "copy to host".into()];
    let tenant: std::sync::Arc<str> = "tenant".into();
    (0..1_000_000_u64)
        .map(|index| TraceSpan {
            name: names[index as usize % names.len()].clone(),
            client_name: tenant.clone(),
            stream: index % 64,
            stream_ended: false,
            queue: index as u32 % 4,
            start_ns: 5_000_000_000 + index * 1_777,
            end_ns: 5_000_001_234 + index * 1_777,
            client: index as u32 % 8,
            cursor: index / 4,
            // One span in sixteen waits.
            waits: match index % 16 == 15 {
                true => vec![TraceWait {
                    queue: (index as u32 + 3) % 4,
                    cursor: index / 4 - 1,
                }],
                false => Vec::new(),
            },
        })
        .collect()
}

/// Formats a million spans as a timeline, and discards the output.
fn format_a_timeline(bencher: &mut Bencher) {
    let spans = a_million_spans();
    bencher.bench(|| timeline::write(&spans, std::io::sink()));
}

/// Writes a timeline of a million spans to a file of about 250 MB in the system's temporary folder.
fn write_a_timeline(bencher: &mut Bencher) {
    let spans = a_million_spans();
    let path =
        std::env::temp_dir().join(format!("millstream-timeline-{}.json", std::process::id()));
    bencher.bench(|| timeline::write(&spans, std::fs::File::create(&path).unwrap()));
    std::fs::remove_file(&path).unwrap();
}
