//! The crew: threads that share one device, each with a stream of its own.
//!
//! Jobs are taken from a counter. A worker keeps up to `IN_FLIGHT` photographs on the device, so
//! that it can send the next one while the last one runs. Pixels on the device are limited
//! (`Credit`); a worker waits for credit only while it holds none, so that somebody can always go
//! on. A photograph that fails is an answer like any other: the crew goes on.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use millstream::{Handle, Stream};

use super::check::{self, Verdict};
use super::files::{Found, Skipped};
use super::photos::Photo;
use super::pipeline::{BYTES_PER_PIXEL, Developing, Drawing, Pipeline};
use super::progress::Progress;
use super::{photos, reference};
use crate::exit::CommandError;

/// Photographs that one worker has on the device at a time: one runs, one waits behind it.
const IN_FLIGHT: usize = 2;
/// Device memory that all workers together may fill with photographs.
const MAX_BYTES_IN_FLIGHT: u64 = 2 << 30;

/// A photograph and what the reference makes of it.
pub(crate) struct Prepared {
    pub(crate) photo: Photo,
    pub(crate) tones: Vec<f32>,
}

/// One photograph, developed once.
pub(crate) struct Run {
    pub(crate) photo: usize,
    pub(crate) thread: usize,
    /// From the upload's call to the result in the caller's hands.
    pub(crate) latency: Duration,
    pub(crate) outcome: Result<Verdict, millstream::Error>,
}

/// What a round brought.
#[derive(Default)]
pub(crate) struct Round {
    pub(crate) runs: Vec<Run>,
    /// The first drawing of each photograph, by its index.
    pub(crate) drawings: Vec<(usize, Drawing)>,
    pub(crate) elapsed: Duration,
}

/// Reads the photographs and computes what the reference says of each, on as many threads as
/// there are cores. The order of `found` is kept.
pub(crate) fn prepare(
    found: &[Found],
    progress: &Progress,
) -> Result<(Vec<Prepared>, Vec<Skipped>), CommandError> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let mut read = on_threads(cores.min(found.len()), |_| {
        let mut read = Vec::new();
        while let Some((index, found)) = take(&next, found) {
            let prepared = photos::load(found).map(|photo| Prepared {
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

/// Develops every photograph `repeat` times, one thread per stream, and checks every result.
pub(crate) fn develop(
    pipeline: &Pipeline,
    streams: &[Stream],
    photos: &[Prepared],
    repeat: usize,
    progress: &Progress,
) -> Result<Round, CommandError> {
    // One upload that every stream reads: here their orders meet.
    let taps = pipeline
        .write_taps(&streams[0])
        .map_err(|source| CommandError::Device { source })?;
    let crew = Crew {
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
        Some(crew.work(thread, &streams[thread]))
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

/// Runs `work` on `count` threads and gathers what they return.
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
                // A bug of ours: let it be seen as it is.
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(gathered)
    })
}

/// The next item that no thread has taken yet.
pub(crate) fn take<'a, T>(next: &AtomicUsize, items: &'a [T]) -> Option<(usize, &'a T)> {
    // Relaxed: the counter only hands out numbers; the items were there before the threads.
    let index = next.fetch_add(1, Ordering::Relaxed);
    items.get(index).map(|item| (index, item))
}

struct Crew<'a> {
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
    developing: Result<Developing, millstream::Error>,
}

impl Crew<'_> {
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

    /// Photographs in turn, all of them before any is repeated.
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
        let developing = self
            .pipeline
            .submit(stream, &self.taps, &self.photos[photo].photo);
        InFlight {
            photo,
            first: job < self.photos.len(),
            sent,
            developing,
        }
    }

    /// Waits for a result and checks it; the first drawing of a photograph is kept.
    fn receive(&self, job: InFlight, thread: usize) -> (Run, Option<Drawing>) {
        let drawing = job.developing.and_then(Developing::wait);
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

/// Bytes on the device, bounded. One photograph alone may exceed the bound.
#[derive(Default)]
struct Credit {
    taken: Mutex<u64>,
    given: Condvar,
}

impl Credit {
    /// Takes `bytes`; where they are not there, waits for them if `may_wait`, else returns false.
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
        // A number cannot be left half changed.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_taken_once() {
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
    fn credit_is_bounded_but_one_photograph_always_fits() {
        let credit = Credit::default();
        assert!(credit.take(3 * MAX_BYTES_IN_FLIGHT, false));
        assert!(!credit.take(1, false));
        credit.give(3 * MAX_BYTES_IN_FLIGHT);
        assert!(credit.take(MAX_BYTES_IN_FLIGHT / 2, false));
        assert!(credit.take(MAX_BYTES_IN_FLIGHT / 2, false));
        assert!(!credit.take(1, false));
    }

    #[test]
    fn whoever_waits_for_credit_goes_on_when_some_is_given() {
        let credit = Credit::default();
        assert!(credit.take(MAX_BYTES_IN_FLIGHT, true));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| credit.take(5, true));
            credit.give(MAX_BYTES_IN_FLIGHT);
            assert!(waiting.join().unwrap());
        });
    }
}
