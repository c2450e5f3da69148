//! The CUDA backend, unmodified, on the fake driver: its results, the resources that it leaves behind, and its
//! behaviour when the driver refuses calls. At its end each test asserts the reports of the fake.

#![allow(clippy::unwrap_used, reason = "tests")]

mod adoption;
mod consumers;
mod driven;
mod driver_calls;
mod driver_rules;
mod faults;
mod kernels;
mod launches;
mod lifetime;
mod loss;
mod peer_copies;
mod program;
mod replays;
mod spans;
mod support;
mod tensor_maps;
mod transfers;
