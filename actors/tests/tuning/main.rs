//! The file store that processes share, and the background thread of tuning.
#![allow(clippy::unwrap_used, reason = "tests")]

mod background;
mod store;
#[path = "../../../runtime/tune/tests/tune/support.rs"]
#[allow(dead_code, reason = "the tuner's own tests use all of it")]
mod support;
