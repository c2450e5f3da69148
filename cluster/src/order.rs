//! The order of the calls of a fleet, and how its groups end with it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use millstream::Stream;

use crate::ClusterError;
use crate::afterwards::{self, Afterwards};
use crate::gpu::{Gpus, Threads};
use crate::lock;
use crate::network::Network;
use crate::pairs::Pairs;
use crate::unfinished::Unfinished;

/// The order of the calls of a fleet.
#[derive(Default)]
pub(crate) struct AdmissionOrder {
    /// Held while a call submits its parts, so that the order of any two calls is the same on all devices.
    submitting: Mutex<()>,
    /// What the groups of the fleet have in flight.
    groups: Mutex<Vec<Weak<InFlight>>>,
    /// The threads of groups with CUDA devices.
    pub(crate) threads: Arc<Threads>,
    /// Whether groups that are created do without NCCL. Relaxed: the owner of the fleet creates its groups.
    pub(crate) without_nccl: AtomicBool,
}

/// The order of a fleet, held by a call.
pub(crate) struct Admitted<'a> {
    _submitting: MutexGuard<'a, ()>,
    /// Dropped after the guard: what was kept runs without the order.
    _afterwards: Afterwards,
}

impl AdmissionOrder {
    /// Waits until no other call submits its parts.
    ///
    /// # Errors
    /// [`ClusterError::Nested`] if the calling thread is inside a call of this fleet.
    pub(crate) fn lock(&self, call: &'static str) -> Result<Admitted<'_>, ClusterError> {
        if afterwards::holds(self) {
            return Err(ClusterError::Nested { call });
        }
        Ok(Admitted {
            _submitting: lock(&self.submitting),
            _afterwards: Afterwards::begin(self),
        })
    }

    /// Adds a group, to be ended with the fleet.
    pub(crate) fn add(&self, group: &Arc<InFlight>) {
        let mut groups = lock(&self.groups);
        groups.retain(|group| group.strong_count() > 0);
        groups.push(Arc::downgrade(group));
    }

    /// Fails the calls that wait for a member that has not called.
    pub(crate) fn end(&self) {
        self.living().iter().for_each(|group| group.end());
    }

    /// Waits for the threads of groups, once the devices are closed.
    pub(crate) fn join(&self) {
        let gpus = self.living();
        let gpus = gpus.iter().filter_map(|group| group.gpus.as_ref());
        gpus.for_each(|gpus| gpus.end());
        self.threads.join();
    }

    fn living(&self) -> Vec<Arc<InFlight>> {
        let groups = lock(&self.groups);
        groups.iter().filter_map(Weak::upgrade).collect()
    }
}

/// What calls of a group wait for, beside its devices.
pub(crate) struct InFlight {
    pub(crate) pairs: Pairs,
    /// Its calls in this process that may wait for a part which never arrives: transfers, and those of `is_driven`.
    pub(crate) unfinished: Unfinished,
    /// Whether it has a driven device, which begins its part of a collective only if it is pumped.
    pub(crate) is_driven: bool,
    pub(crate) network: Option<Arc<dyn Network>>,
    /// Its CUDA devices. `None` on a network.
    pub(crate) gpus: Option<Arc<Gpus>>,
    /// How threads that wait for the device of a rank help its network. The device does not keep it.
    _helper: Option<Arc<Helper>>,
}

/// Helps until the function that it receives returns `true`.
type Helper = dyn Fn(&mut dyn FnMut() -> bool) + Send + Sync;

impl InFlight {
    /// Creates the state of a group of these streams, one of each member of this process.
    pub(crate) fn new(
        streams: &[Stream],
        network: Option<Arc<dyn Network>>,
        gpus: Option<Arc<Gpus>>,
    ) -> Self {
        let helper = network.clone().map(|network| -> Arc<Helper> {
            Arc::new(move |done: &mut dyn FnMut() -> bool| network.help(done))
        });
        if let (Some(network), Some(helper)) = (&network, &helper) {
            let helped = streams
                .iter()
                .all(|stream| stream.set_helper(Arc::downgrade(helper)));
            if helped {
                network.waiters_help();
            }
        }
        Self {
            pairs: Pairs::default(),
            unfinished: Unfinished::default(),
            is_driven: streams.iter().any(Stream::is_driven),
            network,
            gpus,
            _helper: helper,
        }
    }

    /// Fails the calls that wait for a member that has not called, or that may not be pumped any more.
    pub(crate) fn end(&self) {
        self.unfinished.end();
        if let Some(network) = &self.network {
            network.end();
        }
    }
}
