//! The behaviour that the tuner promises.
#![allow(clippy::unwrap_used, reason = "tests")]

mod choosing;
mod flights;
mod noise;
mod stepping;
mod support;
