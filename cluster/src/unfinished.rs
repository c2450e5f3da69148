//! Calls that may wait for a part that never arrives.

use std::sync::{Arc, Mutex, Weak};

use crate::call::Call;
use crate::lock;

/// Calls that fail with their fleet, unless all of their parts have arrived. `None` once the fleet is dropped: further calls
/// fail at once.
pub(crate) struct Unfinished(Mutex<Option<Vec<Weak<Call>>>>);

impl Default for Unfinished {
    fn default() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }
}

impl Unfinished {
    /// Adds a call, before its parts are submitted.
    pub(crate) fn add(&self, call: &Arc<Call>) {
        if let Some(calls) = &mut *lock(&self.0) {
            if calls.len() == calls.capacity() {
                calls.retain(|call| call.strong_count() > 0);
                // Room for as many as there are, so that not each further call looks at all of them.
                calls.reserve(calls.len() + 1);
            }
            return calls.push(Arc::downgrade(call));
        }
        call.close();
    }

    /// Fails the calls whose parts have not all arrived, and later ones.
    pub(crate) fn end(&self) {
        let calls = lock(&self.0).take();
        for call in calls.iter().flatten().filter_map(Weak::upgrade) {
            call.close();
        }
    }
}
