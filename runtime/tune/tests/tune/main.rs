//! The tuner, by its promises.
#![allow(clippy::unwrap_used, reason = "tests")]

mod background;
mod choosing;
mod flights;
mod keeping;
mod noise;
mod stepping;
mod support;
