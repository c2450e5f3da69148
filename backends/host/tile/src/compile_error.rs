//! The errors of compiling a program.

use millstream_ir::Blocking;

/// The reason a program cannot be compiled for this CPU.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CompileError {
    /// The program is invalid.
    Invalid(millstream_ir::ProgramError),
    /// There is no code for the value with this index.
    Value(usize),
    /// There is no code for the store with this index.
    Store(usize),
    /// The nest has this many axes, more than the interpreter supports.
    Axes(usize),
    /// The kind of program is not supported.
    Kind,
    /// The program cannot be blocked in this way.
    Blocking(Blocking),
}

impl std::fmt::Display for CompileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CompileError::Invalid(error) => write!(f, "{error}"),
            CompileError::Value(index) => write!(
                f,
                "value {index} is of an operation that the CPU does not know for its type"
            ),
            CompileError::Store(index) => write!(
                f,
                "store {index} is of a kind that the CPU does not know for its type"
            ),
            CompileError::Axes(axes) => write!(
                f,
                "{axes} axes are more than the {} that the CPU walks",
                crate::AXES_MAX
            ),
            CompileError::Blocking(blocking) => write!(
                f,
                "the CPU has no way to run it as asked ({blocking}); ask which ones it has"
            ),
            CompileError::Kind => f.write_str("the CPU does not know programs of this kind"),
        }
    }
}

impl std::error::Error for CompileError {}
