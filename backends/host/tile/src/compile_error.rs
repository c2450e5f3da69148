//! Why programs cannot be compiled here.

use millstream_ir::Blocking;

/// Why a nest cannot be run here.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CompileError {
    /// It is not a program.
    Invalid(millstream_ir::ProgramError),
    /// There is no code for a value.
    Value(usize),
    /// There is no code for a store.
    Store(usize),
    /// It has more axes than the interpreter walks.
    Axes(usize),
    /// It is of a kind that this code does not know.
    Kind,
    /// It cannot be cut up in this way.
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
