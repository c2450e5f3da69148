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
                "value {index} has an operation that the CPU does not support for its type"
            ),
            CompileError::Store(index) => write!(
                f,
                "store {index} has a kind that the CPU does not support for its type"
            ),
            CompileError::Axes(axes) => write!(
                f,
                "the nest has {axes} axes, the CPU supports at most {}",
                crate::AXES_MAX
            ),
            CompileError::Blocking(blocking) => write!(
                f,
                "the CPU does not support this blocking for the program ({blocking}); `blockings` lists the supported ones"
            ),
            CompileError::Kind => f.write_str("the CPU does not support programs of this kind"),
        }
    }
}

impl std::error::Error for CompileError {}
