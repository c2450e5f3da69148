//! Access to the memory of other GPUs.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::Origin;

/// The granted accesses.
pub(crate) struct Peers {
    /// Whether the GPUs are peers.
    pub(crate) possible: bool,
    /// Pairs of contexts; the first may access memory that was allocated in the second.
    pub(crate) enabled: BTreeSet<(u64, u64)>,
    /// The GPUs that may access a pool of another GPU. Kept after the pool is destroyed, because its memory may still
    /// be alive.
    pub(crate) of_pools: BTreeMap<u64, BTreeSet<usize>>,
}

impl Default for Peers {
    fn default() -> Self {
        Self {
            possible: true,
            enabled: BTreeSet::new(),
            of_pools: BTreeMap::new(),
        }
    }
}

impl Peers {
    /// Returns `true` if a kernel of this context may access memory of this origin. `gpu` is the GPU of the context, if
    /// it is alive.
    pub(crate) fn may_reach(&self, context: u64, gpu: Option<usize>, origin: Origin) -> bool {
        match (gpu, origin.pool) {
            (Some(gpu), _) if gpu == origin.gpu => true,
            (Some(gpu), Some(pool)) => {
                let allowed = self.of_pools.get(&pool);
                allowed.is_some_and(|allowed| allowed.contains(&gpu))
            }
            _ => self.enabled.contains(&(context, origin.context)),
        }
    }
}
