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
//! `is_left`, which a helper sets when it leaves something in the engine. The thread sleeps at a [`Gate`] until there is a
//! command, or `is_left`. A nap is a park with a time, at no gate, so that quiet senders need not look at it.
//!
//! # No command is left behind (I5)
//! A command is in the channel until a thread that holds the lock takes it. Its sender wakes the gate, whose protocol
//! makes sure that a thread which goes to sleep finds it.
//!
//! What a helper leaves in the engine is in the channel no more. The thread may have left the lock before the helper came,
//! and may be about to sleep, so that a wake does not reach it yet:
//!
//! ```text
//!   helper                                       engine's thread
//!                                                takes a turn, finds nothing, leaves the lock
//!   sends a command quietly: no thread sleeps
//!   takes the command, leaves the lock
//!   is_left = true                               asleep (see `gate`)
//!   wakes the gate                               any command? `is_left`? then takes a turn, else parks
//! ```
//! A helper does not wake the thread for commands that it sends itself; it takes them, or finds them after it has left.
//!
//! Checked by the models in `loom-tests/tests/models/helped.rs`, and with whole devices in `tests/actors/at_once.rs`
//! there; the mutants `helped_*` remove each wake. In a model a nap ends at once.

use std::sync::TryLockError;
use std::time::{Duration, Instant};

use crate::channel::Sender;
use crate::facade::atomic::{AtomicBool, Ordering};
use crate::facade::thread::{self, Thread};
use crate::facade::{IN_MODEL, Mutex, MutexGuard, SpinPolicy, Spinner};
use crate::gate::Gate;
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
    /// A helper has left something in the engine for the thread.
    is_left: AtomicBool,
    /// Where the thread sleeps.
    gate: Gate,
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
            is_left: AtomicBool::new(false),
            gate: Gate::new(),
            thread: thread::current(),
        }
    }

    /// Sends a command, and wakes the engine's thread. An engine that has ended drops the command.
    pub fn send(&self, command: C) {
        let _ = self.commands.send(command);
        if !Helps::get() {
            self.wake();
        }
    }

    /// Sends a command for a caller that will help soon, or that has time until the engine's thread ends its nap.
    pub fn send_quietly(&self, command: C) {
        let _ = self.commands.send(command);
        self.gate.wake();
    }

    /// Ends the nap of the engine's thread, the next one if it is awake; or its sleep, if there is work.
    fn wake(&self) {
        self.gate.wake();
        self.thread.unpark();
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

    /// Blocks the engine's thread until there is a command, or a helper has left something.
    fn sleep(&self) {
        let has_work = || {
            // Relaxed: ordered by the gate.
            let is_left = self.is_left.swap(false, Ordering::Relaxed);
            (is_left || !self.commands.is_empty()).then_some(())
        };
        let mut spinner = Spinner::new(SpinPolicy::never());
        self.gate.wait_until(&mut spinner, has_work);
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
        if self.is_left {
            // Relaxed: ordered by the gate. A swap, not a store: the thread swaps it, too.
            self.helped.is_left.swap(true, Ordering::Relaxed);
        }
        if self.is_left || !self.helped.commands.is_empty() {
            self.helped.wake();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::channel::{Receiver, unbounded};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    const NAP: Duration = Duration::from_micros(50);

    /// Answers its commands; `None` is the end of a caller.
    struct Answers {
        inbox: Receiver<Option<Sender<()>>>,
        callers: usize,
    }

    impl Answers {
        fn turn(&mut self) -> bool {
            let Ok(command) = self.inbox.try_recv() else {
                return false;
            };
            match command {
                Some(answer) => answer.send(()).unwrap(),
                None => self.callers -= 1,
            }
            true
        }
    }

    #[test]
    fn every_command_is_taken_by_the_thread_or_a_helper() {
        const ROUNDS: usize = if cfg!(miri) { 50 } else { 5_000 };
        let (commands, inbox) = unbounded();
        let helped = Arc::new(Helped::new(commands, Answers { inbox, callers: 3 }));
        let callers = [0, 1, 2].map(|kind| {
            let helped = helped.clone();
            std::thread::spawn(move || {
                for _ in 0..ROUNDS {
                    let (answer, answered) = unbounded();
                    match kind {
                        0 => helped.send(Some(answer)),
                        _ => helped.send_quietly(Some(answer)),
                    }
                    if kind == 2 {
                        helped.help(|answers| {
                            answers.turn();
                            answers.callers == 0
                        });
                    }
                    answered.recv().unwrap();
                }
                helped.send(None);
            })
        });
        let turn = |answers: &mut Answers| match answers.turn() {
            _ if answers.callers == 0 => Next::End,
            true => Next::Again,
            false if answers.callers > 1 => Next::Sleep,
            false => Next::Nap(NAP),
        };
        assert!(helped.run(turn, NAP).is_some());
        callers
            .into_iter()
            .for_each(|caller| caller.join().unwrap());
    }

    #[test]
    fn a_panic_of_a_helper_wakes_the_thread_which_drops_the_engine() {
        let (commands, _inbox) = unbounded::<()>();
        let helped = Arc::new(Helped::new(commands, ()));
        let helper = helped.clone();
        let helper = std::thread::spawn(move || {
            let help = || helper.help(|()| panic!("a helper fails"));
            assert!(catch_unwind(AssertUnwindSafe(help)).is_err());
        });
        assert!(helped.run(|()| Next::Sleep, NAP).is_none());
        helper.join().unwrap();
    }
}
