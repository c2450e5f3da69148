//! `millstream demo`: many threads convert photographs to drawings on one device, and check every result.
//!
//! | module | contents |
//! | --- | --- |
//! | `photos` | finds and reads photographs, skips other files with a reason, and writes drawings |
//! | `pipeline` | the pencil filter as kernels |
//! | `reference` | the filter in plain code, and the comparison of results with it |
//! | `workers` | threads and their streams |
//! | `report` | the report as data and as text |
//! | `fake_gpu_tests` | tests: the GPU kernels on the fake CUDA driver |

#[cfg(test)]
mod fake_gpu_tests;
mod photos;
mod pipeline;
mod reference;
mod report;
mod workers;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use millstream::{Device, DeviceOptions, Strategy, Stream};

use self::photos::{Photo, PhotoFile, Pixels};
use self::report::{Report, Tally};
use self::workers::{Run, Wrong};
use crate::args::{DemoArgs, Order};
use crate::exit::{CommandError, FileRole};
use crate::output;
use crate::timeline::{Caption, Summary, draw};
use crate::units::counted;

/// The spans that the device keeps: enough for about twenty thousand photographs.
const TRACE_SPANS_MAX: usize = 200_000;
/// How long closing the device may take. Every result has been read back by then.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The photographs in memory at once. Each pixel takes 8 bytes on the host (photograph, reference, result).
const ROUND: usize = 16;

/// Runs the demo.
pub(crate) fn run(args: &DemoArgs) -> Result<output::Report, CommandError> {
    let report = convert(args, open)?;
    Ok(output::Report {
        exit: report.exit(),
        json: report.json(),
        text: report.text(),
    })
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

/// Converts the photographs of a folder on the device that `open` opens.
fn convert(
    args: &DemoArgs,
    open: impl FnOnce(&DemoArgs) -> Result<Device, CommandError>,
) -> Result<Report<'_>, CommandError> {
    let input = args.input.clone().unwrap_or_else(photos::default_folder);
    let found = photos::find(&input)?;
    if found.is_empty() {
        return Err(no_photographs(&input, 0));
    }
    let drawings = output_folder(&args.output, &input)?;
    let next = "name a file in an existing, writable folder with --timeline";
    let saved = args.timeline.as_deref();
    let saved = saved.map(|path| FileRole::new("timeline", path, next));
    // Before the run, so that a wrong path fails at once.
    saved.map_or(Ok(()), FileRole::create)?;
    let device = open(args)?;
    let client = device.new_client();
    let streams: Vec<Stream> = (0..args.threads).map(|_| client.new_stream()).collect();
    pipeline::prepare(&streams[0]).map_err(CommandError::device)?;
    let token = args.profile.then(|| device.start_profile()).transpose();
    let token = token.map_err(CommandError::device)?;

    let mut tally = Tally::default();
    for round in found.chunks(ROUND) {
        tally.convert(round, &streams, args.repeat as usize, &drawings)?;
    }
    if tally.photos.is_empty() {
        return Err(no_photographs(&input, tally.skipped.len()));
    }

    let profile = token.map(|token| device.end_profile(token).wait());
    let profile = profile.transpose().map_err(CommandError::device)?;
    let stats = device.stats().map_err(CommandError::device)?;
    let spans = device.trace().map_err(CommandError::device)?;
    let summary = Summary::of(&spans);
    let name = device.properties().name.clone();
    let (threads, photographs) = (streams.len(), tally.photos.len());
    let caption = Caption {
        title: &format!(
            "Timeline of the demo: {}, one device",
            counted(threads, "thread")
        ),
        subtitle: &format!("{} on {name}", counted(photographs, "photograph")),
        queues: stats.queues.len() as u32,
        tasks: stats.tasks,
    };
    let timeline = args.output.join("timeline.svg");
    output_role(&timeline).write(draw(&spans, &summary, &caption))?;
    if let Some(saved) = saved {
        let mut json = Vec::new();
        let written = millstream::timeline::write(&spans, &mut json);
        written.map_err(|source| saved.cannot_be("written", source))?;
        saved.write(json)?;
    }
    // Handles and streams are dropped first, so that the close reports only leaks.
    drop((streams, client));
    let closed = device.close(CLOSE_TIMEOUT);
    Ok(Report {
        args,
        input,
        device: name,
        tally,
        stats,
        summary,
        profile,
        closed,
        drawings,
        timeline,
    })
}

fn no_photographs(input: &Path, skipped: usize) -> CommandError {
    let (folder, skipped) = (input.display(), counted(skipped, "file"));
    let message = format!("no photographs in `{folder}`; {skipped} skipped");
    photos::input(input).error(message, None)
}

fn output_role(path: &Path) -> FileRole<'_> {
    let next = "name another, writable folder on a disk with free space with --output";
    FileRole::new("output", path, next)
}

/// Creates the folder of the drawings. It must not be the input, or a later run would read drawings as photographs.
fn output_folder(output: &Path, input: &Path) -> Result<PathBuf, CommandError> {
    let drawings = output.join("photos");
    fs::create_dir_all(&drawings)
        .map_err(|source| output_role(output).cannot_be("written", source))?;
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

impl Tally {
    /// Reads, converts and writes some photographs.
    fn convert(
        &mut self,
        files: &[PhotoFile],
        streams: &[Stream],
        repeat: usize,
        drawings: &Path,
    ) -> Result<(), CommandError> {
        let mut photos = Vec::new();
        for photo in workers::prepare(files)? {
            match photo {
                Ok(photo) => photos.push(photo),
                Err(skipped) => self.skipped.push(skipped),
            }
        }
        if photos.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        let runs = workers::convert(streams, &photos, repeat)?;
        self.seconds += began.elapsed().as_secs_f64();
        let of = (0..photos.len()).cycle();
        for (run, photo) in runs.into_iter().zip(of) {
            let photo = &mut photos[photo];
            if let Some(image) = self.count(run, photo) {
                let path = drawings.join(&photo.output);
                let saved = photos::save(&path, photo, &image);
                saved.map_err(|source| output_role(&path).cannot_be("written", source))?;
                photo.drawing = Some(path);
            }
        }
        for photo in &mut photos {
            photo.pixels = Pixels::default();
        }
        self.photos.append(&mut photos);
        Ok(())
    }

    /// Counts a conversion, and returns its drawing if that is correct and the first.
    fn count(&mut self, run: Run, photo: &mut Photo) -> Option<Vec<u8>> {
        let wrong = match run.drawing {
            Ok(image) => {
                self.pixels += u64::from(photo.width) * u64::from(photo.height);
                self.equal.push((run.thread, run.latency));
                return image;
            }
            Err(Wrong::Different(difference)) => {
                self.different += 1;
                difference
            }
            Err(Wrong::Failed(error)) => {
                self.failed += 1;
                error.to_string()
            }
        };
        photo.wrong.get_or_insert(wrong);
        None
    }
}
