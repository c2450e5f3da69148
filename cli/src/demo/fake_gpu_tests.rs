//! Tests of the kernels on the fake CUDA driver, which interprets what NVRTC makes of them: results equal the reference,
//! and no accesses race.

use fake_cuda::Session;
use millstream::{Cuda, Device, DeviceOptions, MemoryOptions, Stream};
use millstream_picture::Picture;

use super::photos::{Photo, save};
use super::{reference, workers};
use crate::args::{Cli, Command, DemoArgs};
use crate::exit::Exit;

fn fake_gpu(seed: u64) -> Session {
    Session::begin(seed).unwrap_or_else(|error| panic!("{error}"))
}

/// Opens the fake GPU. It runs PTX only, and no code of a GPU.
fn open(queues: usize, options: DeviceOptions) -> Device {
    let cuda = Cuda::ordinal(0).queues(queues).compile_to_ptx(true);
    Device::open_with(cuda, options).unwrap()
}

/// Options with small pages, so that several are in use.
fn options() -> DeviceOptions {
    DeviceOptions::default().memory(MemoryOptions::default().page_bytes(256 << 10))
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
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn threads_that_share_a_gpu_convert_every_photograph_correctly_i2() {
    let photos = [(40, 30), (7, 61), (129, 4)].map(|(width, height)| photo(width, height));
    for seed in 0..10 {
        let gpu = fake_gpu(seed);
        let device = open(3, options());
        let client = device.new_client();
        let streams: Vec<Stream> = (0..4).map(|_| client.new_stream()).collect();
        let runs = workers::convert(&streams, &photos, 2).unwrap();
        assert_eq!(runs.len(), 6);
        for run in runs {
            assert!(run.drawing.is_ok(), "seed {seed}");
        }
        drop((streams, client, device));
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

/// The command on the fake GPU writes the drawings, the report and the timeline of the CPU backend. It compares
/// each drawing with the reference, and each histogram with the drawing.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn demo_on_the_fake_gpu_gives_the_results_of_the_cpu() {
    let folder = Scratch::new("fake_gpu_command");
    // One pixel; rows shorter than the blur; more columns than a cube has threads; more pixels than a cube counts.
    let sizes = [(1, 1), (7, 5), (33, 21), (12, 40), (300, 3), (260, 130)];
    for (width, height) in sizes {
        folder.photograph(&format!("{width}.png"), width, height);
    }
    let gpu = fake_gpu(5);
    let args = demo(&folder, "cuda");
    let traced = DeviceOptions::default().trace(super::TRACE_SPANS_MAX);
    let report = super::convert(&args, |_| Ok(open(2, traced))).unwrap();
    assert_eq!(report.exit(), Exit::Success);
    let counts = (report.tally.equal.len(), report.tally.photos.len());
    assert_eq!(counts, (2 * sizes.len(), sizes.len()));
    assert!(report.device.contains("GPU"), "{}", report.device);
    assert!(report.closed.drained);
    gpu.assert_clean();
    super::run(&demo(&folder, "cpu")).unwrap();
    let file = |backend: &str, name: &str| folder.0.join(backend).join(name);
    for (width, _) in sizes {
        let picture =
            |backend: &str| Picture::open(file(backend, &format!("photos/{width}.png"))).unwrap();
        let (got, expected) = (picture("cuda"), picture("cpu"));
        let mut pairs = got.pixels().iter().zip(expected.pixels());
        let within_one_level = pairs.all(|(got, expected)| got.0[0].abs_diff(expected.0[0]) <= 1);
        assert!(got.size() == expected.size() && within_one_level, "{width}");
    }
    let timeline = std::fs::read_to_string(file("cuda", "timeline.svg")).unwrap();
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
