//! Threads for user code: host functions and callbacks. Never the device's thread.
//!
//! The first is started with the device, so that a device that was opened can run user code whatever happens;
//! others on demand, up to a limit or until there are no more to be had. Beyond it jobs wait their turn. An idle
//! thread sleeps in its channel.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_protocol::channel::Job;
use millstream_protocol::error::OpenError;
use millstream_protocol::marks::mark_user_code;
use millstream_protocol::message::{HostDone, HostWork};
use millstream_protocol::threads::{Spawner, Thread, ThreadRole};
use millstream_server::server::HostToken;
use millstream_sync::channel;
use millstream_sync::facade::atomic::{AtomicIsize, Ordering};
use millstream_sync::facade::{Mutex, lock, thread};
use millstream_sync::payload;
use millstream_sync::payload::panic_message;
use millstream_sync::thread_flag;

use crate::actor::{Control, ToDevice};

/// Most threads for user code of one device. A host function that blocks takes one of them; as many
/// may block before others wait for them.
const THREADS_MAX: usize = 16;

/// How long the threads of a device that never ran are waited for. They have nothing to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Runs jobs on threads of its own.
pub(crate) struct HostThreads {
    crew: Mutex<Crew>,
    receiver: channel::Receiver<Job>,
    /// Threads that wait for a job, less the jobs that wait for a thread.
    idle: Arc<AtomicIsize>,
    spawner: Spawner,
}

/// Never locked while the function that starts threads is called, for that is the caller's code, which may come
/// back here.
struct Crew {
    /// None once it takes no more.
    jobs: Option<channel::Sender<Job>>,
    threads: Vec<Thread<()>>,
    /// Threads that are being started.
    starting: usize,
}

impl HostThreads {
    /// With a first thread.
    pub(crate) fn start(spawner: Spawner) -> Result<Arc<Self>, OpenError> {
        let (sender, receiver) = channel::unbounded();
        let threads = Self {
            crew: Mutex::new(Crew {
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

    /// Runs a job on one of the threads; after the close on the caller's, which no device needs any more.
    pub(crate) fn execute(&self, job: Job) {
        let mut crew = lock(&self.crew);
        let Some(jobs) = &crew.jobs else {
            drop(crew);
            return run_job(job);
        };
        // The receiver lives as long as we do.
        let _ = jobs.send(job);
        // Relaxed: a guess, of threads that are just ending a job or just being started; every job is in the
        // channel either way.
        let has_thread = self.idle.fetch_sub(1, Ordering::Relaxed) > 0;
        if has_thread || crew.threads.len() + crew.starting >= THREADS_MAX {
            return;
        }
        crew.starting += 1;
        drop(crew);
        // Where there is none to be had, those that there are run the job in its turn.
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
        let mut crew = lock(&self.crew);
        crew.starting -= 1;
        crew.threads.push(spawned?);
        // Relaxed: see `execute`.
        self.idle.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Takes no more jobs, runs those there are, ends the threads. Says how many were still in user code
    /// when the time was up and are left to themselves.
    pub(crate) fn join(&self, deadline: Instant) -> u64 {
        let mut left = 0;
        loop {
            let (threads, starting) = {
                let mut crew = lock(&self.crew);
                crew.jobs = None;
                (std::mem::take(&mut crew.threads), crew.starting)
            };
            left += threads
                .into_iter()
                .map(|thread| u64::from(!join_until(thread, deadline)))
                .sum::<u64>();
            if starting == 0 {
                return left;
            }
            // Somebody is inside the function that starts them.
            if Instant::now() >= deadline {
                return left + starting as u64;
            }
            std::thread::sleep(JOIN_NAP);
        }
    }
}

impl Drop for HostThreads {
    /// A device that could not be opened leaves no thread behind. Others were joined when they were closed.
    fn drop(&mut self) {
        lock(&self.crew)
            .threads
            .retain(|thread| !thread.is_current());
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
            tell_end(&tell, token, Err(panic_message(panic)));
        }
    })
}

/// Tells the device of the end of a host function, once.
fn tell_end(tell: &Mutex<Option<ToDevice>>, token: HostToken, outcome: Result<(), String>) {
    if let Some(device) = lock(tell).take() {
        device.tell(Control::HostFinished(token, outcome));
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

    /// Nothing of ours is locked while the caller's function runs.
    #[test]
    fn who_starts_a_thread_may_send_user_code_meanwhile() {
        let (told, hear) = mpsc::channel();
        let host: Arc<OnceLock<Weak<HostThreads>>> = Arc::default();
        let inside = host.clone();
        let spawner = Spawner::new(move |body| {
            if let Some(host) = inside.get().and_then(Weak::upgrade) {
                let told = told.clone();
                host.execute(Box::new(move || told.send(()).unwrap()));
            }
            on_a_thread(body)
        });
        let threads = HostThreads::start(spawner).unwrap();
        host.set(Arc::downgrade(&threads)).unwrap();
        let (release, wait) = mpsc::channel::<()>();
        // The first thread has something to do: the next job asks for another one.
        threads.execute(Box::new(move || assert!(wait.recv().is_err())));
        threads.execute(Box::new(|| ()));
        hear.recv().unwrap();
        drop(release);
        assert_eq!(threads.join(Instant::now() + PATIENCE), 0);
    }

    /// A thread that was refused once is asked for again when a job has none.
    #[test]
    fn a_refused_thread_is_not_counted_as_one_that_waits() {
        let refuses = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let asked = refuses.clone();
        let spawner = Spawner::new(move |body| match asked.load(Ordering::SeqCst) {
            true => Err(io::Error::other("not now")),
            false => on_a_thread(body),
        });
        let threads = HostThreads::start(spawner).unwrap();
        refuses.store(true, Ordering::SeqCst);
        let (release, wait) = mpsc::channel::<()>();
        let (told, hear) = mpsc::channel();
        threads.execute(Box::new(move || assert!(wait.recv().is_err())));
        let done = told.clone();
        threads.execute(Box::new(move || done.send(()).unwrap()));
        drop(release);
        hear.recv().unwrap();
        // Both jobs have ended when the thread counts itself as waiting again.
        while threads.idle.load(Ordering::SeqCst) < 1 {
            std::thread::yield_now();
        }
        refuses.store(false, Ordering::SeqCst);
        // One job that waits for another needs two threads.
        let (release, wait) = mpsc::channel::<()>();
        threads.execute(Box::new(move || {
            assert!(wait.recv().is_err());
            told.send(()).unwrap();
        }));
        threads.execute(Box::new(move || drop(release)));
        hear.recv().unwrap();
        assert_eq!(threads.join(Instant::now() + PATIENCE), 0);
    }
}
