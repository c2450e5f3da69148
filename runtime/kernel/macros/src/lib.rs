//! The macro `#[kernel]`: makes of one Rust function a program for every device, a loop for the CPU, and a typed launch.
//!
//! | module | contents |
//! | --- | --- |
//! | `signature` | the parameters of a kernel, and the options of the attribute |
//! | `scope` | the names in a body, and how the kernel uses its buffers |
//! | `body` | rewrites a body: as plain Rust, or as calls that trace it |
//! | `names` | the functions and methods that kernels have |
//! | `emit` | the items that the macro writes for functions |
//! | `record` | those for structs of numbers and their methods |
//!
//! The macro knows no types: rustc infers those of both bodies. So it writes each operator as a call of a function that is
//! generic over the numbers, `a + b` as `add(a, b)`, once of the module `plain` and once of `traced`.

mod body;
mod emit;
mod names;
mod record;
mod scope;
mod signature;

use proc_macro::TokenStream;

/// Makes a kernel, or a helper function of kernels, of a Rust function; of a struct one that kernels have, and of its `impl`
/// methods. The guide's page "Kernels" has the language.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = emit::item(attribute.into(), item.into());
    expanded
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}
