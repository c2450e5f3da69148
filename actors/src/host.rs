//! Threads for user code: host functions and callbacks. User code never runs on the device thread; code of this project
//! that begins a task at once does ([`HostPlace::AtOnce`]).
//!
//! The first thread is started with the device, so that an opened device can always run user code. Others are
//! started on demand, up to a limit or until the system refuses one. Beyond that jobs wait in the channel. An idle
//! thread sleeps in the channel.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crate::server::HostToken;
use millstream_protocol::{
    HostDone, HostFn, HostOutcome, HostPlace, Job, OpenError,
    marks::mark_user_code,
    threads::{Spawner, Thread, ThreadRole},
};
use millstream_sync::channel;
use millstream_sync::facade::atomic::{AtomicIsize, Ordering};
use millstream_sync::facade::{Mutex, lock, thread};
use millstream_sync::payload;
use millstream_sync::payload::panic_message;

use crate::control::{Control, ControlSender};

/// The most threads for user code of one device. A host function that blocks occupies one; once all are blocked,
/// further jobs wait.
const THREADS_MAX: usize = 16;

/// How long to wait for the threads of a device that was never used. They have nothing to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Runs jobs on threads for user code.
pub(crate) struct HostThreads {
    workers: Mutex<Workers>,
    receiver: channel::Receiver<Job>,
    /// Idle threads minus waiting jobs.
    idle: Arc<AtomicIsize>,
    spawner: Spawner,
}

/// The threads and the channel. The lock is never held while the function that starts threads is called: that is the
/// application's code, which may call back into this.
struct Workers {
    /// `None` once no further jobs are accepted.
    jobs: Option<channel::Sender<Job>>,
    threads: Vec<Thread<()>>,
    /// Threads that are being started.
    starting: usize,
}

impl HostThreads {
    /// Starts the first thread.
    pub(crate) fn start(spawner: Spawner) -> Result<Arc<Self>, OpenError> {
        let (sender, receiver) = channel::unbounded();
        let threads = Self {
            workers: Mutex::new(Workers {
                jobs: Some(sender),
                threads: Vec::new(),
                starting: 1,
            }),
            receiver,
            idle: Arc::new(AtomicIsize::new(0)),
            spawner,
        };
        threads.start_thread()?;
        Ok(Arc::new(threads))
    }

    /// Runs a job on one of the threads; after the close, on the calling thread, which no device needs any more.
    pub(crate) fn execute(&self, job: Job) {
        let mut workers = lock(&self.workers);
        let Some(jobs) = &workers.jobs else {
            drop(workers);
            return run_job(job);
        };
        // `self` owns a receiver, so the send cannot fail.
        let _ = jobs.send(job);
        // Relaxed: an estimate, which may miss threads that just end a job or just start; the job is in the
        // channel either way.
        let has_thread = self.idle.fetch_sub(1, Ordering::Relaxed) > 0;
        if has_thread || workers.threads.len() + workers.starting >= THREADS_MAX {
            return;
        }
        workers.starting += 1;
        drop(workers);
        // If no thread can be started, the existing ones run the job in its turn.
        let _ = self.start_thread();
    }

    /// Starts a thread that was counted as starting.
    fn start_thread(&self) -> Result<(), OpenError> {
        let (receiver, idle) = (self.receiver.clone(), self.idle.clone());
        let run = move || {
            let _mark = mark_user_code();
            while let Ok(job) = receiver.recv() {
                run_job(job);
                // Relaxed: see `execute`.
                idle.fetch_add(1, Ordering::Relaxed);
            }
        };
        let spawned = self
            .spawner
            .spawn(ThreadRole::UserCode, "millstream-host", run);
        let mut workers = lock(&self.workers);
        workers.starting -= 1;
        workers.threads.push(spawned?);
        // Relaxed: see `execute`.
        self.idle.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Accepts no further jobs, runs the remaining ones, and ends the threads. Returns how many threads were still in
    /// user code at the deadline and are left running.
    pub(crate) fn join(&self, deadline: Instant) -> u64 {
        let mut left = 0;
        loop {
            let (threads, starting) = {
                let mut workers = lock(&self.workers);
                workers.jobs = None;
                (std::mem::take(&mut workers.threads), workers.starting)
            };
            left += threads
                .into_iter()
                .map(|thread| u64::from(!join_until(thread, deadline)))
                .sum::<u64>();
            if starting == 0 {
                return left;
            }
            // Another thread is inside the function that starts threads.
            if Instant::now() >= deadline {
                return left + starting as u64;
            }
            std::thread::sleep(JOIN_NAP);
        }
    }
}

impl Drop for HostThreads {
    /// Ends the threads of a device that could not be opened. Otherwise `join` was called before.
    fn drop(&mut self) {
        lock(&self.workers)
            .threads
            .retain(|thread| !thread.is_current());
        self.join(Instant::now() + PATIENCE);
    }
}

/// How often a joining thread checks whether the other has ended. The standard library has no join with a deadline.
pub(crate) const JOIN_NAP: Duration = Duration::from_micros(200);

/// Joins a thread if it ends before the deadline, and returns whether it did.
pub(crate) fn join_until(thread: Thread<()>, deadline: Instant) -> bool {
    thread.run_unless_begun();
    while !thread.is_finished() {
        if thread::is_past(deadline) {
            return false;
        }
        thread::sleep(JOIN_NAP);
    }
    // Panics of user code were caught where they occurred, so there is no payload to pass on.
    drop(thread.join());
    true
}

/// Discards a panic of user code.
pub(crate) fn discard_panic(outcome: std::thread::Result<()>) {
    if let Err(panic) = outcome {
        payload::end(panic);
    }
}

/// Runs a job; a panic ends with it.
pub(crate) fn run_job(job: Job) {
    discard_panic(catch_unwind(AssertUnwindSafe(job)));
}

/// To whom the end of a host function is reported: its device. If the function began at once, the thread that ends it may
/// take the device's turns.
type Reporter = (ControlSender, HostPlace);

/// The end of a host function, as its job and its [`HostDone`] share it.
struct End {
    /// `None` once the end is reported.
    device: Option<Reporter>,
    /// The thread that is inside the function.
    running: Option<ThreadId>,
    /// How the function ended, if it ended while its thread unwound.
    kept: Option<HostOutcome>,
}

/// Makes the code of a host function, which reports its end. A call returns the rest of its work.
pub(crate) fn host_code(
    (run, place): (HostFn, HostPlace),
    resources: Option<Box<dyn Any + Send>>,
    token: HostToken,
    device: ControlSender,
) -> impl FnOnce() -> Option<Job> + Send {
    let (end, done) = end_of((device, place), token);
    move || run_to_its_end(end, token, || run(done, resources))
}

/// Makes the end of a host function.
fn end_of(device: Reporter, token: HostToken) -> (Arc<Mutex<End>>, HostDone) {
    let end = Arc::new(Mutex::new(End {
        device: Some(device),
        running: None,
        kept: None,
    }));
    let shared = end.clone();
    let finish = move |outcome: HostOutcome| {
        let mut end = lock(&shared);
        // A panic of this very function is reported with its message. Another one may drop this end, too.
        if std::thread::panicking() && end.running == Some(std::thread::current().id()) {
            end.kept = Some(outcome);
            return;
        }
        let device = end.device.take();
        drop(end);
        report_end(device, token, outcome);
    };
    (end, HostDone::new(finish))
}

/// Runs a host function. Reports its end to the device if it panics, with the message. If the function has moved its
/// [`HostDone`] elsewhere before it panicked, the task ends with that.
fn run_to_its_end(
    end: Arc<Mutex<End>>,
    token: HostToken,
    code: impl FnOnce() -> Option<Job>,
) -> Option<Job> {
    lock(&end).running = Some(std::thread::current().id());
    let outcome = catch_unwind(AssertUnwindSafe(code));
    // The other reference is that of the `HostDone`.
    let is_done_gone = Arc::strong_count(&end) == 1;
    let (device, kept) = {
        let mut end = lock(&end);
        end.running = None;
        let kept = end.kept.take();
        let ends_here = kept.is_some() || (outcome.is_err() && is_done_gone);
        (end.device.take_if(|_| ends_here), kept)
    };
    let (ended, rest) = match outcome {
        Err(panic) => (Some(HostOutcome::Panicked(panic_message(panic))), None),
        Ok(rest) => (kept, rest),
    };
    if let Some(ended) = ended {
        report_end(device, token, ended);
    }
    rest
}

/// Reports the end of a host function to the device, unless it was reported.
fn report_end(device: Option<Reporter>, token: HostToken, outcome: HostOutcome) {
    match device {
        Some((device, HostPlace::UserCode)) => {
            device.send(Control::HostFinished(token, outcome, None));
        }
        Some((device, HostPlace::AtOnce(keeps))) => {
            device.send_and_step_in(Control::HostFinished(token, outcome, Some(keeps)));
        }
        None => {}
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::io;
    use std::sync::mpsc;
    use std::sync::{OnceLock, Weak};

    use millstream_protocol::threads::ThreadBody;

    use super::*;

    fn on_a_thread(body: ThreadBody) -> io::Result<()> {
        std::thread::spawn(|| body.run());
        Ok(())
    }

    /// No lock is held while the application's function runs.
    #[test]
    fn the_function_that_starts_threads_may_submit_user_code() {
        let (sender, receiver) = mpsc::channel();
        let host: Arc<OnceLock<Weak<HostThreads>>> = Arc::default();
        let inside = host.clone();
        let spawner = Spawner::new(move |body| {
            if let Some(host) = inside.get().and_then(Weak::upgrade) {
                let sender = sender.clone();
                host.execute(Box::new(move || sender.send(()).unwrap()));
            }
            on_a_thread(body)
        });
        let threads = HostThreads::start(spawner).unwrap();
        host.set(Arc::downgrade(&threads)).unwrap();
        let (release, released) = mpsc::channel::<()>();
        // The first thread is busy, so the next job starts another one.
        threads.execute(Box::new(move || assert!(released.recv().is_err())));
        threads.execute(Box::new(|| ()));
        receiver.recv().unwrap();
        drop(release);
        assert_eq!(threads.join(Instant::now() + PATIENCE), 0);
    }

    /// A refused thread is requested again when a job has no thread.
    #[test]
    fn a_refused_thread_is_not_counted_as_idle() {
        let refuses = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let refuse = refuses.clone();
        let spawner = Spawner::new(move |body| match refuse.load(Ordering::SeqCst) {
            true => Err(io::Error::other("not now")),
            false => on_a_thread(body),
        });
        let threads = HostThreads::start(spawner).unwrap();
        refuses.store(true, Ordering::SeqCst);
        let (release, released) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        threads.execute(Box::new(move || assert!(released.recv().is_err())));
        let done = sender.clone();
        threads.execute(Box::new(move || done.send(()).unwrap()));
        drop(release);
        receiver.recv().unwrap();
        // When the thread counts itself as idle again, both jobs have ended.
        while threads.idle.load(Ordering::SeqCst) < 1 {
            std::thread::yield_now();
        }
        refuses.store(false, Ordering::SeqCst);
        // A job that waits for another one needs two threads.
        let (release, released) = mpsc::channel::<()>();
        threads.execute(Box::new(move || {
            assert!(released.recv().is_err());
            sender.send(()).unwrap();
        }));
        threads.execute(Box::new(move || drop(release)));
        receiver.recv().unwrap();
        assert_eq!(threads.join(Instant::now() + PATIENCE), 0);
    }
}
