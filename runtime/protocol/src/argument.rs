//! The arguments that a kernel's signature declares, to be compared, and displayed in errors.

use std::fmt;

use millstream_ir::DType;

use crate::access::Access;

/// One declared argument. It is displayed as the Rust type of the argument: `Read<f32>`, `f32`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArgumentKind {
    /// A binding.
    Binding(Access, DType),
    /// A scalar.
    Scalar(DType),
}

impl fmt::Display for ArgumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Binding(Access::Read, dtype) => write!(f, "Read<{dtype}>"),
            Self::Binding(Access::Write, dtype) => write!(f, "Write<{dtype}>"),
            Self::Binding(Access::ReadWrite, dtype) => write!(f, "Update<{dtype}>"),
            Self::Scalar(dtype) => write!(f, "{dtype}"),
        }
    }
}

/// All declared arguments of a kernel. They are displayed as the tuple of their Rust types.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArgumentKinds(Vec<ArgumentKind>);

impl FromIterator<ArgumentKind> for ArgumentKinds {
    fn from_iter<I: IntoIterator<Item = ArgumentKind>>(kinds: I) -> Self {
        Self(kinds.into_iter().collect())
    }
}

impl fmt::Display for ArgumentKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<String> = self.0.iter().map(ArgumentKind::to_string).collect();
        match kinds.as_slice() {
            [alone] => f.write_str(alone),
            several => write!(f, "({})", several.join(", ")),
        }
    }
}
