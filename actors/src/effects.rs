//! Carries out the effects of a device thread: values and points go to the GC thread, host functions to threads for
//! user code, unless they begin at once.

use std::sync::Arc;

use millstream_protocol::message::HostRun;
use millstream_protocol::threads::Spawner;
use millstream_server::points::Points;
use millstream_server::server::Effect;

use crate::actor::EffectSink;
use crate::control::ControlSender;
use crate::gc::{Action, GcThread, Handover};
use crate::host::{HostThreads, begin_at_once, host_job};

/// The threads that carry out the effects of a device thread.
pub(crate) struct Threads {
    pub(crate) gc: GcThread,
    pub(crate) host: Arc<HostThreads>,
    pub(crate) device: ControlSender,
    /// Spawns and counts the threads of this epoch.
    pub(crate) spawner: Spawner,
}

impl EffectSink for Threads {
    fn carry_out(&mut self, effect: Effect) -> Result<(), Effect> {
        let handover = match effect {
            Effect::Host {
                work,
                resources,
                token,
            } => {
                let device = self.device.clone();
                let job = match work.run {
                    HostRun::UserCode(run) => Some(host_job(run, resources, token, device)),
                    HostRun::AtOnce { begin, keeps } => {
                        begin_at_once((begin, keeps), resources, token, device)
                    }
                };
                if let Some(job) = job {
                    self.host.execute(job);
                }
                return Ok(());
            }
            Effect::Collect { value, after } => Handover {
                after,
                action: Action::Drop(value),
                since_ns: self.gc.meter.now_ns(),
            },
            Effect::Watch(point) => {
                let mut after = Points::new();
                after.insert(point);
                Handover {
                    after,
                    action: Action::WakeDevice(point),
                    since_ns: 0,
                }
            }
        };
        self.gc
            .hand_over(handover)
            .map_err(|handover| match handover.action {
                Action::Drop(value) => Effect::Collect {
                    value,
                    after: handover.after,
                },
                Action::WakeDevice(point) => Effect::Watch(point),
            })
    }
}
