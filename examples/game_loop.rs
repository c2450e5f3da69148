//! A game loop at 60 Hz: a reaction-diffusion system runs on a driven device, on the frame's own thread. No
//! thread is started, no frame blocks, and each picture comes back two frames after it was asked for, later where the
//! device does not keep up.
//!
//! ```text
//! cargo run --release --example game_loop -- --frames 600 --size 256 --output out/game_loop --replay --backend cpu
//! ```
//! `--backend cuda` is the first NVIDIA GPU, which comes to the same bits; `sim` the simulator.
//! Leaves some of its pictures and the log of all its submissions in the output folder. With `--replay` it runs the log
//! once more, on a device with threads, and compares the pictures bit by bit.

use std::error::Error;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use millstream::sim::Sim;
use millstream::{
    Cpu, CubeCount, Cuda, Device, DeviceOptions, Digest, Driver, Handle, Kernel, NativeArgs,
    OpenError, Read, Readbacks, Source, SubmissionLog, TypedKernel, Write, readbacks,
};

/// Time of one frame at 60 Hz.
const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 60);
/// What of it may be used. The device ends the task that it is in, which takes a little longer.
const BUDGET: Duration = Duration::from_millis(12);
/// Pairs of steps of the system in a frame, at most: fewer where the device does not keep up.
const PAIRS_MAX: usize = 4;
/// Pictures that may be on their way.
const PICTURES: usize = 3;
/// Bytes of submissions that are logged: hours of frames.
const LOG_BYTES_MAX: u64 = 256 << 20;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// What can be chosen.
pub struct Options {
    frames: u32,
    size: usize,
    output: PathBuf,
    replay: bool,
    backend: Backend,
}

/// What the game runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    /// The processor.
    Cpu,
    /// The first NVIDIA GPU.
    Cuda,
    /// The simulator.
    Sim,
}

impl Backend {
    fn open_driven(self, options: DeviceOptions) -> Result<(Device, Driver), OpenError> {
        match self {
            Self::Cpu => Device::open_driven(Cpu::default(), options),
            Self::Cuda => Device::open_driven(Cuda::ordinal(0), options),
            Self::Sim => Device::open_driven(Sim::seed(7), options),
        }
    }

    fn open(self) -> Result<Device, OpenError> {
        match self {
            Self::Cpu => Device::open(Cpu::default()),
            Self::Cuda => Device::open(Cuda::ordinal(0)),
            Self::Sim => Device::open(Sim::seed(7)),
        }
    }
}

impl Options {
    /// Reads the arguments of the command line.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self {
            frames: 600,
            size: 256,
            output: "out/game_loop".into(),
            replay: false,
            backend: Backend::Cpu,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .ok_or(format!("`{argument}` needs a value"))
            };
            match argument.as_str() {
                "--frames" => options.frames = number(&argument, &value()?)?,
                "--size" => options.size = number(&argument, &value()?)?,
                "--output" => options.output = value()?.into(),
                "--replay" => options.replay = true,
                "--backend" => {
                    options.backend = match value()?.as_str() {
                        "cpu" => Backend::Cpu,
                        "cuda" => Backend::Cuda,
                        "sim" => Backend::Sim,
                        other => {
                            return Err(
                                format!("--backend is cpu, cuda or sim, not `{other}`").into()
                            );
                        }
                    }
                }
                other => {
                    return Err(format!(
                        "`{other}` is none of --frames N, --size N, --output FOLDER, --backend NAME, --replay"
                    )
                    .into());
                }
            }
        }
        if !(8..=4096).contains(&options.size) || options.frames == 0 {
            return Err("--size is from 8 to 4096, --frames at least 1".into());
        }
        Ok(options)
    }
}

fn number<T: FromStr>(argument: &str, given: &str) -> Result<T, String> {
    let refused = |_| format!("`{argument}` takes a whole number, not `{given}`");
    given.parse().map_err(refused)
}

/// Runs the game, and tells on standard output how it went. Gives the digest of all pictures.
pub fn run(options: &Options) -> Result<Digest, Box<dyn Error>> {
    fs::create_dir_all(&options.output)?;
    let threads = thread_count();
    let log_them = DeviceOptions::default().log_submissions(LOG_BYTES_MAX);
    let (device, mut driver) = options.backend.open_driven(log_them)?;
    let (world, results) = World::new(&device, options.size)?;
    let mut album = Album::new(options);
    let mut times = Vec::with_capacity(options.frames as usize);
    let (mut pairs, mut all_pairs) = (PAIRS_MAX, 0);
    let begin = Instant::now();
    for number in 0..options.frames {
        let start = Instant::now();
        // The picture of two frames ago, then what the last frame asked for, then what this one does.
        album.take(&results, number)?;
        driver.pump(BUDGET.saturating_sub(start.elapsed()));
        // As much as fits: fewer steps after a frame that used all of its time, more after one that used half.
        pairs = match start.elapsed() {
            spent if spent >= BUDGET => 1.max(pairs - 1),
            spent if spent < BUDGET / 2 => PAIRS_MAX.min(pairs + 1),
            _ => pairs,
        };
        // Where the device is behind, the world stands still for a frame, instead of falling further behind.
        if album.behind() < PICTURES as u32 {
            world.submit(number, pairs)?;
            all_pairs += pairs;
            album.asked += 1;
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

    // The game is over: what is still on its way may be waited for.
    while album.behind() > 0 {
        driver.pump(BUDGET);
        album.take(&results, options.frames)?;
    }
    let log = device.take_log()?;
    driver.close();
    let path = options.output.join("submissions.mslog");
    log.write_to(File::create(&path)?)?;
    println!(
        "{} pictures came back, {} later at most; digest {}",
        album.taken,
        plural(album.late_max, "frame"),
        album.digest
    );
    println!(
        "{} entries ({} KiB) of submissions in {}",
        log.len(),
        log.size() >> 10,
        path.display()
    );
    album.save()?;
    if options.replay {
        let log = SubmissionLog::read_from(File::open(&path)?)?;
        let digest = replay(&log, options.backend)?;
        if digest != album.digest {
            return Err(format!("the replay came out as {digest}").into());
        }
        println!("replayed on a device with threads: digest {digest}, the same");
    }
    Ok(album.digest)
}

/// Runs the log on a device with threads of its own.
pub fn replay(log: &SubmissionLog, backend: Backend) -> Result<Digest, Box<dyn Error>> {
    let device = backend.open()?;
    let client = device.new_client();
    let kernels = [client.kernel(step())?, client.kernel(shade())?];
    Ok(log.replay_with(&client, &kernels, drop)?)
}

/// The device's side of the game: two fields that react and diffuse, and their picture.
struct World {
    stream: millstream::Stream,
    /// Two steps, there and back, as one message.
    two_steps: millstream::Recording,
    shade: TypedKernel<(Read<f32>, Write<u32>)>,
    field: Handle<f32>,
    pixels: Handle<u32>,
    rows: CubeCount,
    pictures: millstream::ReadbackSender<u32, u32>,
}

impl World {
    fn new(device: &Device, size: usize) -> Result<(Self, Readbacks<u32, u32>), millstream::Error> {
        let client = device.new_client();
        let stream = client.new_stream();
        let step = client.kernel(step())?.typed::<Step>()?;
        let shade = client.kernel(shade())?.typed()?;
        let (food, field) = seeds(size);
        let here = [stream.create_owned(food)?, stream.create_owned(field)?];
        let there = [
            stream.empty::<f32>(size * size)?,
            stream.empty::<f32>(size * size)?,
        ];
        // One cube a row.
        let rows = CubeCount::d1(size as u32);
        let two_steps = stream.record(|recorder| {
            for (from, to) in [(&here, &there), (&there, &here)] {
                let arguments = step.arguments((&from[0], &from[1], &to[0], &to[1]));
                recorder.launch(&step, &rows, arguments)?;
            }
            Ok(())
        })?;
        let pixels = stream.empty::<u32>(size * size)?;
        let (pictures, results) = readbacks(PICTURES);
        let [_, field] = here;
        let world = Self {
            stream,
            two_steps,
            shade,
            field,
            pixels,
            rows,
            pictures,
        };
        Ok((world, results))
    }

    /// Adds the work of a frame. Nothing of it waits, for room or for the device.
    fn submit(&self, number: u32, pairs: usize) -> Result<(), millstream::Error> {
        let stream = self.stream.nowait();
        for _ in 0..pairs {
            self.two_steps.replay(&stream)?;
        }
        self.shade
            .launch(&stream, &self.rows, (&self.field, &self.pixels))?;
        Ok(self.pictures.read(&stream, &self.pixels, number)?)
    }
}

/// The pictures that came back.
struct Album<'a> {
    options: &'a Options,
    asked: u32,
    taken: u32,
    late_max: u32,
    digest: Digest,
    kept: Vec<(u32, Vec<u32>)>,
}

impl<'a> Album<'a> {
    fn new(options: &'a Options) -> Self {
        Self {
            options,
            asked: 0,
            taken: 0,
            late_max: 0,
            digest: Digest::default(),
            kept: Vec::new(),
        }
    }

    /// Pictures that are asked for and not there.
    fn behind(&self) -> u32 {
        self.asked - self.taken
    }

    /// Takes the pictures that are there at frame `now`. Never waits.
    fn take(&mut self, results: &Readbacks<u32, u32>, now: u32) -> Result<(), millstream::Error> {
        while let Some(done) = results.try_next() {
            let pixels = done.elements?;
            // As a replay does: each readback after its length.
            let length = size_of_val(&*pixels) as u64;
            self.digest = pixels
                .iter()
                .fold(self.digest.with(&length.to_le_bytes()), |digest, pixel| {
                    digest.with(&pixel.to_le_bytes())
                });
            self.taken += 1;
            self.late_max = self.late_max.max(now - done.tag);
            if done.tag.is_multiple_of(60) || done.tag + 1 == self.options.frames {
                self.kept.push((done.tag, pixels.into_vec()));
            }
        }
        Ok(())
    }

    /// Writes the pictures that were kept. The disk is no part of a frame.
    fn save(&self) -> Result<(), Box<dyn Error>> {
        let size = self.options.size as u32;
        for (number, pixels) in &self.kept {
            let rgb = pixels.iter().flat_map(|pixel| {
                let [red, green, blue, _] = pixel.to_le_bytes();
                [red, green, blue]
            });
            let picture = image::RgbImage::from_raw(size, size, rgb.collect());
            let path = self.options.output.join(format!("frame-{number:05}.png"));
            picture.ok_or("a picture has another size")?.save(path)?;
        }
        println!(
            "{} in {}",
            plural(self.kept.len() as u32, "picture"),
            self.options.output.display()
        );
        Ok(())
    }
}

fn plural(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Threads of this process, where that can be known.
fn thread_count() -> Option<usize> {
    Some(fs::read_dir("/proc/self/task").ok()?.count())
}

/// How long frames took, with the worst beside the budget.
fn histogram(times: &[Duration]) -> String {
    let ms = |time: &Duration| time.as_secs_f64() * 1e3;
    let budget = ms(&FRAME);
    let worst = times.iter().max().map_or(0.0, ms);
    let mean = times.iter().map(ms).sum::<f64>() / times.len().max(1) as f64;
    let missed = times.iter().filter(|time| **time > FRAME).count();
    let mut text = format!(
        "worst frame {worst:.2} ms of {budget:.1} ms, mean {mean:.2} ms, missed {missed}\n"
    );
    // Columns of an eighth of the frame, and one for what was too long.
    const COLUMNS: usize = 8;
    let column = |time: &Duration| ((ms(time) / budget * COLUMNS as f64) as usize).min(COLUMNS);
    let mut counts = [0_usize; COLUMNS + 1];
    times.iter().for_each(|time| counts[column(time)] += 1);
    let most = counts.iter().max().copied().unwrap_or(1).max(1);
    for (index, count) in counts.iter().enumerate() {
        let from = budget * index as f64 / COLUMNS as f64;
        // Whoever is there is seen.
        let bar = "#".repeat((count * 48).div_ceil(most));
        let to = match index {
            COLUMNS => "     ..".to_owned(),
            _ => format!("{:7.1}", budget * (index + 1) as f64 / COLUMNS as f64),
        };
        text += &format!("{from:6.1} -{to} ms {count:6} {bar}\n");
    }
    text
}

/// Food everywhere, and some spots of what eats it.
fn seeds(size: usize) -> (Vec<f32>, Vec<f32>) {
    let (food, mut field) = (vec![1.0; size * size], vec![0.0; size * size]);
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..(size * size / 4_096).max(1) {
        let mut roll = |below: usize| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            (dice >> 20) as usize % below
        };
        let (x, y, radius) = (roll(size), roll(size), 2 + roll(3));
        for at in 0..(2 * radius + 1) * (2 * radius + 1) {
            let (dx, dy) = (at % (2 * radius + 1), at / (2 * radius + 1));
            field[(y + dy) % size * size + (x + dx) % size] = 0.9;
        }
    }
    (food, field)
}

/// The rows above, at and below `y` of a square field that meets itself at its edges.
fn rows(field: &[f32], y: usize) -> [&[f32]; 3] {
    let size = field.len().isqrt();
    [y + size - 1, y, y + 1].map(|row| &field[row % size * size..][..size])
}

/// What GPUs run of a kernel: CUDA C, or, without NVRTC, what that has made of it.
macro_rules! on_gpus {
    ($kernel:expr, $name:literal) => {
        $kernel
            .cuda(include_str!(concat!("kernels/", $name, ".cu")))
            .source(Source::Ptx(
                include_str!(concat!("kernels/", $name, ".ptx")).into(),
            ))
    };
}

/// The arguments of [`step`]: food and field, and the next ones.
type Step = (Read<f32>, Read<f32>, Write<f32>, Write<f32>);

/// One step of Gray and Scott's system, a row a cube.
pub fn step() -> Kernel {
    let kernel = Kernel::new("step")
        .reads::<f32>("food")
        .reads::<f32>("field");
    let kernel = kernel
        .writes::<f32>("next food")
        .writes::<f32>("next field");
    on_gpus!(kernel, "step").native(|cube, args: &NativeArgs<'_>| {
        let y = cube.index() as usize;
        let (food, field) = (rows(args.read(0), y), rows(args.read(1), y));
        let (next_food, next_field) = (args.chunk::<f32>(2), args.chunk::<f32>(3));
        let last = next_food.len() - 1;
        // The edges apart, so that the rest is a loop without a branch.
        for (left, x, right) in [(last, 0, 1), (last - 1, last, 0)] {
            let around = |[up, here, down]: [&[f32]; 3]| {
                let sides = up[x] + down[x] + here[left] + here[right];
                let corners = up[left] + up[right] + down[left] + down[right];
                (here[x], spread(here[x], sides, corners))
            };
            (next_food[x], next_field[x]) = react(around(food), around(field));
        }
        let inner = last - 1;
        let (food, field) = (Around::new(food, inner), Around::new(field, inner));
        let next_food = &mut next_food[1..][..inner];
        let next_field = &mut next_field[1..][..inner];
        for x in 0..inner {
            (next_food[x], next_field[x]) = react(food.at(x), field.at(x));
        }
    })
}

/// The cells around those of a row without its ends: nine slices of one length, so that one loop over them needs
/// no checks.
struct Around<'a> {
    up: (&'a [f32], &'a [f32], &'a [f32]),
    here: (&'a [f32], &'a [f32], &'a [f32]),
    down: (&'a [f32], &'a [f32], &'a [f32]),
}

impl<'a> Around<'a> {
    #[inline(always)]
    fn new([up, here, down]: [&'a [f32]; 3], inner: usize) -> Self {
        let beside = |row: &'a [f32]| (&row[..inner], &row[1..][..inner], &row[2..][..inner]);
        Self {
            up: beside(up),
            here: beside(here),
            down: beside(down),
        }
    }

    /// The cell at `x`, and what spreads to it.
    #[inline(always)]
    fn at(&self, x: usize) -> (f32, f32) {
        let Self { up, here, down } = self;
        let sides = up.1[x] + down.1[x] + here.0[x] + here.2[x];
        let corners = up.0[x] + up.2[x] + down.0[x] + down.2[x];
        (here.1[x], spread(here.1[x], sides, corners))
    }
}

/// What spreads to a cell from those at its sides and corners.
#[inline(always)]
fn spread(here: f32, sides: f32, corners: f32) -> f32 {
    0.2 * sides + 0.05 * corners - here
}

/// What becomes of a cell: it feeds, reacts, dies and spreads.
#[inline(always)]
fn react((food, food_spread): (f32, f32), (field, field_spread): (f32, f32)) -> (f32, f32) {
    const FEED: f32 = 0.0545;
    const KILL: f32 = 0.062;
    let reaction = food * field * field;
    (
        food + food_spread - reaction + FEED * (1.0 - food),
        field + 0.5 * field_spread + reaction - (FEED + KILL) * field,
    )
}

/// Draws the field as a lit relief.
pub fn shade() -> Kernel {
    let kernel = Kernel::new("shade")
        .reads::<f32>("field")
        .writes::<u32>("pixels");
    on_gpus!(kernel, "shade").native(|cube, args: &NativeArgs<'_>| {
        let [up, here, down] = rows(args.read(0), cube.index() as usize);
        let pixels = args.chunk::<u32>(1);
        let size = pixels.len();
        for (x, pixel) in pixels.iter_mut().enumerate() {
            let slope_x = here[(x + 1) % size] - here[(x + size - 1) % size];
            let slope_y = down[x] - up[x];
            *pixel = colour(here[x], slope_x, slope_y);
        }
    })
}

/// From deep blue over teal and gold to ivory, lit from the upper left.
fn colour(height: f32, slope_x: f32, slope_y: f32) -> u32 {
    const PALETTE: [[f32; 3]; 5] = [
        [0.03, 0.05, 0.13],
        [0.05, 0.26, 0.40],
        [0.11, 0.56, 0.55],
        [0.93, 0.70, 0.33],
        [1.00, 0.95, 0.84],
    ];
    let place = (height * 2.6).clamp(0.0, 1.0) * (PALETTE.len() - 1) as f32;
    let (below, part) = ((place as usize).min(PALETTE.len() - 2), place.fract());
    let part = if place as usize > below { 1.0 } else { part };
    let steepness = (1.0 + 64.0 * (slope_x * slope_x + slope_y * slope_y)).sqrt();
    let light = 0.62 + 0.38 * (1.0 - 5.0 * (slope_x + slope_y)) / steepness;
    let gleam = ((1.0 - 4.0 * (slope_x + slope_y)) / steepness - 1.0).max(0.0) * 0.6;
    let channel = |index: usize| {
        let plain = PALETTE[below][index] * (1.0 - part) + PALETTE[below + 1][index] * part;
        ((plain * light + gleam).clamp(0.0, 1.0) * 255.0) as u8
    };
    u32::from_le_bytes([channel(0), channel(1), channel(2), 255])
}
