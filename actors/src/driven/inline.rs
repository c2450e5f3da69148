//! What a driven device has instead of threads: its effects are carried out by whoever pumps, and whoever
//! waits has a place to sleep.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use millstream_core::channel::Job;
use millstream_core::server::Effect;
use millstream_sync::bell::Bell;
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::facade::{Mutex, lock};
use millstream_sync::gate::Gate;

use crate::actor::{Outside, ToDevice};
use crate::gc::{Gc, Handover, Then};
use crate::host::host_job;

/// Effects without threads.
pub(super) struct Inline {
    pub(super) gc: Gc,
    pub(super) jobs: Arc<Mutex<VecDeque<Job>>>,
    pub(super) device: ToDevice,
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
                lock(&self.jobs).push_back(job);
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
