//! Runs one model and prints its number of executions and its time.

use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The number of preemptions that are explored.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// Unbounded: for the smallest models.
    None,
    /// Three, for two threads.
    TwoThreads,
    /// Two, for three threads.
    ThreeThreads,
    /// One: for models that are too large for more in the CI set.
    One,
}

/// Which side of a model runs on its main thread, and so first unless preempted.
///
/// Every model is explored both ways. Loom 0.7 looks for races with the *last* access to an atomic
/// only, so a thread that loads before it stores hides the store from a reader that came earlier;
/// if the reader comes later, the race is found.
#[derive(Clone, Copy, Debug)]
pub struct Sides {
    flipped: bool,
}

impl Sides {
    /// Runs two sides concurrently.
    pub fn run<A: 'static, B: 'static>(
        self,
        left: impl FnOnce() -> A + Send + 'static,
        right: impl FnOnce() -> B + Send + 'static,
    ) -> (A, B) {
        if self.flipped {
            let left = thread::spawn(left);
            let right = right();
            (join(left), right)
        } else {
            let right = thread::spawn(right);
            (left(), join(right))
        }
    }

    /// Runs three sides concurrently.
    pub fn run_three<A: 'static, B: 'static, C: 'static>(
        self,
        first: impl FnOnce() -> A + Send + 'static,
        second: impl FnOnce() -> B + Send + 'static,
        third: impl FnOnce() -> C + Send + 'static,
    ) -> (A, B, C) {
        if self.flipped {
            let (second, first) = (thread::spawn(second), thread::spawn(first));
            let third = third();
            (join(first), join(second), third)
        } else {
            let (second, third) = (thread::spawn(second), thread::spawn(third));
            (first(), join(second), join(third))
        }
    }
}

fn join<T>(handle: thread::JoinHandle<T>) -> T {
    handle.join().expect("a side of the model panicked")
}

/// Explores every execution of `f` within the bound, with either side first. Prints the figures under the name of the
/// function that `f` is written in.
pub fn check<F: Fn(Sides) + Sync + Send + 'static>(bound: Bound, f: F) {
    let name = std::any::type_name::<F>();
    let name = name.trim_end_matches("::{{closure}}");
    let name = name.split_once("::").map_or(name, |(_, name)| name);
    let f = Arc::new(f);
    let iterations = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let mut used = None;
    for flipped in [false, true] {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(match bound {
            Bound::None => None,
            Bound::TwoThreads => Some(3),
            Bound::ThreeThreads => Some(2),
            Bound::One => Some(1),
        });
        used = builder.preemption_bound;
        let (f, counter) = (f.clone(), iterations.clone());
        builder.check(move || {
            counter.fetch_add(1, Relaxed);
            f(Sides { flipped });
        });
    }
    let used = used.map_or("none".to_owned(), |bound| bound.to_string());
    let (n, seconds) = (iterations.load(Relaxed), start.elapsed().as_secs_f64());
    println!("MODEL {name:<75} bound {used:>4}  {n:>8} iterations  {seconds:>6.2} s");
}

/// Memory without synchronization: loom reports each access that is not ordered with a write.
#[derive(Debug)]
pub struct Payload(UnsafeCell<u32>);

// SAFETY: the models check whether the accesses are ordered; loom panics if they are not.
unsafe impl Send for Payload {}
// SAFETY: as above.
unsafe impl Sync for Payload {}

impl Payload {
    /// Creates memory that holds `value`.
    pub fn new(value: u32) -> Self {
        Self(UnsafeCell::new(value))
    }

    /// Reads the value.
    pub fn get(&self) -> u32 {
        // SAFETY: loom has checked that no write is concurrent.
        self.0.with(|value| unsafe { *value })
    }

    /// Writes the value.
    pub fn set(&self, value: u32) {
        // SAFETY: loom has checked that no access is concurrent.
        self.0.with_mut(|place| unsafe { *place = value });
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::new(0)
    }
}
