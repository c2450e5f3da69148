//! One does it, the others wait: what several threads want for a key is done once.
//!
//! ```
//! use millstream_sync::flight::{Flights, Role};
//!
//! let flights = Flights::default();
//! let known = || None::<u32>;
//! let Err(Role::Leader(lead)) = flights.join(&"key", known) else { unreachable!() };
//! let Err(Role::Follower(_)) = flights.join(&"key", known) else { unreachable!() };
//! drop(lead);
//! assert!(!flights.is_under_way(&"key"));
//! ```

use std::collections::HashMap;
use std::hash::Hash;

use crate::facade::{Arc, Mutex, SpinPolicy, lock};
use crate::reply::{ReplySender, reply};

/// Who waits for each key that somebody is at.
type Waiting<K> = Mutex<HashMap<K, Vec<ReplySender<()>>>>;

/// Keys that somebody is at, and who waits for each. Clones are the same.
pub struct Flights<K> {
    waiting: Arc<Waiting<K>>,
}

/// Who asks for a key that is not known.
pub enum Role<K: Hash + Eq> {
    /// The first: it does what is to be done.
    Leader(Lead<K>),
    /// Somebody is at it already.
    Follower(Follow<K>),
}

/// The right to do what a key needs. Its end, however it comes, is told to all that wait: they ask anew.
pub struct Lead<K: Hash + Eq> {
    key: K,
    waiting: Arc<Waiting<K>>,
}

/// The end of what somebody else is at. Costs nobody anything until it is waited for: who only looks may come as often as it likes.
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
    /// Joins who is at a key, or becomes it, unless `known` has what is wanted. That is asked under the lock, so that nobody does what somebody
    /// else has just done, and must ask nothing of these flights.
    ///
    /// # Errors
    /// The role of a caller who does not have what is wanted.
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

    /// Is somebody at it?
    pub fn is_under_way(&self, key: &K) -> bool {
        lock(&self.waiting).contains_key(key)
    }
}

impl<K: Hash + Eq> Drop for Lead<K> {
    fn drop(&mut self) {
        let told = lock(&self.waiting).remove(&self.key);
        // Without the lock: who is woken may ask at once.
        for sender in told.into_iter().flatten() {
            sender.send(());
        }
    }
}

impl<K: Hash + Eq> Follow<K> {
    /// Waits until nobody is at it, however that ended; where somebody else has begun anew meanwhile, for that one.
    pub fn wait(self, spin: &SpinPolicy) {
        let (sender, mut receiver) = reply();
        if let Some(others) = lock(&self.waiting).get_mut(&self.key) {
            others.push(sender);
        } else {
            return;
        }
        // That nobody will tell is an end, too.
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

    /// I12: a frame that looks each time, and never waits, leaves nothing behind.
    #[test]
    fn who_only_looks_is_not_remembered_i12() {
        let flights = Flights::default();
        let unknown = || None::<()>;
        let lead = flights.join(&7, unknown);
        let looks = (0..100).map(|_| match flights.join(&7, unknown) {
            Err(Role::Follower(follow)) => follow.waiters(),
            _ => usize::MAX,
        });
        assert_eq!(looks.max(), Some(0));
        drop(lead);
        assert!(!flights.is_under_way(&7));
    }

    #[test]
    fn what_is_over_is_not_waited_for_i5() {
        let flights = Flights::default();
        let unknown = || None::<()>;
        let lead = flights.join(&7, unknown);
        let Err(Role::Follower(follow)) = flights.join(&7, unknown) else {
            panic!("somebody is at it");
        };
        drop(lead);
        follow.wait(&SpinPolicy::never());
    }
}
