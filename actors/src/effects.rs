//! Carries out the effects of the server: values and points go to the GC actor, and user code to where it runs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::server::{Effect, Handover};
use millstream_protocol::{DeferredDrop, HostPlace, Job, threads::Spawner};
use millstream_state::points::Points;
use millstream_sync::facade::{Mutex, lock, thread};

use crate::control::ControlSender;
use crate::gc_actor::{GcActor, GcThread, drop_value};
use crate::host::{HostThreads, JOIN_NAP, host_code, run_job};

/// What carries out the effects of the server.
pub(crate) struct Effects {
    pub(crate) collector: Collector,
    pub(crate) user_code: UserCode,
    pub(crate) device: ControlSender,
    /// Spawns and counts the threads of this epoch.
    pub(crate) spawner: Spawner,
}

/// The GC actor.
pub(crate) enum Collector {
    /// On a thread of its own.
    Thread(GcThread),
    /// Part of each turn of a driven device.
    Inline(GcActor),
    /// Has no room, for tests.
    #[cfg(test)]
    Full,
}

/// Where user code runs, always outside of the device.
#[derive(Clone)]
pub(crate) enum UserCode {
    Threads(Arc<HostThreads>),
    /// On the threads that run a driven device, after their turns. It may wait for a thread that needs the device.
    Due(Arc<Mutex<VecDeque<DueCode>>>),
}

/// A piece of user code that is due on a driven device.
pub(crate) enum DueCode {
    /// A host function or a callback.
    Run(Job),
    /// The destructor of a value.
    Drop(DeferredDrop),
}

impl DueCode {
    pub(crate) fn run(self) {
        match self {
            Self::Run(job) => run_job(job),
            Self::Drop(value) => drop_value(value),
        }
    }
}

impl UserCode {
    pub(crate) fn execute(&self, job: Job) {
        match self {
            Self::Threads(threads) => threads.execute(job),
            Self::Due(due) => lock(due).push_back(DueCode::Run(job)),
        }
    }

    /// Drops values of users.
    pub(crate) fn drop_values(&self, values: Vec<DeferredDrop>) {
        match self {
            Self::Threads(_) if values.is_empty() => {}
            // One job: if a destructor blocks, other user code still has threads.
            Self::Threads(threads) => {
                threads.execute(Box::new(move || values.into_iter().for_each(drop_value)));
            }
            Self::Due(due) => lock(due).extend(values.into_iter().map(DueCode::Drop)),
        }
    }
}

impl Effects {
    /// Carries the effect out, or hands it back if there is no room for it.
    pub(crate) fn carry_out(&mut self, effect: Effect) -> Result<(), Effect> {
        let (work, resources, token) = match effect {
            Effect::HandOver(handover) => {
                return self.hand_over(handover).map_err(Effect::HandOver);
            }
            Effect::Host {
                work,
                resources,
                token,
            } => (work, resources, token),
        };
        let begins_at_once = matches!(work.place, HostPlace::AtOnce(_))
            && matches!(self.user_code, UserCode::Threads(_));
        let device = self.device.clone();
        let begin = host_code((work.run, work.place), resources, token, device);
        let job = match begins_at_once {
            true => begin(),
            false => Some(Box::new(move || {
                if let Some(rest) = begin() {
                    rest();
                }
            }) as Job),
        };
        if let Some(job) = job {
            self.user_code.execute(job);
        }
        Ok(())
    }

    fn hand_over(&mut self, handover: Handover) -> Result<(), Handover> {
        match &mut self.collector {
            Collector::Thread(gc) => gc.hand_over(handover),
            Collector::Inline(gc) => {
                gc.take(handover);
                Ok(())
            }
            #[cfg(test)]
            Collector::Full => Err(handover),
        }
    }

    /// Makes the drops of values due whose points have passed, on a driven device. Returns `true` if there were any.
    pub(crate) fn collect(&mut self) -> bool {
        match (&mut self.collector, &self.user_code) {
            (Collector::Inline(gc), UserCode::Due(due)) => {
                gc.collect(|value| lock(due).push_back(DueCode::Drop(value)))
            }
            _ => false,
        }
    }

    /// Drops a value of the device that may wait for running tasks: on the GC thread, if there is one. Drops users' values
    /// as well.
    pub(crate) fn drop_elsewhere<T: Send + 'static>(&mut self, value: T) {
        let Collector::Thread(gc) = &self.collector else {
            return drop(value);
        };
        let handover = Handover {
            after: Points::new(),
            value: DeferredDrop::unawaited(Box::new(value)),
            since_ns: 0,
        };
        if let Err(full) = gc.hand_over(handover) {
            std::mem::forget(full);
        }
    }

    /// Ends the threads, as far as they end until the deadline, and parks the values that still wait. If the device
    /// `is_freed`, no task can use these values: those of a driven device are dropped.
    pub(crate) fn end(&mut self, is_freed: bool, deadline: Instant) {
        match (&mut self.collector, &self.user_code) {
            (Collector::Inline(gc), UserCode::Due(due)) => {
                if is_freed {
                    gc.release_all(|value| lock(due).push_back(DueCode::Drop(value)));
                }
                gc.park_all();
            }
            (Collector::Thread(gc), UserCode::Threads(host)) => {
                gc.join(deadline);
                host.join(deadline);
                // Those of the backend end once they have released what its drop left.
                while is_freed && self.other_threads() > 0 && !thread::is_past(deadline) {
                    thread::sleep(JOIN_NAP);
                }
            }
            _ => {}
        }
    }

    /// Has the threads for user code end once they are idle.
    pub(crate) fn end_user_code(&self) {
        if let UserCode::Threads(host) = &self.user_code {
            host.join(Instant::now());
        }
    }

    /// Returns the number of threads without the device thread, which ends last.
    pub(crate) fn other_threads(&self) -> u64 {
        self.spawner.alive().saturating_sub(1)
    }

    /// Returns the number of values that are never dropped, because the work that uses them never completed.
    pub(crate) fn parked(&self) -> u64 {
        match &self.collector {
            Collector::Thread(gc) => gc.parked(),
            Collector::Inline(gc) => gc.parked(),
            #[cfg(test)]
            Collector::Full => 0,
        }
    }
}
