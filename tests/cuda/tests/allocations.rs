//! I9: in the steady state launches and replays allocate no host memory, on any thread of the runtime.
//!
//! A test binary of its own, because it counts every allocation of the process. The fake driver is a shared library
//! with its own allocator, which is not counted.
#![allow(clippy::unwrap_used, reason = "tests")]

use fake_cuda::Session;
use millstream_actors::Device;
use millstream_client::Stream;
use millstream_client::arguments::{CubeCount, LaunchArgs, read, update, write};
use millstream_cuda::{Cuda, CudaLaunch};
use millstream_heap_count::{Counting, steady_allocations};
use millstream_ir::DType;
use millstream_protocol::{Kernel, Metadata, Source, TensorMap};
use rstest::rstest;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Returns the number of allocations of a run of `work` on these streams, after a warm-up.
fn steady<const N: usize>(streams: [&Stream; N], work: impl Fn()) -> u64 {
    let sync = || {
        for stream in streams {
            stream.sync().wait().unwrap();
        }
    };
    steady_allocations(sync, work)
}

#[rstest]
fn launches_and_replays_allocate_nothing_i9(#[values(1, 2)] queues: usize) {
    let gpu = Session::begin(7).unwrap_or_else(|error| panic!("{error}"));
    let device = Device::open(Cuda::ordinal(0).queues(queues)).unwrap();
    let client = device.new_client();
    let saxpy = Kernel::new("saxpy")
        .reads::<f32>("x")
        .updates::<f32>("y")
        .scalar::<f32>("a")
        .scalar::<u32>("n")
        .source(Source::Ptx(include_str!("kernels/saxpy.ptx").into()));
    let words = Kernel::new("words")
        .writes::<u32>("to")
        .with(CudaLaunch::default().metadata_words(8))
        .threads([1, 1, 1])
        .source(Source::Ptx(include_str!("kernels/words.ptx").into()));
    let tensor_map = Kernel::new("map")
        .reads::<u8>("from")
        .writes::<u64>("to")
        .with(CudaLaunch::default().tensor_maps(1))
        .threads([1, 1, 1])
        .source(Source::Ptx(include_str!("kernels/map.ptx").into()));
    let [saxpy, words, tensor_map] =
        [saxpy, words, tensor_map].map(|kernel| client.kernel(kernel).unwrap());
    let (stream, other) = (client.new_stream(), client.new_stream());
    let x = stream.create(&[1.0_f32; 16]).unwrap();
    let y = stream.create(&[1.0_f32; 16]).unwrap();
    let z = stream.create(&[1.0_f32; 16]).unwrap();
    let w = stream.create(&[1.0_f32; 16]).unwrap();
    let launch = || (CubeCount::single(), (read(&x), update(&y), 0.0_f32, 16_u32));
    let launches = steady([&stream, &other], || {
        for _ in 0..50 {
            let (count, arguments) = launch();
            stream.launch(&saxpy, count, arguments).unwrap();
        }
    });
    assert_eq!(launches, 0, "launches allocate");
    let hazards = steady([&stream, &other], || {
        for _ in 0..20 {
            let (count, arguments) = launch();
            stream.launch(&saxpy, count, arguments).unwrap();
            let arguments = (read(&y), update(&z), 0.0_f32, 16_u32);
            other
                .launch(&saxpy, CubeCount::single(), arguments)
                .unwrap();
        }
    });
    assert_eq!(hazards, 0, "hazards between streams allocate");
    let fills = steady([&stream, &other], || {
        (0..20).for_each(|_| stream.fill(&z, 3.5_f32).unwrap());
    });
    assert_eq!(fills, 0, "fills allocate");
    let out = stream.empty::<u32>(8).unwrap();
    let (from, to) = (
        stream.create(&[0_u8; 256]).unwrap(),
        stream.empty::<u64>(16).unwrap(),
    );
    let recording = stream.record(|r| {
        for _ in 0..4 {
            let (count, arguments) = launch();
            r.launch(&saxpy, count, arguments)?;
        }
        let metadata = Metadata::new().input(&[3], &[1], 3).unwrap();
        r.launch(
            &words,
            CubeCount::single(),
            LaunchArgs::new().arg(write(&out)).metadata(metadata),
        )?;
        let tensor = TensorMap::tiled(0, DType::F32, &[8, 8], &[8, 8]);
        r.launch(
            &tensor_map,
            CubeCount::single(),
            LaunchArgs::new()
                .arg(read(&from))
                .arg(write(&to))
                .tensor_map(tensor),
        )?;
        r.copy(&x, &z)?;
        r.fill(&y, 1.0_f32)
    });
    let recording = recording.unwrap();
    let replays = steady([&stream, &other], || {
        for _ in 0..10 {
            recording.replay(&stream).unwrap();
        }
    });
    assert_eq!(replays, 0, "replays allocate");
    let changed = steady([&stream, &other], || {
        for handle in [&x, &w].into_iter().cycle().take(10) {
            recording.replay_with(&stream, &[(0, handle)]).unwrap();
        }
    });
    assert_eq!(changed, 0, "replays with other handles allocate");
    assert!(gpu.calls("cuGraphLaunch") > 100);
    drop((
        recording, x, y, z, w, out, from, to, saxpy, words, tensor_map, stream, other, client,
        device,
    ));
    gpu.assert_clean();
}
