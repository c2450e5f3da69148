//! One run of the demo: reads the folder, opens the device, runs the rounds and builds the report.
//!
//! The device is opened once and shared. Each worker keeps its stream for all rounds.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream::sim::Sim;
use millstream::{Cpu, Cuda, Device, DeviceOptions, Kernel, Stats, Strategy, Stream, Vulkan};

use super::check::Verdict;
use super::files::Skipped;
use super::gpu;
use super::input;
use super::pipeline::{Pipeline, kernels};
use super::progress::Progress;
use super::report::{
    DeviceFacts, Files, PhotoFacts, ProfileFacts, QueueFacts, Report, RunFacts, RuntimeFacts,
    Settings, TeardownFacts, ThreadFacts, percentile_ms, ratio,
};
use super::results::Results;
use super::workers::{self, Prepared, Run};
use crate::args::{DemoArgs, DemoBackend, Order};
use crate::exit::CommandError;
use crate::timeline::picture::{self, Caption};
use crate::timeline::{Summary, TimelineFile};
use crate::units::counted;

/// The spans that the device keeps: enough for about twenty thousand photographs.
const TRACE_SPANS_MAX: usize = 200_000;
/// The seed of the simulator; any value works.
const SIM_SEED: u64 = 7;
/// How long closing the device may take. Every result has been read back by then.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Converts the photographs of a folder and returns the report.
pub(crate) fn run(args: &DemoArgs) -> Result<Report, CommandError> {
    run_on(args, open, kernels(gpu::sources))
}

/// Does the same as [`run`] on the device that `open` opens, with the given kernels.
pub(crate) fn run_on(
    args: &DemoArgs,
    open: impl FnOnce(&DemoArgs) -> Result<Device, CommandError>,
    kernels: [Kernel; 6],
) -> Result<Report, CommandError> {
    let settings = settings(args)?;
    let input = input::find(&settings.input)?;
    if input.photos.is_empty() {
        return Err(CommandError::NoPhotographs {
            path: settings.input,
            skipped: input.skipped.len(),
        });
    }
    let mut results = Results::new(&settings.output, &settings.input)?;
    // The file is created before the run, so that a wrong path fails at once.
    let timeline_file = args
        .timeline
        .as_deref()
        .map(TimelineFile::create)
        .transpose()?;
    let device = open(args)?;
    let client = device.new_client();
    let streams: Vec<Stream> = (0..settings.threads).map(|_| client.new_stream()).collect();
    let pipeline = Pipeline::new(&client, kernels).map_err(device_error)?;

    let token = args.profile.then(|| device.start_profile()).transpose();
    let token = token.map_err(device_error)?;
    let mut tally = Tally {
        skipped: input.skipped,
        ..Tally::default()
    };
    for round in input::rounds(&input.photos) {
        let reading = Progress::new("reading", round.len());
        let (prepared, skipped) = workers::prepare(round, &reading)?;
        tally.skipped.extend(skipped);
        drop(reading);
        let converting = Progress::new("converting", prepared.len() * settings.repeat);
        let done = workers::convert(&pipeline, &streams, &prepared, settings.repeat, &converting)?;
        drop(converting);
        let first = tally.photos.len();
        tally.add(&prepared, done.runs, done.elapsed);
        let writing = Progress::new("writing", done.drawings.len());
        let equal = |photo: usize| tally.photos[first + photo].wrong.is_none();
        let paths = results.write(&prepared, &done.drawings, equal, &writing)?;
        for ((photo, _), path) in done.drawings.iter().zip(paths) {
            tally.photos[first + photo].drawing = Some(path);
        }
    }
    if tally.photos.is_empty() {
        return Err(CommandError::NoPhotographs {
            path: settings.input,
            skipped: tally.skipped.len(),
        });
    }

    let profile = token.map(|token| device.end_profile(token).wait());
    let profile = profile.transpose().map_err(device_error)?;
    let stats = device.stats().map_err(device_error)?;
    let name = device.properties().name.to_string();
    let facts = DeviceFacts {
        name,
        queues: stats.queues.len(),
    };
    let spans = device.trace().map_err(device_error)?;
    let runtime = runtime_facts(&stats, &Summary::of(&spans));
    let (title, subtitle) = captions(&settings, &facts, &tally);
    let timeline = picture::draw(
        &spans,
        &Caption {
            title: &title,
            subtitle: &subtitle,
            queues: facts.queues as u32,
            tasks: stats.tasks,
        },
    );
    results.finish(&subtitle, &timeline)?;
    if let Some(file) = timeline_file {
        file.write(&spans)?;
    }
    // Handles and streams are dropped first, so that the close reports only leaks.
    drop((pipeline, streams, client));
    let teardown = teardown_facts(&device.close(CLOSE_TIMEOUT));
    let files = Files {
        saved_timeline: args.timeline.clone(),
        ..results.files().clone()
    };
    let report = tally.report(settings, facts, (runtime, teardown), files);
    Ok(Report {
        profile: profile.as_ref().map(ProfileFacts::of),
        ..report
    })
}

fn settings(args: &DemoArgs) -> Result<Settings, CommandError> {
    Ok(Settings {
        backend: args.backend,
        threads: args.threads as usize,
        strategy: args.strategy,
        repeat: args.repeat as usize,
        input: match &args.input {
            Some(folder) => folder.clone(),
            None => input::default_folder()?,
        },
        output: args.output.clone(),
    })
}

/// Opens the device that the arguments name.
pub(crate) fn open(args: &DemoArgs) -> Result<Device, CommandError> {
    let strategy = match args.strategy {
        Order::Interleave => Strategy::Interleave,
        Order::Sequential => Strategy::Sequential,
    };
    let options = DeviceOptions::default()
        .strategy(strategy)
        .trace(TRACE_SPANS_MAX);
    let queues = args.queues as usize;
    let opened = match args.backend {
        DemoBackend::Cpu => Device::open_with(Cpu::default().queues(queues), options),
        DemoBackend::Cuda => Device::open_with(Cuda::ordinal(0).queues(queues), options),
        DemoBackend::Vulkan => Device::open_with(Vulkan::ordinal(0).queues(queues), options),
        DemoBackend::Sim => Device::open_with(Sim::seed(SIM_SEED).queues(queues), options),
    };
    opened.map_err(|source| CommandError::Open { source })
}

fn device_error(source: millstream::Error) -> CommandError {
    CommandError::Device { source }
}

/// Returns the title and the subtitle of both pictures.
fn captions(settings: &Settings, device: &DeviceFacts, tally: &Tally) -> (String, String) {
    let title = format!(
        "Timeline of the demo: {}, one device",
        counted(settings.threads, "thread")
    );
    let subtitle = format!(
        "{} on {} · {} · {} · {} · upload, luma, blur, Sobel, tone curve, histogram, readback",
        counted(tally.photos.len(), "photograph"),
        device.name,
        counted(settings.threads, "thread"),
        counted(device.queues, "queue"),
        settings.strategy,
    );
    (title, subtitle)
}

/// The totals of the rounds so far.
#[derive(Default)]
struct Tally {
    photos: Vec<PhotoFacts>,
    skipped: Vec<Skipped>,
    run: RunFacts,
    pixels: u64,
    elapsed: Duration,
    latencies: BTreeMap<usize, Vec<Duration>>,
}

impl Tally {
    fn add(&mut self, prepared: &[Prepared], runs: Vec<Run>, elapsed: Duration) {
        let first = self.photos.len();
        self.elapsed += elapsed;
        self.photos
            .extend(prepared.iter().map(|Prepared { photo, .. }| PhotoFacts {
                file: photo.file.clone(),
                width: photo.width,
                height: photo.height,
                equal: 0,
                rounded_otherwise: 0,
                wrong: None,
                drawing: None,
            }));
        for run in runs {
            let photo = &mut self.photos[first + run.photo];
            self.run.photos += 1;
            let wrong = match run.outcome {
                Ok(Verdict::Equal { rounded_otherwise }) => {
                    self.run.equal += 1;
                    photo.equal += 1;
                    photo.rounded_otherwise = photo.rounded_otherwise.max(rounded_otherwise);
                    None
                }
                Ok(Verdict::Different(difference)) => {
                    self.run.different += 1;
                    Some(difference.to_string())
                }
                Err(error) => {
                    self.run.failed += 1;
                    Some(error.to_string())
                }
            };
            // The latency of a failure is not comparable.
            if wrong.is_none() {
                self.pixels += u64::from(photo.width) * u64::from(photo.height);
                self.latencies
                    .entry(run.thread)
                    .or_default()
                    .push(run.latency);
            }
            photo.wrong = photo.wrong.take().or(wrong);
        }
    }

    fn run_seconds(&self) -> f64 {
        self.elapsed.as_secs_f64()
    }

    fn report(
        mut self,
        settings: Settings,
        device: DeviceFacts,
        (runtime, teardown): (RuntimeFacts, TeardownFacts),
        files: Files,
    ) -> Report {
        let seconds = self.run_seconds();
        let mut all: Vec<Duration> = self.latencies.values().flatten().copied().collect();
        let threads = (0..settings.threads)
            .map(|thread| {
                let latencies = self.latencies.entry(thread).or_default();
                ThreadFacts {
                    thread,
                    photos: latencies.len() as u64,
                    latency_p50_ms: percentile_ms(latencies, 50),
                    latency_p99_ms: percentile_ms(latencies, 99),
                }
            })
            .collect();
        let run = RunFacts {
            seconds,
            photos_per_second: ratio(all.len() as f64, seconds),
            megapixels_per_second: ratio(self.pixels as f64 / 1e6, seconds),
            latency_p50_ms: percentile_ms(&mut all, 50),
            latency_p99_ms: percentile_ms(&mut all, 99),
            ..self.run
        };
        let mut report = Report {
            version: env!("CARGO_PKG_VERSION"),
            exit_code: 0,
            settings,
            device,
            run,
            threads,
            photos: self.photos,
            skipped: self.skipped,
            runtime,
            profile: None,
            teardown,
            files,
        };
        report.exit_code = report.exit().code();
        report
    }
}

fn teardown_facts(closed: &millstream::Report) -> TeardownFacts {
    TeardownFacts {
        drained: closed.drained,
        tasks_left: closed.tasks_left,
        slices_held: closed.slices_held,
        threads_left: closed.threads_left,
    }
}

/// Counters come from the device. Busy times come from the timeline, so that both say the same.
fn runtime_facts(stats: &Stats, timeline: &Summary) -> RuntimeFacts {
    let queue = |(queue, facts): (usize, &millstream::QueueStats)| {
        let mut traced = timeline.queues.iter();
        let traced = traced.find(|traced| traced.queue as usize == queue);
        QueueFacts {
            queue,
            tasks: facts.tasks,
            busy_ms: traced.map_or(0.0, |traced| traced.busy_ns as f64 / 1e6),
            occupancy: (!timeline.queues.is_empty())
                .then(|| traced.map_or(0.0, |traced| traced.busy)),
        }
    };
    RuntimeFacts {
        tasks: stats.tasks,
        batches: stats.batches,
        tasks_per_batch: ratio(stats.tasks as f64, stats.batches as f64),
        waits_issued: stats.waits_issued,
        waits_implied: stats.waits_implied,
        failures: stats.failures,
        memory_high_water_bytes: stats.memory.high_water,
        queues: stats.queues.iter().enumerate().map(queue).collect(),
    }
}
