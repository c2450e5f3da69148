//! The order of the calls of a fleet, and how its groups end with it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::network::Network;
use crate::pairs::Pairs;

/// The order of the calls of a fleet.
#[derive(Default)]
pub(crate) struct AdmissionOrder {
    /// Held while a call submits its parts, so that the order of any two calls is the same on all devices.
    submitting: Mutex<()>,
    /// What the groups of the fleet have in flight.
    groups: Mutex<Vec<Weak<InFlight>>>,
}

impl AdmissionOrder {
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        lock(&self.submitting)
    }

    /// Adds a group, to be ended with the fleet.
    pub(crate) fn add(&self, group: &Arc<InFlight>) {
        let mut groups = lock(&self.groups);
        groups.retain(|group| group.strong_count() > 0);
        groups.push(Arc::downgrade(group));
    }

    /// Fails the calls that wait for a member that has not called.
    pub(crate) fn end(&self) {
        let groups = std::mem::take(&mut *lock(&self.groups));
        groups
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|group| group.end());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What calls of a group wait for, beside its devices.
pub(crate) struct InFlight {
    pub(crate) pairs: Pairs,
    pub(crate) network: Option<Arc<dyn Network>>,
}

impl InFlight {
    /// Fails the calls that wait for a member that has not called.
    pub(crate) fn end(&self) {
        self.pairs.end();
        if let Some(network) = &self.network {
            network.end();
        }
    }
}
