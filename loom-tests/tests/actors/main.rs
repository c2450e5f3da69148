//! Random schedules (shuttle) of whole devices: the device's thread, the GC's, those for user code and those of
//! the backend are threads of the model, as are those who ask. Empty without `--cfg shuttle` and the feature
//! `actors`; `tests/ci.rs` runs them.
//!
//! | file | what it walks |
//! | --- | --- |
//! | `rig` | the devices, the walking, and what must hold at the end of every schedule |
//! | `askers` | what threads ask of a device, and what each ask may be answered |
//! | `closing` | a close at any moment, from any thread; guards |
//! | `losing` | a device that is lost at any call or task, and opened again |
//! | `pressure` | mailboxes, batches and limits of one or two |
#![cfg(all(shuttle, feature = "actors"))]
#![allow(clippy::unwrap_used, reason = "tests")]

mod askers;
mod closing;
mod losing;
mod pressure;
mod rig;
