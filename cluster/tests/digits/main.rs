//! Data-parallel training: the losses of one device with the whole batch, on any number of devices and ranks.

#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "../../programs/digits/mod.rs"]
mod digits;
mod networks;
mod overlap;
mod values;
