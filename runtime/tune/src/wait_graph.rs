//! The wait graph: the thread that tunes each key, and the key that each thread waits for. It detects deadlocks
//! before a thread waits.
//!
//! ```text
//! thread 1 tunes a, wants b    wait: 1 → b    tune: a by 1, b by 2
//! thread 2 tunes b, wants a    a is tuned by 1, 1 waits for b, b is tuned by 2: a cycle, so 2 must not wait
//! ```

use std::collections::HashMap;
use std::hash::Hash;
use std::thread::{self, ThreadId};

/// The graph of one tuner, which accesses it under one lock. So if several threads are about to wait in a cycle, the
/// last one finds the waits of the others (I5).
pub(crate) struct WaitGraph<K> {
    tune: HashMap<K, ThreadId>,
    wait: HashMap<ThreadId, K>,
}

impl<K> Default for WaitGraph<K> {
    fn default() -> Self {
        Self {
            tune: HashMap::new(),
            wait: HashMap::new(),
        }
    }
}

impl<K: Hash + Eq + Clone> WaitGraph<K> {
    /// Registers the calling thread as the one that tunes a key.
    pub(crate) fn start_tuning(&mut self, key: &K) {
        self.tune.insert(key.clone(), thread::current().id());
    }

    /// Records that no thread tunes a key any more.
    pub(crate) fn end_tuning(&mut self, key: &K) {
        self.tune.remove(key);
    }

    /// Registers that the calling thread is about to wait for a key. Returns `false`, and registers nothing, if the
    /// thread that tunes the key waits for the calling one, directly or through other threads.
    #[must_use]
    pub(crate) fn try_wait(&mut self, key: &K) -> bool {
        let here = thread::current().id();
        let mut wanted = Some(key);
        // Each thread waits for one key, so a path has at most as many edges as there are waiting threads.
        for _ in 0..=self.wait.len() {
            match wanted.and_then(|key| self.tune.get(key)) {
                Some(by) if *by == here => return false,
                by => wanted = by.and_then(|by| self.wait.get(by)),
            }
        }
        self.wait.insert(here, key.clone());
        true
    }

    /// Removes the wait of the calling thread.
    pub(crate) fn end_wait(&mut self) {
        self.wait.remove(&thread::current().id());
    }
}
