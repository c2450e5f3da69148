//! The errors of preparing a launch.

use millstream_protocol::kernel::NativeView;

/// The reason a launch is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// There are too few bindings or words.
    #[error("expected at least {needed} {what}, got {given}")]
    TooFew {
        /// Whether bindings or words.
        what: &'static str,
        /// The number that the program expects.
        needed: usize,
        /// The number in the launch.
        given: usize,
    },
    /// A length is negative, or the index space is too large.
    #[error(
        "the lengths {lengths:?} are negative, or their product is too large; check the launch's words"
    )]
    InvalidLengths {
        /// The lengths.
        lengths: Box<[i64]>,
    },
    /// A product overlaps one of its factors.
    #[error("the product (binding 2) overlaps one of its factors; give it separate memory")]
    Overlap,
    /// A binding's memory is not aligned for its elements.
    #[error(
        "binding {binding} starts {excess} bytes after a multiple of its element size of {align} bytes; slice at a multiple of {align}"
    )]
    Unaligned {
        /// The index of the binding.
        binding: usize,
        /// The bytes by which its start exceeds a multiple of the element size.
        excess: usize,
        /// The element size, in bytes.
        align: usize,
    },
    /// An access leaves its binding.
    #[error(
        "access {access} {} of binding {binding}, which has {elements}; check the launch's lengths, strides and offsets",
        .reach.map_or("overflows the elements".to_owned(), |(first, last)| format!("reaches elements {first} to {last}"))
    )]
    OutOfBounds {
        /// The index of the access.
        access: usize,
        /// The index of the binding.
        binding: usize,
        /// The first and the last element that it touches; `None` if they overflow.
        reach: Option<(i64, i64)>,
        /// The number of elements of the binding.
        elements: i64,
    },
}

impl PrepareError {
    #[cold]
    pub(crate) fn lengths(words: &[u64]) -> Self {
        let lengths = words.iter().map(|word| *word as i64).collect();
        Self::InvalidLengths { lengths }
    }

    #[cold]
    pub(crate) fn unaligned(binding: usize, view: NativeView, align: usize) -> Self {
        Self::Unaligned {
            binding,
            excess: view.pointer.addr() % align,
            align,
        }
    }
}
