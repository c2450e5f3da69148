//! Who may use whose memory, where there are several GPUs.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::Home;
use crate::state::State;

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

impl State {
    /// Where memory is that is made in the current context.
    pub(crate) fn home_here(&self) -> Home {
        Home {
            context: self.current,
            gpu: self.gpu_of(self.current).unwrap_or(0),
            pool: None,
        }
    }

    /// May a kernel of this context use the memory at this address? What is no memory of a GPU is not judged here.
    pub(crate) fn may_reach(&mut self, context: u64, address: u64) -> bool {
        let Some(home) = self.memory.home(address) else {
            return true;
        };
        match (self.gpu_of(context), home.pool) {
            (Some(gpu), _) if gpu == home.gpu => true,
            (Some(gpu), Some(pool)) => {
                let allowed = self.peers.of_pools.get(&pool);
                allowed.is_some_and(|allowed| allowed.contains(&gpu))
            }
            _ => self.peers.enabled.contains(&(context, home.context)),
        }
    }
}
