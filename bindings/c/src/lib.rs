//! millstream for C and C++. The comments of the public items are the comments of `include/millstream.h`, which
//! `cargo xtask capi` generates; `README.md` has the first example.
//!
//! Each function translates: it checks pointers and sizes, looks handles up, and calls the crate `millstream`. It makes
//! no decision of its own.
//!
//! | module | has |
//! | --- | --- |
//! | `wording` | texts of errors with the names of C |
//! | [`status`] | status codes, the last error of a thread, and `exports!`, by which all functions are defined |
//! | [`handles`] | the tables that handles are numbers of, so that a freed handle is an error |
//! | `exclusive` | objects that one call at a time uses |
//! | [`sized`] | structs that begin with their size, and other memory of the caller |
//! | [`opening`], [`device`], [`client`], [`stream`], [`buffer`] | one kind of object each |
//! | [`kernel`], [`native`] | kernels by source, and kernels in C for the CPU |
//! | [`types`], [`argument`], [`metadata`] | element types, accesses, and arguments of launches |
//! | [`launch`], [`pending`], [`record`], [`replay`] | launches, answers, recordings |
//! | [`cancel`] | tokens that withdraw tasks |
//! | [`vulkan`], [`cuda`] | the devices of engines |
//! | [`vulkan_sharing`] | memory, semaphores and commands that are shared with an engine |
//! | [`metrics`], [`log`], [`profile`] | what a device reports |
//! | [`submission_log`] | what a device has accepted, to be run again |
//!
//! # Rules
//! 1. `exports!` defines every function: it returns an [`ms_status`](status::ms_status), and no panic leaves it. The
//!    exceptions are the three of `status` that cannot fail.
//! 2. Handles are numbers in the guise of pointers ([`handles`]); nothing dereferences them.
//! 3. A call that may run user code, such as callbacks while it waits on a driven device, first clones what it uses. So
//!    that user code may destroy any handle.
//! 4. `SAFETY: the caller keeps the rules of the header` stands for what the head of the header says of arguments: a pointer
//!    is NULL or valid for the size that is passed with it, and a handle is not destroyed while a call with it runs. Where a
//!    call relies on more, its own comment says so.
//! 5. Enums that callers pass are integers and are checked: an unknown value is an error, not undefined behaviour.
#![allow(non_camel_case_types, reason = "the names are those of C")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the comments are for readers of the header; its head has the rules for pointers"
)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a handle is a number of 64 bits in a pointer");

pub mod argument;
pub mod buffer;
pub mod cancel;
pub mod client;
pub mod cuda;
mod custom;
pub mod device;
mod exclusive;
pub mod handles;
pub mod kernel;
pub mod launch;
pub mod log;
pub mod metadata;
pub mod metrics;
pub mod native;
pub mod opening;
pub mod pending;
pub mod profile;
pub mod record;
pub mod replay;
pub mod sized;
pub mod status;
pub mod stream;
pub mod submission_log;
pub mod types;
pub mod vulkan;
pub mod vulkan_sharing;
mod wording;
