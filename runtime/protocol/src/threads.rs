//! The source of the runtime's threads: the system, or a function of the caller, so that an engine starts the threads
//! itself. Each body occupies its thread until the device closes.
//!
//! ```text
//!  Spawner::spawn ── ThreadBody ──► the caller's function ──► run() on a thread of the caller
//!        │                │                                      │
//!        └─ Thread ◄──────┴── the body is `Waiting` until started ┘ its end is a reply
//! ```
//! The end of the runtime does not depend on how the caller treats a body:
//! 1. A body that is dropped before it ran counts as ended. Its contents are dropped, which notifies the threads that
//!    wait.
//! 2. A refused body never runs: the runtime takes it back.
//! 3. A body that was not started when the runtime joins it runs on the joining thread. It was signalled to end before.
//! 4. A body that is run inside the caller's function is refused: it would block the thread that opens the device.
//!
//! | state | transition | by |
//! | --- | --- | --- |
//! | `Waiting` | to `Started` | [`ThreadBody::run`], [`Thread::run_unless_begun`], [`Thread::join`] |
//! | `Waiting` | to `Dropped` | the drop of the body, or a refusal |
//!
//! Each transition takes the body out under the lock, so the body runs at most once.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

use millstream_sync::facade::thread::{self, JoinHandle};
use millstream_sync::facade::{Mutex, SpinPolicy, lock};
use millstream_sync::payload;
use millstream_sync::reply::{ReplyReceiver, reply};

use crate::error::OpenError;
use crate::marks::mark_runtime_thread;

/// The role of a thread, from which the code that starts it may choose a core or a priority.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ThreadRole {
    /// Receives messages and feeds queues. All work of the device waits for this thread: give it a high priority.
    Device,
    /// Drops values that the device no longer uses, and sleeps otherwise.
    Collector,
    /// Runs host functions and callbacks of users, which may block.
    UserCode,
    /// Runs the tasks of a queue, on devices whose queues are threads.
    Queue,
    /// Runs cubes of launches, together with the threads of queues.
    Cubes,
}

impl ThreadRole {
    /// Returns the role as a word.
    pub fn word(self) -> &'static str {
        match self {
            ThreadRole::Device => "device",
            ThreadRole::Collector => "collector",
            ThreadRole::UserCode => "user code",
            ThreadRole::Queue => "queue",
            ThreadRole::Cubes => "cubes",
        }
    }
}

type Body = Box<dyn FnOnce() + Send>;

/// The state of a thread that the caller supplies. Shared by the runtime, the body, and the thread that runs it.
enum Start {
    /// Not started.
    Waiting(Body),
    /// Started by this thread. It may have ended since.
    Started(ThreadId),
    /// Dropped or taken back without having run.
    Dropped,
}

/// Changes the state from `Waiting` to `next` and returns the body. Returns `None` in any other state.
fn leave_waiting(start: &Mutex<Start>, next: Start) -> Option<Body> {
    let mut start = lock(start);
    match &*start {
        Start::Waiting(_) => match std::mem::replace(&mut *start, next) {
            Start::Waiting(body) => Some(body),
            _ => None,
        },
        _ => None,
    }
}

/// Runs the body on the calling thread, unless it was started or dropped.
fn begin(start: &Mutex<Start>) {
    if let Some(body) = leave_waiting(start, Start::Started(std::thread::current().id())) {
        body();
    }
}

/// The body of a thread of the runtime. It needs a thread of its own from start to end, because it sleeps when it has
/// nothing to do: a pool must have one thread for each body. Dropping a body reports that it has no thread.
pub struct ThreadBody {
    name: Box<str>,
    role: ThreadRole,
    start: Arc<Mutex<Start>>,
}

impl ThreadBody {
    /// Returns the name that the runtime would give the thread.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the role of the thread.
    pub fn role(&self) -> ThreadRole {
        self.role
    }

    /// Runs the body on the calling thread. Returns when the device no longer needs the thread; never panics.
    ///
    /// If it is called inside the function given to
    /// [`DeviceOptions::spawn_with`](crate::options::DeviceOptions::spawn_with), it returns at once, and opening fails.
    pub fn run(self) {
        if !IN_SPAWN_FN.get() {
            begin(&self.start);
        }
    }
}

impl Drop for ThreadBody {
    fn drop(&mut self) {
        drop(leave_waiting(&self.start, Start::Dropped));
    }
}

impl fmt::Debug for ThreadBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ThreadBody({:?}, {})", self.name, self.role.word())
    }
}

thread_local! {
    /// Whether the thread is inside a caller's function that is to start another thread.
    static IN_SPAWN_FN: Cell<bool> = const { Cell::new(false) };
}

type SpawnFn = dyn Fn(ThreadBody) -> io::Result<()> + Send + Sync;

/// Starts threads, and counts those that have not ended. By default the system starts them.
#[derive(Clone, Default)]
pub struct Spawner {
    spawn: Option<Arc<SpawnFn>>,
    alive: Arc<AtomicU64>,
}

/// Counts a thread that was requested and has not ended.
struct Alive(Arc<AtomicU64>);

impl Alive {
    fn begin(count: &Arc<AtomicU64>) -> Self {
        // Relaxed: a statistic.
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        // Relaxed: a statistic, exact for a thread that has joined the counted one.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Spawner {
    /// Creates a spawner that starts threads with a function of the caller.
    pub fn new(spawn: impl Fn(ThreadBody) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self {
            spawn: Some(Arc::new(spawn)),
            alive: Arc::default(),
        }
    }

    /// Returns a spawner with the same function that counts only the threads that it starts itself.
    pub fn counting_anew(&self) -> Self {
        Self {
            spawn: self.spawn.clone(),
            alive: Arc::default(),
        }
    }

    /// Returns the number of threads that this spawner and its clones have started and that have not ended.
    pub fn alive(&self) -> u64 {
        // Relaxed: a statistic.
        self.alive.load(Ordering::Relaxed)
    }

    /// Starts a thread that runs `body`.
    ///
    /// # Errors
    /// [`OpenError::Thread`] with the name and the reason; `body` is dropped.
    pub fn spawn<T: Send + 'static>(
        &self,
        role: ThreadRole,
        name: &str,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Thread<T>, OpenError> {
        let refused = |why: String| OpenError::Thread(format!("`{name}`: {why}"));
        let alive = Alive::begin(&self.alive);
        let body = move || {
            let _alive = alive;
            body()
        };
        let Some(spawn) = &self.spawn else {
            return thread::spawn_named(name, body)
                .map(|thread| Thread(Kind::System(thread)))
                .map_err(|error| refused(error.to_string()));
        };
        let (sender, receiver) = reply();
        // The body is dropped before the sender, also if it never runs, so a thread that receives the end finds it
        // dropped.
        let parts = (body, sender);
        let start = Arc::new(Mutex::new(Start::Waiting(Box::new(move || {
            let (body, sender) = parts;
            sender.send(catch_unwind(AssertUnwindSafe(body)));
        }))));
        let requested = ThreadBody {
            name: name.into(),
            role,
            start: start.clone(),
        };
        let before = IN_SPAWN_FN.replace(true);
        // The calling thread may be opening a device, or a device may wait for it, so the function must not block.
        let marked = mark_runtime_thread();
        let answer = catch_unwind(AssertUnwindSafe(|| spawn(requested)));
        drop(marked);
        IN_SPAWN_FN.set(before);
        let why = match answer {
            Ok(Ok(())) if matches!(*lock(&start), Start::Dropped) => {
                "the body was run in place, or dropped, instead of on a thread of its own"
                    .to_owned()
            }
            Ok(Ok(())) => return Ok(Thread(Kind::Supplied { start, receiver })),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => {
                payload::end(panic);
                "the function that starts threads panicked".to_owned()
            }
        };
        drop(leave_waiting(&start, Start::Dropped));
        match *lock(&start) {
            // The body runs although the function failed, so it is a thread like any other.
            Start::Started(_) => {}
            _ => return Err(refused(why)),
        }
        Ok(Thread(Kind::Supplied { start, receiver }))
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.spawn {
            None => "Spawner(the system)",
            Some(_) => "Spawner(the caller)",
        })
    }
}

/// A started thread. Dropping it detaches the thread.
pub struct Thread<T>(Kind<T>);

enum Kind<T> {
    System(JoinHandle<T>),
    Supplied {
        start: Arc<Mutex<Start>>,
        receiver: ReplyReceiver<std::thread::Result<T>>,
    },
}

impl<T> Thread<T> {
    /// Returns `true` if the thread has ended.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Kind::System(thread) => thread.is_finished(),
            Kind::Supplied { receiver, .. } => receiver.is_ready(),
        }
    }

    /// Returns `true` if this is the calling thread.
    pub fn is_current(&self) -> bool {
        match &self.0 {
            Kind::System(thread) => thread::is_current(thread),
            Kind::Supplied { start, .. } => {
                let current = std::thread::current().id();
                matches!(*lock(start), Start::Started(runner) if runner == current)
            }
        }
    }

    /// Returns `true` if the body was dropped before it was started.
    pub fn never_ran(&self) -> bool {
        match &self.0 {
            Kind::System(_) => false,
            Kind::Supplied { start, .. } => matches!(*lock(start), Start::Dropped),
        }
    }

    /// Runs the body on the calling thread if it was not started. Blocks until it has ended then. Call it after the
    /// thread was signalled to end.
    pub fn run_unless_begun(&self) {
        if let Kind::Supplied { start, .. } = &self.0 {
            begin(start);
        }
    }

    /// Waits for the end of the thread. Call it after the thread was signalled to end.
    ///
    /// # Errors
    /// The panic that ended the thread, or a value that is no message if the body never ran.
    pub fn join(self) -> std::thread::Result<T> {
        self.run_unless_begun();
        match self.0 {
            Kind::System(thread) => thread.join(),
            Kind::Supplied { mut receiver, .. } => receiver
                .wait(&SpinPolicy::never())
                .unwrap_or_else(|closed| Err(Box::new(closed))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn spawn(spawner: &Spawner) -> Result<Thread<u32>, OpenError> {
        spawner.spawn(ThreadRole::Queue, "seven", || 7)
    }

    fn on_a_thread(body: ThreadBody) -> io::Result<()> {
        std::thread::spawn(|| body.run());
        Ok(())
    }

    #[test]
    fn supplied_thread_is_joined_for_its_value() {
        for spawner in [Spawner::default(), Spawner::new(on_a_thread)] {
            let thread = spawn(&spawner).ok();
            assert_eq!(thread.and_then(|thread| thread.join().ok()), Some(7));
        }
    }

    #[test]
    fn panic_of_a_supplied_thread_is_returned_by_join() {
        let spawner = Spawner::new(on_a_thread);
        let thread = spawner.spawn(ThreadRole::Queue, "boom", || panic!("boom"));
        let joined: std::thread::Result<()> = thread.map_or(Ok(()), Thread::join);
        assert_eq!(
            joined.err().and_then(|panic| panic.downcast_ref().copied()),
            Some("boom")
        );
    }

    /// Nothing hangs: a queue of jobs that no thread serves ends with the device.
    #[test]
    fn body_that_was_not_started_runs_on_the_thread_that_joins_it() {
        let (sender, bodies) = mpsc::channel();
        let spawner = Spawner::new(move |body| sender.send(body).map_err(io::Error::other));
        let thread = spawn(&spawner).ok();
        assert_eq!(thread.and_then(|thread| thread.join().ok()), Some(7));
        bodies.iter().take(1).for_each(ThreadBody::run);
    }

    #[test]
    fn refused_body_never_runs_even_if_it_was_kept() {
        let (sender, bodies) = mpsc::channel();
        let spawner = Spawner::new(move |body| {
            let _ = sender.send(body);
            Err(io::Error::other("no more"))
        });
        let body = || panic!("it ran");
        let refused = spawner.spawn::<()>(ThreadRole::Collector, "late", body);
        assert_eq!(
            refused.err().map(|error| error.to_string()).as_deref(),
            Some("the device's threads could not be started: `late`: no more")
        );
        bodies.iter().take(1).for_each(ThreadBody::run);
    }

    #[test]
    fn body_that_is_run_in_place_or_dropped_is_an_error() {
        type Careless = fn(ThreadBody) -> io::Result<()>;
        let run: Careless = |body| {
            body.run();
            Ok(())
        };
        let drop_it: Careless = |body| {
            drop(body);
            Ok(())
        };
        let panics: Careless = |_| panic!("the job system is gone");
        for careless in [run, drop_it, panics] {
            assert!(spawn(&Spawner::new(careless)).is_err());
        }
    }

    /// A function that panics for each requested thread leaks no memory.
    #[test]
    fn payload_of_a_panic_of_the_callers_function_is_dropped() {
        let alive = Arc::new(());
        let carried = alive.clone();
        let panics = Spawner::new(move |_| std::panic::panic_any(carried.clone()));
        assert!(spawn(&panics).is_err());
        drop(panics);
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
