//! The CUDA backend, unmodified, on the fake driver: what it does, what it leaves behind, and what it does when the
//! driver refuses. Each test ends with what the fake found.

#![allow(clippy::unwrap_used, reason = "tests")]

mod adopting;
mod counts;
mod driven;
mod faults;
mod kernels;
mod launching;
mod life;
mod loss;
mod moving;
mod order;
mod peers;
mod probe;
mod program;
mod replays;
mod spans;
mod support;
mod tensor_maps;
