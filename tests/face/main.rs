//! The face: what a program sees of the library that is neither a fact about devices (`behaviour`) nor a graph (`graph`). What counts
//! threads, spins, allocations or live bytes of its process is in a program of its own.
#![allow(
    clippy::unwrap_used,
    reason = "a test says what it expects by unwrapping"
)]

mod cuda_absent;
mod documentation;
#[path = "../engine/mod.rs"]
mod engine;
mod engines;
mod examples;
mod metrics;
mod swarm;
mod timeline;
