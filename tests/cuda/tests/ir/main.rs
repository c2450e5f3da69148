//! Programs of the IR on a GPU: printed as CUDA C, compiled by NVRTC, and run on the fake driver.
#![allow(clippy::unwrap_used, reason = "tests")]

mod algorithms;
mod geometry;
mod handwritten;
mod library;
mod products;
mod results;
mod support;
