//! What callers are told: one enum per layer, each a sentence with what is needed to act on it.
//!
//! A sentence tells its causes itself, typed ones are fields; so no error here has a `source`, and whoever
//! prints a chain of errors says nothing twice.
//!
//! `error` has what is known when a call is made; what becomes known when a task runs is a
//! [`Failure`](crate::failure::Failure), which reaches callers as [`Error::Failed`].

mod full;
mod launch;
mod refused;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use full::Full;
pub use launch::{LaunchError, ParameterMisfit};
pub use refused::Refused;

use crate::failure::{Bytes, FailureRef, apart};
use crate::feature::Feature;
use crate::health::{Health, Recovery};

/// Why a call or an answer failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A task failed, or what it needed had failed; the sentence has the whole chain.
    #[error("{0}")]
    Failed(FailureRef),
    /// The arguments of a task do not fit.
    #[error("`{task}` was not accepted: {why}")]
    Launch {
        /// The kernel or operation.
        task: Arc<str>,
        /// What does not fit.
        why: LaunchError,
    },
    /// A view, a layout or a tensor map cannot be: what is told before there is a task, as by
    /// `Handle::slice`. So one `?` serves code that narrows a handle and launches.
    #[error(transparent)]
    Argument(#[from] LaunchError),
    /// A device cannot be opened. So one `?` serves a program that opens it and works on it.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Memory cannot be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A kernel cannot be prepared.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// There is no room for this right now; nothing was submitted.
    #[error("{what}, try again later")]
    Busy {
        /// What is full.
        what: Full,
    },
    /// A handle, stream or kernel of another device was used.
    #[error("the {what} belongs to another device; create it with a client of this one")]
    Foreign {
        /// What it was.
        what: &'static str,
    },
    /// The device was closed.
    #[error("the device is closed; open another one")]
    Closed,
    /// The device was lost: its thread or its context died.
    #[error(
        "the device was lost (epoch {epoch}), and with it what was in flight and what it held; {recovery}"
    )]
    DeviceLost {
        /// How often the device had been opened before.
        epoch: u64,
        /// What helps.
        recovery: Recovery,
    },
    /// A blocking call was made on a thread that the device needs to make progress. For a call that lacks room see
    /// [`Error::NoRoomHere`].
    #[error(
        "this call would wait, on a thread that the runtime needs; take answers there by `try_take`, `.await` or a callback"
    )]
    WouldDeadlock,
    /// There is no room for this, and the calling thread cannot wait for any, since the runtime needs it: it runs a callback, a host
    /// function, a kernel or the like. Nothing was submitted. Callbacks and host functions get this only where they have used up what they
    /// may submit beyond the bounds:
    /// [`callback_headroom`](crate::options::DeviceOptions::callback_headroom),
    /// [`callback_upload_headroom`](crate::options::DeviceOptions::callback_upload_headroom).
    #[error("{what}, and this thread, which the runtime needs, cannot wait for room; submit from a thread of your own{}", what.or_raise())]
    NoRoomHere {
        /// What is full.
        what: Full,
    },
    /// What is special to one backend was asked of another.
    #[error("this device is `{actual}`, the call is for `{asked}`")]
    WrongBackend {
        /// The backend that was asked for.
        asked: &'static str,
        /// The backend of the device.
        actual: &'static str,
    },
    /// The device logs no submissions.
    #[error("this device logs no submissions; open it with `DeviceOptions::log_submissions`")]
    NoLog,
    /// There is no such profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The answer was already taken: it is given once.
    #[error(
        "the answer of this request was already taken: `wait_timeout`, `try_take` or a poll gave it before; keep what they answer"
    )]
    Taken,
    /// A readback was asked of a sequence whose `Readbacks` was dropped: nothing would take it.
    #[error(
        "nothing takes the readbacks of this sequence, as its `Readbacks` was dropped; make another one by `readbacks`"
    )]
    NoConsumer,
    /// The time was up before the answer came.
    #[error("no answer within {waited:?}; the request goes on")]
    TimedOut {
        /// How long was waited.
        waited: Duration,
    },
}

impl Error {
    /// The failure of a task, if that is what this is.
    pub fn failure(&self) -> Option<&FailureRef> {
        match self {
            Error::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// How long to wait before trying again, if that is what helps: see [`Full::retry_after`].
    pub fn retry_after(&self) -> Option<std::time::Duration> {
        match self {
            Error::Busy { what } => Some(what.retry_after()),
            _ => None,
        }
    }
}

/// Why memory cannot be had.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The client's hard limit would be passed.
    #[error("client `{client}` asked {}, has {} of its hard limit of {}", Bytes(*.asked), Bytes(*.in_use), Bytes(*.limit))]
    Limit {
        /// The client's name.
        client: Arc<str>,
        /// Bytes asked for.
        asked: u64,
        /// Bytes that the client has.
        in_use: u64,
        /// The limit.
        limit: u64,
    },
    /// More than the device ever gives in one piece.
    #[error("asked {}, the device gives at most {} in one piece", apart(*.asked, *.limit)[0], apart(*.asked, *.limit)[1])]
    TooLarge {
        /// Bytes asked for.
        asked: u64,
        /// The device's limit.
        limit: u64,
    },
    /// More than the host has, for what is read.
    #[error("the host has no room for {} of what is read; read it in parts", Bytes(*.asked))]
    Host {
        /// Bytes asked for.
        asked: u64,
    },
    /// A length overflowed.
    #[error("{elements} elements of {element_bytes} bytes overflow the address space")]
    SizeOverflow {
        /// Elements asked for.
        elements: u64,
        /// Bytes of one.
        element_bytes: u64,
    },
    /// More live handles than the device counts.
    #[error(
        "{limit} slices, kernels and streams live, which is the device's limit; drop some, or raise `max_handles`"
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
    /// No source that the device understands.
    #[error(
        "kernel `{kernel}` has no source for `{backend}`, {}; add one of {taken}",
        match available.as_str() { "" => "nor for any other".to_owned(), kinds => format!("only {kinds}") }
    )]
    NoSource {
        /// The kernel.
        kernel: Arc<str>,
        /// The device's backend.
        backend: &'static str,
        /// The kinds of source that it has; empty where it has none.
        available: String,
        /// The kinds of source that the device takes.
        taken: String,
    },
    /// The device lacks a feature that the kernel requires.
    #[error("kernel `{kernel}` requires {feature}, which this device does not have")]
    Feature {
        /// The kernel.
        kernel: Arc<str>,
        /// What it requires.
        feature: Feature,
    },
    /// The compiler refused the source.
    #[error("kernel `{kernel}` does not compile: {log}")]
    Compile {
        /// The kernel.
        kernel: Arc<str>,
        /// What the compiler said.
        log: String,
    },
    /// The compiler that the source needs is not on this machine.
    #[error("kernel `{kernel}` cannot be compiled here: {why}")]
    NoCompiler {
        /// The kernel.
        kernel: Arc<str>,
        /// What is missing, and what to do.
        why: String,
    },
    /// The device is gone. Whoever prepares kernels is told [`Error::DeviceLost`].
    #[error("kernel `{kernel}` was not compiled: the device is lost")]
    Lost {
        /// The kernel.
        kernel: Arc<str>,
    },
    /// More bindings than the device takes.
    #[error("kernel `{kernel}` declares {declared} bindings, the device takes at most {limit}")]
    TooManyBindings {
        /// The kernel.
        kernel: Arc<str>,
        /// Declared bindings.
        declared: usize,
        /// The device's limit.
        limit: usize,
    },
}

/// Why a profile cannot be ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// Its token is one of another device.
    #[error("the profile was not started on this device; end it where it was started")]
    NotRegistered,
    /// No profile of this token is open.
    #[error(
        "no such profile is open: it was ended before, or its device was lost since, or it gave way to newer ones"
    )]
    Unknown,
}

/// Why a device cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// An option has a value that cannot be.
    #[error("option `{option}` is {given}, it must be {must}")]
    Option {
        /// Its name.
        option: &'static str,
        /// What was given.
        given: String,
        /// What it must be.
        must: &'static str,
    },
    /// The system gave no thread.
    #[error("no thread could be started: {0}")]
    Thread(String),
    /// The backend cannot be opened here.
    #[error("`{backend}` cannot be opened: {why}")]
    Unavailable {
        /// The kind of backend.
        backend: &'static str,
        /// What is missing and what to do.
        why: String,
    },
    /// What the backend says of its device cannot be: a mistake of the backend.
    #[error(
        "`{backend}` cannot be opened: its `properties()` say that `{field}` is {given}, it must be {must}"
    )]
    Properties {
        /// The kind of backend.
        backend: &'static str,
        /// The field of [`DeviceProperties`](crate::properties::DeviceProperties).
        field: &'static str,
        /// What it is.
        given: String,
        /// What it must be.
        must: &'static str,
    },
    /// It was to be the device that was lost, and is another one: clients rely on its properties.
    #[error("what was opened is `{opened}`, with other properties than `{lost}`, which was lost")]
    Another {
        /// The name of the device that was lost.
        lost: String,
        /// The name of what was opened.
        opened: String,
    },
}

/// Why a device cannot be reopened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReopenError {
    /// It is not lost: it runs, or it was closed.
    #[error("the device is not lost, it is {}", match .health { Health::Closed => "closed; open another one", _ => "running" })]
    NotLost {
        /// How it is.
        health: Health,
    },
    /// Only another process can open it.
    #[error("the device was lost for this process; {}", Recovery::NewProcess)]
    NewProcess,
    /// The options that it was opened with cannot be used twice.
    #[error(
        "the options of `{backend}` can be used once only; give others with `Device::reopen_with`"
    )]
    Options {
        /// The kind of backend.
        backend: &'static str,
    },
    /// It was called on a thread that the device needs, or inside the function that starts its threads.
    #[error("reopening here would wait for ever: this thread belongs to the runtime")]
    WouldDeadlock,
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
}
