//! Deciding: the hazards, memory, streams and compute server of millstream.
//!
//! Everything on the device's side is a plain state machine: no thread is started, no clock is
//! read and no I/O is done. The actors run these machines, backends do what they decide, and the
//! [`client`] module is what users call.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`client`] | the user's side: clients, streams, kernels, answers, recordings |
//! | [`handle`], [`launch`], [`kernel`], [`access`], [`element`] | what users build tasks from |
//! | [`cancel`] | what withdraws tasks: tokens and deadlines |
//! | [`message`], [`channel`], [`rare`] | what travels to a device, and what carries it |
//! | [`server`], [`stream`] | what the device thread decides; what its streams hold and its queues have |
//! | [`hazard`], [`memory`], `slice` | who must run before whom; who has which bytes; a slice as the device thread knows it |
//! | [`recording`] | tasks checked once and replayed as one message |
//! | [`backend`], [`settle`], [`landing`], [`layout`] | what a device must do, and the means |
//! | [`staging`] | memory of the host that uploads go through |
//! | [`host_memory`] | what devices share whose memory is the host's |
//! | [`threads`] | where the threads of actors and backends come from |
//! | [`journal`] | what a device took, saved and replayed |
//! | [`profile`] | what tasks took |
//! | [`metrics`] | what a device counts and measures all the time |
//! | [`id`], `block` | names of things; blocking on a future |
//! | [`planted`] | bugs that the swarm must find |
//! | [`error`], [`failure`], [`health`], [`report`], [`properties`], [`options`] | what is said |

pub mod access;
pub mod argument;
pub mod backend;
mod block;
pub mod cancel;
pub mod channel;
mod charge;
pub mod client;
pub mod element;
pub mod error;
pub mod failure;
pub mod gone;
pub mod handle;
pub mod hazard;
pub mod health;
pub mod host_memory;
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
pub mod planted;
pub mod priority;
pub mod profile;
pub mod properties;
pub mod rare;
pub mod recording;
pub mod releases;
pub mod report;
pub mod resubmit;
pub mod server;
pub mod settle;
mod slice;
pub mod staging;
pub mod stream;
pub mod threads;
