//! The errors of driver calls. Their codes are kept as numbers: a newer driver may return a code that the headers of this
//! build do not know, and an `enum` with such a value would be undefined behaviour.

use std::ffi::CStr;
use std::fmt;

use millstream_gpu::unavailable;
use millstream_protocol::{OpenError, Refused};

use super::{Code, api};

impl Code {
    pub(crate) const INVALID_VALUE: u32 = 1;
    pub(crate) const OUT_OF_MEMORY: u32 = 2;
    pub(crate) const NO_DEVICE: u32 = 100;
    pub(crate) const NOT_FOUND: u32 = 500;
    pub(crate) const NOT_READY: u32 = 600;

    pub(crate) fn new(call: &'static str, number: u32) -> Self {
        Self { call, number }
    }

    /// Converts the return value of a call to a result.
    #[inline]
    pub(crate) fn check(call: &'static str, number: u32) -> Result<(), Self> {
        match number {
            0 => Ok(()),
            number => Err(Self { call, number }),
        }
    }

    /// Converts the result of a query: whether its subject is complete.
    #[inline]
    pub(crate) fn is_ready(answer: Result<(), Self>) -> Result<bool, Self> {
        match answer {
            Ok(()) => Ok(true),
            Err(code) if code.number == Self::NOT_READY => Ok(false),
            Err(code) => Err(code),
        }
    }

    /// Returns the driver's name of the code, and its number.
    fn text(self) -> String {
        let number = self.number;
        let name = api().ok().and_then(|api| {
            let mut name = std::ptr::null();
            // SAFETY: the out pointer is valid. The call needs no initialization.
            unsafe { api.error_name(number, &raw mut name) }.ok()?;
            // SAFETY: a string of the driver, which lives as long as the driver and ends with a zero byte.
            (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
        });
        match name {
            Some(name) => format!("{} ({number})", name.to_string_lossy()),
            None => format!("error {number}"),
        }
    }

    /// Whether this driver cannot load code of this form, which says nothing about other forms of the same code.
    pub(crate) fn is_of_unsupported_code(self) -> bool {
        // No binary for the GPU; no compiler, a later version of PTX, a disabled compiler.
        matches!(self.number, 209 | 221..=223)
    }

    /// Whether the context is destroyed with everything in it: every further call returns the same code. Other codes concern
    /// one call.
    pub(crate) fn is_sticky(self) -> bool {
        // Driver shutdown, uncorrectable memory or link errors, and faults of kernels. After each of these the
        // documentation says that the process must be terminated and relaunched.
        let number = self.number;
        matches!(
            number,
            4 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 911
        )
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The suffix is that of the interface's version, which no documentation names.
        let call = self.call.trim_end_matches("_v2");
        write!(f, "the driver call `{call}` failed: {}", self.text())
    }
}

impl From<Code> for Refused {
    /// Returns the error of a task, or of the device if the context is destroyed.
    #[cold]
    fn from(code: Code) -> Self {
        match code.is_sticky() {
            true => Refused::Lost(code.to_string()),
            false => Refused::Task(code.to_string()),
        }
    }
}

impl From<Code> for OpenError {
    #[cold]
    fn from(code: Code) -> Self {
        unavailable("cuda", code.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I7: a sticky code ends the device for all clients; every other code fails one call.
    #[test]
    fn only_codes_that_destroy_the_context_are_sticky_i7() {
        let is_sticky = |number| Code::new("cuCall", number).is_sticky();
        for number in [700, 702, 710, 714, 715, 716, 717, 718, 719] {
            assert!(is_sticky(number), "{number}");
        }
        for number in [1, 2, 600, 100, 201, 209, 218, 400, 701, 720, 801, 900, 901] {
            assert!(!is_sticky(number), "{number}");
        }
    }
}
