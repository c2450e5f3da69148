//! The simulator as a device under the real actors, and alone under handwritten calls.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

mod calls;
mod faults;
mod rig;
mod runs;
mod threads;
