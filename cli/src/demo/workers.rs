//! The worker threads, which share one device. Each has its own stream.
//!
//! Workers take jobs from a shared counter. A worker keeps up to `IN_FLIGHT` photographs on the
//! device, so that it submits the next one while the last one runs. `Credit` limits the bytes on
//! the device. A worker waits for credit only while it holds none, so workers cannot deadlock on
//! credit. The failure of a photograph does not stop the workers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use millstream::{Handle, Stream};

use super::check::{self, Verdict};
use super::files::{PhotoFile, Skipped};
use super::photos::Photo;
use super::pipeline::{BYTES_PER_PIXEL, Drawing, PendingDrawing, Pipeline};
use super::progress::Progress;
use super::{photos, reference};
use crate::exit::CommandError;

/// The photographs that a worker has on the device at once: one runs and one is queued behind it.
const IN_FLIGHT: usize = 2;
/// The device memory that the photographs of all workers may occupy.
const MAX_BYTES_IN_FLIGHT: u64 = 2 << 30;

/// A photograph and the tones that the reference computes for it.
pub(crate) struct Prepared {
    pub(crate) photo: Photo,
    pub(crate) tones: Vec<f32>,
}

/// One conversion of a photograph.
pub(crate) struct Run {
    pub(crate) photo: usize,
    pub(crate) thread: usize,
    /// From the call of the upload to the return of the result.
    pub(crate) latency: Duration,
    pub(crate) outcome: Result<Verdict, millstream::Error>,
}

/// The results of a round.
#[derive(Default)]
pub(crate) struct Round {
    pub(crate) runs: Vec<Run>,
    /// The first drawing of each photograph, by its index.
    pub(crate) drawings: Vec<(usize, Drawing)>,
    pub(crate) elapsed: Duration,
}

/// Reads the photographs and computes their reference, on one thread per core. Keeps the order of
/// `files`.
pub(crate) fn prepare(
    files: &[PhotoFile],
    progress: &Progress,
) -> Result<(Vec<Prepared>, Vec<Skipped>), CommandError> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let mut read = on_threads(cores.min(files.len()), |_| {
        let mut read = Vec::new();
        while let Some((index, file)) = take(&next, files) {
            let prepared = photos::load(file).map(|photo| Prepared {
                tones: reference::tones(&photo),
                photo,
            });
            read.push((index, prepared));
            progress.step();
        }
        read
    })?;
    read.sort_by_key(|(index, _)| *index);
    let (mut prepared, mut skipped) = (Vec::new(), Vec::new());
    for (_, result) in read {
        match result {
            Ok(photo) => prepared.push(photo),
            Err(reason) => skipped.push(reason),
        }
    }
    Ok((prepared, skipped))
}

/// Converts every photograph `repeat` times, one thread per stream, and checks every result.
pub(crate) fn convert(
    pipeline: &Pipeline,
    streams: &[Stream],
    photos: &[Prepared],
    repeat: usize,
    progress: &Progress,
) -> Result<Round, CommandError> {
    // Every stream reads this upload, so that streams depend on each other.
    let taps = pipeline
        .write_taps(&streams[0])
        .map_err(|source| CommandError::Device { source })?;
    let workers = Workers {
        pipeline,
        taps,
        photos,
        repeat,
        progress,
        next: AtomicUsize::new(0),
        credit: Credit::default(),
    };
    let began = Instant::now();
    let done = on_threads(streams.len(), |thread| {
        Some(workers.work(thread, &streams[thread]))
    })?;
    let mut round = Round {
        elapsed: began.elapsed(),
        ..Round::default()
    };
    for (runs, drawings) in done {
        round.runs.extend(runs);
        round.drawings.extend(drawings);
    }
    round.drawings.sort_by_key(|(photo, _)| *photo);
    Ok(round)
}

/// Runs `work` on `count` threads and collects their results.
pub(crate) fn on_threads<T: Send, I: IntoIterator<Item = T> + Send>(
    count: usize,
    work: impl Fn(usize) -> I + Sync,
) -> Result<Vec<T>, CommandError> {
    let work = &work;
    thread::scope(|scope| {
        let mut handles = Vec::with_capacity(count);
        for index in 0..count {
            let builder = thread::Builder::new().name(format!("worker {index}"));
            let handle = builder.spawn_scoped(scope, move || work(index));
            handles.push(handle.map_err(|source| CommandError::Thread { source })?);
        }
        let mut gathered = Vec::new();
        for handle in handles {
            match handle.join() {
                Ok(items) => gathered.extend(items),
                // A panic is a bug of the demo; the main thread propagates it unchanged.
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(gathered)
    })
}

/// Takes the next item that no thread has taken yet.
pub(crate) fn take<'a, T>(next: &AtomicUsize, items: &'a [T]) -> Option<(usize, &'a T)> {
    // Relaxed: the counter only hands out numbers. The start of the threads publishes the items.
    let index = next.fetch_add(1, Ordering::Relaxed);
    items.get(index).map(|item| (index, item))
}

struct Workers<'a> {
    pipeline: &'a Pipeline,
    taps: Handle<f32>,
    photos: &'a [Prepared],
    repeat: usize,
    progress: &'a Progress,
    next: AtomicUsize,
    credit: Credit,
}

struct InFlight {
    photo: usize,
    first: bool,
    sent: Instant,
    drawing: Result<PendingDrawing, millstream::Error>,
}

impl Workers<'_> {
    fn work(&self, thread: usize, stream: &Stream) -> (Vec<Run>, Vec<(usize, Drawing)>) {
        let (mut runs, mut drawings) = (Vec::new(), Vec::new());
        let mut in_flight = VecDeque::with_capacity(IN_FLIGHT);
        let mut job = self.next_job();
        loop {
            while let Some(wanted) = job {
                let full = in_flight.len() == IN_FLIGHT;
                if full || !self.credit.take(self.bytes(wanted), in_flight.is_empty()) {
                    break;
                }
                in_flight.push_back(self.send(wanted, stream));
                job = self.next_job();
            }
            let Some(oldest) = in_flight.pop_front() else {
                return (runs, drawings);
            };
            let (run, drawing) = self.receive(oldest, thread);
            self.credit.give(self.bytes(run.photo));
            drawings.extend(drawing.map(|drawing| (run.photo, drawing)));
            runs.push(run);
            self.progress.step();
        }
    }

    /// Takes the next job. Jobs cover all photographs before they repeat one.
    fn next_job(&self) -> Option<usize> {
        // Relaxed: the counter only hands out numbers.
        let job = self.next.fetch_add(1, Ordering::Relaxed);
        (job < self.photos.len() * self.repeat).then_some(job)
    }

    fn bytes(&self, job: usize) -> u64 {
        let photo = &self.photos[job % self.photos.len()].photo;
        u64::from(photo.width) * u64::from(photo.height) * BYTES_PER_PIXEL
    }

    fn send(&self, job: usize, stream: &Stream) -> InFlight {
        let photo = job % self.photos.len();
        let sent = Instant::now();
        let drawing = self
            .pipeline
            .submit(stream, &self.taps, &self.photos[photo].photo);
        InFlight {
            photo,
            first: job < self.photos.len(),
            sent,
            drawing,
        }
    }

    /// Waits for a result and checks it. Returns the drawing if it is the photograph's first.
    fn receive(&self, job: InFlight, thread: usize) -> (Run, Option<Drawing>) {
        let drawing = job.drawing.and_then(PendingDrawing::wait);
        let latency = job.sent.elapsed();
        let Prepared { photo, tones } = &self.photos[job.photo];
        let (outcome, drawing) = match drawing {
            Ok(drawing) => {
                let verdict = check::check(
                    tones,
                    photo.width as usize,
                    &drawing.image,
                    &drawing.histogram,
                );
                (Ok(verdict), job.first.then_some(drawing))
            }
            Err(error) => (Err(error), None),
        };
        (
            Run {
                photo: job.photo,
                thread,
                latency,
                outcome,
            },
            drawing,
        )
    }
}

/// A bound on the bytes on the device. A photograph that is alone on the device may exceed the bound.
#[derive(Default)]
struct Credit {
    taken: Mutex<u64>,
    given: Condvar,
}

impl Credit {
    /// Takes `bytes`. If they would exceed the bound, waits if `may_wait`, and otherwise returns `false`.
    fn take(&self, bytes: u64, may_wait: bool) -> bool {
        let mut taken = self.lock();
        while *taken > 0 && *taken + bytes > MAX_BYTES_IN_FLIGHT {
            if !may_wait {
                return false;
            }
            taken = self
                .given
                .wait(taken)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *taken += bytes;
        true
    }

    fn give(&self, bytes: u64) {
        *self.lock() -= bytes;
        self.given.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        // A panic cannot leave a number half changed, so the lock ignores poison.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_taken_exactly_once() {
        let items: Vec<usize> = (0..1000).collect();
        let next = AtomicUsize::new(0);
        let mut taken = on_threads(7, |_| {
            std::iter::from_fn(|| take(&next, &items))
                .map(|(index, item)| (index, *item))
                .collect::<Vec<_>>()
        })
        .unwrap();
        taken.sort_unstable();
        assert_eq!(taken, items.iter().map(|i| (*i, *i)).collect::<Vec<_>>());
    }

    #[test]
    fn credit_is_bounded_but_a_lone_photograph_always_fits() {
        let credit = Credit::default();
        assert!(credit.take(3 * MAX_BYTES_IN_FLIGHT, false));
        assert!(!credit.take(1, false));
        credit.give(3 * MAX_BYTES_IN_FLIGHT);
        assert!(credit.take(MAX_BYTES_IN_FLIGHT / 2, false));
        assert!(credit.take(MAX_BYTES_IN_FLIGHT / 2, false));
        assert!(!credit.take(1, false));
    }

    #[test]
    fn waiting_worker_continues_when_credit_is_returned() {
        let credit = Credit::default();
        assert!(credit.take(MAX_BYTES_IN_FLIGHT, true));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| credit.take(5, true));
            credit.give(MAX_BYTES_IN_FLIGHT);
            assert!(waiting.join().unwrap());
        });
    }
}
