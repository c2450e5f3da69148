//! The driver's functions, by subject. What they answer and when is what NVIDIA's documentation says of them; what is
//! not modelled is refused, with a report.

mod capture;
mod config;
mod context;
mod copy;
mod device;
mod event;
mod fill;
mod function;
mod graph;
mod host;
mod launch;
mod memory;
mod module;
mod nodes;
mod peer;
mod stream;
mod tensor;
mod values;

use crate::code::Code;

/// A place for an answer, which a caller of C's interface vouches for: nobody else makes one.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    fn put(&self, value: T) -> Result<(), Code> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller's promise; it may be aligned to nothing.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// What is there: of a place that is also read.
    fn get(&self) -> Result<T, Code>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller's promise: there is a value.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The same place, counted on by so many.
    fn at(&self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    fn address(&self) -> u64 {
        self.0 as u64
    }

    fn is_wanted(&self) -> bool {
        !self.0.is_null()
    }
}

/// A structure of the caller's, who vouches for it.
#[repr(transparent)]
pub(crate) struct Given<T>(*const T);

impl<T: Copy> Given<T> {
    fn get(&self) -> Result<T, Code> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: only callers of C's interface make one, and vouch for it.
        Ok(unsafe { self.0.read_unaligned() })
    }

    fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// So many of them, one after the other.
    fn list(&self, count: usize) -> Result<Vec<T>, Code> {
        if self.0.is_null() && count > 0 {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: as above, of all of them.
        let at = |index| unsafe { self.0.add(index).read_unaligned() };
        Ok((0..count).map(at).collect())
    }
}

/// Declares functions of the driver: name, arguments, what they need, and what they do.
macro_rules! functions {
    ($($(#[$about:meta])* $name:ident($($argument:ident: $type:ty),* $(,)?) $needs:ident |$state:ident| $body:expr;)*) => {
        $(
            $(#[$about])*
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            extern "C" fn $name($($argument: $type),*) -> u32 {
                $crate::call::call(stringify!($name), $crate::call::Needs::$needs, |$state| $body)
            }
        )*
    };
}
/// As `functions`, for those that wait: what they do answers the moment that is waited for.
macro_rules! waiting_functions {
    ($($(#[$about:meta])* $name:ident($($argument:ident: $type:ty),* $(,)?) |$state:ident| $body:expr;)*) => {
        $(
            $(#[$about])*
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            extern "C" fn $name($($argument: $type),*) -> u32 {
                $crate::call::call_and_wait(stringify!($name), |$state| $body)
            }
        )*
    };
}
use {functions, waiting_functions};
