//! The kernels for GPUs on a driver without one, which interprets their PTX: what they make is what the native ones make, and
//! nothing of it races.

use fake_cuda::Session;
use millstream::{
    ComputeClient, Cpu, CubeCount, Cuda, Device, DeviceOptions, Element, Handle, Kernel,
    MemoryOptions, Source, Stream, read, update, write,
};

use super::check::Verdict;
use super::photos::Photo;
use super::pipeline::{PIXELS_PER_COUNT, Pipeline, kernels, taps};
use super::progress::Progress;
use super::recipe::LEVELS;
use super::workers::{self, Prepared};
use super::{gpu, reference, session};
use crate::args::{Cli, Command, DemoArgs};
use crate::exit::{CommandError, Exit};
use crate::scratch::Scratch;

/// Sums of eleven products in another order, with what is fused fused: of numbers up to 1.
const APART: f32 = 4e-6;

fn fake(seed: u64) -> Session {
    Session::begin(seed).unwrap_or_else(|error| panic!("{error}"))
}

/// Its PTX alone: what NVRTC makes for a GPU, the fake cannot run.
fn ptx(kernel: Kernel) -> Kernel {
    let source = gpu::ptx(kernel.name());
    kernel.source(source)
}

/// Pages that are quickly filled.
fn options() -> DeviceOptions {
    DeviceOptions::default().memory(MemoryOptions::default().page_bytes(256 << 10))
}

struct Bench {
    client: ComputeClient,
    stream: Stream,
    kernels: [Kernel; 6],
}

impl Bench {
    fn new(device: &Device) -> Self {
        let client = device.new_client();
        Self {
            stream: client.new_stream(),
            client,
            kernels: kernels(ptx),
        }
    }

    /// Launches one of them by rows, or, for the last, by stretches.
    fn launch(&self, index: usize, cubes: u32, arguments: impl millstream::Arguments) {
        let kernel = self.client.kernel(self.kernels[index].clone()).unwrap();
        let cubes = CubeCount::d1(cubes);
        self.stream.launch(&kernel, cubes, arguments).unwrap();
    }

    fn put<T: Element>(&self, values: &[T]) -> Handle<T> {
        self.stream.create(values).unwrap()
    }

    fn empty<T: Element>(&self, len: usize) -> Handle<T> {
        self.stream.empty(len).unwrap()
    }

    fn get<T: Element>(&self, handle: &Handle<T>) -> Vec<T> {
        self.stream.read(handle).wait().unwrap()
    }
}

/// Numbers below 256, of a seed.
fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut dice = seed.wrapping_mul(2_654_435_761) | 1;
    let mut roll = || {
        dice ^= dice << 13;
        dice ^= dice >> 17;
        dice ^= dice << 5;
        (dice >> 11) as u8
    };
    (0..len).map(|_| roll()).collect()
}

/// What each kernel makes of noise of this size, alone: planes of floats, the drawing, the histogram.
fn each(device: &Device, width: u32, height: u32) -> (Vec<Vec<f32>>, Vec<u8>, Vec<u32>) {
    let bench = Bench::new(device);
    let pixels = (width * height) as usize;
    let rgb = bench.put(&noise(width, pixels * 3));
    let plane: Vec<f32> = noise(height, pixels)
        .iter()
        .map(|level| f32::from(*level) / 255.0)
        .collect();
    let (plane, taps) = (bench.put(&plane), bench.put(&taps()));
    let planes: [Handle<f32>; 4] = std::array::from_fn(|_| bench.empty(pixels));
    bench.launch(0, height, (read(&rgb), write(&planes[0]), width));
    bench.launch(
        1,
        height,
        (read(&plane), read(&taps), write(&planes[1]), width),
    );
    bench.launch(
        2,
        height,
        (read(&plane), read(&taps), write(&planes[2]), width),
    );
    bench.launch(3, height, (read(&plane), write(&planes[3]), width));
    let image = bench.empty::<u8>(pixels);
    bench.launch(
        4,
        height,
        (read(&plane), read(&planes[3]), write(&image), width),
    );
    // Of noise, and more of it than one cube counts.
    let (levels, bins) = (
        bench.put(&noise(3, PIXELS_PER_COUNT + pixels)),
        bench.put(&[7_u32; LEVELS]),
    );
    let count = (PIXELS_PER_COUNT + pixels) as u32;
    bench.launch(5, 2, (read(&levels), update(&bins), count));
    let planes = planes.iter().map(|plane| bench.get(plane)).collect();
    (planes, bench.get(&image), bench.get(&bins))
}

/// Each kernel for itself gives what its native twin gives: integers exactly, floats within [`APART`], and of the tones those
/// that lie beside an edge between two levels one level apart.
#[test]
fn each_kernel_on_a_gpu_gives_what_its_native_twin_gives() {
    for (seed, (width, height)) in [(1, 1), (7, 5), (33, 20), (300, 3), (64, 48)]
        .into_iter()
        .enumerate()
    {
        let expected = {
            let cpu = Device::open(Cpu::default()).unwrap();
            each(&cpu, width, height)
        };
        let gpu = fake(seed as u64);
        let got = {
            let device = Device::open_with(Cuda::ordinal(0).queues(2), options()).unwrap();
            each(&device, width, height)
        };
        gpu.assert_clean();
        for (name, (got, expected)) in ["luma", "blur_x", "blur_y", "sobel"]
            .iter()
            .zip(got.0.iter().zip(&expected.0))
        {
            assert_eq!(got.len(), expected.len());
            for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
                assert!(
                    (got - expected).abs() <= APART,
                    "{name} of {width} x {height} at {at}: {got} is not {expected}"
                );
            }
        }
        let apart = got
            .1
            .iter()
            .zip(&expected.1)
            .filter(|(got, expected)| got != expected);
        for (got, expected) in apart.clone() {
            assert!(
                got.abs_diff(*expected) <= 1,
                "tone of {width} x {height}: {got} is not {expected}"
            );
        }
        let few = got.1.len() / 100 + 1;
        assert!(
            apart.count() <= few,
            "tone of {width} x {height} differs too often"
        );
        assert_eq!(got.2, expected.2, "histogram of {width} x {height}");
    }
}

/// The histogram of noise, by its PTX with something in it replaced: what the fake finds.
fn histogram_with(barrier: &str) -> Vec<String> {
    let gpu = fake(1);
    let device = Device::open_with(Cuda::ordinal(0).queues(1), options()).unwrap();
    let mut bench = Bench::new(&device);
    let Source::Ptx(text) = gpu::ptx("histogram") else {
        panic!("it is PTX");
    };
    let changed = text.replace("bar.sync \t0;", barrier);
    assert_eq!(changed == *text, barrier == "bar.sync \t0;");
    let [.., histogram] = kernels(|kernel| kernel.source(Source::Ptx(changed.as_str().into())));
    bench.kernels[5] = histogram;
    let (levels, bins) = (bench.put(&noise(3, 5000)), bench.put(&[0_u32; LEVELS]));
    bench.launch(5, 1, (read(&levels), update(&bins), 5000_u32));
    bench.get(&bins);
    drop((bench, levels, bins, device));
    gpu.end()
}

/// Without its barriers the histogram is a race between its threads, and the fake says where.
#[test]
fn a_barrier_that_is_missing_in_a_kernel_is_found() {
    assert_eq!(histogram_with("bar.sync \t0;"), [""; 0]);
    let found = histogram_with("");
    assert!(
        !found.is_empty()
            && found
                .iter()
                .all(|said| said.contains("race within a launch: kernel `histogram`")),
        "{found:?}"
    );
}

fn photos() -> Vec<Prepared> {
    let sizes = [(40, 30), (7, 61), (129, 4)];
    let photo = |(index, (width, height)): (usize, (u32, u32))| {
        let photo = Photo {
            file: format!("{index}.png"),
            output: format!("{index}.png"),
            width,
            height,
            rgb: noise(index as u32 + 9, (width * height * 3) as usize),
        };
        Prepared {
            tones: reference::tones(&photo),
            photo,
        }
    };
    sizes.into_iter().enumerate().map(photo).collect()
}

/// I1, I2: many threads develop photographs by the kernels for GPUs, in orders of ten seeds: every one is right.
#[test]
#[ignore = "long on a driver without a GPU: run `cargo xtask gpu`"]
fn threads_that_share_a_gpu_develop_every_photograph_right_i2() {
    let photos = photos();
    for seed in 0..10 {
        let gpu = fake(seed);
        let device = Device::open_with(Cuda::ordinal(0).queues(3), options()).unwrap();
        let client = device.new_client();
        let streams: Vec<Stream> = (0..4).map(|_| client.new_stream()).collect();
        let pipeline = Pipeline::new(&client, kernels(ptx)).unwrap();
        let progress = Progress::new("developing", 6);
        let round = workers::develop(&pipeline, &streams, &photos, 2, &progress).unwrap();
        assert_eq!(round.runs.len(), 6);
        for run in round.runs {
            assert!(
                matches!(run.outcome, Ok(Verdict::Equal { .. })),
                "seed {seed}: {:?}",
                run.outcome
            );
        }
        drop((pipeline, streams, client, device));
        gpu.assert_clean();
    }
}

fn demo(folder: &Scratch, backend: &str) -> DemoArgs {
    use clap::Parser;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let line =
        format!("millstream demo --backend {backend} --repeat 2 --threads 3 --queues 2 --input");
    let words = line.split(' ').map(str::to_owned);
    let words = words.chain([path("in"), "--output".to_owned(), path(backend)]);
    match Cli::parse_from(words).command {
        Command::Demo(args) => args,
        other => panic!("{other:?}"),
    }
}

/// The whole command, `--backend cuda`: the report, the drawings and the timeline are there, and are the processor's.
#[test]
fn the_whole_command_on_a_gpu_does_what_it_does_on_the_processor() {
    let folder = Scratch::new("fake_gpu_command");
    std::fs::create_dir(folder.path().join("in")).unwrap();
    folder.photograph("in/a.png", 33, 21);
    folder.photograph("in/b.png", 12, 40);
    let gpu = fake(5);
    let report = session::run_on(&demo(&folder, "cuda"), session::open, kernels(ptx)).unwrap();
    assert_eq!(report.exit(), Exit::Success);
    assert_eq!((report.run.equal, report.photos.len()), (4, 2));
    assert!(report.device.name.contains("GPU"), "{}", report.device.name);
    assert!(report.teardown.drained, "{:?}", report.teardown);
    gpu.assert_clean();
    session::run(&demo(&folder, "cpu")).unwrap();
    let files = |backend: &str| folder.path().join(backend);
    for name in ["a.png", "b.png"] {
        let picture = |backend: &str| {
            image::open(files(backend).join("photos").join(name))
                .unwrap()
                .into_luma8()
        };
        let (got, expected) = (picture("cuda"), picture("cpu"));
        let near = got
            .pixels()
            .zip(expected.pixels())
            .all(|(got, expected)| got.0[0].abs_diff(expected.0[0]) <= 1);
        assert!(got.dimensions() == expected.dimensions() && near, "{name}");
    }
    let timeline = std::fs::read_to_string(files("cuda").join("timeline.svg")).unwrap();
    for task in ["luma", "blur_x", "histogram"] {
        assert!(timeline.contains(task), "no `{task}` in the timeline");
    }
}

/// Without a GPU the command says so, and what to do.
#[test]
fn without_a_gpu_the_command_says_what_to_do() {
    let folder = Scratch::new("fake_gpu_none");
    std::fs::create_dir(folder.path().join("in")).unwrap();
    folder.photograph("in/a.png", 3, 3);
    let _inert = Session::inert().unwrap_or_else(|error| panic!("{error}"));
    let error = session::run(&demo(&folder, "cuda")).unwrap_err();
    assert_eq!(error.exit(), Exit::Wrong);
    let CommandError::Open { source } = &error else {
        panic!("{error:?}");
    };
    assert!(source.to_string().contains("nvidia-smi"), "{source}");
    assert!(error.next_step().contains("doctor"));
}
