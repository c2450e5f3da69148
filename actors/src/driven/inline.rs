//! The parts that a driven device has in place of threads: the effects of the server run on the pumping thread, and a
//! waiting thread has a bell to sleep at.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use millstream_protocol::channel::Job;
use millstream_protocol::deferred_drop::DeferredDrop;
use millstream_protocol::message::HostRun;
use millstream_server::server::Effect;
use millstream_sync::bell::Bell;
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::facade::{Mutex, lock};
use millstream_sync::gate::Gate;

use crate::actor::EffectSink;
use crate::control::ControlSender;
use crate::gc::{Action, Gc, Handover, drop_value};
use crate::host::{begin_at_once, host_job, run_job};

/// User code that is due. It runs outside the lock, so it may wait for a thread that needs the device.
pub(super) enum UserJob {
    /// A host function or a callback.
    Run(Job),
    /// The destructor of a value.
    Drop(DeferredDrop),
}

impl UserJob {
    pub(super) fn run(self) {
        match self {
            Self::Run(job) => run_job(job),
            Self::Drop(value) => drop_value(value),
        }
    }
}

/// Carries out effects without threads.
pub(super) struct Inline {
    pub(super) gc: Gc,
    pub(super) due: Arc<Mutex<VecDeque<UserJob>>>,
    pub(super) device: ControlSender,
}

impl Inline {
    /// Makes the drops of values due whose points have passed. Returns `true` if there were any.
    pub(super) fn collect(&mut self) -> bool {
        let due = &self.due;
        self.gc
            .collect(|value| lock(due).push_back(UserJob::Drop(value)))
    }

    /// Makes the drops of all values due, since the tasks before them will not run.
    pub(super) fn release_all(&mut self) {
        let due = &self.due;
        self.gc
            .release_all(|value| lock(due).push_back(UserJob::Drop(value)));
    }
}

impl EffectSink for Inline {
    fn carry_out(&mut self, effect: Effect) -> Result<(), Effect> {
        match effect {
            Effect::Host {
                work,
                resources,
                token,
            } => {
                let device = self.device.clone();
                let job = match work.run {
                    HostRun::UserCode(run) => host_job(run, resources, token, device),
                    HostRun::AtOnce { begin, keeps } => Box::new(move || {
                        let rest = begin_at_once((begin, keeps), resources, token, device);
                        if let Some(rest) = rest {
                            rest();
                        }
                    }),
                };
                lock(&self.due).push_back(UserJob::Run(job));
            }
            Effect::Collect { value, after } => {
                self.gc.take(Handover {
                    after,
                    action: Action::Drop(value),
                    since_ns: self.gc.meter.now_ns(),
                });
            }
            // A pump looks at the queues in any case.
            Effect::Watch(_) => {}
        }
        Ok(())
    }
}

/// The bell at which threads sleep that wait and find nothing to do.
pub(crate) struct Idle {
    pub(super) bell: Arc<Bell>,
    /// The bell as a waker, to be left with other events that end a sleep.
    pub(super) waker: Waker,
    /// The gate that messages, drops and the ends of host functions wake.
    pub(super) gate: Arc<Gate>,
    /// Code of the user waits for the device without driving it. In a model every call runs the device from then on.
    awaited: AtomicBool,
}

impl Idle {
    pub(super) fn new(gate: Arc<Gate>) -> Self {
        let bell = Arc::new(Bell::new());
        Self {
            waker: Waker::from(bell.clone()),
            bell,
            gate,
            awaited: AtomicBool::new(false),
        }
    }

    /// Records that code of the user waits without driving the device.
    pub(super) fn set_awaited(&self) {
        // Relaxed: read in models only, in which one thread runs at a time.
        self.awaited.store(true, Ordering::Relaxed);
    }

    /// Whether code of the user waits without driving the device.
    pub(super) fn is_awaited(&self) -> bool {
        // Relaxed: see `set_awaited`.
        self.awaited.load(Ordering::Relaxed)
    }
}
