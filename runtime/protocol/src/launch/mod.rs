//! The parts of a launch besides its bindings: words, metadata, tensor maps.

mod inline;
mod metadata;
mod tensor_map;

pub use metadata::Metadata;
pub use tensor_map::{
    Im2colMap, OutOfBoundsFill, Prefetch, Swizzle, TensorInterleave, TensorMap, TensorMapFormat,
};

pub use inline::{Inline, LaunchCount, Pattern};

/// The number of bindings that a task stores without the heap.
pub const INLINE_BINDINGS: usize = 8;

/// The number of words of eight bytes that a task stores without the heap: 128 bytes of scalars.
pub const INLINE_WORDS: usize = 16;
