//! What a launch carries beside its bindings: words, metadata, tensor maps.

mod inline;
mod metadata;
mod tensor_map;
mod words;

pub use inline::Inline;
pub use metadata::{Metadata, StaticMetadata};
pub use tensor_map::{
    Im2colMap, Interleave, OutOfBoundsFill, Prefetch, Swizzle, TensorMap, TensorMapFormat,
};

pub use words::{LaunchCount, Pattern};

/// Bindings that a task carries without the heap.
pub const INLINE_BINDINGS: usize = 8;

/// Words of eight bytes that a task carries without the heap: 128 bytes of scalars.
pub const INLINE_WORDS: usize = 16;
