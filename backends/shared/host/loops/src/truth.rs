//! Booleans as the loops read and write them.

/// A boolean in one byte. Any byte but 0 is true when read; computed values are 0 or 1.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
#[repr(transparent)]
pub struct Truth(u8);

impl Truth {
    /// Returns 1 if `value` is true.
    #[inline(always)]
    pub fn of(value: bool) -> Self {
        Truth(u8::from(value))
    }

    /// Returns whether it is not 0.
    #[inline(always)]
    pub fn is_true(self) -> bool {
        self.0 != 0
    }
}
