//! The paths that a user pays for, over the CPU device: `cargo bench --bench paths`.
//!
//! Whole round trips through the public face on the machine at hand, to look at and to compare before and
//! after a change. What the runtime alone costs, beside a peer, is measured by `benches/peers`.
#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that cannot run has nothing to say"
)]

use std::time::Duration;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use millstream::{
    ComputeClient, Cpu, CubeCount, Device, Handle, Kernel, KernelHandle, RecordedWord, Recording,
    Stream, TraceSpan, TraceWait, read, timeline, update, write,
};

fn main() {
    divan::main();
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Launches of all threads in one sample: enough that starting threads and the last sync do not matter.
const LAUNCHES: usize = 10_000;
/// Launches of one recording.
const RECORDED: usize = 32;

/// A device, and what is launched on it.
struct Rig {
    /// Closed when it is dropped.
    _device: Device,
    client: ComputeClient,
    stream: Stream,
    empty: KernelHandle,
    touch: KernelHandle,
    buffer: Handle<u32>,
}

impl Rig {
    fn new() -> Self {
        let device = Device::open(Cpu::default()).unwrap();
        let client = device.client();
        let empty = Kernel::new("empty").native(|_, _| {});
        let touch = Kernel::new("touch")
            .updates::<u32>("values")
            .native(|_, _| {});
        let stream = client.stream();
        Self {
            empty: client.kernel(empty).unwrap(),
            touch: client.kernel(touch).unwrap(),
            buffer: stream.create(&[0; 256]).unwrap(),
            stream,
            client,
            _device: device,
        }
    }

    fn recording(&self) -> Recording {
        let launch_all = |r: &mut millstream::Recorder| {
            for _ in 0..RECORDED {
                r.launch(&self.touch, CubeCount::single(), (update(&self.buffer),))?;
            }
            Ok(())
        };
        self.stream.record(launch_all).unwrap()
    }
}

/// Empty kernels from several threads, each on a stream of its own, until the device has run them all.
#[divan::bench(args = [1, 2, 4, 8], sample_count = 100, sample_size = 1)]
fn launch_from_threads(bencher: Bencher, threads: usize) {
    let rig = Rig::new();
    let streams: Vec<_> = (0..threads).map(|_| rig.client.stream()).collect();
    let per_thread = LAUNCHES / threads;
    bencher
        .counter(ItemsCount::new(per_thread * threads))
        .bench(|| {
            std::thread::scope(|scope| {
                for stream in &streams {
                    scope.spawn(|| {
                        for _ in 0..per_thread {
                            stream.launch(&rig.empty, CubeCount::single(), ()).unwrap();
                        }
                        stream.sync().wait().unwrap();
                    });
                }
            });
        });
}

/// Empty kernels from one thread, while so many profiles are open: what a task costs more is what a profile costs.
#[divan::bench(args = [0, 1, 4], sample_count = 100, sample_size = 1)]
fn launch_profiled(bencher: Bencher, profiles: usize) {
    let rig = Rig::new();
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

/// Bytes to the device, and back.
#[divan::bench(args = [4 * KIB, 4 * MIB], sample_count = 200)]
fn create_and_read(bencher: Bencher, bytes: usize) {
    let rig = Rig::new();
    let values = vec![7_u8; bytes];
    bencher.counter(BytesCount::new(bytes)).bench(|| {
        let handle = rig.stream.create(&values).unwrap();
        rig.stream.read(&handle).wait().unwrap()
    });
}

/// Checking and resolving 32 launches.
#[divan::bench(sample_count = 1_000)]
fn record(bencher: Bencher) {
    let rig = Rig::new();
    bencher
        .counter(ItemsCount::new(RECORDED))
        .bench(|| rig.recording());
}

/// Replaying them, until the device has run them all.
#[divan::bench(sample_count = 1_000)]
fn replay(bencher: Bencher) {
    let rig = Rig::new();
    let recording = rig.recording();
    bencher.counter(ItemsCount::new(RECORDED)).bench(|| {
        recording.replay(&rig.stream).unwrap();
        rig.stream.sync().wait().unwrap();
    });
}

/// Tasks that lie in the mailbox at once, on a driven device.
const DRIVEN: u64 = 256;

/// What a fused kernel costs that computes nothing: four buffers and a few words, launched or replayed with other ones each
/// time. Caller, device and worker are one thread, so that all their work is counted.
#[divan::bench(args = [false, true], sample_count = 2_000)]
fn four_buffers_and_words(bencher: Bencher, replayed: bool) {
    let (device, mut driver) = Device::open_driven(Cpu::default(), Default::default()).unwrap();
    let client = device.client();
    let stream = client.stream();
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

/// A buffer that nobody uses: memory taken, and given back when the handle is dropped.
#[divan::bench]
fn empty_and_drop(bencher: Bencher) {
    let rig = Rig::new();
    bencher.bench(|| drop(rig.stream.empty::<u32>(256).unwrap()));
}

/// A round trip to a device that has nothing to do.
#[divan::bench(sample_count = 1_000)]
fn sync(bencher: Bencher) {
    let rig = Rig::new();
    bencher.bench(|| rig.stream.sync().wait().unwrap());
}

/// A million spans as a file, of names and times as long as those of real ones.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn write_a_timeline_of_a_million_spans(bencher: Bencher) {
    let names: [std::sync::Arc<str>; 3] =
        ["histogram".into(), "blur_x".into(), "copy to host".into()];
    let spans: Vec<TraceSpan> = (0..1_000_000_u64)
        .map(|index| TraceSpan {
            name: names[index as usize % names.len()].clone(),
            stream: index % 64,
            queue: index as u32 % 4,
            start_ns: 5_000_000_000 + index * 1_777,
            end_ns: 5_000_001_234 + index * 1_777,
            client: index as u32 % 8,
            cursor: index / 4,
            // One in sixteen.
            waits: match index % 16 == 15 {
                true => vec![TraceWait {
                    queue: (index as u32 + 3) % 4,
                    cursor: index / 4 - 1,
                }],
                false => Vec::new(),
            },
        })
        .collect();
    bencher
        .counter(ItemsCount::new(spans.len()))
        .bench(|| timeline::write(&spans, std::io::sink()));
}
