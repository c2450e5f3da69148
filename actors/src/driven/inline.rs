//! What a driven device has instead of threads: its effects are carried out by whoever pumps, and whoever
//! waits has a place to sleep.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use millstream_protocol::channel::Job;
use millstream_protocol::deferred_drop::Leaving;
use millstream_server::server::Effect;
use millstream_sync::bell::Bell;
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::facade::{Mutex, lock};
use millstream_sync::gate::Gate;

use crate::actor::{Outside, ToDevice};
use crate::gc::{Gc, Handover, Then, drop_value};
use crate::host::{host_job, run_job};

/// User code that is due. It runs outside of the device, so that it may wait for a thread that needs the device.
pub(super) enum Due {
    /// A host function or a callback.
    Run(Job),
    /// The destructor of a value.
    Drop(Leaving),
}

impl Due {
    pub(super) fn run(self) {
        match self {
            Self::Run(job) => run_job(job),
            Self::Drop(value) => drop_value(value),
        }
    }
}

/// Effects without threads.
pub(super) struct Inline {
    pub(super) gc: Gc,
    pub(super) due: Arc<Mutex<VecDeque<Due>>>,
    pub(super) device: ToDevice,
}

impl Inline {
    /// Has the values that may go dropped outside of the device. Says whether anything was due.
    pub(super) fn collect(&mut self) -> bool {
        let due = &self.due;
        self.gc
            .collect(|value| lock(due).push_back(Due::Drop(value)))
    }

    /// The same with all values: nothing that was to run before them is left.
    pub(super) fn release_all(&mut self) {
        let due = &self.due;
        self.gc
            .release_all(|value| lock(due).push_back(Due::Drop(value)));
    }
}

impl Outside for Inline {
    fn carry_out(&mut self, effect: Effect) -> Result<(), Effect> {
        match effect {
            Effect::Host {
                work,
                resources,
                token,
            } => {
                let job = host_job(work, resources, token, self.device.clone());
                lock(&self.due).push_back(Due::Run(job));
            }
            Effect::Collect { value, after } => {
                self.gc.take(Handover {
                    after,
                    then: Then::Drop(value),
                    since_ns: self.gc.meter.now_ns(),
                });
            }
            // Whoever pumps looks at the queues anyway.
            Effect::Watch(_) => {}
        }
        Ok(())
    }
}

/// Where those who wait sleep while there is nothing to drive.
pub(crate) struct Idle {
    pub(super) bell: Arc<Bell>,
    /// The bell, to be left at what else can end a sleep.
    pub(super) waker: Waker,
    /// Where messages, drops and the ends of host functions are told.
    pub(super) gate: Arc<Gate>,
    /// Somebody's own code waits: a device of a model goes on at every call.
    attended: AtomicBool,
}

impl Idle {
    pub(super) fn new(gate: Arc<Gate>) -> Self {
        let bell = Arc::new(Bell::new());
        Self {
            waker: Waker::from(bell.clone()),
            bell,
            gate,
            attended: AtomicBool::new(false),
        }
    }

    /// Somebody's own code waits from now on.
    pub(super) fn attend(&self) {
        // Relaxed: read in models alone, by threads of which one runs at a time.
        self.attended.store(true, Ordering::Relaxed);
    }

    /// Does somebody's own code wait?
    pub(super) fn is_attended(&self) -> bool {
        // Relaxed: see `attend`.
        self.attended.load(Ordering::Relaxed)
    }
}
