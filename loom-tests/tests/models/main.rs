//! The models, one file per primitive. Empty without `--cfg loom` and the feature `loom`; `tests/ci.rs`
//! runs them.
#![cfg(all(loom, feature = "loom"))]
#![allow(clippy::unwrap_used, reason = "tests")]

mod bell;
mod channel;
mod credit;
mod door;
mod flight;
mod gate;
mod law;
mod mailbox;
mod overflow;
mod poison;
mod reply;
mod slots;
mod team;
mod timeline;
mod tokens;

use millstream_sync::facade::{SpinPolicy, Spinner};
use millstream_sync::gate::Gate;
use std::sync::Arc;

/// In a model nobody spins, whatever the policy.
const SPIN: SpinPolicy = SpinPolicy::never();

fn spinner() -> Spinner {
    Spinner::new(SPIN)
}

fn gate() -> Arc<Gate> {
    Arc::new(Gate::new())
}
