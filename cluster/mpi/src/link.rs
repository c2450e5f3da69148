//! How the application reaches the engine, and which thread runs it.
//!
//! Its own thread runs the engine, or a thread that waits for a device of a group: see
//! [`helped`](millstream_sync::helped), whose protocol leaves no command behind. The caller of a small call announces it
//! and begins its part quietly, since it will wait and help; the worst case of a wrong guess is one [`NAP`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::unbounded;
use millstream_sync::helped::{Helped, Next};

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

/// The engine, shared by its thread and the application.
pub(crate) struct Link {
    engine: Helped<Command, Engine>,
    /// Whether MPI permits calls of several threads, one at a time.
    is_serialized: bool,
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
            engine: Helped::new(commands, engine),
            is_serialized,
        });
        started(Ok((link.clone(), rank, size)));
        let mut active = Instant::now();
        let ended = link.engine.run(|engine| turn(engine, &mut active), NAP);
        if let Some(engine) = ended {
            engine.finalize();
        }
    }

    /// Sends a command, and wakes the engine's thread. An engine that has ended drops the command, which fails its part.
    pub(crate) fn send(&self, command: Command) {
        self.engine.send(command);
    }

    /// Sends a command for a caller that will help soon, or for an engine that has time until it wakes from its nap.
    pub(crate) fn send_quietly(&self, command: Command) {
        self.engine.send_quietly(command);
    }

    /// Whether threads that wait may run the engine.
    pub(crate) fn may_be_helped(&self) -> bool {
        self.is_serialized
    }

    /// Runs the engine on a thread that waits, until `done`, or until there is nothing to do for it.
    pub(crate) fn help(&self, done: &mut dyn FnMut() -> bool) {
        self.engine.help(|engine| {
            loop {
                let changed = engine.help();
                // `None`: the rest is for the engine's own thread, which may not know of it yet.
                let is_left = changed.is_none() || engine.is_in_flight();
                if done() {
                    return is_left;
                }
                match changed {
                    Some(true) => {}
                    Some(false) if is_left && engine.quiet_for() < YIELDS_FOR => {
                        std::thread::yield_now();
                    }
                    _ => return is_left,
                }
            }
        });
    }
}

/// Takes a turn of the engine's own thread. `active` is when a turn of it last changed anything.
fn turn(engine: &mut Engine, active: &mut Instant) -> Next {
    let changed = engine.turn();
    if engine.is_over() {
        return Next::End;
    }
    let (active_for, quiet_for) = (active.elapsed(), engine.quiet_for());
    match engine.is_in_flight() {
        _ if changed => {
            *active = Instant::now();
            Next::Again
        }
        true if quiet_for < YIELDS_FOR => Next::Yield,
        true => Next::Nap(PAUSE),
        false if active_for < AWAKE_FOR => Next::Yield,
        false if quiet_for < NAPS_FOR => Next::Nap(NAP),
        false => Next::Sleep,
    }
}
