//! Loom models of millstream's primitives, shuttle walks of whole devices, and the runner of one
//! model. A walk executes a test under random schedules.
//!
//! ```text
//! cargo xtask models                     required of every change: each model, users' model and walk
//! cargo xtask models --only gate::       some of them
//! cargo xtask deep-models                larger models, minutes
//! ```
//! These commands (`.ci/xtask/src/models.rs`) need no flags. They build `tests/models`, `tests/users`
//! (models as users write them) and `tests/actors` (walks of whole devices) into
//! `target/models`, with `--cfg loom --cfg shuttle` and one feature each. Each model runs in a
//! process of its own, since a failing model often aborts. A model that cannot fail proves nothing:
//! the mutants in `tests/mutants` are mistakes, each with the model that must fail (`cargo xtask
//! mutants`). To run one model by hand, with `LOOM_LOG=trace` and the like:
//!
//! ```text
//! RUSTFLAGS="--cfg loom --cfg shuttle" cargo test --profile models -p millstream-loom --features loom \
//!     --test models -- --nocapture gate::
//! ```
//! The deep run consists of three models of three threads, some 2.6 million executions in all, and
//! forty times the schedules of the walks of whole devices.
//!
//! Models are small: at most three threads with two messages each, and each is explored with either
//! side first (`Sides` has the reason). Preemptions are bounded, by three with two threads and by
//! two with three; `LOOM_MAX_PREEMPTIONS` overrides that.

#[cfg(all(loom, feature = "loom"))]
mod mailbox;
#[cfg(all(loom, any(feature = "loom", feature = "users")))]
mod model;
#[cfg(all(loom, feature = "loom"))]
pub use mailbox::{Receives, Sends};
#[cfg(all(loom, any(feature = "loom", feature = "users")))]
pub use model::{Bound, Payload, Sides, check};
