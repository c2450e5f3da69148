//! Models as a user of the library writes them: code of his own, on a device that is part of the model. Empty
//! without `--cfg loom` and the feature `users`; `tests/ci.rs` runs them.
#![cfg(all(loom, feature = "users"))]
#![allow(clippy::unwrap_used, reason = "tests")]

mod frames;
mod promises;
mod tally;
