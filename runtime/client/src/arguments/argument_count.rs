//! The number of arguments of a launch.

use millstream_protocol::Signature;

/// The number of arguments of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArgumentCount {
    /// Bindings.
    pub bindings: usize,
    /// Scalars.
    pub scalars: usize,
}

impl ArgumentCount {
    pub(super) const NONE: Self = Self {
        bindings: 0,
        scalars: 0,
    };
    pub(super) const BINDING: Self = Self {
        bindings: 1,
        ..Self::NONE
    };
    pub(super) const SCALAR: Self = Self {
        scalars: 1,
        ..Self::NONE
    };

    /// Returns the numbers that a signature declares.
    pub(crate) fn of(signature: &Signature) -> Self {
        Self {
            bindings: signature.bindings().len(),
            scalars: signature.scalars().len(),
        }
    }

    #[inline(always)]
    pub(super) fn and(self, more: Self) -> Self {
        Self {
            bindings: self.bindings + more.bindings,
            scalars: self.scalars + more.scalars,
        }
    }
}
