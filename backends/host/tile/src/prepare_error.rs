//! The errors of preparing a launch.

/// The reason a launch is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PrepareError {
    /// There are too few bindings or words.
    TooFew {
        /// Whether bindings or words.
        what: &'static str,
        /// The number that the program expects.
        needed: usize,
        /// The number in the launch.
        given: usize,
    },
    /// A length is negative, or the index space is too large.
    InvalidLengths,
    /// A product overlaps one of its factors.
    Overlap,
    /// A binding's memory is not aligned for its elements.
    Unaligned {
        /// The index of the binding.
        binding: usize,
    },
    /// An access leaves its binding.
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

impl std::fmt::Display for PrepareError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PrepareError::TooFew {
                what,
                needed,
                given,
            } => write!(f, "expected {needed} {what}, got {given}"),
            PrepareError::InvalidLengths => {
                f.write_str("lengths are negative, or the index space is too large")
            }
            PrepareError::Overlap => {
                f.write_str("the product overlaps one of its factors; give it separate memory")
            }
            PrepareError::Unaligned { binding } => {
                write!(f, "binding {binding} is not aligned for its elements")
            }
            PrepareError::OutOfBounds {
                access,
                binding,
                reach: Some((first, last)),
                elements,
            } => write!(
                f,
                "access {access} reaches elements {first} to {last} of binding {binding}, which has {elements}; \
                 check the launch's lengths, strides and offsets"
            ),
            PrepareError::OutOfBounds {
                access,
                binding,
                reach: None,
                ..
            } => {
                write!(
                    f,
                    "access {access} of binding {binding} overflows; check the launch's lengths, strides and offsets"
                )
            }
        }
    }
}

impl std::error::Error for PrepareError {}
