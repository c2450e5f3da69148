//! Helped: no command is left behind, whichever thread runs the engine.

use std::sync::Arc as StdArc;
use std::time::Duration;

use loom::thread;
use millstream_loom::{Bound, Payload, check};
use millstream_sync::channel::{Receiver, unbounded};
use millstream_sync::facade::Arc;
use millstream_sync::facade::atomic::{AtomicU32, Ordering};
use millstream_sync::gate::Gate;
use millstream_sync::helped::{Helped, Next};

use super::spinner;

enum Command {
    /// A call, which ends in the turn after the one that takes it.
    Call,
    End,
}

/// What the threads of the model share, beside the engine.
#[derive(Default)]
struct Shared {
    /// The calls that have ended.
    ended: AtomicU32,
    /// The callers that have been answered.
    gone: AtomicU32,
    gate: Gate,
}

struct Engine {
    inbox: Receiver<Command>,
    in_flight: u32,
    ends: bool,
    /// Written by each thread that runs the engine: they are one after the other.
    turns: Payload,
    shared: StdArc<Shared>,
}

impl Engine {
    /// Ends the calls of earlier turns, takes the commands. Returns `true` if anything changed.
    fn turn(&mut self) -> bool {
        self.turns.set(self.turns.get() + 1);
        let ended = std::mem::take(&mut self.in_flight);
        let mut changed = ended > 0;
        if changed {
            // Release: the caller that reads it goes on with what the call has done.
            self.shared.ended.fetch_add(ended, Ordering::Release);
            self.shared.gate.wake();
        }
        while let Ok(command) = self.inbox.try_recv() {
            changed = true;
            match command {
                Command::Call => self.in_flight += 1,
                Command::End => self.ends = true,
            }
        }
        changed
    }
}

/// An engine, and the turns of its own thread.
struct Rig {
    link: Helped<Command, Engine>,
    shared: StdArc<Shared>,
}

const NAP: Duration = Duration::from_millis(1);

impl Rig {
    /// Runs an engine on the model's main thread, and each caller on a thread of its own. The last caller that is
    /// answered ends the engine.
    fn run<const N: usize>(callers: [fn(&Self); N]) {
        let (commands, inbox) = unbounded();
        let shared = StdArc::new(Shared::default());
        let engine = Engine {
            inbox,
            in_flight: 0,
            ends: false,
            turns: Payload::default(),
            shared: shared.clone(),
        };
        let link = Helped::new(commands, engine);
        let rig = Arc::new(Self { link, shared });
        let callers = callers.map(|call| {
            let rig = rig.clone();
            thread::spawn(move || {
                call(&rig);
                // AcqRel: the last one ends the engine after all others.
                if rig.shared.gone.fetch_add(1, Ordering::AcqRel) + 1 == N as u32 {
                    rig.link.send(Command::End);
                }
            })
        });
        rig.own();
        callers
            .into_iter()
            .for_each(|caller| caller.join().unwrap());
    }

    /// Waits until this number of calls has ended. For one caller.
    fn wait_for(&self, calls: u32) {
        self.shared.gate.wait_until(&mut spinner(), || {
            (self.shared.ended.load(Ordering::Acquire) >= calls).then_some(())
        });
    }

    /// Runs the engine on its own thread.
    fn own(&self) {
        let turn = |engine: &mut Engine| match engine.turn() {
            _ if engine.ends && engine.in_flight == 0 => Next::End,
            true => Next::Again,
            false if engine.in_flight > 0 => Next::Yield,
            false => Next::Sleep,
        };
        assert!(self.link.run(turn, NAP).is_some(), "the engine is gone");
    }
}

/// Sends a call, helps for one turn, and waits.
fn quiet_and_helps(rig: &Rig) {
    rig.link.send_quietly(Command::Call);
    rig.link.help(|engine| {
        engine.turn();
        engine.in_flight > 0
    });
    rig.wait_for(1);
}

#[test]
fn a_call_that_its_helper_leaves_is_ended_by_the_thread() {
    check(Bound::TwoThreads, |_| {
        Rig::run([quiet_and_helps]);
    });
}

#[test]
fn a_quiet_command_without_a_helper_is_taken() {
    check(Bound::TwoThreads, |_| {
        Rig::run([|rig| {
            rig.link.send_quietly(Command::Call);
            rig.wait_for(1);
        }]);
    });
}

/// The helper ends a call, which sends another one.
#[test]
fn a_command_that_a_helper_sends_is_taken() {
    check(Bound::TwoThreads, |_| {
        Rig::run([|rig| {
            let mut calls = 1;
            rig.link.send_quietly(Command::Call);
            rig.link.help(|engine| {
                engine.turn();
                engine.turn();
                rig.link.send(Command::Call);
                calls += 1;
                false
            });
            rig.wait_for(calls);
        }]);
    });
}

/// A helper finds the engine in use by another one, and leaves its call to it or to the thread.
#[test]
fn two_helpers_leave_no_call() {
    check(Bound::One, |_| {
        Rig::run([
            |rig| {
                rig.link.send_quietly(Command::Call);
                rig.link.help(|engine| {
                    engine.turn();
                    engine.in_flight > 0
                });
            },
            |rig| {
                quiet_and_helps(rig);
                rig.wait_for(2);
            },
        ]);
    });
}
