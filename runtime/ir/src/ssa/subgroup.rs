//! Threads that exchange values: the cube, or a subgroup of it.
//!
//! The width of a subgroup is part of the program, so a function means the same on every device. What a device itself calls a
//! subgroup or a warp has another width on each.

use std::fmt;

use crate::named::named;
use crate::scalar::Binary;

/// The most threads of a subgroup: those of a warp, the least that GPUs with fast shuffles have.
pub const SUBGROUP_MAX: u32 = 32;

/// The threads that take part in a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// All threads of a cube.
    Cube,
    /// A subgroup, with its width: the number of neighbours along x, a power of two, at most [`SUBGROUP_MAX`], that divides
    /// the cube's threads along x. Sums and products are those of a tree: in each step each thread of the lower half adds the value of its
    /// partner in the upper half to its own.
    Subgroup(u32),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cube => f.write_str("cube"),
            Self::Subgroup(width) => write!(f, "subgroup {width}"),
        }
    }
}

/// Returns the reduction of the values of a subgroup, in its order. Overwrites the values.
pub fn reduced(values: &mut [u64], f: Binary) -> u64 {
    let mut len = values.len();
    while len > 1 {
        len /= 2;
        let (lower, upper) = values.split_at_mut(len);
        for (lower, upper) in lower.iter_mut().zip(upper) {
            *lower = f(*lower, *upper);
        }
    }
    values[0]
}

named! {
    /// From which thread of its subgroup a thread takes a value, by its own place and a number. If the number, as `u64`, is not
    /// below the width, or the subgroup has no such thread, it is the thread itself.
    Shuffle {
        /// The thread at this place.
        Lane = "lane",
        /// The thread whose place has these bits flipped.
        Xor = "xor",
        /// The thread whose place is greater by the second operand.
        Down = "down",
        /// The thread whose place is less by the second operand.
        Up = "up",
    }
}

impl Shuffle {
    /// Returns the place of the thread whose value the thread at `place` takes.
    #[inline]
    pub fn source(self, place: u32, by: u64, width: u32) -> u32 {
        if by >= u64::from(width) {
            return place;
        }
        let by = by as u32;
        let from = match self {
            Self::Lane => by,
            Self::Xor => place ^ by,
            Self::Down => place + by,
            // Before the first one: beyond the last one, as `u32`.
            Self::Up => place.wrapping_sub(by),
        };
        if from < width { from } else { place }
    }
}
