//! Booleans as the loops read and write them.

/// A boolean in one byte. Any byte but 0 is true when read; computed values are 0 or 1.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
#[repr(transparent)]
pub(crate) struct Truth(u8);

impl Truth {
    #[inline(always)]
    pub(crate) fn of(value: bool) -> Self {
        Truth(u8::from(value))
    }

    #[inline(always)]
    pub(crate) fn is_true(self) -> bool {
        self.0 != 0
    }
}
