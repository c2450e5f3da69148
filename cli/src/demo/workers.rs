//! The worker threads, which share one device. Each has its own stream.
//!
//! Workers take jobs from a shared counter. A worker keeps up to two photographs on the device, so that it submits the
//! next one while the last one runs. The failure of a photograph does not stop the workers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use millstream::{Handle, Stream};

use super::photos::{self, Photo, PhotoFile, Skipped};
use super::pipeline::{BYTES_PER_PIXEL, PendingDrawing, Pipeline};
use super::reference;
use crate::exit::CommandError;
use crate::output::Progress;

/// The device memory that the photographs of all workers should occupy at most.
const BYTES_IN_FLIGHT: u64 = 2 << 30;

/// One conversion of a photograph.
pub(super) struct Run {
    pub(super) photo: usize,
    pub(super) thread: usize,
    /// From the call of the upload to the return of the result.
    pub(super) latency: Duration,
    pub(super) outcome: Outcome,
}

/// What became of a photograph.
pub(super) enum Outcome {
    /// The drawing equals the reference. The photograph's first one is kept.
    Equal(Option<Vec<u8>>),
    Different(String),
    Failed(millstream::Error),
}

/// Reads the photographs and computes their reference, on one thread per core. Keeps the order of `files`.
pub(super) fn prepare(files: &[PhotoFile]) -> Result<Vec<Result<Photo, Skipped>>, CommandError> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (next, progress) = (AtomicUsize::new(0), Progress::new("reading", files.len()));
    let mut read = on_threads(cores.min(files.len()), |_| {
        let mut read = Vec::new();
        while let Some(index) = take(&next, files.len()) {
            let mut photo = photos::load(&files[index]);
            if let Ok(photo) = &mut photo {
                photo.pixels.tones = reference::tones(photo);
            }
            read.push((index, photo));
            progress.step();
        }
        read
    })?;
    read.sort_by_key(|(index, _)| *index);
    Ok(read.into_iter().map(|(_, photo)| photo).collect())
}

/// Converts every photograph `repeat` times, one thread per stream, and checks every result.
pub(super) fn convert(
    pipeline: &Pipeline,
    streams: &[Stream],
    photos: &[Photo],
    repeat: usize,
) -> Result<Vec<Run>, CommandError> {
    // Every stream reads this upload, so that streams depend on each other.
    let taps = pipeline.write_taps(&streams[0]);
    let pixels = photos
        .iter()
        .map(|photo| u64::from(photo.width) * u64::from(photo.height));
    let bytes = BYTES_PER_PIXEL * pixels.max().unwrap_or(1) * streams.len() as u64;
    let jobs = photos.len() * repeat;
    let workers = Workers {
        pipeline,
        taps: taps.map_err(CommandError::device)?,
        photos,
        jobs,
        in_flight: (BYTES_IN_FLIGHT / bytes).clamp(1, 2) as usize,
        progress: Progress::new("converting", jobs),
        next: AtomicUsize::new(0),
    };
    on_threads(streams.len(), |thread| {
        workers.work(thread, &streams[thread])
    })
}

/// Runs `work` on `count` threads and collects their results.
fn on_threads<T: Send>(
    count: usize,
    work: impl Fn(usize) -> Vec<T> + Sync,
) -> Result<Vec<T>, CommandError> {
    let work = &work;
    thread::scope(|scope| {
        let spawn = |index| {
            let builder = thread::Builder::new().name(format!("worker {index}"));
            builder.spawn_scoped(scope, move || work(index))
        };
        let threads: Result<Vec<_>, _> = (0..count).map(spawn).collect();
        let next = "try fewer --threads";
        let refused = |source| CommandError::failure("a thread cannot be started", next, source);
        let mut gathered = Vec::new();
        for thread in threads.map_err(refused)? {
            match thread.join() {
                Ok(items) => gathered.extend(items),
                // A panic is a bug of the demo; the main thread propagates it unchanged.
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(gathered)
    })
}

/// Takes the next number below `end` that no thread has taken yet.
fn take(next: &AtomicUsize, end: usize) -> Option<usize> {
    // Relaxed: the counter only hands out numbers. The start of the threads publishes the items.
    let index = next.fetch_add(1, Ordering::Relaxed);
    (index < end).then_some(index)
}

struct Workers<'a> {
    pipeline: &'a Pipeline,
    taps: Handle<f32>,
    photos: &'a [Photo],
    /// Jobs cover all photographs before they repeat one.
    jobs: usize,
    /// The photographs that each worker has on the device at once.
    in_flight: usize,
    progress: Progress,
    next: AtomicUsize,
}

impl Workers<'_> {
    fn work(&self, thread: usize, stream: &Stream) -> Vec<Run> {
        let (mut runs, mut in_flight) = (Vec::new(), VecDeque::new());
        loop {
            while in_flight.len() < self.in_flight
                && let Some(job) = take(&self.next, self.jobs)
            {
                let sent = Instant::now();
                let photo = &self.photos[job % self.photos.len()];
                let drawing = self.pipeline.submit(stream, &self.taps, photo);
                in_flight.push_back((job, sent, drawing));
            }
            let Some((job, sent, drawing)) = in_flight.pop_front() else {
                return runs;
            };
            let drawing = drawing.and_then(PendingDrawing::wait);
            runs.push(Run {
                photo: job % self.photos.len(),
                thread,
                latency: sent.elapsed(),
                outcome: self.check(job, drawing),
            });
            self.progress.step();
        }
    }

    fn check(
        &self,
        job: usize,
        drawing: Result<(Vec<u8>, Vec<u32>), millstream::Error>,
    ) -> Outcome {
        let photo = &self.photos[job % self.photos.len()];
        match drawing {
            Err(error) => Outcome::Failed(error),
            Ok((image, bins)) => {
                let tones = &photo.pixels.tones;
                match reference::check(tones, photo.width as usize, &image, &bins) {
                    Ok(()) => Outcome::Equal((job < self.photos.len()).then_some(image)),
                    Err(difference) => Outcome::Different(difference),
                }
            }
        }
    }
}
