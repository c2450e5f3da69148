//! How the application reaches the engine, and which thread runs it.
//!
//! The engine lies behind a lock. Its own thread runs it, or a thread that waits for a device of a group: a wake of the
//! engine's thread, and one back, take longer than a small call.
//!
//! ```text
//!   a caller that is expected to wait            the engine's thread
//!                                                naps, for a while after the last call
//!   announces the call, begins its part:
//!   sends both without a wake
//!   waits: takes the lock, polls MPI,            finds the lock taken, naps on
//!   ends the part, leaves the lock
//!   anything left? wakes the thread              takes the lock, polls MPI
//! ```
//! # No command is left behind
//! A loud sender wakes the thread if it naps or sleeps; a quiet one only if it sleeps, since a nap ends by itself. Each side
//! writes, fences, then reads what the other one wrote: the sender its command, then the state; the thread the state, then
//! the inbox. A helper that leaves looks at the inbox after it has left the lock, and a quiet sender tries the lock after it
//! has sent, when it waits. So the worst case of a wrong guess is one [`NAP`].

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, unbounded};

use crate::engine::{Command, Engine};
use crate::raw::MpiError;

/// How long polls follow each other without a pause after the last progress. A thread that yields leaves the core to any
/// other thread that can run.
const YIELDS_FOR: Duration = Duration::from_millis(1);

/// How long the engine's thread stays awake without a call in flight after it has done anything: calls often follow each
/// other.
const AWAKE_FOR: Duration = Duration::from_micros(50);

/// How long the engine's thread naps before it sleeps, after the last progress on any thread.
const NAPS_FOR: Duration = Duration::from_millis(10);

/// A nap: how long a call waits if its caller was expected to wait and does not.
const NAP: Duration = Duration::from_micros(500);

/// The pause between later polls.
const PAUSE: Duration = Duration::from_micros(50);

thread_local! {
    /// The calling thread helps: it takes the commands that it sends itself.
    static HELPS: Cell<bool> = const { Cell::new(false) };
}

const AWAKE: u8 = 0;
const NAPPING: u8 = 1;
const ASLEEP: u8 = 2;

/// The engine, shared by its thread and the application.
pub(crate) struct Link {
    commands: Sender<Command>,
    /// `None` before it is made, and once it has ended.
    engine: Mutex<Option<Engine>>,
    state: AtomicU8,
    thread: OnceLock<Thread>,
    /// Whether MPI permits calls of several threads, one at a time.
    is_serialized: AtomicBool,
}

impl Link {
    /// Initializes MPI on this thread, passes the outcome to `started`, and runs the engine until the application ends it.
    pub(crate) fn run(started: impl FnOnce(Result<(Arc<Self>, usize, usize), MpiError>)) {
        let (commands, inbox) = unbounded();
        let (engine, (rank, size), is_serialized) = match Engine::init(inbox) {
            Ok(made) => made,
            Err(error) => return started(Err(error)),
        };
        let link = Arc::new(Self {
            commands,
            engine: Mutex::new(Some(engine)),
            state: AtomicU8::new(AWAKE),
            thread: OnceLock::from(std::thread::current()),
            is_serialized: AtomicBool::new(is_serialized),
        });
        started(Ok((link.clone(), rank, size)));
        link.turn();
    }

    /// Sends a command, and wakes the engine's thread. An engine that has ended drops the command, which fails its part.
    pub(crate) fn send(&self, command: Command) {
        let _ = self.commands.send(command);
        if !HELPS.get() {
            self.wake();
        }
    }

    /// Sends a command for a caller that will help soon, or for an engine that has time until it wakes from its nap.
    pub(crate) fn send_quietly(&self, command: Command) {
        // An engine that has ended drops it, which fails its part.
        let _ = self.commands.send(command);
        // SeqCst: pairs with the fence in `rest`.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        if self.state.load(Ordering::Relaxed) == ASLEEP {
            self.wake();
        }
    }

    fn wake(&self) {
        // SeqCst: pairs with the fence in `rest`.
        fence(Ordering::SeqCst);
        // AcqRel: one waker wakes it.
        if self.state.swap(AWAKE, Ordering::AcqRel) != AWAKE
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Whether threads that wait may run the engine.
    pub(crate) fn may_be_helped(&self) -> bool {
        // Relaxed: never changes.
        self.is_serialized.load(Ordering::Relaxed)
    }

    /// Runs the engine on a thread that waits, until `done`, or until there is nothing to do for it.
    pub(crate) fn help(&self, done: &mut dyn FnMut() -> bool) {
        let Ok(mut place) = self.engine.try_lock() else {
            return;
        };
        let mut is_left = false;
        HELPS.set(true);
        while let Some(engine) = &mut *place {
            let changed = engine.help();
            is_left = engine.is_in_flight();
            if done() {
                break;
            }
            match changed {
                Some(true) => {}
                Some(false) if is_left && engine.progress.elapsed() < YIELDS_FOR => {
                    std::thread::yield_now();
                }
                _ => break,
            }
        }
        drop(place);
        HELPS.set(false);
        if is_left || !self.commands.is_empty() {
            self.wake();
        }
    }

    /// Runs the engine on its own thread.
    fn turn(&self) {
        let mut active = Instant::now();
        loop {
            let (changed, in_flight, progress) = match self.engine.try_lock() {
                Ok(mut place) => {
                    let Some(engine) = &mut *place else { return };
                    let changed = engine.turn();
                    if engine.is_over() {
                        if let Some(engine) = place.take() {
                            engine.finalize();
                        }
                        return;
                    }
                    (changed, engine.is_in_flight(), engine.progress)
                }
                Err(TryLockError::WouldBlock) => {
                    self.rest(NAPPING, Some(NAP), || false);
                    continue;
                }
                Err(TryLockError::Poisoned(poisoned)) => {
                    // A helper has panicked. The drop of the engine fails its parts.
                    drop(poisoned.into_inner().take());
                    return;
                }
            };
            let has_commands = || !self.commands.is_empty();
            let (active_for, quiet_for) = (active.elapsed(), progress.elapsed());
            match () {
                () if changed => active = Instant::now(),
                () if in_flight && quiet_for < YIELDS_FOR => std::thread::yield_now(),
                () if in_flight => self.rest(NAPPING, Some(PAUSE), has_commands),
                () if active_for < AWAKE_FOR => std::thread::yield_now(),
                () if quiet_for < NAPS_FOR => self.rest(NAPPING, Some(NAP), has_commands),
                () => self.rest(ASLEEP, None, has_commands),
            }
        }
    }

    /// Parks the engine's thread, unless there is something to do. May return early.
    fn rest(&self, state: u8, time: Option<Duration>, has_work: impl FnOnce() -> bool) {
        // Release: a waker swaps it.
        self.state.store(state, Ordering::Release);
        // SeqCst: pairs with the fences of the senders.
        fence(Ordering::SeqCst);
        if !has_work() {
            match time {
                Some(time) => std::thread::park_timeout(time),
                None => std::thread::park(),
            }
        }
        // Release: as above.
        self.state.store(AWAKE, Ordering::Release);
    }
}
