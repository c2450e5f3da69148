//! The executor of a device: its actor behind one door, and the threads that take its turns.
//!
//! ```text
//!  any thread ── messages, drops, controls ──► mailbox, dropped list, control channel     (published, then a wake)
//!                                                        │
//!                                    ┌───────── the door: one thread inside at a time ─────────┐
//!                                    │ DeviceActor::turn decides and calls the backend         │
//!                                    └──────────────────────────────────────────────────────────┘
//!                                       ▲                     ▲                        ▲
//!  device thread: turns, then parks ────┘                     │                        │
//!  caller that is about to wait, while that thread sleeps ────┘ (stepping in)          │
//!  driven device: pump, a waiting caller, a caller that finds the mailbox full ────────┘
//! ```
//! The thread inside never waits: not for the device, for room, nor for user code. A thread that finds the door shut leaves
//! its work to that thread, which looks for work once more after it has left ([`HandoffLock`]). So each published
//! message is seen by a thread that is inside, or by a thread that is woken: the device thread at the gate, or the threads
//! that wait for a driven device at the bell, with which they arm the gate.
//!
//! Of user code only the backend's calls run some inside: custom tasks of a GPU, and the kernels of a driven CPU. Wakers of
//! users that a turn reaches are collected and woken outside ([`deferred_wakes`](millstream_sync::deferred_wakes)); all
//! other user code goes to where [`Effects`] sends it.
//!
//! | file | what it decides |
//! | --- | --- |
//! | `device_thread` | when the device thread turns, sleeps and ends |
//! | `stepping_in`, `wait_prediction` | whether a caller takes the turns of the sleeping device thread, and what it leaves |
//! | `driven` | how long the threads of a driven device run it, and where they sleep |
//! | `closing` | what a close answers and frees, and what ends later |
//! | `channel` | what a caller does without room in the mailbox, and while it waits |

pub(crate) mod channel;
pub(crate) mod closing;
pub(crate) mod device_thread;
pub(crate) mod driven;
mod stepping_in;
#[cfg(test)]
pub(crate) mod tests;
mod wait_prediction;

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use millstream_protocol::{Backend, Held, Process, Task};
use millstream_sync::deferred_wakes::LeftWakers;
use millstream_sync::facade::atomic::AtomicBool;
use millstream_sync::facade::{Edges, MutexGuard};
use millstream_sync::gate::Gate;
use millstream_sync::handoff_lock::HandoffLock;
use millstream_sync::mailbox::Sender;

use crate::device_actor::DeviceActor;
use crate::effects::{Effects, UserCode};

use closing::{EpochEnd, Remainder};
use driven::Driven;
use wait_prediction::WaitPredictor;

/// The state behind the door.
pub(crate) struct Core<B: Backend> {
    /// `None` once the device is closed.
    pub(crate) parts: Option<(DeviceActor<B>, Effects)>,
    /// What the close of a driven device has left, until it is freed.
    pub(crate) remainder: Option<Arc<Remainder<B>>>,
    /// The time until which the device thread sleeps.
    pub(crate) sleeps_until: Option<Instant>,
    /// A caller has left work to the device thread.
    pub(crate) is_owner_due: bool,
    /// A turn of a caller has panicked, so the device's state is not trusted.
    pub(crate) is_broken: bool,
}

/// A device of one epoch, as all threads share it.
pub(crate) struct Executor<B: Backend> {
    /// A child that was forked since runs nothing: the thread that was inside at the fork never leaves.
    pub(crate) process: Process,
    pub(crate) door: HandoffLock<Core<B>>,
    /// Where the device thread sleeps; armed by threads that wait for a driven device.
    pub(crate) gate: Arc<Gate>,
    pub(crate) sender: Sender<Task>,
    pub(crate) user_code: UserCode,
    pub(crate) end: EpochEnd,
    pub(crate) edges: Arc<Edges>,
    /// `None` if the device has a thread.
    pub(crate) driven: Option<Driven>,
    /// Wakes the device thread.
    pub(crate) waker: Waker,
    /// Runs larger tasks for a caller that waits at once.
    pub(crate) held: Option<Arc<dyn Held>>,
    pub(crate) predictor: WaitPredictor,
    pub(crate) opened: Instant,
    /// Users' wakers may be registered with the device; its own threads must wake them.
    pub(crate) has_wakers: AtomicBool,
    /// Users' wakers that callers have left to the device thread, until that thread begins the shutdown.
    pub(crate) left_wakers: LeftWakers,
    /// A custom task will be sent whose code runs within a call, which callers must not make.
    pub(crate) has_code: AtomicBool,
    /// No caller is inside any more that has not seen `has_code`.
    pub(crate) is_code_sent: AtomicBool,
}

impl<B: Backend> Executor<B> {
    /// Creates the executor of a device that was just opened, without a thread that runs it.
    pub(crate) fn new(
        (actor, effects): (DeviceActor<B>, Effects),
        (sender, edges): (Sender<Task>, Arc<Edges>),
        end: EpochEnd,
    ) -> Arc<Self> {
        let backend = &actor.server.device.backend;
        let driven = match effects.user_code {
            UserCode::Threads(_) => None,
            UserCode::Due(_) => Some(Driven::new(backend.completion_wait())),
        };
        let gate = effects.device.gate.clone();
        Arc::new(Self {
            process: Process::current(),
            waker: Waker::from(gate.clone()),
            gate,
            sender,
            user_code: effects.user_code.clone(),
            end,
            edges,
            driven,
            held: backend.held(),
            predictor: WaitPredictor::default(),
            opened: Instant::now(),
            has_wakers: AtomicBool::new(false),
            left_wakers: LeftWakers::default(),
            has_code: AtomicBool::new(false),
            is_code_sent: AtomicBool::new(false),
            door: HandoffLock::new(Core {
                parts: Some((actor, effects)),
                remainder: None,
                sleeps_until: None,
                is_owner_due: false,
                is_broken: false,
            }),
        })
    }

    /// Calls `f` with the actor of a device that was just opened.
    pub(crate) fn with_actor<R>(&self, f: impl FnOnce(&DeviceActor<B>) -> R) -> R {
        match &self.door.enter().parts {
            Some((actor, _)) => f(actor),
            None => unreachable!("a device is closed only after it was opened"),
        }
    }

    /// Takes the actor and its effects, to end the device.
    pub(crate) fn take(&self) -> Option<(DeviceActor<B>, Effects)> {
        let parts = self.inside(self.door.enter(), |core| core.parts.take());
        self.left_wakers.end();
        parts
    }

    /// Looks at the state behind the door, and leaves. If another thread found the door shut meanwhile, wakes a thread that
    /// looks for work.
    pub(crate) fn inside<R>(
        &self,
        mut core: MutexGuard<'_, Core<B>>,
        look: impl FnOnce(&mut Core<B>) -> R,
    ) -> R {
        let seen = look(&mut core);
        if self.door.leave(core) {
            match self.driven {
                None => self.gate.wake(),
                Some(_) => self.ring(),
            }
        }
        seen
    }

    /// Wakes the threads that wait for a driven device.
    pub(crate) fn ring(&self) {
        if let Some(driven) = &self.driven {
            driven.bell.ring();
        }
    }
}
