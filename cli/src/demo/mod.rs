//! `millstream demo`: many threads convert photographs to drawings on one device, and check every result.
//!
//! | module | contents |
//! | --- | --- |
//! | `photos` | finds and reads photographs, skips other files with a reason, and writes drawings |
//! | `pipeline`, `gpu` | the pencil filter as kernels: in Rust, and in CUDA C, PTX and SPIR-V |
//! | `reference` | the filter in plain code, and the comparison of results with it |
//! | `workers` | threads and their streams |
//! | `report` | the report as data and as text |
//! | `fake_gpu_tests` | tests: the GPU kernels on the fake CUDA driver |

#[cfg(test)]
mod fake_gpu_tests;
mod gpu;
mod photos;
mod pipeline;
mod reference;
mod report;
mod workers;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use millstream::{Device, DeviceOptions, Kernel, Stats, Strategy, Stream};

use self::photos::{PhotoFile, Skipped};
use self::pipeline::{Pipeline, kernels};
use self::report::{
    DeviceFacts, Files, PhotoFacts, ProfileFacts, QueueFacts, Report, RunFacts, RuntimeFacts,
    Settings, TeardownFacts, ThreadFacts, percentiles_ms, ratio,
};
use self::workers::{Outcome, Prepared, Run};
use crate::args::{DemoArgs, Order};
use crate::exit::{CommandError, Exit, FileRole};
use crate::output;
use crate::timeline::{Caption, Summary, draw};
use crate::units::counted;

/// The spans that the device keeps: enough for about twenty thousand photographs.
const TRACE_SPANS_MAX: usize = 200_000;
/// How long closing the device may take. Every result has been read back by then.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The photographs in memory at once. Each pixel takes 8 bytes on the host (photograph, reference, result).
const ROUND: usize = 16;

/// Runs the demo and prints its report.
pub(crate) fn run(args: &DemoArgs) -> Result<Exit, CommandError> {
    let report = convert(args, open, kernels(gpu::sources))?;
    match args.json {
        true => output::json(&report)?,
        false => output::text(&report::render(&report))?,
    }
    Ok(report.exit())
}

fn open(args: &DemoArgs) -> Result<Device, CommandError> {
    let strategy = match args.strategy {
        Order::Interleave => Strategy::Interleave,
        Order::Sequential => Strategy::Sequential,
    };
    let options = DeviceOptions::default()
        .strategy(strategy)
        .trace(TRACE_SPANS_MAX);
    args.backend.open(Some(args.queues as usize), options)
}

/// Converts the photographs of a folder with these kernels, on the device that `open` opens.
fn convert(
    args: &DemoArgs,
    open: impl FnOnce(&DemoArgs) -> Result<Device, CommandError>,
    kernels: [Kernel; 6],
) -> Result<Report, CommandError> {
    let input = args.input.clone().unwrap_or_else(photos::default_folder);
    let found = photos::find(&input)?;
    if found.is_empty() {
        return Err(no_photographs(&input, 0));
    }
    let drawings = output_folder(&args.output, &input)?;
    // The file is created before the run, so that a wrong path fails at once.
    let saved = args.timeline.as_deref().map(timeline_role);
    let saved = saved.map(|role| match File::create(role.path) {
        Ok(file) => Ok((role, file)),
        Err(source) => Err(role.unwritable(source)),
    });
    let saved = saved.transpose()?;
    let device_error = |source| CommandError::Device { source };
    let device = open(args)?;
    let client = device.new_client();
    let streams: Vec<Stream> = (0..args.threads).map(|_| client.new_stream()).collect();
    let pipeline = Pipeline::new(&client, kernels).map_err(device_error)?;
    let token = args.profile.then(|| device.start_profile()).transpose();
    let token = token.map_err(device_error)?;

    let mut tally = Tally::default();
    for round in found.chunks(ROUND) {
        tally.convert(round, &pipeline, &streams, args.repeat as usize, &drawings)?;
    }
    if tally.photos.is_empty() {
        return Err(no_photographs(&input, tally.skipped.len()));
    }

    let profile = token.map(|token| device.end_profile(token).wait());
    let profile = profile.transpose().map_err(device_error)?;
    let stats = device.stats().map_err(device_error)?;
    let spans = device.trace().map_err(device_error)?;
    let facts = DeviceFacts {
        name: device.properties().name.clone(),
        queues: stats.queues.len(),
    };
    let caption = Caption {
        title: &format!(
            "Timeline of the demo: {}, one device",
            counted(streams.len(), "thread")
        ),
        subtitle: &format!(
            "{} on {} · upload, luma, blur, Sobel, tone curve, histogram, readback",
            counted(tally.photos.len(), "photograph"),
            facts.name
        ),
        queues: facts.queues as u32,
        tasks: stats.tasks,
    };
    let timeline = args.output.join("timeline.svg");
    let unwritable = |source| output_role(&timeline).unwritable(source);
    fs::write(&timeline, draw(&spans, &caption)).map_err(unwritable)?;
    if let Some((role, file)) = saved {
        millstream::timeline::write(&spans, file).map_err(|source| role.unwritable(source))?;
    }
    // Handles and streams are dropped first, so that the close reports only leaks.
    drop((pipeline, streams, client));
    let closed = device.close(CLOSE_TIMEOUT);
    let mut report = Report {
        version: env!("CARGO_PKG_VERSION"),
        exit_code: 0,
        settings: Settings {
            backend: args.backend,
            threads: args.threads as usize,
            strategy: args.strategy,
            repeat: args.repeat as usize,
            input,
            output: args.output.clone(),
        },
        device: facts,
        threads: tally.threads(args.threads as usize),
        run: tally.totals(),
        photos: tally.photos,
        skipped: tally.skipped,
        runtime: runtime_facts(&stats, &Summary::of(&spans)),
        profile: profile.as_ref().map(ProfileFacts::of),
        teardown: TeardownFacts {
            drained: closed.drained,
            tasks_left: closed.tasks_left,
            slices_held: closed.slices_held,
            threads_left: closed.threads_left,
        },
        files: Files {
            drawings,
            timeline,
            saved_timeline: args.timeline.clone(),
        },
    };
    report.exit_code = report.exit().code();
    Ok(report)
}

fn no_photographs(input: &Path, skipped: usize) -> CommandError {
    let (folder, skipped) = (input.display(), counted(skipped, "file"));
    let message = format!("no photographs in `{folder}`; {skipped} skipped");
    photos::input(input).error(message, None)
}

fn output_role(path: &Path) -> FileRole<'_> {
    FileRole {
        what: "output",
        path,
        next: "name another, writable folder on a disk with free space with --output",
    }
}

fn timeline_role(path: &Path) -> FileRole<'_> {
    FileRole {
        what: "timeline",
        path,
        next: "name a file in an existing, writable folder with --timeline",
    }
}

/// Creates the folder of the drawings. It must not be the input, or a later run would read drawings as photographs.
fn output_folder(output: &Path, input: &Path) -> Result<PathBuf, CommandError> {
    let drawings = output.join("photos");
    fs::create_dir_all(&drawings).map_err(|source| output_role(output).unwritable(source))?;
    match (drawings.canonicalize(), input.canonicalize()) {
        (Ok(drawings), Ok(input)) if drawings == input => {
            let message = format!(
                "input and output are the same folder, `{}`",
                input.display()
            );
            Err(output_role(output).error(message, None))
        }
        _ => Ok(drawings),
    }
}

/// The totals of the rounds so far.
#[derive(Default)]
struct Tally {
    photos: Vec<PhotoFacts>,
    skipped: Vec<Skipped>,
    run: RunFacts,
    pixels: u64,
    /// The thread and the latency of each correct result.
    latencies: Vec<(usize, Duration)>,
}

impl Tally {
    /// Reads, converts and writes some photographs.
    fn convert(
        &mut self,
        files: &[PhotoFile],
        pipeline: &Pipeline,
        streams: &[Stream],
        repeat: usize,
        drawings: &Path,
    ) -> Result<(), CommandError> {
        let mut prepared = Vec::new();
        for photo in workers::prepare(files)? {
            match photo {
                Ok(photo) => prepared.push(photo),
                Err(skipped) => self.skipped.push(skipped),
            }
        }
        if prepared.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        let runs = workers::convert(pipeline, streams, &prepared, repeat)?;
        self.run.seconds += began.elapsed().as_secs_f64();
        let mut facts: Vec<_> = prepared.iter().map(photo_facts).collect();
        for run in runs {
            let facts = &mut facts[run.photo];
            if let Some(image) = self.count(run, facts) {
                let path = drawings.join(&facts.output);
                let saved = photos::save(&path, [facts.width, facts.height], &image);
                saved.map_err(|source| output_role(&path).unwritable(source))?;
                facts.drawing = Some(path);
            }
        }
        self.photos.append(&mut facts);
        Ok(())
    }

    /// Counts a conversion, and returns its drawing if that is correct and the first.
    fn count(&mut self, run: Run, photo: &mut PhotoFacts) -> Option<Vec<u8>> {
        self.run.photos += 1;
        let wrong = match run.outcome {
            Outcome::Equal(image) => {
                self.run.equal += 1;
                self.pixels += u64::from(photo.width) * u64::from(photo.height);
                // The latency of a failure is not comparable.
                self.latencies.push((run.thread, run.latency));
                return image;
            }
            Outcome::Different(difference) => {
                self.run.different += 1;
                difference
            }
            Outcome::Failed(error) => {
                self.run.failed += 1;
                error.to_string()
            }
        };
        photo.wrong.get_or_insert(wrong);
        None
    }

    fn totals(&mut self) -> RunFacts {
        let mut all: Vec<_> = self.latencies.iter().map(|(_, latency)| *latency).collect();
        let [latency_p50_ms, latency_p99_ms] = percentiles_ms(&mut all);
        let run = std::mem::take(&mut self.run);
        RunFacts {
            photos_per_second: ratio(all.len() as f64, run.seconds),
            megapixels_per_second: ratio(self.pixels as f64 / 1e6, run.seconds),
            latency_p50_ms,
            latency_p99_ms,
            ..run
        }
    }

    fn threads(&self, threads: usize) -> Vec<ThreadFacts> {
        let facts = |thread| {
            let own = self.latencies.iter().filter(|(of, _)| *of == thread);
            let mut own: Vec<_> = own.map(|(_, latency)| *latency).collect();
            let [latency_p50_ms, latency_p99_ms] = percentiles_ms(&mut own);
            ThreadFacts {
                thread,
                photos: own.len(),
                latency_p50_ms,
                latency_p99_ms,
            }
        };
        (0..threads).map(facts).collect()
    }
}

fn photo_facts(Prepared { photo, .. }: &Prepared) -> PhotoFacts {
    PhotoFacts {
        file: photo.file.clone(),
        output: photo.output.clone(),
        width: photo.width,
        height: photo.height,
        wrong: None,
        drawing: None,
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
            occupancy: traced.map_or(0.0, |traced| traced.busy),
        }
    };
    RuntimeFacts {
        tasks: stats.tasks,
        batches: stats.batches,
        waits_issued: stats.waits_issued,
        waits_implied: stats.waits_implied,
        failures: stats.failures,
        memory_high_water_bytes: stats.memory.high_water,
        queues: stats.queues.iter().enumerate().map(queue).collect(),
    }
}
