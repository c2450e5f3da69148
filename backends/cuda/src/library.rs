//! NVIDIA's libraries, which are loaded at run time. Nothing is linked, so a program with this backend also starts on a
//! machine without a GPU, and opening a device there returns the reason.
//!
//! Types are those of the libraries' headers, except for enums: their ABI is that of an unsigned number, and a newer
//! library may return a number that the headers of this build do not know.

use std::ffi::{CStr, c_char};

use libloading::Library;
use millstream_gpu::library_folder;

/// Declares the functions of a library, which are looked up together: a library without one of those that are needed is
/// an error when it is loaded, not a panic at the first call.
///
/// A needed function is a method, which returns the error of the library with the name of the call, by the given function of
/// the table, the name and the answer. Functions that return no error code, and those that only newer libraries have, are
/// fields.
macro_rules! functions {
    (
        $(#[$about:meta])*
        struct $table:ident;
        needed -> $error:ty = $check:expr => {
            $($name:ident = $symbol:ident($($argument:ident: $type:ty),* $(,)?);)*
        }
        $(plain { $($plain:ident = $plain_symbol:ident($($plain_type:ty),*) -> $result:ty;)* })?
        $(optional { $($maybe:ident = $maybe_symbol:ident($($maybe_type:ty),* $(,)?);)* })?
    ) => {
        $(#[$about])*
        pub(crate) struct $table {
            $($name: unsafe extern "C" fn($($type),*) -> u32,)*
            $($(pub(crate) $plain: unsafe extern "C" fn($($plain_type),*) -> $result,)*)?
            $($(pub(crate) $maybe: Option<unsafe extern "C" fn($($maybe_type),*) -> u32>,)*)?
        }

        #[allow(clippy::too_many_arguments, reason = "the arguments are those of the library")]
        impl $table {
            /// Looks the functions up. The error is the name of one that is missing.
            fn of(library: &'static libloading::Library) -> Result<Self, &'static str> {
                // SAFETY: the types are those of the library's headers, as the head of this module says.
                unsafe {
                    Ok(Self {
                        $($name: *library
                            .get(stringify!($symbol))
                            .map_err(|_| stringify!($symbol))?,)*
                        $($($plain: *library
                            .get(stringify!($plain_symbol))
                            .map_err(|_| stringify!($plain_symbol))?,)*)?
                        $($($maybe: library
                            .get(stringify!($maybe_symbol))
                            .ok()
                            .map(|found| *found),)*)?
                    })
                }
            }

            $(
                /// # Safety
                /// That of the library's function.
                #[inline]
                pub(crate) unsafe fn $name(&self, $($argument: $type),*) -> Result<(), $error> {
                    // SAFETY: the caller's duty.
                    let answer = unsafe { (self.$name)($($argument),*) };
                    let check: fn(&Self, &'static str, u32) -> Result<(), $error> = $check;
                    check(self, stringify!($symbol), answer)
                }
            )*
        }
    };
}

pub(crate) use functions;

/// Loads the first of these files that can be loaded: from the folder that the environment variable names, or else by
/// the rules of the system. The library stays loaded until the process ends.
///
/// # Errors
/// `missing` if there is none, or with a folder what to do about that.
pub(crate) fn load(
    (product, file): (&str, &str),
    variable: &str,
    names: impl IntoIterator<Item = String>,
    missing: &str,
) -> Result<&'static Library, String> {
    let folder = library_folder(variable);
    for name in names {
        let path = match &folder {
            Some(folder) => folder.join(name),
            None => name.into(),
        };
        // SAFETY: the initializers are the library's own, which every user of it runs.
        if let Ok(library) = unsafe { Library::new(path) } {
            return Ok(Box::leak(Box::new(library)));
        }
    }
    Err(match folder {
        Some(folder) => format!(
            "no {file} can be loaded from `{}` ({variable}); set {variable} to the folder of {product}",
            folder.display()
        ),
        None => missing.to_owned(),
    })
}

/// Returns a library's description of a number, by its function for that.
pub(crate) fn describe(text: unsafe extern "C" fn(u32) -> *const c_char, number: u32) -> String {
    // SAFETY: the function returns null or a string that lives as long as the library, for every number.
    let text = unsafe { text(number) };
    if text.is_null() {
        return format!("unknown error ({number})");
    }
    // SAFETY: as above; the string ends with a zero byte.
    let text = unsafe { CStr::from_ptr(text) };
    format!("{} ({number})", text.to_string_lossy())
}
