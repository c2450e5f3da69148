//! The worker threads, which share one device. Each has its own stream.
//!
//! Workers take jobs from a shared counter. The failure of a photograph does not stop them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use millstream::Stream;

use super::photos::{self, Photo, PhotoFile, Skipped};
use super::{pipeline, reference};
use crate::exit::CommandError;
use crate::output::Progress;

/// One conversion of a photograph.
pub(super) struct Run {
    pub(super) thread: usize,
    /// From the call of the upload to the return of the result.
    pub(super) latency: Duration,
    /// The drawing, which equals the reference. The photograph's first one is kept.
    pub(super) drawing: Result<Option<Vec<u8>>, Wrong>,
}

/// Why there is no drawing of a photograph.
pub(super) enum Wrong {
    /// It differs from the reference.
    Different(String),
    Failed(millstream::Error),
}

/// Reads the photographs and computes their reference, on one thread per core.
pub(super) fn prepare(files: &[PhotoFile]) -> Result<Vec<Result<Photo, Skipped>>, CommandError> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    on_threads(cores, ("reading", files.len()), |_, index| {
        let mut photo = photos::load(&files[index])?;
        photo.pixels.tones = reference::tones(&photo);
        Ok(photo)
    })
}

/// Converts every photograph, and then all of them again, `repeat` times, one thread per stream, and checks every result.
pub(super) fn convert(
    streams: &[Stream],
    photos: &[Photo],
    repeat: usize,
) -> Result<Vec<Run>, CommandError> {
    // Every stream reads this upload, so that streams depend on each other.
    let taps = pipeline::write_taps(&streams[0]);
    let taps = taps.map_err(CommandError::device)?;
    let jobs = ("converting", photos.len() * repeat);
    on_threads(streams.len(), jobs, |thread, job| {
        let photo = &photos[job % photos.len()];
        let sent = Instant::now();
        let drawn = pipeline::draw(&streams[thread], &taps, photo);
        let latency = sent.elapsed();
        let check = |(image, bins): (Vec<u8>, Vec<u32>)| {
            let checked = reference::check(photo, &image, &bins);
            let first = (job < photos.len()).then_some(image);
            checked.map(|()| first).map_err(Wrong::Different)
        };
        Run {
            thread,
            latency,
            drawing: drawn.map_err(Wrong::Failed).and_then(check),
        }
    })
}

/// Runs `work` with the number of a thread and of each job once, on `threads` threads, and returns the results in the order
/// of the jobs.
fn on_threads<T: Send>(
    threads: usize,
    (message, jobs): (&'static str, usize),
    work: impl Fn(usize, usize) -> T + Sync,
) -> Result<Vec<T>, CommandError> {
    let (next, progress) = (AtomicUsize::new(0), Progress::new(message, jobs));
    let work = &|thread: usize| {
        // Relaxed: the counter only hands out numbers. The start of the threads publishes the jobs.
        let taken = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        let done = taken.take_while(|job| *job < jobs).map(|job| {
            let done = work(thread, job);
            progress.step();
            (job, done)
        });
        done.collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let spawn = |thread| {
            let builder = thread::Builder::new().name(format!("worker {thread}"));
            builder.spawn_scoped(scope, move || work(thread))
        };
        let threads: Result<Vec<_>, _> = (0..threads.min(jobs)).map(spawn).collect();
        let next = "try fewer --threads";
        let refused = |source| CommandError::failure("a thread cannot be started", next, source);
        let mut done = Vec::new();
        for thread in threads.map_err(refused)? {
            // A panic is a bug of the demo; the main thread propagates it unchanged.
            done.extend(
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            );
        }
        done.sort_by_key(|(job, _)| *job);
        Ok(done.into_iter().map(|(_, done)| done).collect())
    })
}
