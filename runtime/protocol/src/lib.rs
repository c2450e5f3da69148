//! The messages that cross the mailbox of a device, and the trait that a backend implements.
//!
//! A backend depends on this crate, on `millstream-ir` and on `millstream-sync` alone. Clients and the server share
//! only these messages; neither depends on the other.
//!
//! | module | contents |
//! | --- | --- |
//! | [`id`], [`access`], [`element`], [`layout`], [`priority`] | the basic types |
//! | [`properties`], [`feature`], [`options`] | properties and options of a device |
//! | [`error`], [`failure`], [`health`], [`health_state`] | errors of calls, failures of tasks, the health of a device |
//! | [`kernel`], [`launch`] | kernels, their signatures, and the parts of a launch |
//! | [`backend`], [`settle`], [`landing`], [`memory`], [`staging`] | the duties of a backend, and helpers for them |
//! | [`hazard`] | the hazard relation and the access log |
//! | [`threads`], [`marks`], [`block`] | the source of the runtime's threads; the role of the calling thread; blocking |
//! | [`message`], [`binding`], [`recording`], [`cancel`] | what is sent to a device |
//! | [`channel`], [`table`] | the mailbox as clients see it; the slots that clients and the device share |
//! | [`charge`], [`releases`], [`deferred_drop`] | accounting of memory that returns later |
//! | [`device_status`] | the end of an epoch, as both sides observe it |
//! | [`report`], [`metrics`], [`profile`], [`journal`] | what a device reports |
//!
//! Users depend on `millstream`, which re-exports the user-facing types. More is public here because several crates
//! build on this one.

pub mod access;
pub mod backend;
pub mod binding;
pub mod block;
pub mod cancel;
pub mod channel;
pub mod charge;
pub mod deferred_drop;
pub mod device_status;
pub mod element;
pub mod error;
pub mod failure;
pub mod feature;
pub mod hazard;
pub mod health;
pub mod health_state;
pub mod id;
pub mod journal;
pub mod kernel;
pub mod landing;
pub mod launch;
pub mod layout;
pub mod marks;
pub mod memory;
pub mod message;
pub mod metrics;
pub mod options;
pub mod priority;
pub mod process;
pub mod profile;
pub mod properties;
pub mod recording;
pub mod releases;
pub mod report;
pub mod settle;
pub mod staging;
pub mod table;
pub mod threads;
