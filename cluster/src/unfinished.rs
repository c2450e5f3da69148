//! Calls that may wait for a part that never arrives.

use std::sync::{Arc, Mutex, Weak};

use crate::call::Call;
use crate::lock;

/// Calls that fail with their fleet, unless all of their parts have arrived.
#[derive(Default)]
pub(crate) struct Unfinished(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    calls: Vec<Weak<Call>>,
    /// The fleet is dropped: further calls fail at once.
    ended: bool,
}

impl Unfinished {
    /// Adds a call, before its parts are submitted.
    pub(crate) fn add(&self, call: &Arc<Call>) {
        let mut state = lock(&self.0);
        if state.ended {
            drop(state);
            call.close();
            return;
        }
        if state.calls.len() == state.calls.capacity() {
            state.calls.retain(|call| call.strong_count() > 0);
            // Room for as many as there are, so that not each further call looks at all of them.
            let living = state.calls.len();
            state.calls.reserve(living + 1);
        }
        state.calls.push(Arc::downgrade(call));
    }

    /// Fails the calls whose parts have not all arrived, and later ones.
    pub(crate) fn end(&self) {
        let mut state = lock(&self.0);
        state.ended = true;
        let calls = std::mem::take(&mut state.calls);
        drop(state);
        for call in calls.iter().filter_map(Weak::upgrade) {
            call.close();
        }
    }
}
