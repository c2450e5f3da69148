#![cfg(all(loom, feature = "users"))]
#![allow(clippy::unwrap_used, reason = "tests")]
mod counter;
