//! What tuning needs of the system: files that processes share, and a thread.
#![allow(clippy::unwrap_used, reason = "tests")]

mod background;
mod keeping;
#[path = "../../../runtime/tune/tests/tune/support.rs"]
#[allow(dead_code, reason = "the tuner's own tests need all of it")]
mod support;
