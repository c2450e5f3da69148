//! The driver's functions, by subject. They return what NVIDIA's documentation specifies. Features that are not
//! modelled are refused with a report.

mod config;
mod context;
mod copy;
mod device;
mod event;
mod fill;
mod function;
mod graph;
mod launch;
mod memory;
mod module;
mod native;
mod nodes;
mod peer;
mod stream;
mod tensor;
mod values;

use crate::code::Code;

/// An out pointer of a C caller. Only C callers create one.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    fn put(&self, value: T) -> Result<(), Code> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller passed a valid pointer, which may be unaligned.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Reads the value of an in-out pointer.
    fn get(&self) -> Result<T, Code>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller passed a pointer to a value.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Returns the pointer to element `index`.
    fn at(&self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    fn address(&self) -> u64 {
        self.0 as u64
    }

    fn is_requested(&self) -> bool {
        !self.0.is_null()
    }
}

/// A pointer to a value or an array of a C caller. Only C callers create one.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    fn get(&self) -> Result<T, Code> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller passed a pointer to a value.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Reads an array of `count` values.
    fn list(&self, count: usize) -> Result<Vec<T>, Code> {
        if self.0.is_null() && count > 0 {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the caller passed a pointer to as many values.
        let at = |index| unsafe { self.0.add(index).read_unaligned() };
        Ok((0..count).map(at).collect())
    }
}

/// Declares functions of the driver: name, arguments, requirements, body.
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
/// Declares functions that wait. The body returns the point to wait for.
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
