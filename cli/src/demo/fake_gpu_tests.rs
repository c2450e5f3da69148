//! Tests of the GPU kernels on the fake CUDA driver, which interprets their PTX: results equal those of the native
//! kernels, and no accesses race.

use fake_cuda::Session;
use millstream::{
    ComputeClient, Cpu, CubeCount, Cuda, Device, DeviceOptions, Element, Handle, Kernel,
    MemoryOptions, Stream, read, update, write,
};
use millstream_picture::Picture;

use super::photos::{Photo, save};
use super::pipeline::{LEVELS, PIXELS_PER_COUNT, Pipeline, kernels, taps};
use super::workers::{self, Outcome};
use super::{gpu, reference};
use crate::args::{Cli, Command, DemoArgs};
use crate::exit::Exit;

/// The largest permitted difference of floats: sums of eleven products up to 1, reordered and with fused operations.
const TOLERANCE: f32 = 4e-6;

fn fake_gpu(seed: u64) -> Session {
    Session::begin(seed).unwrap_or_else(|error| panic!("{error}"))
}

/// Adds only the PTX: the fake driver cannot run what NVRTC compiles for a GPU.
fn with_ptx(kernel: Kernel) -> Kernel {
    let source = gpu::ptx(kernel.name());
    kernel.source(source)
}

/// Options with small pages, so that several are in use.
fn options() -> DeviceOptions {
    DeviceOptions::default().memory(MemoryOptions::default().page_bytes(256 << 10))
}

/// A client, a stream and the kernels of one device.
struct Fixture {
    client: ComputeClient,
    stream: Stream,
    kernels: [Kernel; 6],
}

impl Fixture {
    fn new(device: &Device) -> Self {
        let client = device.new_client();
        Self {
            stream: client.new_stream(),
            client,
            kernels: kernels(with_ptx),
        }
    }

    /// Launches the kernel at `index`.
    fn launch(&self, index: usize, cubes: u32, arguments: impl millstream::kernel::Arguments) {
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

/// Returns pseudo-random bytes.
fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 11) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Runs each kernel on noise of this size. Returns the planes of floats, the drawing and the histogram.
fn run_kernels(device: &Device, width: u32, height: u32) -> (Vec<Vec<f32>>, Vec<u8>, Vec<u32>) {
    let fixture = Fixture::new(device);
    let pixels = (width * height) as usize;
    let rgb = fixture.put(&noise(width, pixels * 3));
    let plane: Vec<f32> = noise(height, pixels)
        .iter()
        .map(|level| f32::from(*level) / 255.0)
        .collect();
    let (plane, taps) = (fixture.put(&plane), fixture.put(&taps()));
    let planes: [Handle<f32>; 4] = std::array::from_fn(|_| fixture.empty(pixels));
    fixture.launch(0, height, (read(&rgb), write(&planes[0]), width));
    fixture.launch(
        1,
        height,
        (read(&plane), read(&taps), write(&planes[1]), width),
    );
    fixture.launch(
        2,
        height,
        (read(&plane), read(&taps), write(&planes[2]), width),
    );
    fixture.launch(3, height, (read(&plane), write(&planes[3]), width));
    let image = fixture.empty::<u8>(pixels);
    fixture.launch(
        4,
        height,
        (read(&plane), read(&planes[3]), write(&image), width),
    );
    // More pixels than one cube counts.
    let (levels, bins) = (
        fixture.put(&noise(3, PIXELS_PER_COUNT + pixels)),
        fixture.put(&[7_u32; LEVELS]),
    );
    let count = (PIXELS_PER_COUNT + pixels) as u32;
    fixture.launch(5, 2, (read(&levels), update(&bins), count));
    let planes = planes.iter().map(|plane| fixture.get(plane)).collect();
    (planes, fixture.get(&image), fixture.get(&bins))
}

/// Integers are equal, floats differ by at most [`TOLERANCE`], and tones next to a boundary between two levels differ
/// by at most one level.
#[test]
fn gpu_kernels_give_the_results_of_the_native_kernels() {
    for (seed, (width, height)) in [(1, 1), (7, 5), (33, 20), (300, 3), (64, 48)]
        .into_iter()
        .enumerate()
    {
        let expected = {
            let cpu = Device::open(Cpu::default()).unwrap();
            run_kernels(&cpu, width, height)
        };
        let gpu = fake_gpu(seed as u64);
        let got = {
            let device = Device::open_with(Cuda::ordinal(0).queues(2), options()).unwrap();
            run_kernels(&device, width, height)
        };
        gpu.assert_clean();
        for (name, (got, expected)) in ["luma", "blur_x", "blur_y", "sobel"]
            .iter()
            .zip(got.0.iter().zip(&expected.0))
        {
            assert_eq!(got.len(), expected.len());
            for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
                assert!(
                    (got - expected).abs() <= TOLERANCE,
                    "{name} of {width} x {height} at {at}: expected {expected}, got {got}"
                );
            }
        }
        let differing = got
            .1
            .iter()
            .zip(&expected.1)
            .filter(|(got, expected)| got != expected);
        for (got, expected) in differing.clone() {
            assert!(
                got.abs_diff(*expected) <= 1,
                "tone of {width} x {height}: expected {expected}, got {got}"
            );
        }
        let differing_max = got.1.len() / 100 + 1;
        assert!(
            differing.count() <= differing_max,
            "tone of {width} x {height}: more than {differing_max} pixels differ"
        );
        assert_eq!(got.2, expected.2, "histogram of {width} x {height}");
    }
}

/// A photograph of noise.
fn photo(width: u32, height: u32) -> Photo {
    let mut photo = Photo {
        width,
        height,
        ..Photo::default()
    };
    photo.pixels.rgb = noise(width, (width * height * 3) as usize);
    photo.pixels.tones = reference::tones(&photo);
    photo
}

/// I1, I2: many threads convert photographs with the GPU kernels, in the execution orders of ten seeds.
#[test]
#[ignore = "slow on the fake driver: run `cargo xtask gpu`"]
fn threads_that_share_a_gpu_convert_every_photograph_correctly_i2() {
    let photos = [(40, 30), (7, 61), (129, 4)].map(|(width, height)| photo(width, height));
    for seed in 0..10 {
        let gpu = fake_gpu(seed);
        let device = Device::open_with(Cuda::ordinal(0).queues(3), options()).unwrap();
        let client = device.new_client();
        let streams: Vec<Stream> = (0..4).map(|_| client.new_stream()).collect();
        let pipeline = Pipeline::new(&client, kernels(with_ptx)).unwrap();
        let runs = workers::convert(&pipeline, &streams, &photos, 2).unwrap();
        assert_eq!(runs.len(), 6);
        for run in runs {
            assert!(matches!(run.outcome, Outcome::Equal(_)), "seed {seed}");
        }
        drop((pipeline, streams, client, device));
        gpu.assert_clean();
    }
}

/// A temporary folder, removed on drop.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("millstream-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("in")).unwrap();
        Self(path)
    }

    /// Writes a grey photograph into the folder `in`.
    fn photograph(&self, name: &str, width: u32, height: u32) {
        let grey = noise(width, (width * height) as usize);
        save(&self.0.join("in").join(name), &photo(width, height), &grey).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that remains in the temporary directory does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn demo(folder: &Scratch, backend: &str) -> DemoArgs {
    use clap::Parser;
    let path = |name: &str| folder.0.join(name).display().to_string();
    let line =
        format!("millstream demo --backend {backend} --repeat 2 --threads 3 --queues 2 --input");
    let words = line.split(' ').map(str::to_owned);
    let words = words.chain([path("in"), "--output".to_owned(), path(backend)]);
    match Cli::parse_from(words).command {
        Command::Demo(args) => args,
        other => panic!("{other:?}"),
    }
}

/// The command with `--backend cuda` writes the drawings, the report and the timeline of the CPU backend.
#[test]
fn demo_on_the_fake_gpu_gives_the_results_of_the_cpu() {
    let folder = Scratch::new("fake_gpu_command");
    folder.photograph("a.png", 33, 21);
    folder.photograph("b.png", 12, 40);
    let gpu = fake_gpu(5);
    let args = demo(&folder, "cuda");
    let report = super::convert(&args, kernels(with_ptx)).unwrap();
    assert_eq!(report.exit(), Exit::Success);
    assert_eq!(
        (report.tally.equal.len(), report.tally.photos.len()),
        (4, 2)
    );
    assert!(report.device.contains("GPU"), "{}", report.device);
    assert!(report.closed.drained);
    gpu.assert_clean();
    super::run(&demo(&folder, "cpu")).unwrap();
    let files = |backend: &str| folder.0.join(backend);
    for name in ["a.png", "b.png"] {
        let picture =
            |backend: &str| Picture::open(files(backend).join("photos").join(name)).unwrap();
        let (got, expected) = (picture("cuda"), picture("cpu"));
        let within_one_level = (got.pixels().iter())
            .zip(expected.pixels())
            .all(|(got, expected)| got.0[0].abs_diff(expected.0[0]) <= 1);
        assert!(got.size() == expected.size() && within_one_level, "{name}");
    }
    let timeline = std::fs::read_to_string(files("cuda").join("timeline.svg")).unwrap();
    for task in ["luma", "blur_x", "histogram"] {
        assert!(
            timeline.contains(task),
            "`{task}` is missing in the timeline"
        );
    }
}

#[test]
fn demo_without_a_gpu_reports_the_next_step() {
    let folder = Scratch::new("fake_gpu_none");
    folder.photograph("a.png", 3, 3);
    let _inert = Session::inert().unwrap_or_else(|error| panic!("{error}"));
    let error = super::run(&demo(&folder, "cuda")).unwrap_err();
    assert_eq!(error.exit, Exit::Failure);
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("nvidia-smi"), "{source}");
    assert!(error.next.contains("doctor"));
}
