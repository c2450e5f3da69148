//! Times the calls of the public interface, over the CPU device: `cargo bench --bench paths`.
//!
//! Each bench is a complete round trip on your machine, to compare before and after a change. `benches/peers` measures
//! the runtime alone, beside a peer.
#![allow(clippy::unwrap_used, reason = "a bench that cannot run has no result")]

// The same code as in `millstream bench`, so both measure the same.
#[path = "../cli/src/bench/rig.rs"]
#[allow(dead_code, reason = "only `millstream bench` uses some of it")]
mod rig;

use std::time::Duration;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use millstream::{
    Cpu, CubeCount, Device, Handle, Kernel, read,
    report::{TraceSpan, TraceWait},
    stream::RecordedWord,
    timeline, write,
};
use rig::{RECORDED, Rig};

fn main() {
    divan::main();
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Launches of all threads in one sample: enough that the start of the threads and the last sync are negligible.
const LAUNCHES: usize = 10_000;

fn rig() -> Rig {
    Rig::new(Device::open(Cpu::default()).unwrap()).unwrap()
}

/// Launches empty kernels from several threads, each on its own stream, until the device has run them all.
#[divan::bench(args = [1, 2, 4, 8], sample_count = 100, sample_size = 1)]
fn launch_from_threads(bencher: Bencher, threads: usize) {
    let rig = rig();
    let streams: Vec<_> = (0..threads).map(|_| rig.client.new_stream()).collect();
    let per_thread = LAUNCHES / threads;
    bencher
        .counter(ItemsCount::new(per_thread * threads))
        .bench(|| rig.launch_from_threads(&streams, LAUNCHES).unwrap());
}

/// Launches empty kernels from one thread while N profiles are open. The difference to N = 0 is the cost of profiles.
#[divan::bench(args = [0, 1, 4], sample_count = 100, sample_size = 1)]
fn launch_profiled(bencher: Bencher, profiles: usize) {
    let rig = rig();
    bencher.counter(ItemsCount::new(LAUNCHES)).bench(|| {
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
#[divan::bench(args = [4 * KIB, 4 * MIB], sample_count = 200)]
fn create_and_read(bencher: Bencher, bytes: usize) {
    let rig = rig();
    let values = vec![7_u8; bytes];
    bencher
        .counter(BytesCount::new(bytes))
        .bench(|| rig.create_and_read(&values).unwrap());
}

/// Records 32 launches: checks and resolves them.
#[divan::bench(sample_count = 1_000)]
fn record(bencher: Bencher) {
    let rig = rig();
    bencher
        .counter(ItemsCount::new(RECORDED))
        .bench(|| rig.recording().unwrap());
}

/// Replays 32 launches, until the device has run them all.
#[divan::bench(sample_count = 1_000)]
fn replay(bencher: Bencher) {
    let rig = rig();
    let recording = rig.recording().unwrap();
    bencher
        .counter(ItemsCount::new(RECORDED))
        .bench(|| rig.replay(&recording, 1).unwrap());
}

/// Tasks that are in the mailbox at once, on a driven device.
const DRIVEN: u64 = 256;

/// Launches or replays a fused kernel that computes nothing, with four buffers and six words that change each time.
///
/// Caller, device and worker are one thread, so the time includes the work of all three.
#[divan::bench(args = [false, true], sample_count = 2_000)]
fn four_buffers_and_words(bencher: Bencher, replayed: bool) {
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
    bencher.counter(ItemsCount::new(DRIVEN)).bench_local(|| {
        (0..DRIVEN).try_for_each(&mut step).unwrap();
        while driver.pump(Duration::from_secs(1)) {}
    });
}

/// Allocates a buffer that no task uses, and frees it by dropping the handle.
#[divan::bench]
fn empty_and_drop(bencher: Bencher) {
    let rig = rig();
    bencher.bench(|| rig.empty_and_drop().unwrap());
}

/// A round trip to an idle device.
#[divan::bench(sample_count = 1_000)]
fn sync(bencher: Bencher) {
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
#[divan::bench(sample_count = 5, sample_size = 1)]
fn format_a_timeline_of_a_million_spans(bencher: Bencher) {
    let spans = a_million_spans();
    bencher
        .counter(ItemsCount::new(spans.len()))
        .bench(|| timeline::write(&spans, std::io::sink()));
}

/// Writes a timeline of a million spans to a file of about 250 MB in the system's temporary folder.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn write_a_timeline_of_a_million_spans(bencher: Bencher) {
    let spans = a_million_spans();
    let path =
        std::env::temp_dir().join(format!("millstream-timeline-{}.json", std::process::id()));
    bencher
        .counter(ItemsCount::new(spans.len()))
        .bench(|| timeline::write(&spans, std::fs::File::create(&path).unwrap()));
    std::fs::remove_file(&path).unwrap();
}
