//! Where the threads of the runtime come from: from the system, or from a function that the caller gives,
//! so that an engine runs them on its own job system.
//!
//! ```text
//!  Spawner::spawn ── ThreadBody ──► the caller's function ──► run() on a thread of the caller's
//!        │                │                                      │
//!        └─ Thread ◄──────┴── the body waits in here till begun ─┘ its end is a reply
//! ```
//! What a caller does with a body does not decide whether the runtime ends:
//! 1. A body that is dropped without having run counts as ended, and what it owned says so to whoever waits.
//! 2. A body that was refused never runs: the runtime takes it back.
//! 3. A body that nobody has begun when the runtime joins it is run by whoever joins. It was told to end by then.
//! 4. A body that is run inside the caller's function, where it would keep whoever opens the device, is refused.

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

/// What a thread is for, so that whoever starts it may choose its core or its priority.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ThreadRole {
    /// Takes messages and feeds queues. All work of the device waits for it: give it a high priority.
    Device,
    /// Drops values once the device is done with them, and sleeps otherwise.
    Collector,
    /// Runs host functions and callbacks of users, which may block.
    UserCode,
    /// Runs the tasks of a queue, on devices whose queues are threads.
    Queue,
    /// Shares the cubes of launches with the queues.
    Cubes,
}

impl ThreadRole {
    /// The role as a word.
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

/// How far a thread that the caller supplies has come. Shared by the runtime, its body and who runs it.
enum Start {
    /// Nobody has begun it.
    Waiting(Body),
    /// This thread runs it, or has.
    Begun(ThreadId),
    /// It was dropped or taken back.
    Dropped,
}

/// Moves to `next` if nobody has begun it, and hands its body out.
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

/// Runs it on the calling thread, if nobody has begun it.
fn begin(start: &Mutex<Start>) {
    if let Some(body) = leave_waiting(start, Start::Begun(std::thread::current().id())) {
        body();
    }
}

/// What a thread of the runtime does, from its start to its end. It needs a thread of its own until then, for
/// it sleeps where it has nothing to do: a pool must have one for each. Dropping it says that there is no thread.
pub struct ThreadBody {
    name: Box<str>,
    role: ThreadRole,
    start: Arc<Mutex<Start>>,
}

impl ThreadBody {
    /// What the runtime would call the thread.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the thread is for.
    pub fn role(&self) -> ThreadRole {
        self.role
    }

    /// Is the thread. Returns when the device needs it no more; panics never.
    ///
    /// On the thread that is being asked for it, inside the function given to
    /// [`DeviceOptions::spawn_with`](crate::options::DeviceOptions::spawn_with), it returns at once, and opening fails.
    pub fn run(self) {
        if !ASKING.get() {
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
    /// Is the thread inside a caller's function that is to start another?
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

type SpawnFn = dyn Fn(ThreadBody) -> io::Result<()> + Send + Sync;

/// Starts threads, and counts those that have not ended. The default asks the system.
#[derive(Clone, Default)]
pub struct Spawner {
    spawn: Option<Arc<SpawnFn>>,
    alive: Arc<AtomicU64>,
}

/// A thread that has been asked for and has not ended.
struct Alive(Arc<AtomicU64>);

impl Alive {
    fn begin(count: &Arc<AtomicU64>) -> Self {
        // Relaxed: a figure.
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        // Relaxed: a figure, exact for who has joined the thread.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Spawner {
    /// Starts threads by a function of the caller.
    pub fn new(spawn: impl Fn(ThreadBody) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self {
            spawn: Some(Arc::new(spawn)),
            alive: Arc::default(),
        }
    }

    /// The same, which counts the threads that it starts from here on, and no others.
    pub fn counting_anew(&self) -> Self {
        Self {
            spawn: self.spawn.clone(),
            alive: Arc::default(),
        }
    }

    /// Threads that it and its clones have started and that have not ended.
    pub fn alive(&self) -> u64 {
        // Relaxed: a figure.
        self.alive.load(Ordering::Relaxed)
    }

    /// Starts a thread.
    ///
    /// # Errors
    /// [`OpenError::Thread`] with the name and the reason; `body` has been dropped then.
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
        // The body goes before the sender, also where it never runs: who is told of the end finds it gone.
        let parts = (body, sender);
        let start = Arc::new(Mutex::new(Start::Waiting(Box::new(move || {
            let (body, sender) = parts;
            sender.send(catch_unwind(AssertUnwindSafe(body)));
        }))));
        let asked = ThreadBody {
            name: name.into(),
            role,
            start: start.clone(),
        };
        let before = ASKING.replace(true);
        // Whoever asks may be opening a device, or hold up one: nothing may wait in there.
        let marked = mark_runtime_thread();
        let answer = catch_unwind(AssertUnwindSafe(|| spawn(asked)));
        drop(marked);
        ASKING.set(before);
        let why = match answer {
            Ok(Ok(())) if matches!(*lock(&start), Start::Dropped) => {
                "it was run in place, or dropped, instead of being given a thread".to_owned()
            }
            Ok(Ok(())) => return Ok(Thread(Kind::Supplied { start, receiver })),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => {
                payload::end(panic);
                "whoever was to start it panicked".to_owned()
            }
        };
        drop(leave_waiting(&start, Start::Dropped));
        match *lock(&start) {
            // It runs all the same: then it is a thread like any other.
            Start::Begun(_) => {}
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

/// A thread that was started. Dropping it leaves the thread to itself.
pub struct Thread<T>(Kind<T>);

enum Kind<T> {
    System(JoinHandle<T>),
    Supplied {
        start: Arc<Mutex<Start>>,
        receiver: ReplyReceiver<std::thread::Result<T>>,
    },
}

impl<T> Thread<T> {
    /// Has it ended?
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Kind::System(thread) => thread.is_finished(),
            Kind::Supplied { receiver, .. } => receiver.is_ready(),
        }
    }

    /// Is it the calling thread?
    pub fn is_current(&self) -> bool {
        match &self.0 {
            Kind::System(thread) => thread::is_current(thread),
            Kind::Supplied { start, .. } => {
                let current = std::thread::current().id();
                matches!(*lock(start), Start::Begun(runner) if runner == current)
            }
        }
    }

    /// Was its body dropped before anybody had begun it?
    pub fn never_ran(&self) -> bool {
        match &self.0 {
            Kind::System(_) => false,
            Kind::Supplied { start, .. } => matches!(*lock(start), Start::Dropped),
        }
    }

    /// Runs it here if nobody has begun it, for it is to end now. Blocks until it has ended then.
    pub fn run_unless_begun(&self) {
        if let Kind::Supplied { start, .. } = &self.0 {
            begin(start);
        }
    }

    /// Waits for its end. To be called once it was told to end.
    ///
    /// # Errors
    /// The panic that ended it; something that is no text where it never ran.
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
    fn a_supplied_thread_is_joined_for_its_value() {
        for spawner in [Spawner::default(), Spawner::new(on_a_thread)] {
            let thread = spawn(&spawner).ok();
            assert_eq!(thread.and_then(|thread| thread.join().ok()), Some(7));
        }
    }

    #[test]
    fn a_panic_of_a_supplied_thread_is_what_joining_answers() {
        let spawner = Spawner::new(on_a_thread);
        let thread = spawner.spawn(ThreadRole::Queue, "boom", || panic!("boom"));
        let joined: std::thread::Result<()> = thread.map_or(Ok(()), Thread::join);
        assert_eq!(
            joined.err().and_then(|panic| panic.downcast_ref().copied()),
            Some("boom")
        );
    }

    /// Nothing hangs: a queue of jobs that nobody serves ends with the device.
    #[test]
    fn a_body_that_nobody_has_begun_is_run_by_whoever_joins_it() {
        let (sender, kept) = mpsc::channel();
        let spawner = Spawner::new(move |body| sender.send(body).map_err(io::Error::other));
        let thread = spawn(&spawner).ok();
        assert_eq!(thread.and_then(|thread| thread.join().ok()), Some(7));
        kept.iter().take(1).for_each(ThreadBody::run);
    }

    #[test]
    fn what_was_refused_never_runs_even_if_it_was_kept() {
        let (sender, kept) = mpsc::channel();
        let spawner = Spawner::new(move |body| {
            let _ = sender.send(body);
            Err(io::Error::other("no more"))
        });
        let body = || panic!("it ran");
        let refused = spawner.spawn::<()>(ThreadRole::Collector, "late", body);
        assert_eq!(
            refused.err().map(|error| error.to_string()).as_deref(),
            Some("no thread could be started: `late`: no more")
        );
        kept.iter().take(1).for_each(ThreadBody::run);
    }

    #[test]
    fn a_body_that_is_run_in_place_or_dropped_is_no_thread() {
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

    /// An engine that panics for each thread it is asked for costs no memory.
    #[test]
    fn what_a_panic_of_the_callers_function_carries_is_dropped() {
        let alive = Arc::new(());
        let carried = alive.clone();
        let panics = Spawner::new(move |_| std::panic::panic_any(carried.clone()));
        assert!(spawn(&panics).is_err());
        drop(panics);
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
