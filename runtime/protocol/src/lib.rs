//! What crosses the mailbox of a device, and what a backend implements.
//!
//! A backend depends on this crate and on `millstream-sync` alone. Clients and the server meet in its messages and know nothing
//! of each other.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`id`], [`access`], [`element`], [`layout`], [`priority`], [`properties`], [`feature`], [`options`] | what everything is said in |
//! | [`error`], [`failure`], [`health`], [`vitals`] | what went wrong, and how a device is |
//! | [`kernel`], [`argument`], [`launch`] | kernels, their signatures, and what a launch carries |
//! | [`backend`], [`settle`], [`landing`], [`memory`], [`staging`] | what a device must do, and the means |
//! | [`threads`], [`marks`] | where threads of the runtime come from; what the calling thread is |
//! | [`message`], [`binding`], [`recording`], [`cancel`] | what travels to a device |
//! | [`channel`], [`table`], [`charge`], [`releases`], [`leaving`], [`gone`] | what carries it; what both sides count |
//! | [`report`], [`metrics`], [`profile`], [`journal`] | what a device answers about itself |
//!
//! Users take `millstream`, which shows what is theirs: here more is public, since several crates stand on it.

pub mod access;
pub mod argument;
pub mod backend;
pub mod binding;
pub mod block;
pub mod cancel;
pub mod channel;
pub mod charge;
pub mod element;
pub mod error;
pub mod failure;
pub mod feature;
pub mod gone;
pub mod hazard;
pub mod health;
pub mod id;
pub mod journal;
pub mod kernel;
pub mod landing;
pub mod launch;
pub mod layout;
pub mod leaving;
pub mod marks;
pub mod memory;
pub mod message;
pub mod metrics;
pub mod options;
pub mod priority;
pub mod profile;
pub mod properties;
pub mod recording;
pub mod releases;
pub mod report;
pub mod settle;
pub mod staging;
pub mod table;
pub mod threads;
pub mod vitals;
