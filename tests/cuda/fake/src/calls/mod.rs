//! The driver's functions, by subject. They return what NVIDIA's documentation specifies. Features that are not
//! modelled are refused with a report.

mod capture;
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

    /// Writes a value that the caller may leave out.
    fn put_if_requested(&self, value: T) {
        let _ = self.put(value);
    }

    /// Returns the pointer to element `index`.
    fn at(&self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }
}

/// A pointer to a value or an array of a C caller. Only C callers create one.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> Out<T> {
    /// Reads the value of an in-out pointer.
    fn get(&self) -> Result<T, Code> {
        In(self.0.cast_const()).get()
    }
}

impl<T: Copy> In<T> {
    fn get(&self) -> Result<T, Code> {
        self.list(1).map(|list| list[0])
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

/// Declares functions of the driver: name, arguments, requirements, body. A function waits for the point that its body
/// returns, if it returns one.
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
use functions;
