//! Loom models and shuttle walks of millstream's primitives, and what runs them.
//!
//! ```text
//! cargo test -p millstream-loom                     the CI set: every model, users' model, walk and planted bug
//! cargo test -p millstream-loom -- --ignored        the deep run: larger models, minutes
//! cargo test -p millstream-loom -- --nocapture      with bounds, iterations and times
//! ```
//! Those commands need no flags: `tests/ci.rs`, an ordinary test, builds `tests/models` with `--cfg loom`
//! into `target/loom` (`tests/users`, models as users write them, into `target/users`; with `--cfg shuttle`
//! `tests/walks` into `target/shuttle` and `tests/actors`, the walks of whole devices, into `target/actors`)
//! and runs each model in a process of its own, since a failing model often aborts. Then it runs each planted bug's model again with
//! `MILLSTREAM_BUG` set, and requires that it fails: a model that cannot fail proves nothing. The bugs are
//! chosen at run time, since a build for each would take ten minutes. One model by hand, `LOOM_LOG=trace`
//! and the like:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p millstream-loom --features loom \
//!     --target-dir target/loom --test models -- --nocapture gate::
//! ```
//! The deep run is three models of three threads, some 2.6 million executions in all, and forty times the
//! schedules of the walks of whole devices.
//!
//! Models are small: at most three threads, two messages each, and each is explored with either side first
//! (`Sides` says why). Preemptions are bounded, by three with two threads and by two with three;
//! `LOOM_MAX_PREEMPTIONS` overrides that.

#[cfg(not(all(loom, any(feature = "loom", feature = "users"))))]
pub mod planted;

#[cfg(all(loom, any(feature = "loom", feature = "users")))]
mod model;
#[cfg(all(loom, any(feature = "loom", feature = "users")))]
pub use model::{Bound, Payload, Sides, check};
