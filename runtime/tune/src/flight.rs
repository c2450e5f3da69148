//! One tunes, others wait: which keys are being tuned, and who is told when one is over.

use std::collections::HashMap;
use std::hash::Hash;

use millstream_sync::facade::{Arc, Mutex, SpinPolicy, lock};
use millstream_sync::reply::{ReplyReceiver, ReplySender, reply};

/// Keys that are being tuned, and who waits for each.
pub(crate) struct Flights<K> {
    waiting: Arc<Mutex<HashMap<K, Vec<ReplySender<()>>>>>,
}

/// Who asks for a key.
pub(crate) enum Role<K: Hash + Eq> {
    /// The first: it tunes.
    Leader(Lead<K>),
    /// Somebody tunes it already.
    Follower(Follow),
}

/// The right to tune a key. Its end, however it comes, is told to all that wait.
pub(crate) struct Lead<K: Hash + Eq> {
    key: K,
    waiting: Arc<Mutex<HashMap<K, Vec<ReplySender<()>>>>>,
}

/// The end of somebody else's tuning.
pub(crate) struct Follow(ReplyReceiver<()>);

impl<K> Default for Flights<K> {
    fn default() -> Self {
        Self {
            waiting: Arc::new(Mutex::new(HashMap::new())),
        }
    }
}

impl<K: Hash + Eq + Clone> Flights<K> {
    /// Joins the tuning of a key, or begins it, unless `known` says that it is over: asked under the lock, so that nobody tunes what
    /// somebody else has just tuned.
    pub(crate) fn join<T>(&self, key: &K, known: impl FnOnce() -> Option<T>) -> Result<T, Role<K>> {
        let mut waiting = lock(&self.waiting);
        if let Some(known) = known() {
            return Ok(known);
        }
        if let Some(others) = waiting.get_mut(key) {
            let (sender, receiver) = reply();
            others.push(sender);
            return Err(Role::Follower(Follow(receiver)));
        }
        waiting.insert(key.clone(), Vec::new());
        let lead = Lead {
            key: key.clone(),
            waiting: self.waiting.clone(),
        };
        Err(Role::Leader(lead))
    }

    /// Is somebody tuning it?
    pub(crate) fn is_under_way(&self, key: &K) -> bool {
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

impl Follow {
    /// Waits until it is over.
    pub(crate) fn wait(mut self) {
        // That nobody will tell is an end, too.
        let _ = self.0.wait(&SpinPolicy::default());
    }
}
