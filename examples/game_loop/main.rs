//! A game loop at 60 Hz: a reaction-diffusion system runs on a driven device, on the frame's own thread. No thread is
//! started, no frame blocks, and each picture returns two frames after its request, or later if the device does not
//! keep up.
//!
//! ```text
//! cargo run --release --example game_loop -- --frames 600 --size 256 --output out/game_loop --replay --backend cpu
//! ```
//! `--backend cuda` is the first NVIDIA GPU, which computes the same bits; `vulkan` is the first GPU of Vulkan (with
//! `--features vulkan`), `sim` the simulator. Writes some pictures and the log of all submissions to the output folder.
//! `--replay` runs the log again on a device with threads, and compares the pictures bit by bit.

mod kernels;

use std::error::Error;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use kernels::seeds;
pub use kernels::{shade, step};
use millstream::sim::Sim;
use millstream::{
    Cpu, Cuda, Device, DeviceOptions, Driver, Handle, OpenError,
    journal::{Digest, SubmissionLog},
    stream::{Readbacks, readbacks},
};
use millstream_picture::{Picture, Rgb};

/// The time of one frame at 60 Hz.
const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 60);
/// The time of a frame that may be used. The device finishes its current task, which may take a little longer.
const BUDGET: Duration = Duration::from_millis(12);
/// The most pairs of steps in a frame. There are fewer if the device does not keep up.
const PAIRS_MAX: usize = 4;
/// The most pictures in flight.
const PICTURES: usize = 3;
/// The limit of the submission log: hours of frames.
const LOG_BYTES_MAX: u64 = 256 << 20;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The options of the command line.
pub struct Options {
    frames: u32,
    size: usize,
    output: PathBuf,
    replay: bool,
    backend: Backend,
}

/// The device that the game runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    /// The processor.
    Cpu,
    /// The first NVIDIA GPU.
    Cuda,
    /// The first GPU of the Vulkan loader.
    #[cfg(feature = "vulkan")]
    Vulkan,
    /// The simulator.
    Sim,
}

impl Backend {
    fn open_driven(self, options: DeviceOptions) -> Result<(Device, Driver), OpenError> {
        match self {
            Self::Cpu => Device::open_driven(Cpu::default(), options),
            Self::Cuda => Device::open_driven(Cuda::ordinal(0), options),
            #[cfg(feature = "vulkan")]
            Self::Vulkan => Device::open_driven(millstream::Vulkan::ordinal(0), options),
            Self::Sim => Device::open_driven(Sim::seed(7), options),
        }
    }

    /// Opens the device with threads.
    pub fn open(self) -> Result<Device, OpenError> {
        match self {
            Self::Cpu => Device::open(Cpu::default()),
            Self::Cuda => Device::open(Cuda::ordinal(0)),
            #[cfg(feature = "vulkan")]
            Self::Vulkan => Device::open(millstream::Vulkan::ordinal(0)),
            Self::Sim => Device::open(Sim::seed(7)),
        }
    }
}

impl Options {
    /// Parses the arguments of the command line.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self {
            frames: 600,
            size: 256,
            output: "out/game_loop".into(),
            replay: false,
            backend: Backend::Cpu,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--frames" => options.frames = number(&argument, &value()?)?,
                "--size" => options.size = number(&argument, &value()?)?,
                "--output" => options.output = value()?.into(),
                "--replay" => options.replay = true,
                "--backend" => {
                    options.backend = match value()?.as_str() {
                        "cpu" => Backend::Cpu,
                        "cuda" => Backend::Cuda,
                        #[cfg(feature = "vulkan")]
                        "vulkan" => Backend::Vulkan,
                        "sim" => Backend::Sim,
                        other => {
                            return Err(format!(
                                "--backend expects cpu, cuda, vulkan (if the feature is enabled) or sim, got `{other}`"
                            )
                            .into());
                        }
                    }
                }
                other => {
                    return Err(format!(
                        "unknown option `{other}`, expected --frames N, --size N, --output FOLDER, --backend NAME or --replay"
                    )
                    .into());
                }
            }
        }
        if !(8..=4096).contains(&options.size) || options.frames == 0 {
            return Err("--size must be from 8 to 4096, and --frames at least 1".into());
        }
        Ok(options)
    }
}

fn number<T: FromStr>(argument: &str, given: &str) -> Result<T, String> {
    let invalid = |_| format!("{argument} expects a whole number, got `{given}`");
    given.parse().map_err(invalid)
}

/// Runs the game, and prints statistics. Returns the digest of all pictures.
pub fn run(options: &Options) -> Result<Digest, Box<dyn Error>> {
    let threads = thread_count();
    let (device, driver) = options.backend.open_driven(logged())?;
    let (log, digest) = play(options, device, driver, threads)?;
    if options.replay {
        let log = SubmissionLog::read_from(File::open(&log)?)?;
        let again = replay(&log, &options.backend.open()?)?;
        if again != digest {
            return Err(
                format!("the replay differs: expected digest {digest}, got {again}").into(),
            );
        }
        println!("replay on a device with threads: digest {digest}, equal");
    }
    Ok(digest)
}

/// Returns the options of a device that logs all submissions.
pub fn logged() -> DeviceOptions {
    DeviceOptions::default().log_submissions(LOG_BYTES_MAX)
}

/// Runs the game on a driven device. Returns the file of the log, and the digest of all pictures. `threads` is the number of
/// threads before the device was opened.
pub fn play(
    options: &Options,
    device: Device,
    mut driver: Driver,
    threads: Option<usize>,
) -> Result<(PathBuf, Digest), Box<dyn Error>> {
    fs::create_dir_all(&options.output)?;
    let (mut world, mut results) = World::new(&device, options.size)?;
    let mut pictures = Pictures::new(options);
    let mut times = Vec::with_capacity(options.frames as usize);
    let (mut pairs, mut all_pairs) = (PAIRS_MAX, 0);
    let begin = Instant::now();
    for number in 0..options.frames {
        let start = Instant::now();
        // First take the picture of two frames ago, then run the work of the last frame, then submit that of this
        // frame.
        pictures.take(&mut results, number)?;
        driver.pump(BUDGET.saturating_sub(start.elapsed()));
        // Adapts the load: fewer steps after a frame that used its whole budget, more after one that used less than
        // half.
        pairs = match start.elapsed() {
            spent if spent >= BUDGET => 1.max(pairs - 1),
            spent if spent < BUDGET / 2 => PAIRS_MAX.min(pairs + 1),
            _ => pairs,
        };
        // If the device is behind, the world pauses for a frame, so that the device catches up.
        if pictures.in_flight() < PICTURES as u32 {
            world.submit(number, pairs)?;
            all_pairs += pairs;
            pictures.requested += 1;
        }
        times.push(start.elapsed());
        std::thread::sleep(
            (begin + FRAME * (number + 1)).saturating_duration_since(Instant::now()),
        );
    }
    println!(
        "{} frames of {1} x {1} cells, {2:.1} steps each, in {3:.1} s",
        options.frames,
        options.size,
        (2 * all_pairs) as f64 / f64::from(options.frames),
        begin.elapsed().as_secs_f64()
    );
    if let (Some(before), Some(after)) = (threads, thread_count()) {
        println!("threads started: {}", after.saturating_sub(before));
    }
    print!("{}", histogram(&times));

    // The game is over, so this may wait for the pictures in flight.
    while pictures.in_flight() > 0 {
        driver.pump(BUDGET);
        pictures.take(&mut results, options.frames)?;
    }
    let log = device.take_log()?;
    driver.close();
    let path = options.output.join("submissions.mslog");
    log.write_to(File::create(&path)?)?;
    println!(
        "{} pictures received, at most {} after their request; digest {}",
        pictures.taken,
        plural(pictures.latency_max, "frame"),
        pictures.digest
    );
    println!(
        "submission log: {} entries ({} KiB) in {}",
        log.len(),
        log.size() >> 10,
        path.display()
    );
    pictures.save()?;
    Ok((path, pictures.digest))
}

/// Replays the log on a device with threads, and returns the digest of its pictures.
pub fn replay(log: &SubmissionLog, device: &Device) -> Result<Digest, Box<dyn Error>> {
    let client = device.new_client();
    let stream = client.new_stream();
    let kernels = [step::prepare(&stream)?, shade::prepare(&stream)?];
    Ok(client.resubmit_with(log, &kernels, drop)?)
}

/// The state of the game on the device: two fields that react and diffuse, and their picture.
struct World {
    stream: millstream::Stream,
    /// Two steps as one message: from the first pair of buffers to the second, and back.
    two_steps: millstream::Recording,
    size: usize,
    field: Handle<f32>,
    pixels: Handle<u32>,
    pictures: millstream::stream::ReadbackSender<u32, u32>,
}

impl World {
    fn new(device: &Device, size: usize) -> Result<(Self, Readbacks<u32, u32>), millstream::Error> {
        let stream = device.new_stream();
        // Compiled before the first frame.
        shade::prepare(&stream)?;
        let (food, field) = seeds(size);
        let mut here = [stream.create_owned(food)?, stream.create_owned(field)?];
        let mut there = [stream.empty(size * size)?, stream.empty(size * size)?];
        let two_steps = stream.record(|recorder| {
            let ([food, field], [next_food, next_field]) = (&mut here, &mut there);
            let each = [size, size];
            step(size, food, field, next_food, next_field).record(recorder, each)?;
            step(size, next_food, next_field, food, field).record(recorder, each)
        })?;
        let pixels = stream.empty::<u32>(size * size)?;
        let (pictures, results) = readbacks(PICTURES);
        let [_, field] = here;
        let world = Self {
            stream,
            two_steps,
            size,
            field,
            pixels,
            pictures,
        };
        Ok((world, results))
    }

    /// Submits the work of a frame, without waiting for room or for the device.
    fn submit(&mut self, number: u32, pairs: usize) -> Result<(), millstream::Error> {
        let stream = self.stream.nowait();
        for _ in 0..pairs {
            self.two_steps.replay(&stream)?;
        }
        let each = [self.size, self.size];
        shade(self.size, &self.field, &mut self.pixels).launch(&stream, each)?;
        Ok(self.pictures.read(&stream, &self.pixels, number)?)
    }
}

/// The pictures of the game.
struct Pictures<'a> {
    options: &'a Options,
    requested: u32,
    taken: u32,
    /// The most frames between a request and its picture.
    latency_max: u32,
    digest: Digest,
    kept: Vec<(u32, Vec<u32>)>,
}

impl<'a> Pictures<'a> {
    fn new(options: &'a Options) -> Self {
        Self {
            options,
            requested: 0,
            taken: 0,
            latency_max: 0,
            digest: Digest::default(),
            kept: Vec::new(),
        }
    }

    /// Returns the number of requested pictures that have not arrived.
    fn in_flight(&self) -> u32 {
        self.requested - self.taken
    }

    /// Takes the pictures that have arrived by frame `now`, without waiting.
    fn take(
        &mut self,
        results: &mut Readbacks<u32, u32>,
        now: u32,
    ) -> Result<(), millstream::Error> {
        while let Some(done) = results.try_next() {
            let pixels = done.elements?;
            // A replay computes the digest in the same way: each readback follows its length.
            let length = size_of_val(&*pixels) as u64;
            self.digest = pixels
                .iter()
                .fold(self.digest.with(&length.to_le_bytes()), |digest, pixel| {
                    digest.with(&pixel.to_le_bytes())
                });
            self.taken += 1;
            self.latency_max = self.latency_max.max(now - done.tag);
            if done.tag.is_multiple_of(60) || done.tag + 1 == self.options.frames {
                self.kept.push((done.tag, pixels.into_vec()));
            }
        }
        Ok(())
    }

    /// Writes the kept pictures. This happens after the game, because a frame must not wait for the disk.
    fn save(&self) -> Result<(), Box<dyn Error>> {
        let size = self.options.size as u32;
        for (number, pixels) in &self.kept {
            let picture = Picture::from_fn(size, size, |x, y| {
                let [red, green, blue, _] = pixels[(y * size + x) as usize].to_le_bytes();
                Rgb([red, green, blue])
            });
            picture.save(self.options.output.join(format!("frame-{number:05}.png")))?;
        }
        println!(
            "{} in {}",
            plural(self.kept.len() as u32, "picture"),
            self.options.output.display()
        );
        Ok(())
    }
}

fn plural(count: u32, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns the number of threads of this process, if the system reports it.
fn thread_count() -> Option<usize> {
    Some(fs::read_dir("/proc/self/task").ok()?.count())
}

/// Renders a histogram of the times of frames, with the worst one.
fn histogram(times: &[Duration]) -> String {
    let ms = |time: &Duration| time.as_secs_f64() * 1e3;
    let budget = ms(&FRAME);
    let worst = times.iter().max().map_or(0.0, ms);
    let mean = times.iter().map(ms).sum::<f64>() / times.len().max(1) as f64;
    let missed = times.iter().filter(|time| **time > FRAME).count();
    let mut text = format!(
        "worst frame {worst:.2} ms of {budget:.1} ms, mean {mean:.2} ms, missed {missed}\n"
    );
    // Eight columns of equal width, and one for frames that were too long.
    const COLUMNS: usize = 8;
    let column = |time: &Duration| ((ms(time) / budget * COLUMNS as f64) as usize).min(COLUMNS);
    let mut counts = [0_usize; COLUMNS + 1];
    times.iter().for_each(|time| counts[column(time)] += 1);
    let most = counts.iter().max().copied().unwrap_or(1).max(1);
    for (index, count) in counts.iter().enumerate() {
        let from = budget * index as f64 / COLUMNS as f64;
        // Every non-empty column has at least one mark.
        let bar = "#".repeat((count * 48).div_ceil(most));
        let to = match index {
            COLUMNS => "     ..".to_owned(),
            _ => format!("{:7.1}", budget * (index + 1) as f64 / COLUMNS as f64),
        };
        text += &format!("{from:6.1} -{to} ms {count:6} {bar}\n");
    }
    text
}
