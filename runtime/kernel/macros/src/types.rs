//! The types that kernels do not have.

use syn::{Error, Result, Type};

use crate::refused;

/// Refuses types that no device has.
pub(crate) fn refuse_type(of: &Type) -> Result<()> {
    let why = match of {
        Type::TraitObject(_) | Type::ImplTrait(_) => {
            "kernels have no traits as types: name a number, or a generic type with the bound `Number`"
        }
        Type::FnPtr(_) => "kernels have no function pointers: call the function by its name",
        Type::Ptr(_) => {
            "kernels have no pointers: take a buffer, `&[T]` or `&mut [T]`, and an index"
        }
        Type::Slice(_) => "a slice is a buffer of a kernel: write `&[T]` or `&mut [T]`",
        Type::Reference(_) => "kernels have no references to values: copy the value",
        Type::Never(_) => "a kernel ends: it cannot return `!`",
        Type::Path(path) => {
            let last = path.path.segments.last().map(|last| last.ident.to_string());
            match last.as_deref() {
                Some(name) if refused::is_allocated(name) => {
                    "kernels allocate nothing: use an array, `[T; N]`, or a buffer that the caller passes"
                }
                Some("str" | "char") => "kernels have no text: pass numbers, such as `u8`",
                Some("u128" | "i128") => "no device has 128-bit integers: use two `u64`",
                Some("Option" | "Result") => {
                    "kernels have no enums: use a number, and a value of it that means none"
                }
                _ => return Ok(()),
            }
        }
        Type::Tuple(tuple) => return tuple.elems.iter().try_for_each(refuse_type),
        Type::Array(array) => return refuse_type(&array.elem),
        _ => return Ok(()),
    };
    Err(Error::new_spanned(of, why))
}
