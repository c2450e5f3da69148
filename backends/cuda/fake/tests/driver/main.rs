//! What the fake finds, and how it behaves: by calls of the driver that are wrong on purpose.

#![allow(clippy::unwrap_used, reason = "tests")]

mod checks;
mod kernels;
mod launches;
mod raw;
mod semantics;
mod streams;
mod times;
mod values;
