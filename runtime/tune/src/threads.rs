//! Which thread is at which key, and which waits for which: who would wait for itself is told before it does.

use std::collections::HashMap;
use std::hash::Hash;
use std::thread::{self, ThreadId};

/// Changed under one lock, so that of several threads that would wait in a circle the last one sees the others.
pub(crate) struct Threads<K> {
    tune: HashMap<K, ThreadId>,
    wait: HashMap<ThreadId, K>,
}

impl<K> Default for Threads<K> {
    fn default() -> Self {
        Self {
            tune: HashMap::new(),
            wait: HashMap::new(),
        }
    }
}

impl<K: Hash + Eq + Clone> Threads<K> {
    /// This thread is at a key, from now on.
    pub(crate) fn tunes(&mut self, key: &K) {
        self.tune.insert(key.clone(), thread::current().id());
    }

    /// Nobody is at a key any more.
    pub(crate) fn ended(&mut self, key: &K) {
        self.tune.remove(key);
    }

    /// This thread is about to wait for a key. No, if who is at it waits for this thread, however many others are between them.
    #[must_use]
    pub(crate) fn may_wait(&mut self, key: &K) -> bool {
        let here = thread::current().id();
        let mut wanted = Some(key);
        // A thread waits for one key: no way is longer than there are those that wait.
        for _ in 0..=self.wait.len() {
            match wanted.and_then(|key| self.tune.get(key)) {
                Some(by) if *by == here => return false,
                by => wanted = by.and_then(|by| self.wait.get(by)),
            }
        }
        self.wait.insert(here, key.clone());
        true
    }

    /// This thread waits no more.
    pub(crate) fn has_waited(&mut self) {
        self.wait.remove(&thread::current().id());
    }
}
