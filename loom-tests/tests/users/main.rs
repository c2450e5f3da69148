//! Models as users of the library write them: code of their own, on a device that is part of the
//! model. Empty without `--cfg loom` and the feature `users`; `cargo xtask models` runs them.
#![cfg(all(loom, feature = "users"))]
#![allow(clippy::unwrap_used, reason = "tests")]

mod frames;
mod promises;
mod tally;
