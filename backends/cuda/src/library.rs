//! NVIDIA's libraries, which are loaded at run time. Nothing is linked, so a program with this backend also starts on a
//! machine without a GPU, and opening a device there returns the reason.
//!
//! Types are those of the libraries' headers, except for enums: their ABI is that of an unsigned number, and a newer
//! library may return a number that the headers of this build do not know.

use std::ffi::{CStr, c_char};

use libloading::Library;
use millstream_gpu::library_folder;
use millstream_protocol::error::OpenError;

/// Declares the functions of a library, which are looked up together: a library without one of those that are needed is
/// an error when it is loaded, not a panic at the first call. A function returns a `u32` unless it says otherwise.
macro_rules! functions {
    (
        $(#[$about:meta])*
        struct $table:ident;
        needed { $($name:ident = $symbol:ident($($type:ty),*) $(-> $result:ty)?;)* }
        $(optional { $($maybe:ident = $maybe_symbol:ident($($maybe_type:ty),*);)* })?
    ) => {
        $(#[$about])*
        pub(crate) struct $table {
            $(pub(crate) $name:
                unsafe extern "C" fn($($type),*) -> $crate::library::result!($($result)?),)*
            $($(pub(crate) $maybe: Option<unsafe extern "C" fn($($maybe_type),*) -> u32>,)*)?
        }

        impl $table {
            /// Looks the functions up. The error is the name of one that is missing.
            fn of(library: &'static libloading::Library) -> Result<Self, &'static str> {
                // SAFETY: the types are those of the library's headers, as the head of this module says.
                unsafe {
                    Ok(Self {
                        $($name: *library
                            .get(stringify!($symbol))
                            .map_err(|_| stringify!($symbol))?,)*
                        $($($maybe: library
                            .get(stringify!($maybe_symbol))
                            .ok()
                            .map(|found| *found),)*)?
                    })
                }
            }
        }
    };
}

/// The type that a function of a library returns.
macro_rules! result {
    () => {
        u32
    };
    ($result:ty) => {
        $result
    };
}

pub(crate) use {functions, result};

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

/// Returns the error of opening what is not available.
pub(crate) fn unavailable(backend: &'static str, why: impl Into<String>) -> OpenError {
    OpenError::Unavailable {
        backend,
        why: why.into(),
    }
}
