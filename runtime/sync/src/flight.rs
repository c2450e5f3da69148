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
use crate::planted::{Bug, on};
use crate::reply::{ReplyReceiver, ReplySender, reply};

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
    Follower(Follow),
}

/// The right to do what a key needs. Its end, however it comes, is told to all that wait: they ask anew.
pub struct Lead<K: Hash + Eq> {
    key: K,
    waiting: Arc<Waiting<K>>,
}

/// The end of what somebody else is at.
pub struct Follow(ReplyReceiver<()>);

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
        let before = on(Bug::FlightLookFirst).then(&known);
        let mut waiting = lock(&self.waiting);
        if let Some(known) = before.unwrap_or_else(&known) {
            return Ok(known);
        }
        if let Some(others) = waiting.get_mut(key) {
            let (sender, receiver) = reply();
            others.push(sender);
            return Err(Role::Follower(Follow(receiver)));
        }
        waiting.insert(key.clone(), Vec::new());
        Err(Role::Leader(Lead {
            key: key.clone(),
            waiting: self.waiting.clone(),
        }))
    }

    /// Is somebody at it?
    pub fn is_under_way(&self, key: &K) -> bool {
        lock(&self.waiting).contains_key(key)
    }
}

impl<K: Hash + Eq> Drop for Lead<K> {
    fn drop(&mut self) {
        let told = lock(&self.waiting).remove(&self.key);
        if on(Bug::FlightEndSilent) {
            std::mem::forget(told);
            return;
        }
        // Without the lock: who is woken may ask at once.
        for sender in told.into_iter().flatten() {
            sender.send(());
        }
    }
}

impl Follow {
    /// Waits until it is over, however it ends.
    pub fn wait(mut self, spin: &SpinPolicy) {
        // That nobody will tell is an end, too.
        let _ = self.0.wait(spin);
    }
}
