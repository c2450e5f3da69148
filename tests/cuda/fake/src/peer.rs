//! Access to the memory of other GPUs.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::Origin;

/// The granted accesses.
pub(crate) struct Peers {
    /// Whether the GPUs are peers.
    pub(crate) possible: bool,
    /// The GPUs that may access a pool of another GPU. Kept after the pool is destroyed, because its memory may still
    /// be alive.
    pub(crate) of_pools: BTreeMap<u64, BTreeSet<usize>>,
}

impl Default for Peers {
    fn default() -> Self {
        Self {
            possible: true,
            of_pools: BTreeMap::new(),
        }
    }
}

impl Peers {
    /// Returns `true` if a kernel on this GPU may access memory of this origin. Memory outside of pools has no access for
    /// other GPUs, because no call of the fake grants it.
    pub(crate) fn may_reach(&self, gpu: usize, origin: Origin) -> bool {
        let pool = origin.pool.and_then(|pool| self.of_pools.get(&pool));
        gpu == origin.gpu || pool.is_some_and(|allowed| allowed.contains(&gpu))
    }
}
