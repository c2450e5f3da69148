//! The errors that calls return: one enum per layer, each message with what is needed to act on it.
//!
//! The `Display` text of an error includes its causes, and typed causes are fields. So no error here has a `source`,
//! and a chain of errors that is printed repeats nothing.
//!
//! This module has the errors that are known when a call is made. A failure that becomes known when a task runs is a
//! [`Failure`](crate::failure::Failure), which callers receive as [`Error::Failed`].

mod argument;
mod full;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use crate::failure::{Bytes, FailureRef, distinguishable};
use crate::feature::Feature;
use crate::health::{Health, Recovery};

pub use argument::{ArgumentError, ArgumentErrorKind};
pub use full::Full;

/// Why a call or an answer failed.
///
/// `Debug` is the text, too, since a program whose `main` returns the error prints that.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A task failed, or one of its inputs had failed; the message names the whole chain.
    #[error("{0}")]
    Failed(FailureRef),
    /// The arguments of a task do not match its signature or its operation, or a view, a layout or a tensor map is invalid.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// A device cannot be opened. One `?` serves a program that opens a device and works on it.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Memory cannot be reserved.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A kernel cannot be prepared.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// There is no room for this call right now; nothing was submitted.
    #[error("{what}, try again later")]
    Busy {
        /// What is full.
        what: Full,
    },
    /// A handle, stream or kernel of another device was passed.
    #[error("the {what} {which} belongs to another device; create it with a client of this one")]
    Foreign {
        /// The kind of object.
        what: &'static str,
        /// Which object: the name of a kernel, the number of a stream or recording, or the slice and the binding of a
        /// handle.
        which: String,
    },
    /// The device was closed.
    #[error(
        "the device is closed: keep its `Device` for as long as its streams are used, or open another one"
    )]
    Closed,
    /// The device was lost: its thread or its context died.
    #[error(
        "the device was lost in epoch {epoch}, with its memory and all tasks in flight; {recovery}"
    )]
    DeviceLost {
        /// The number of earlier openings of the device.
        epoch: u64,
        /// How the device can be opened again.
        recovery: Recovery,
    },
    /// The process was forked after the device was opened: the child has no threads of the device, and drivers of GPUs do
    /// not work there.
    #[error(
        "the device was opened before this process was forked, and devices do not survive `fork`; start processes with the method `spawn`, or open the device in the child"
    )]
    Forked,
    /// A blocking call was made on a thread that the device needs to make progress. A call that finds no room returns
    /// [`Error::NoRoomHere`] instead.
    #[error(
        "this call would block a thread that the runtime needs; use `try_take`, `.await` or a callback on this thread"
    )]
    WouldDeadlock,
    /// There is no room for this call, and the calling thread must not wait for room because the runtime needs it:
    /// the thread runs a callback, a host function, a kernel or similar code. Nothing was submitted. Callbacks and
    /// host functions get this error only after they have used up what they may submit beyond the limits:
    /// [`callback_headroom`](crate::options::DeviceOptions::callback_headroom),
    /// [`callback_upload_headroom`](crate::options::DeviceOptions::callback_upload_headroom).
    #[error("{what}, and this thread, which the runtime needs, cannot wait for room; submit from a thread of your own{}", what.or_raise())]
    NoRoomHere {
        /// The resource that is full.
        what: Full,
    },
    /// A call that is specific to one backend was made on a device of another backend.
    #[error("this call requires a device of backend `{requested}`, got `{actual}`")]
    WrongBackend {
        /// The backend that the call requires.
        requested: &'static str,
        /// The backend of the device.
        actual: &'static str,
    },
    /// The submission log of the device is disabled.
    #[error(
        "the submission log of this device is disabled; open the device with `DeviceOptions::log_submissions`"
    )]
    NoLog,
    /// No open profile of this device has this token.
    #[error(
        "profile {number} is not open on this device: it is of another device, it was ended before, its device was lost, or newer profiles evicted it; start another one"
    )]
    NoProfile {
        /// The number of the token.
        number: u64,
    },
    /// The answer was already taken: it is returned once.
    #[error(
        "the answer of this request was already taken by `wait_timeout`, `try_take` or a poll; keep the value that the first of them returned"
    )]
    Taken,
    /// A readback was requested of a sequence whose `Readbacks` was dropped.
    #[error(
        "the `Readbacks` of this sequence was dropped, so the readback has no consumer; create another sequence with `readbacks`"
    )]
    NoConsumer,
    /// The timeout elapsed before the answer came.
    #[error("no answer within {waited:?}; the request continues, so wait for it again")]
    TimedOut {
        /// The time that the call waited.
        waited: Duration,
    },
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Returns the failure of a task if the error is one.
    pub fn failure(&self) -> Option<&FailureRef> {
        match self {
            Error::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Returns how long to wait before retrying, if a retry can succeed: see [`Full::retry_after`].
    pub fn retry_after(&self) -> Option<std::time::Duration> {
        match self {
            Error::Busy { what } => Some(what.retry_after()),
            _ => None,
        }
    }
}

/// Why memory cannot be reserved.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// Live handles leave no room for the reservation within the client's hard limit now. Clients with
    /// [`AtLimit::Wait`](crate::options::AtLimit::Wait) wait instead.
    #[error("client `{client}` requested {} and uses {} of its hard limit of {}; drop handles, raise `hard_limit`, or let requests wait with `at_limit`", Bytes(*.requested), Bytes(*.in_use), Bytes(*.limit))]
    Limit {
        /// The client's name.
        client: Arc<str>,
        /// Bytes requested.
        requested: u64,
        /// Bytes that the client uses.
        in_use: u64,
        /// The limit.
        limit: u64,
    },
    /// The request exceeds the whole hard limit of the client, so it can never succeed.
    #[error("client `{client}` requested {}, more than its hard limit of {}; request less, or raise `hard_limit`", distinguishable(*.requested, *.limit)[0], distinguishable(*.requested, *.limit)[1])]
    AboveLimit {
        /// The client's name.
        client: Arc<str>,
        /// Bytes requested.
        requested: u64,
        /// The limit.
        limit: u64,
    },
    /// The request exceeds the largest single allocation of the device.
    #[error("client `{client}` requested {}, the device allocates at most {} at once; use several handles", distinguishable(*.requested, *.limit)[0], distinguishable(*.requested, *.limit)[1])]
    TooLarge {
        /// The client's name.
        client: Arc<str>,
        /// Bytes requested.
        requested: u64,
        /// The device's limit.
        limit: u64,
    },
    /// The host has no memory for the result of a readback.
    #[error("the host has no memory for a readback of {}; read it in parts with `Handle::slice`", Bytes(*.requested))]
    Host {
        /// Bytes requested.
        requested: u64,
    },
    /// All slots for handles are taken by live ones.
    #[error(
        "all {limit} slots of the device are taken by live slices, kernels, streams, recordings and clients; drop some, or raise `max_handles`"
    )]
    TooManyHandles {
        /// The limit.
        limit: u32,
    },
}

/// Why a kernel cannot be prepared.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The kernel has no source that the device understands.
    #[error(
        "kernel `{kernel}` has no source for `{backend}`, {}; add one of {taken}",
        match available.as_str() { "" => "nor for any other".to_owned(), kinds => format!("only {kinds}") }
    )]
    NoSource {
        /// The kernel.
        kernel: Arc<str>,
        /// The device's backend.
        backend: &'static str,
        /// The kinds of source that the kernel has; empty if it has none.
        available: String,
        /// The kinds of source that the backend accepts.
        taken: String,
    },
    /// The device lacks a feature that the kernel requires.
    #[error(
        "kernel `{kernel}` requires {feature}, which this device does not have; {}", feature.remedy()
    )]
    Feature {
        /// The kernel.
        kernel: Arc<str>,
        /// The required feature.
        feature: Feature,
    },
    /// The compiler rejected the source.
    #[error("kernel `{kernel}` does not compile: {log}")]
    Compile {
        /// The kernel.
        kernel: Arc<str>,
        /// The compiler's output.
        log: String,
    },
    /// The compiler that the source needs is not installed on this machine.
    #[error("kernel `{kernel}` cannot be compiled here: {why}")]
    NoCompiler {
        /// The kernel.
        kernel: Arc<str>,
        /// What is missing, and what to do.
        why: String,
    },
    /// The device is lost. The caller that prepares the kernel receives [`Error::DeviceLost`].
    #[error(
        "kernel `{kernel}` was not compiled because the device is lost; reopen the device, then prepare it again"
    )]
    Lost {
        /// The kernel.
        kernel: Arc<str>,
    },
    /// The kernel declares more bindings than the device accepts.
    #[error(
        "kernel `{kernel}` declares {declared} bindings, the device takes at most {limit}; pass several arrays in one binding"
    )]
    TooManyBindings {
        /// The kernel.
        kernel: Arc<str>,
        /// Declared bindings.
        declared: usize,
        /// The device's limit.
        limit: usize,
    },
}

/// Why a device cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// An option has an invalid value.
    #[error("option `{option}` must be {must}, got {given}")]
    Option {
        /// The name of the option.
        option: &'static str,
        /// The given value.
        given: String,
        /// The values that are valid.
        must: &'static str,
    },
    /// The system started no thread.
    #[error("the device's threads could not be started: {0}")]
    Thread(String),
    /// The backend is unavailable on this machine, has properties that no device can have (a bug of the backend), or has
    /// opened another device than the one that was lost, on whose properties clients rely.
    #[error("`{backend}` cannot be opened: {why}")]
    Unavailable {
        /// The kind of backend.
        backend: &'static str,
        /// What is missing, and what to do.
        why: String,
    },
}

/// Why a device cannot be reopened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReopenError {
    /// The device is not lost: it runs, or it was closed.
    #[error("the device is not lost, it is {}", match .health { Health::Closed => "closed; open another one", _ => "running" })]
    NotLost {
        /// The health of the device.
        health: Health,
    },
    /// Only another process can open the device.
    #[error("the device was lost for this process; {}", Recovery::NewProcess)]
    NewProcess,
    /// The options that the device was opened with can be used only once.
    #[error(
        "the options of `{backend}` can be used only once; pass others to `Device::reopen_with`"
    )]
    Options {
        /// The kind of backend.
        backend: &'static str,
    },
    /// The call was made on a thread that the device needs, or inside the function that starts its threads.
    #[error(
        "reopening on this thread would deadlock because the runtime needs the thread; reopen on another thread"
    )]
    WouldDeadlock,
    /// The device cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}

// The errors of a backend's calls.

/// Why a backend refused a task. The server poisons the ranges that the task would have written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// This task cannot run; others can.
    #[error("{0}")]
    Task(String),
    /// User code panicked with this message inside the call. The code may have had effects before it panicked.
    #[error("panicked with \"{0}\"")]
    Panicked(String),
    /// The device is lost, with everything that it held. The first such error ends the epoch: the server queries
    /// [`Backend::recovery`](crate::backend::Backend::recovery).
    #[error("the device was lost: {0}")]
    Lost(String),
}
