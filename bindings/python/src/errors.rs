//! Exceptions: the classes are in `millstream/_errors.py`, and this makes their instances.
//!
//! The threads that call this are attached to the interpreter.
//!
//! A failure travels with its data, so the exception of a reader has the chain of tasks as `__cause__`: its innermost
//! cause is the task that failed first.

use std::borrow::Borrow;

use millstream::{
    Error, Failure, Reason,
    device::Recovery,
    error::{Extent, KernelError, MemoryError},
};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

/// Returns the exception for an error of the runtime.
pub(crate) fn exception(error: impl Borrow<Error>) -> PyErr {
    let error = error.borrow();
    let class = match error {
        Error::Failed(failure) => return failed(failure),
        Error::Kernel(error) => return kernel_error(error),
        Error::Argument(_) => "ArgumentError",
        Error::Open(_) => "OpenError",
        Error::Memory(MemoryError::AboveLimit { .. } | MemoryError::TooLarge { .. }) => "TooLarge",
        Error::Memory(_) => "OutOfMemory",
        Error::Busy { .. } => "Busy",
        Error::Foreign { .. } => "ForeignError",
        Error::Closed => "DeviceClosed",
        Error::Forked => "DeviceForked",
        Error::DeviceLost { .. } => "DeviceLost",
        Error::WouldDeadlock | Error::NoRoomHere { .. } => "WouldDeadlock",
        Error::TimedOut { .. } => "WaitTimeout",
        _ => "Error",
    };
    let made = named(class, error.to_string());
    match error {
        Error::Busy { what } => set(&made, "retry_after", what.retry_after().as_secs_f64()),
        Error::DeviceLost { epoch, recovery } => {
            set(&made, "epoch", *epoch);
            set(&made, "same_process", *recovery == Recovery::SameProcess);
        }
        _ => {}
    }
    made
}

/// Returns an `ArgumentError`.
pub(crate) fn argument_error(message: impl Into<String>) -> PyErr {
    named("ArgumentError", message)
}

/// Returns a `KernelError`, or a `CompileError` with the output of the compiler.
pub(crate) fn kernel_error(error: &KernelError) -> PyErr {
    let class = match error {
        KernelError::Compile { .. } => "CompileError",
        _ => "KernelError",
    };
    named(class, error.to_string())
}

/// Returns the exception of a failed task: its class names the reason of the root, and each task between the two is a
/// cause of the next.
fn failed(failure: &Failure) -> PyErr {
    let root = failure.root();
    let class = match root.reason {
        Reason::OutOfMemory { .. } => "TaskOutOfMemory",
        Reason::Cancelled => "TaskCancelled",
        Reason::DeadlinePassed => "DeadlinePassed",
        _ => "TaskFailed",
    };
    let reason = reason_name(&root.reason);
    let make = |task: &str, message: String, is_partial: bool| {
        let made = named(class, message);
        set(&made, "task", task);
        set(&made, "reason", reason);
        set(&made, "partial", is_partial);
        made
    };
    let of = |failure: &Failure| {
        let is_partial = matches!(failure.extent, Extent::MaybePartial);
        make(&failure.task, failure.to_string(), is_partial)
    };
    let Some(origin) = &failure.origin else {
        return of(failure);
    };
    let mut cause = of(root);
    for task in &origin.between {
        let message = format!("`{task}` did not run: data that it reads is poisoned");
        cause = caused(make(task, message, false), cause);
    }
    caused(of(failure), cause)
}

fn reason_name(reason: &Reason) -> &'static str {
    match reason {
        Reason::OutOfMemory { .. } => "out of memory",
        Reason::Panicked(_) => "panicked",
        Reason::Input => "input",
        Reason::Refused(_) => "refused",
        Reason::Lost => "lost",
        Reason::Closed => "closed",
        Reason::Parameter => "parameter",
        Reason::Cancelled => "cancelled",
        Reason::DeadlinePassed => "deadline passed",
        Reason::Remote(_) => "remote",
        _ => "other",
    }
}

/// Makes an exception of a class of `millstream._errors`. If that itself fails, returns the reason why.
pub(crate) fn named(class: &str, message: impl Into<String>) -> PyErr {
    let message = message.into();
    let made = Python::attach(|py| {
        let class = py.import("millstream._errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call1((message.as_str(),))?))
    });
    made.unwrap_or_else(|error: PyErr| {
        let message = format!("{message} (its exception could not be made: {error})");
        PyException::new_err(message)
    })
}

/// Returns an exception with its cause.
pub(crate) fn caused(error: PyErr, cause: PyErr) -> PyErr {
    Python::attach(|py| error.set_cause(py, Some(cause)));
    error
}

/// Sets an attribute of an exception.
fn set(error: &PyErr, name: &str, value: impl for<'py> IntoPyObject<'py>) {
    // The classes take any attribute, so this does not fail. If it did, the exception would still have its message.
    let _ = Python::attach(|py| error.value(py).setattr(name, value));
}
