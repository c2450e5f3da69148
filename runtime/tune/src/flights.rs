//! The keys that are being tuned: each by one thread, while others wait, and no thread waits for itself.
//!
//! ```text
//! leader                                       follower
//! join: leads
//! advance .. samples                             join: follows
//!                                              wait: the graph below allows it, sleeps
//! advance: publishes the choice
//! end: removes the key, with the error if
//!   no candidate works ──────────────────────► wakes, reads the error
//!                                              join: finds the choice, or leads itself
//! ```
//! The result is published before the key is removed, so a follower that wakes always finds it (I5).
//!
//! The thread that tunes each key and the key that each thread waits for form a graph, which detects deadlocks before a
//! thread waits:
//!
//! ```text
//! thread 1 tunes a, wants b    wait: 1 → b    tune: a by 1, b by 2
//! thread 2 tunes b, wants a    a is tuned by 1, 1 waits for b, b is tuned by 2: a cycle, so 2 must not wait
//! ```
//! All of it is under one lock. So if several threads are about to wait in a cycle, the last one finds the waits of the
//! others (I5).

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use crate::error::TuneError;

/// The keys in flight of one tuner.
pub(crate) struct Flights<K> {
    state: Mutex<State<K>>,
    ended: Condvar,
}

struct State<K> {
    /// The thread that tunes each key.
    tune: HashMap<K, ThreadId>,
    /// The key that each thread waits for.
    wait: HashMap<ThreadId, K>,
    /// Keys of which the last tuning found no working candidate, for the threads that waited for it.
    failed: HashMap<K, TuneError>,
}

/// The role of a caller whose choice is not known yet.
pub(crate) enum Role {
    /// No other thread tunes the key. The caller does, until [`Flights::end`].
    Leader,
    /// Another caller tunes the key already.
    Follower,
}

impl<K> Default for Flights<K> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                tune: HashMap::new(),
                wait: HashMap::new(),
                failed: HashMap::new(),
            }),
            ended: Condvar::new(),
        }
    }
}

impl<K: Hash + Eq + Clone> Flights<K> {
    /// Returns the value that `known` returns, or the caller's role for the key. `known` runs under the lock, so that
    /// no caller repeats work that has just ended (I6); it must not call methods of these flights.
    pub(crate) fn join<T>(&self, key: &K, known: impl FnOnce() -> Option<T>) -> Result<T, Role> {
        let mut state = lock(&self.state);
        if let Some(known) = known() {
            return Ok(known);
        }
        if state.tune.contains_key(key) {
            return Err(Role::Follower);
        }
        state.failed.remove(key);
        state.tune.insert(key.clone(), thread::current().id());
        Err(Role::Leader)
    }

    /// Returns `true` if a thread tunes the key.
    pub(crate) fn is_in_flight(&self, key: &K) -> bool {
        lock(&self.state).tune.contains_key(key)
    }

    /// Makes the calling thread the one that tunes a key, which is in flight.
    pub(crate) fn continue_here(&self, key: &K) {
        if let Some(by) = lock(&self.state).tune.get_mut(key) {
            *by = thread::current().id();
        }
    }

    /// Ends the tuning of a key, with the error if it found no working candidate.
    pub(crate) fn end(&self, key: &K, failed: Option<TuneError>) {
        // After the lock, also if the key's own code panics.
        let _woken = AtEnd(|| self.ended.notify_all());
        let mut state = lock(&self.state);
        let ended = state.tune.remove_entry(key);
        state
            .failed
            .extend(ended.and_then(|(key, _)| failed.map(|why| (key, why))));
    }

    /// Waits until no thread tunes the key, however it ended. Returns `false`, at once, if the thread that tunes the key
    /// waits for the calling one, directly or through other threads.
    #[must_use]
    pub(crate) fn wait(&self, key: &K) -> bool {
        let here = thread::current().id();
        let mut state = lock(&self.state);
        let mut wanted = Some(key);
        // Each thread waits for one key, so a path has at most as many edges as there are waiting threads.
        for _ in 0..=state.wait.len() {
            match wanted.and_then(|key| state.tune.get(key)) {
                Some(by) if *by == here => return false,
                by => wanted = by.and_then(|by| state.wait.get(by)),
            }
        }
        state.wait.insert(here, key.clone());
        // If the key's own code panics: an edge that stays would be taken for a deadlock.
        let _ended = AtEnd(|| {
            let _edge = lock(&self.state).wait.remove(&here);
        });
        let is_tuned = |state: &mut State<K>| state.tune.contains_key(key);
        let state = self.ended.wait_while(state, is_tuned);
        // Under the lock of the last look: no other thread sees the edge of one that no longer waits. The key is dropped after
        // the lock.
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        let edge = state.wait.remove(&here);
        drop(state);
        drop(edge);
        true
    }

    /// Returns the error of the last tuning of a key, if it found no working candidate.
    pub(crate) fn failure(&self, key: &K) -> Option<TuneError> {
        lock(&self.state).failed.get(key).cloned()
    }
}

/// Calls a function when it is dropped.
struct AtEnd<F: Fn()>(F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Locks a mutex. A panic leaves no partial change, since each change is one call of a map, so a poisoned lock may be
/// used.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
