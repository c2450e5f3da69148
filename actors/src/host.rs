//! Threads for user code: host functions and callbacks. Never the device's thread.
//!
//! The first is started with the device, so that a device that was opened can run user code whatever happens;
//! others on demand, up to a limit or until there are no more to be had. Beyond it jobs wait their turn. An idle
//! thread sleeps in its channel.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_core::channel::{Job, mark_runtime_thread};
use millstream_core::error::OpenError;
use millstream_core::message::{HostDone, HostWork};
use millstream_core::server::HostToken;
use millstream_core::threads::{Spawner, Thread, ThreadRole};
use millstream_sync::channel;
use millstream_sync::facade::atomic::{AtomicUsize, Ordering};
use millstream_sync::facade::{Mutex, lock, thread};
use millstream_sync::payload;
use millstream_sync::thread_flag;

use crate::actor::{Control, ToDevice};
use crate::mailbox::PATIENCE;

/// Most threads for user code of one device. A host function that blocks takes one of them; as many
/// may block before others wait for them.
const THREADS_MAX: usize = 16;

/// Runs jobs on threads of its own.
pub(crate) struct HostThreads {
    jobs: Mutex<Option<channel::Sender<Job>>>,
    receiver: channel::Receiver<Job>,
    /// Threads that wait for a job, less the jobs on their way.
    idle: Arc<AtomicUsize>,
    threads: Mutex<Vec<Thread<()>>>,
    spawner: Spawner,
}

impl HostThreads {
    /// With a first thread.
    pub(crate) fn start(spawner: Spawner) -> Result<Arc<Self>, OpenError> {
        let (sender, receiver) = channel::unbounded();
        let threads = Self {
            jobs: Mutex::new(Some(sender)),
            receiver,
            idle: Arc::new(AtomicUsize::new(0)),
            threads: Mutex::new(Vec::new()),
            spawner,
        };
        threads.start_thread()?;
        // Relaxed: see `execute`.
        threads.idle.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(threads))
    }

    /// Runs a job on one of the threads; after the close on the caller's, which no device needs any more.
    pub(crate) fn execute(&self, job: Job) {
        let jobs = lock(&self.jobs);
        let Some(sender) = &*jobs else {
            drop(jobs);
            return run_job(job);
        };
        // Relaxed: a guess that is at most one thread off; every job is in the channel either way.
        let claimed = self
            .idle
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |idle| {
                idle.checked_sub(1)
            });
        if claimed.is_err() {
            // Where there is none to be had, those that there are run the job in its turn.
            let _ = self.start_thread();
        }
        // The receiver lives as long as we do.
        let _ = sender.send(job);
    }

    fn start_thread(&self) -> Result<(), OpenError> {
        let mut threads = lock(&self.threads);
        if threads.len() >= THREADS_MAX {
            return Ok(());
        }
        let (receiver, idle) = (self.receiver.clone(), self.idle.clone());
        let run = move || {
            let _mark = mark_runtime_thread();
            while let Ok(job) = receiver.recv() {
                run_job(job);
                // Relaxed: see `execute`.
                idle.fetch_add(1, Ordering::Relaxed);
            }
        };
        let spawned = self
            .spawner
            .spawn(ThreadRole::UserCode, "millstream-host", run);
        threads.push(spawned?);
        Ok(())
    }

    /// Takes no more jobs, runs those there are, ends the threads. Says how many were still in user code
    /// when the time was up and are left to themselves.
    pub(crate) fn join(&self, deadline: Instant) -> u64 {
        lock(&self.jobs).take();
        let threads = std::mem::take(&mut *lock(&self.threads));
        threads
            .into_iter()
            .map(|thread| u64::from(!join_until(thread, deadline)))
            .sum()
    }
}

impl Drop for HostThreads {
    /// A device that could not be opened leaves no thread behind. Others were joined when they were closed.
    fn drop(&mut self) {
        lock(&self.threads).retain(|thread| !thread.is_current());
        self.join(Instant::now() + PATIENCE);
    }
}

/// How often a joining thread looks whether the other has ended. There is no join with a deadline.
const JOIN_NAP: Duration = Duration::from_micros(200);

/// Joins a thread if it ends in time, and says whether it did.
pub(crate) fn join_until(thread: Thread<()>, deadline: Instant) -> bool {
    thread.run_unless_begun();
    while !thread.is_finished() {
        if thread::is_past(deadline) {
            return false;
        }
        thread::nap(JOIN_NAP);
    }
    // What panicked there has nobody to go to: panics of user code end where they are caught.
    drop(thread.join());
    true
}

/// Ends a panic of user code.
pub(crate) fn end_panic(outcome: std::thread::Result<()>) {
    if let Err(panic) = outcome {
        payload::end(panic);
    }
}

/// Runs a job; a panic ends with it.
pub(crate) fn run_job(job: Job) {
    end_panic(catch_unwind(AssertUnwindSafe(job)));
}

thread_flag! {
    /// Is the thread inside a [`host_job`], which tells of panics itself?
    InHostWork
}

/// A host function as a job: it tells the device when it ended, with the panic's message.
pub(crate) fn host_job(
    work: HostWork,
    resources: Option<Box<dyn std::any::Any + Send>>,
    token: HostToken,
    device: ToDevice,
) -> Job {
    let tell = Arc::new(Mutex::new(Some(device)));
    let told = tell.clone();
    let finish = move |outcome: Result<(), String>| {
        // A panic inside the host function is told below, with its message.
        if !(InHostWork::get() && std::thread::panicking()) {
            tell_end(&told, token, outcome);
        }
    };
    let done = HostDone::new(finish);
    Box::new(move || {
        let before = InHostWork::replace(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| (work.run)(done, resources)));
        InHostWork::set(before);
        if let Err(panic) = outcome {
            tell_end(&tell, token, Err(panic_message(&*panic)));
        }
    })
}

/// Tells the device of the end of a host function, once.
fn tell_end(tell: &Mutex<Option<ToDevice>>, token: HostToken, outcome: Result<(), String>) {
    if let Some(device) = lock(tell).take() {
        device.tell(Control::HostFinished(token, outcome));
    }
}

/// The message of a panic.
fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => (*message).to_owned(),
        (_, Some(message)) => message.clone(),
        _ => "something that is no text".to_owned(),
    }
}
