//! The backend without a server: order, settling, data, driving and teardown.

#[path = "../rig/mod.rs"]
mod rig;

mod data;
mod driven;
mod failures;
mod held;
mod opening;
mod order;
mod programs;
