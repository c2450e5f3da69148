//! Invalid arguments: of a task, a view, a layout, or a replay.

use std::fmt;
use std::sync::Arc;

/// What is wrong with the arguments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ArgumentErrorKind {
    /// The number of bindings, scalars, words or axes.
    Count,
    /// The type of the elements of a binding, or of a scalar.
    Type,
    /// The access of a binding.
    Access,
    /// A view starts or ends within an element.
    Alignment,
    /// Two ranges share bytes, and one of them is written.
    Overlap,
    /// A range is out of bounds, or two lengths differ.
    Length,
    /// More than the device, the mailbox, or a number of 32 or 64 bits can hold.
    TooLarge,
    /// A parameter of a recording has no value, has two, or belongs to another recording.
    Parameter,
}

/// Invalid arguments: a mistake of the program, which the message explains. Nothing was submitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArgumentError {
    /// What is wrong.
    pub kind: ArgumentErrorKind,
    /// The kernel or operation. `None` for a view, a layout or a tensor map.
    pub task: Option<Arc<str>>,
    message: Box<str>,
}

impl ArgumentError {
    /// Creates the error with this message.
    #[cold]
    pub fn new(kind: ArgumentErrorKind, message: impl Into<Box<str>>) -> Self {
        Self {
            kind,
            task: None,
            message: message.into(),
        }
    }

    /// Returns the error as that of a task.
    #[must_use]
    pub fn of(self, task: impl Into<Arc<str>>) -> Self {
        Self {
            task: Some(task.into()),
            ..self
        }
    }

    /// Creates the error of a wrong number: "expected 2 bindings, got 1". `what` is in the singular.
    #[cold]
    pub fn count(what: &str, expected: usize, given: usize) -> Self {
        let s = if expected == 1 { "" } else { "s" };
        let message = format!("expected {expected} {what}{s}, got {given}");
        Self::new(ArgumentErrorKind::Count, message)
    }

    /// Creates the error of two bindings that share bytes, one of which is written.
    #[cold]
    pub fn overlap(first: &str, second: &str, bytes: u64) -> Self {
        let message = format!(
            "bindings `{first}` and `{second}` overlap in {bytes} bytes and one of them is written; copy one of them first"
        );
        Self::new(ArgumentErrorKind::Overlap, message)
    }

    /// Creates the error of a range of bytes that is reversed, or ends past the end of a view of `size` bytes.
    #[cold]
    pub fn out_of_bounds(start: u64, end: u64, size: u64) -> Self {
        let message = match start > end {
            true => format!("the range {start}..{end} of bytes ends before it starts"),
            false => format!("bytes {start}..{end} are out of bounds, the view has {size} bytes"),
        };
        Self::new(ArgumentErrorKind::Length, message)
    }

    /// Creates the error of a copy between different numbers of bytes.
    #[cold]
    pub fn lengths(source: u64, target: u64) -> Self {
        let message = format!(
            "the source has {source} bytes, the destination has {target}; pass equal lengths"
        );
        Self::new(ArgumentErrorKind::Length, message)
    }

    /// Creates the error of a shape and strides of different ranks.
    #[cold]
    pub fn ranks(shape: usize, strides: usize) -> Self {
        let message = format!(
            "the shape has {shape} axes and the strides have {strides}; pass one stride for each axis"
        );
        Self::new(ArgumentErrorKind::Count, message)
    }

    /// Creates the error of a length in bytes that overflows.
    #[cold]
    pub fn size_overflow(elements: u64, element_bytes: u64) -> Self {
        let message = format!(
            "{elements} elements of {element_bytes} bytes exceed 2^64 bytes; use fewer elements"
        );
        Self::new(ArgumentErrorKind::TooLarge, message)
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(task) = &self.task {
            write!(f, "`{task}` was not accepted: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ArgumentError {}
