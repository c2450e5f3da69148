//! Why launches are refused.

/// Why a launch is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LaunchError {
    /// There are not enough bindings or words.
    TooFew {
        /// Of what.
        what: &'static str,
        /// How many are needed.
        needed: usize,
        /// How many there are.
        given: usize,
    },
    /// A length is negative, or the index space cannot be counted.
    InvalidLengths,
    /// A product lies over what it is made of.
    Overlap,
    /// A binding's memory is not aligned for its elements.
    Unaligned {
        /// Which one.
        binding: usize,
    },
    /// An access leaves its binding.
    OutOfBounds {
        /// Which access.
        access: usize,
        /// Which binding.
        binding: usize,
        /// The first and the last element that it touches; none if they cannot be counted.
        reach: Option<(i64, i64)>,
        /// Elements of the binding.
        elements: i64,
    },
}

impl std::fmt::Display for LaunchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LaunchError::TooFew {
                what,
                needed,
                given,
            } => write!(f, "it takes {needed} {what}, {given} are given"),
            LaunchError::InvalidLengths => {
                f.write_str("its lengths are negative, or more than can be counted")
            }
            LaunchError::Overlap => {
                f.write_str("the product overlaps what it is made of: give it memory of its own")
            }
            LaunchError::Unaligned { binding } => {
                write!(f, "binding {binding} is not aligned for its elements")
            }
            LaunchError::OutOfBounds {
                access,
                binding,
                reach: Some((first, last)),
                elements,
            } => write!(
                f,
                "access {access} reaches from element {first} to {last} of binding {binding}, which has {elements}: \
                 check the launch's lengths, strides and offsets"
            ),
            LaunchError::OutOfBounds {
                access,
                binding,
                reach: None,
                ..
            } => {
                write!(
                    f,
                    "access {access} reaches further over binding {binding} than can be counted"
                )
            }
        }
    }
}

impl std::error::Error for LaunchError {}
