//! Random schedules (shuttle) of whole devices: the device thread, the GC thread, the threads for
//! user code, those of the backend and the callers are threads of the model. Empty without `--cfg
//! shuttle` and the feature `actors`; `cargo xtask models` runs them.
//!
//! | file | contents |
//! | --- | --- |
//! | `rig` | the devices, the runner, and the checks at the end of every schedule |
//! | `at_once` | tasks of two devices that end each other on the threads that turn them |
//! | `callers` | threads that send requests to a device |
//! | `closing` | a close at any moment, from any thread; guards |
//! | `losing` | a device that is lost at any call or task, and reopened |
//! | `pressure` | mailboxes, batches and limits of one or two |
#![cfg(all(shuttle, feature = "actors"))]
#![allow(clippy::unwrap_used, reason = "tests")]

mod at_once;
mod callers;
mod closing;
mod losing;
mod pressure;
mod rig;
