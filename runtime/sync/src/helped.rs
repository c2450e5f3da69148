//! An engine that takes commands: its own thread runs it, or a thread that waits for it and helps meanwhile.
//!
//! To wake the engine's thread, and to be woken by it, takes longer than a short command. So a thread that is about to
//! wait sends its command *quietly* and runs the engine itself:
//!
//! ```text
//!   a thread that will wait                      the engine's thread
//!                                                nothing to do: naps for some time, later sleeps
//!   sends a command quietly
//!   helps: takes the lock, runs the engine       finds the lock taken, naps
//!   leaves the lock
//!   anything left? wakes the thread              takes the lock, runs the engine
//! ```
//! A nap ends by itself, so a quiet sender leaves a thread that naps alone, and wakes only one that sleeps. The sender of
//! a quiet command that does not help in the end has to wait for one nap.
//!
//! # State
//! The engine behind a lock, `None` once it has ended; the commands, which only the holder of the lock takes; and
//! `is_asleep`, which the engine's thread sets before its last look at the commands.
//!
//! # No command is left behind (I5)
//! A quiet sender and the thread that goes to sleep each write, fence, then read what the other one wrote:
//!
//! ```text
//!   engine's thread                              quiet sender
//!   is_asleep = true          (Relaxed)          send the command
//!   fence(SeqCst)                                fence(SeqCst)
//!   any command? then on with it                 is_asleep?               (Relaxed)
//!   park                                           yes: unpark the thread
//! ```
//! If the sender's fence comes first, the thread finds the command; otherwise the sender reads that the thread sleeps.
//!
//! What a helper leaves in the engine is no command that the thread would find. So a wake is an unpark in any case, also
//! of a thread that is still awake: it has left the lock before the helper came, knows nothing of what the helper has
//! begun, and may be about to park. The unpark makes that park return.
//!
//! A helper does not wake the thread for commands that it sends itself; it takes them, or finds them after it has left.
//!
//! Checked by the models in `loom-tests/tests/models/helped.rs`; the mutants `helped_*` remove each fence and each wake.
//! In a model a nap ends at once.

use std::sync::TryLockError;
use std::time::{Duration, Instant};

use crate::channel::Sender;
use crate::facade::atomic::{AtomicBool, Ordering, fence};
use crate::facade::thread::{self, Thread};
use crate::facade::{IN_MODEL, Mutex, MutexGuard};
use crate::thread_flag;

thread_flag! {
    /// The calling thread helps: it takes the commands that it sends itself.
    Helps
}

/// An engine that takes commands of type `C`.
#[derive(Debug)]
pub struct Helped<C, E> {
    commands: Sender<C>,
    /// `None` once it has ended.
    engine: Mutex<Option<E>>,
    is_asleep: AtomicBool,
    thread: Thread,
}

/// What the engine's thread does after a turn.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// Takes another turn at once.
    Again,
    /// Takes another turn after other threads that can run.
    Yield,
    /// Naps for this time, unless there is a command.
    Nap(Duration),
    /// Sleeps until it is woken, unless there is a command.
    Sleep,
    /// Ends the engine.
    End,
}

impl<C, E> Helped<C, E> {
    /// Wraps an engine, whose thread is the calling one. The engine has the receiver of the commands.
    pub fn new(commands: Sender<C>, engine: E) -> Self {
        Self {
            commands,
            engine: Mutex::new(Some(engine)),
            is_asleep: AtomicBool::new(false),
            thread: thread::current(),
        }
    }

    /// Sends a command, and wakes the engine's thread. An engine that has ended drops the command.
    pub fn send(&self, command: C) {
        let _ = self.commands.send(command);
        if !Helps::get() {
            self.thread.unpark();
        }
    }

    /// Sends a command for a caller that will help soon, or that has time until the engine's thread ends its nap.
    pub fn send_quietly(&self, command: C) {
        let _ = self.commands.send(command);
        // SeqCst: pairs with the fence in `rest`.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        if self.is_asleep.load(Ordering::Relaxed) {
            self.thread.unpark();
        }
    }

    /// Calls `help` with the engine on a thread that waits, unless another thread runs it. `help` returns whether it leaves
    /// anything in the engine for the engine's thread.
    pub fn help(&self, help: impl FnOnce(&mut E) -> bool) {
        let Ok(place) = self.engine.try_lock() else {
            return;
        };
        let mut helper = Helper {
            helped: self,
            place: Some(place),
            is_left: false,
        };
        if let Some(Some(engine)) = helper.place.as_deref_mut() {
            // Stays so if `help` panics.
            helper.is_left = true;
            Helps::set(true);
            helper.is_left = help(engine);
        }
    }

    /// Runs the engine on its own thread until it ends, and returns it. `turn` takes all commands first. If a helper has
    /// panicked, drops the engine.
    pub fn run(&self, mut turn: impl FnMut(&mut E) -> Next, busy_nap: Duration) -> Option<E> {
        loop {
            let next = match self.engine.try_lock() {
                Ok(mut place) => match turn(place.as_mut()?) {
                    Next::End => return place.take(),
                    next => next,
                },
                Err(TryLockError::WouldBlock) => {
                    nap(busy_nap);
                    continue;
                }
                Err(TryLockError::Poisoned(poisoned)) => {
                    drop(poisoned.into_inner().take());
                    return None;
                }
            };
            match next {
                Next::Again | Next::End => {}
                Next::Yield => thread::yield_now(),
                Next::Nap(time) if self.commands.is_empty() => nap(time),
                Next::Nap(_) => {}
                Next::Sleep => self.sleep(),
            }
        }
    }

    /// Parks the engine's thread, unless there is a command. May return early.
    fn sleep(&self) {
        // Relaxed: ordered by the fence.
        self.is_asleep.store(true, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `send_quietly`.
        fence(Ordering::SeqCst);
        if self.commands.is_empty() {
            thread::park();
        }
        // Relaxed: a sender that reads an old value unparks once too often.
        self.is_asleep.store(false, Ordering::Relaxed);
    }
}

/// Parks the calling thread for some time. May return early.
fn nap(time: Duration) {
    match Instant::now().checked_add(time) {
        // How long a nap takes must not matter.
        _ if IN_MODEL => thread::yield_now(),
        Some(end) => thread::park_deadline(end),
        None => thread::park(),
    }
}

/// A thread that helps. When it leaves, it wakes the engine's thread if anything is left.
struct Helper<'a, C, E> {
    helped: &'a Helped<C, E>,
    place: Option<MutexGuard<'a, Option<E>>>,
    is_left: bool,
}

impl<C, E> Drop for Helper<'_, C, E> {
    fn drop(&mut self) {
        drop(self.place.take());
        Helps::set(false);
        if self.is_left || !self.helped.commands.is_empty() {
            self.helped.thread.unpark();
        }
    }
}
