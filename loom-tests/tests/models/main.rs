//! The models, one file per primitive. Empty without `--cfg loom` and the feature `loom`; `cargo
//! xtask models` runs them.
#![cfg(all(loom, feature = "loom"))]
#![allow(clippy::unwrap_used, reason = "tests")]

mod bell;
mod cancel;
mod channel;
mod credit;
mod door;
mod gate;
mod helped;
mod index_stack;
mod left_wakers;
mod line;
mod mailbox;
mod poison;
mod reply;
mod requests;
mod slots;
mod team;
mod timeline;

use millstream_sync::facade::{SpinPolicy, Spinner};
use millstream_sync::gate::Gate;
use std::sync::Arc;

/// In a model no thread spins, under any policy.
const SPIN: SpinPolicy = SpinPolicy::never();

fn spinner() -> Spinner {
    Spinner::new(SPIN)
}

fn gate() -> Arc<Gate> {
    Arc::new(Gate::new())
}
