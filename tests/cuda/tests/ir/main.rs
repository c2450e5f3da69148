//! Programs of the IR on a GPU: printed, compiled by NVRTC, and run on the fake.
#![allow(clippy::unwrap_used, reason = "tests")]

mod close;
mod geometry;
mod graphs;
mod hand;
mod library;
mod nests;
mod products;
mod results;
mod support;
