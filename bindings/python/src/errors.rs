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
use pyo3::types::PyDict;

/// An attribute of an exception.
enum Attribute {
    Text(&'static str, String),
    Number(&'static str, u64),
    Float(&'static str, f64),
    Flag(&'static str, bool),
}

/// Returns the exception for an error of the runtime.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::Failed(failure) => failed(py, failure),
        Error::Launch { .. } | Error::Argument(_) => new(py, "ArgumentError", message, &[]),
        Error::Open(_) => new(py, "OpenError", message, &[]),
        Error::Memory(MemoryError::SizeOverflow { .. }) => new(py, "ArgumentError", message, &[]),
        Error::Memory(MemoryError::AboveLimit { .. } | MemoryError::TooLarge { .. }) => {
            new(py, "TooLarge", message, &[])
        }
        Error::Memory(_) => new(py, "OutOfMemory", message, &[]),
        Error::Kernel(error) => kernel_error(py, error),
        Error::Busy { what } => {
            let seconds = what.retry_after().as_secs_f64();
            new(
                py,
                "Busy",
                message,
                &[Attribute::Float("retry_after", seconds)],
            )
        }
        Error::Foreign { .. } => new(py, "ForeignError", message, &[]),
        Error::Closed => new(py, "DeviceClosed", message, &[]),
        Error::Forked => new(py, "DeviceForked", message, &[]),
        Error::DeviceLost { epoch, recovery } => {
            let same = matches!(recovery, millstream::device::Recovery::SameProcess);
            let attributes = [
                Attribute::Number("epoch", *epoch),
                Attribute::Flag("same_process", same),
            ];
            new(py, "DeviceLost", message, &attributes)
        }
        Error::WouldDeadlock | Error::NoRoomHere { .. } => new(py, "WouldDeadlock", message, &[]),
        Error::TimedOut { .. } => new(py, "WaitTimeout", message, &[]),
        _ => new(py, "Error", message, &[]),
    }
}

/// Returns an `ArgumentError`.
pub(crate) fn argument_error(py: Python<'_>, message: impl Into<String>) -> PyErr {
    new(py, "ArgumentError", message.into(), &[])
}

/// Returns an exception of this class.
pub(crate) fn named(py: Python<'_>, class: &str, message: String) -> PyErr {
    new(py, class, message, &[])
}

/// Returns a `ForeignError`.
pub(crate) fn foreign_error(py: Python<'_>, message: String) -> PyErr {
    new(py, "ForeignError", message, &[])
}

/// Returns a `KernelError`, or a `CompileError` with the output of the compiler.
pub(crate) fn kernel_error(py: Python<'_>, error: &KernelError) -> PyErr {
    let class = match error {
        KernelError::Compile { .. } => "CompileError",
        _ => "KernelError",
    };
    new(py, class, error.to_string(), &[])
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
    let attributes = |task: &str, is_partial: bool| {
        [
            Attribute::Text("task", task.to_owned()),
            Attribute::Text("reason", reason.to_owned()),
            Attribute::Flag("partial", is_partial),
        ]
    };
    let partial = |failure: &Failure| matches!(failure.extent, Extent::MaybePartial);
    let Some(origin) = &failure.origin else {
        let attributes = attributes(&failure.task, partial(failure));
        return new(py, class, failure.to_string(), &attributes);
    };
    let mut cause = new(
        py,
        class,
        root.to_string(),
        &attributes(&root.task, partial(root)),
    );
    for task in &origin.between {
        let message = format!("`{task}` did not run: data that it reads is poisoned");
        let next = new(py, class, message, &attributes(task, false));
        next.set_cause(py, Some(cause));
        cause = next;
    }
    let outer = new(
        py,
        class,
        failure.to_string(),
        &attributes(&failure.task, partial(failure)),
    );
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
fn new(py: Python<'_>, class: &str, message: String, attributes: &[Attribute]) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let class = py.import("millstream._errors")?.getattr(class)?;
        let value = class.call1((message.as_str(),))?;
        let fields = PyDict::new(py);
        for attribute in attributes {
            match attribute {
                Attribute::Text(name, text) => fields.set_item(name, text)?,
                Attribute::Number(name, number) => fields.set_item(name, number)?,
                Attribute::Float(name, number) => fields.set_item(name, number)?,
                Attribute::Flag(name, flag) => fields.set_item(name, flag)?,
            }
        }
        for (name, field) in fields.iter() {
            value.setattr(name.cast::<pyo3::types::PyString>()?, field)?;
        }
        Ok(PyErr::from_value(value))
    };
    made().unwrap_or_else(|error| {
        let message = format!("{message} (its exception could not be made: {error})");
        PyException::new_err(message)
    })
}
