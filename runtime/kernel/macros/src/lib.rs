//! The macro `#[kernel]`: makes of one Rust function a program for every device, a loop for the CPU, and a typed launch.
//!
//! | module | contents |
//! | --- | --- |
//! | `signature` | the parameters of a kernel, and the options of the attribute |
//! | `types` | the types that kernels do not have |
//! | `scope` | the names in a body, and how the kernel uses its buffers |
//! | `generics` | which generic parameters a kernel may have |
//! | `attributes` | which attributes a kernel may have |
//! | `body` | rewrites a body: as plain Rust, or as calls that trace it |
//! | `names` | the functions and methods that kernels have |
//! | `refused` | names that Rust has and kernels do not, and what to write instead |
//! | `emit` | the items that the macro writes for kernels |
//! | `forms` | what those of kernels and helper functions have in common: both bodies, generic parameters, types |
//! | `helper` | the items for helper functions, and for kernels that other kernels call |
//! | `gate` | shows the errors of a body once |
//! | `record` | those for structs of numbers and their methods |
//!
//! The macro knows no types: rustc infers those of both bodies. So it writes each operator as a call of a function that is
//! generic over the numbers, `a + b` as `add(a, b)`, once of the module `plain` and once of `traced`.

mod attributes;
mod body;
mod emit;
mod forms;
mod gate;
mod generics;
mod helper;
mod names;
mod record;
mod refused;
mod scope;
mod signature;
#[cfg(test)]
mod tests;
mod types;

use proc_macro::TokenStream;
use syn::Item;

/// Makes a kernel, or a helper function of kernels, of a Rust function; of a struct one that kernels have, and of its `impl`
/// methods. The guide's page "Kernels" has the language.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand(attribute.into(), item.into()).into()
}

/// Returns what the macro writes, or the errors.
fn expand(
    attribute: proc_macro2::TokenStream,
    item: proc_macro2::TokenStream,
) -> proc_macro2::TokenStream {
    let written = match syn::parse2(item) {
        Ok(Item::Fn(item)) => emit::of_function(attribute, item),
        Ok(Item::Struct(item)) => record::of_struct(&item),
        Ok(Item::Impl(item)) => record::of_impl(&item),
        Ok(other) => Err(syn::Error::new_spanned(
            other,
            "a kernel is a function; structs of numbers and their `impl` have the attribute too",
        )),
        Err(error) => Err(error),
    };
    written.unwrap_or_else(|error| error.to_compile_error())
}
