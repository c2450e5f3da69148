//! Tunes in the background, on a thread of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Sender, TrySendError, bounded};
use millstream_protocol::Process;
use millstream_sync::payload::panic_message;
use millstream_tune::{Measure, Policy, TunableSet, TuneKey, Tuner};

/// The maximum number of queued keys (I12).
const WAITING_MAX: usize = 256;

type Job = Box<dyn FnOnce(&mut dyn Measure) + Send>;

/// A thread that tunes keys in the background, one after the other, and sleeps while there are none.
///
/// With [`Policy::UseDefault`] a caller never waits: it uses the default until this thread has found the fastest
/// candidate.
///
/// ```
/// use std::sync::Arc;
/// use millstream_actors::tuning::{Background, HostClock};
/// use millstream_tune::{Fastest, Policy, Tunable, TunableSet, Tuner};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let set = Arc::new(
///     TunableSet::new("twice", |_: &u32, x: &u32| *x)
///         .with(Tunable::new("add", |x: u32| Ok::<_, String>(x + x)))
///         .with(Tunable::new("shift", |x: u32| Ok::<_, String>(x << 1))),
/// );
/// let tuner = Tuner::new();
/// let background = Background::start(HostClock::new())?;
/// // In a frame: `fastest` and `tune` never wait.
/// if tuner.fastest(&7) == Fastest::Miss {
///     background.tune(&tuner, &set, 7, 21);
/// }
/// assert_eq!(tuner.execute(&set, &7, 21, &mut HostClock::new(), Policy::UseDefault)?, 42);
/// background.finish();
/// assert!(matches!(tuner.fastest(&7), Fastest::Hit(_)));
/// # Ok(())
/// # }
/// ```
pub struct Background {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    process: Process,
}

impl Background {
    /// Starts the thread, which measures with `measure`.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn start(mut measure: impl Measure + Send + 'static) -> std::io::Result<Self> {
        let (sender, receiver) = bounded::<Job>(WAITING_MAX);
        let builder = thread::Builder::new().name("millstream tuner".into());
        let thread = builder.spawn(move || {
            for job in receiver {
                // A panic, for example of the set's generator of inputs, fails this key and does not end the thread.
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| job(&mut measure))) {
                    let why = panic_message(payload);
                    tracing::warn!(target: "millstream::tune", why, "tuning a key panicked; the key stays untuned");
                }
            }
        })?;
        Ok(Self {
            jobs: Some(sender),
            thread: Some(thread),
            process: Process::current(),
        })
    }

    /// Queues a key for tuning. The thread skips the key if its fastest candidate is known by then. Never waits:
    /// returns `false` if the queue of keys is full.
    pub fn tune<K, I, O>(
        &self,
        tuner: &Tuner<K>,
        set: &Arc<TunableSet<K, I, O>>,
        key: K,
        inputs: I,
    ) -> bool
    where
        K: TuneKey,
        I: Clone + Send + 'static,
        O: 'static,
    {
        let (tuner, set) = (tuner.clone(), set.clone());
        let job: Job = Box::new(move |measure| {
            if let Err(why) = tuner.choose(&set, &key, &inputs, measure, Policy::Wait) {
                tracing::warn!(target: "millstream::tune", %why, "tuning a key failed; the key stays untuned");
            }
        });
        let sent = self.jobs.as_ref().map(|jobs| jobs.try_send(job));
        match sent {
            Some(Ok(())) => true,
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) | None => false,
        }
    }

    /// Blocks until all queued keys are tuned, and ends the thread.
    pub fn finish(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if !self.process.is_current() {
            // A child that was forked since has no such thread.
            std::mem::forget((self.jobs.take(), self.thread.take()));
            return;
        }
        drop(self.jobs.take());
        // If a job drops this `Background`, this code runs on the tuning thread, which cannot join itself.
        let thread = self.thread.take();
        let is_other = |thread: &JoinHandle<()>| thread.thread().id() != thread::current().id();
        if let Some(thread) = thread.filter(is_other) {
            // The thread catches panics of jobs, so the join cannot fail.
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    /// Same as [`Background::finish`].
    fn drop(&mut self) {
        self.end();
    }
}
