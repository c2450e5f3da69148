//! Runs the work for a key once, however many threads want it (single flight).
//!
//! The first caller of [`Flights::join`] leads and does the work; later callers follow, and may
//! wait. When the lead is dropped, however the work ended, all followers are woken and call `join`
//! again. Checked by the models in `loom-tests/tests/models/flight.rs`.
//!
//! ```
//! use millstream_sync::flight::{Flights, Role};
//!
//! let flights = Flights::default();
//! let known = || None::<u32>;
//! let Err(Role::Leader(lead)) = flights.join(&"key", known) else { unreachable!() };
//! let Err(Role::Follower(_)) = flights.join(&"key", known) else { unreachable!() };
//! drop(lead);
//! assert!(!flights.is_in_flight(&"key"));
//! ```

use std::collections::HashMap;
use std::hash::Hash;

use crate::facade::{Arc, Mutex, SpinPolicy, lock};
use crate::reply::{ReplySender, reply};

/// The keys in flight, each with the senders of its waiting followers.
type Waiting<K> = Mutex<HashMap<K, Vec<ReplySender<()>>>>;

/// The keys in flight. Clones share them.
pub struct Flights<K> {
    waiting: Arc<Waiting<K>>,
}

/// The role of a caller whose value is not known yet.
pub enum Role<K: Hash + Eq> {
    /// The first caller: it does the work.
    Leader(Lead<K>),
    /// Another caller does the work already.
    Follower(Follow<K>),
}

/// The right to do the work for a key. Dropping it wakes all followers that wait; they call
/// [`Flights::join`] again.
pub struct Lead<K: Hash + Eq> {
    key: K,
    waiting: Arc<Waiting<K>>,
}

/// The end of work that another caller does. It registers only when it waits, so `join` may be
/// repeated freely.
pub struct Follow<K> {
    key: K,
    waiting: Arc<Waiting<K>>,
}

impl<K> Default for Flights<K> {
    fn default() -> Self {
        Self {
            waiting: Arc::new(Mutex::new(HashMap::new())),
        }
    }
}

impl<K> Clone for Flights<K> {
    fn clone(&self) -> Self {
        Self {
            waiting: self.waiting.clone(),
        }
    }
}

impl<K: Hash + Eq + Clone> Flights<K> {
    /// Returns the value that `known` returns, or the caller's role for the key. `known` runs under
    /// the lock, so that no caller repeats work that has just ended; it must not call methods of
    /// these flights.
    ///
    /// # Errors
    /// The caller's role, if the value is not known.
    pub fn join<T>(&self, key: &K, known: impl Fn() -> Option<T>) -> Result<T, Role<K>> {
        let mut waiting = lock(&self.waiting);
        if let Some(known) = known() {
            return Ok(known);
        }
        let (key, all) = (key.clone(), self.waiting.clone());
        if waiting.contains_key(&key) {
            return Err(Role::Follower(Follow { key, waiting: all }));
        }
        waiting.insert(key.clone(), Vec::new());
        Err(Role::Leader(Lead { key, waiting: all }))
    }

    /// Returns `true` if a caller does the work for the key.
    pub fn is_in_flight(&self, key: &K) -> bool {
        lock(&self.waiting).contains_key(key)
    }
}

impl<K: Hash + Eq> Drop for Lead<K> {
    fn drop(&mut self) {
        let followers = lock(&self.waiting).remove(&self.key);
        // After the lock: a follower that is woken may call `join` at once.
        for sender in followers.into_iter().flatten() {
            sender.send(());
        }
    }
}

impl<K: Hash + Eq> Follow<K> {
    /// Waits until no caller does the work, however it ended. If another caller has started anew by
    /// then, waits for that one.
    pub fn wait(self, spin: &SpinPolicy) {
        let (sender, mut receiver) = reply();
        if let Some(others) = lock(&self.waiting).get_mut(&self.key) {
            others.push(sender);
        } else {
            return;
        }
        // A dropped sender ends the wait as well.
        let _ = receiver.wait(spin);
    }

    #[cfg(all(test, not(any(loom, shuttle))))]
    fn waiters(&self) -> usize {
        lock(&self.waiting).get(&self.key).map_or(0, Vec::len)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// I12: a caller that polls in each frame and never waits leaves no entry behind.
    #[test]
    fn polling_join_registers_no_waiter_i12() {
        let flights = Flights::default();
        let unknown = || None::<()>;
        let lead = flights.join(&7, unknown);
        let looks = (0..100).map(|_| match flights.join(&7, unknown) {
            Err(Role::Follower(follow)) => follow.waiters(),
            _ => usize::MAX,
        });
        assert_eq!(looks.max(), Some(0));
        drop(lead);
        assert!(!flights.is_in_flight(&7));
    }

    #[test]
    fn waiting_after_the_lead_ended_returns_at_once_i5() {
        let flights = Flights::default();
        let unknown = || None::<()>;
        let lead = flights.join(&7, unknown);
        let Err(Role::Follower(follow)) = flights.join(&7, unknown) else {
            panic!("the key is in flight");
        };
        drop(lead);
        follow.wait(&SpinPolicy::never());
    }
}
