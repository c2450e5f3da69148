//! What one launch carries: cube count, bindings, scalars, metadata, tensor maps.

mod arguments;
mod count;
mod inline;
mod metadata;
mod misfit;
mod pack;
mod tensor_map;
mod tuples;
mod types;
mod untyped;

pub use arguments::{
    Argument, ArgumentCount, Arguments, Bound, LaunchArgs, bind, read, update, write,
};
pub use count::CubeCount;
pub use inline::Inline;
pub use metadata::{Metadata, StaticMetadata};
pub use misfit::ArgumentError;
pub use pack::ArgumentWriter;
pub(crate) use pack::Packed;
pub use tensor_map::{
    Im2colMap, Interleave, OutOfBoundsFill, Prefetch, Swizzle, TensorMap, TensorMapFormat,
};
pub(crate) use tuples::{nine_to_sixteen, up_to_eight};
pub use types::{ArgumentType, ArgumentTypes, Read, Update, Write};
pub(crate) use types::{kinds_of, kinds_of_types};
pub(crate) use untyped::Untyped;

/// Bindings that a task carries without the heap.
pub const INLINE_BINDINGS: usize = 8;

/// Words of eight bytes that a task carries without the heap: 128 bytes of scalars.
pub const INLINE_WORDS: usize = 16;
