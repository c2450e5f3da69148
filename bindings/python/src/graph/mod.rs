//! Graphs: expressions over arrays, which schedules compute with few kernels.
//!
//! These classes are the plain layer below those of `millstream/_lazy.py`, which have the operators and indexing of NumPy.
//! An invalid operation of the runtime returns a refused buffer, which carries its error; here it raises at once, since
//! the traceback of Python names the line.
//!
//! | module | contents |
//! | --- | --- |
//! | `node` | lazy buffers and their operations |
//! | `leaves` | graphs: inputs, buffers, numbers, indices, random numbers |
//! | `length` | lengths that each run sets |
//! | `schedule` | schedules, caches, compiled schedules and their runs |

pub(crate) mod leaves;
pub(crate) mod length;
pub(crate) mod node;
pub(crate) mod schedule;

use millstream::graph::{GraphError, LazyBuffer, Literal, ScheduleError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt};

use crate::errors::{argument_error, exception, kernel_error, named};
use crate::graph::node::LazyNode;

/// Returns the node of an operation, or raises the error of a refused one.
fn checked(op: &str, result: LazyBuffer) -> PyResult<LazyNode> {
    match result.error() {
        None => Ok(LazyNode(result)),
        Some(error) => Err(argument_error(refusal(op, error))),
    }
}

/// Returns the message of a refused operation, under the name that it has in Python and without the location in Rust.
fn refusal(op: &str, error: &GraphError) -> String {
    let mut message = format!("`{op}`");
    for (index, (dtype, shape)) in error.operands().iter().enumerate() {
        message += if index == 0 { " of " } else { " and " };
        message += &format!("{dtype} {shape}");
    }
    message + &format!(": {}", error.why())
}

/// Converts a number of Python. Integers and bools stay exact.
fn literal(value: &Bound<'_, PyAny>) -> PyResult<Literal> {
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Literal::Bool(flag.is_true()));
    }
    if value.cast::<PyInt>().is_ok() {
        return Ok(Literal::Int(value.extract()?));
    }
    Ok(Literal::Float(value.extract()?))
}

/// Returns the exception for an error of a schedule.
fn schedule_error(error: &ScheduleError) -> PyErr {
    match error {
        ScheduleError::Device(error) => exception(error),
        ScheduleError::Kernel(error) => kernel_error(error),
        ScheduleError::Graph(error) => argument_error(refusal(error.op(), error)),
        ScheduleError::Devices { .. } | ScheduleError::ForeignDevice { .. } => {
            named("ForeignError", error.to_string())
        }
        _ => argument_error(error.to_string()),
    }
}
