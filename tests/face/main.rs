//! The library's own interface: everything but the conformance suite (`behaviour`) and graphs (`graph`). Tests that count
//! threads, spins, allocations or live bytes of the process are separate programs.
#![allow(
    clippy::unwrap_used,
    reason = "a test states what it expects by unwrapping"
)]

mod cuda_absent;
mod documentation;
#[path = "../engine/mod.rs"]
mod engine;
mod engines;
mod examples;
mod metrics;
mod programs;
mod readbacks;
mod swarm;
mod timeline;
