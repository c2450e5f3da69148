//! Who may use whose memory, where there are several GPUs.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::Home;

/// What was allowed.
pub(crate) struct Peers {
    /// The GPUs can reach each other at all.
    pub(crate) possible: bool,
    /// One context may use memory that was made in another.
    pub(crate) enabled: BTreeSet<(u64, u64)>,
    /// GPUs that may use memory of a pool of another. Kept when the pool has ended: its memory may be there yet.
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
    /// May a kernel of this context, which lives on that GPU if it lives, use memory that is there?
    pub(crate) fn may_reach(&self, context: u64, gpu: Option<usize>, home: Home) -> bool {
        match (gpu, home.pool) {
            (Some(gpu), _) if gpu == home.gpu => true,
            (Some(gpu), Some(pool)) => {
                let allowed = self.of_pools.get(&pool);
                allowed.is_some_and(|allowed| allowed.contains(&gpu))
            }
            _ => self.enabled.contains(&(context, home.context)),
        }
    }
}
