//! Exceptions: the classes are in `millstream/_errors.py`, and this makes their instances.
//!
//! A failure travels with its data, so the exception of a reader has the chain of tasks as `__cause__`: its innermost
//! cause is the task that failed first.

use millstream::{
    Error, Failure, Reason,
    error::{Extent, KernelError, MemoryError},
};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

/// Returns the exception for an error of the runtime.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Failed(failure) => failed(py, failure),
        Error::Argument(_) => named(py, "ArgumentError", message),
        Error::Open(_) => named(py, "OpenError", message),
        Error::Memory(MemoryError::AboveLimit { .. } | MemoryError::TooLarge { .. }) => {
            named(py, "TooLarge", message)
        }
        Error::Memory(_) => named(py, "OutOfMemory", message),
        Error::Kernel(error) => kernel_error(py, error),
        Error::Busy { what } => {
            let busy = named(py, "Busy", message);
            set(py, &busy, "retry_after", what.retry_after().as_secs_f64());
            busy
        }
        Error::Foreign { .. } => named(py, "ForeignError", message),
        Error::Closed => named(py, "DeviceClosed", message),
        Error::Forked => named(py, "DeviceForked", message),
        Error::DeviceLost { epoch, recovery } => {
            let same = matches!(recovery, millstream::device::Recovery::SameProcess);
            let lost = named(py, "DeviceLost", message);
            set(py, &lost, "epoch", *epoch);
            set(py, &lost, "same_process", same);
            lost
        }
        Error::WouldDeadlock | Error::NoRoomHere { .. } => named(py, "WouldDeadlock", message),
        Error::TimedOut { .. } => named(py, "WaitTimeout", message),
        _ => named(py, "Error", message),
    }
}

/// Returns an `ArgumentError`.
pub(crate) fn argument_error(py: Python<'_>, message: impl Into<String>) -> PyErr {
    named(py, "ArgumentError", message.into())
}

/// Returns a `ForeignError`.
pub(crate) fn foreign_error(py: Python<'_>, message: String) -> PyErr {
    named(py, "ForeignError", message)
}

/// Returns a `KernelError`, or a `CompileError` with the output of the compiler.
pub(crate) fn kernel_error(py: Python<'_>, error: &KernelError) -> PyErr {
    let class = match error {
        KernelError::Compile { .. } => "CompileError",
        _ => "KernelError",
    };
    named(py, class, error.to_string())
}

/// Returns the exception of a failed task: its class names the reason of the root, and each task between the two is a
/// cause of the next.
fn failed(py: Python<'_>, failure: &Failure) -> PyErr {
    let root = failure.root();
    let class = match root.reason {
        Reason::OutOfMemory { .. } => "TaskOutOfMemory",
        Reason::Cancelled => "TaskCancelled",
        Reason::DeadlinePassed => "DeadlinePassed",
        _ => "TaskFailed",
    };
    let reason = reason_name(&root.reason);
    let make = |task: &str, message: String, is_partial: bool| {
        let made = named(py, class, message);
        set(py, &made, "task", task);
        set(py, &made, "reason", reason);
        set(py, &made, "partial", is_partial);
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
        let next = make(task, message, false);
        next.set_cause(py, Some(cause));
        cause = next;
    }
    let outer = of(failure);
    outer.set_cause(py, Some(cause));
    outer
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
pub(crate) fn named(py: Python<'_>, class: &str, message: String) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let class = py.import("millstream._errors")?.getattr(class)?;
        Ok(PyErr::from_value(class.call1((message.as_str(),))?))
    };
    made().unwrap_or_else(|error| {
        let message = format!("{message} (its exception could not be made: {error})");
        PyException::new_err(message)
    })
}

/// Sets an attribute of an exception.
fn set<'py>(py: Python<'py>, error: &PyErr, name: &str, value: impl IntoPyObject<'py>) {
    // The classes take any attribute, so this does not fail. If it did, the exception would still have its message.
    let _ = error.value(py).setattr(name, value);
}
