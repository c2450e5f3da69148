//! Atomic operations.

use super::ValueId;
use crate::{BinaryOp, DType, scalar};

/// What an atomic operation does to an element. Relaxed: it orders no other access. The value of all of them is what the
/// element was before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum AtomicOp {
    /// Nothing.
    Load,
    /// Stores a value.
    Swap(ValueId),
    /// Stores the result of an operation on the element and a value: a sum, minimum, maximum, and, or, exclusive or.
    Update(BinaryOp, ValueId),
    /// Stores the second value if the element has the first one.
    CompareExchange(ValueId, ValueId),
}

impl AtomicOp {
    /// Returns the name in the text of a function.
    pub fn name(self) -> &'static str {
        match self {
            AtomicOp::Load => "load",
            AtomicOp::Swap(_) => "swap",
            AtomicOp::Update(op, _) => op.name(),
            AtomicOp::CompareExchange(..) => "compare_exchange",
        }
    }

    /// Returns the operands, in order.
    pub fn operands(self) -> impl Iterator<Item = ValueId> {
        let [a, b] = match self {
            AtomicOp::Load => [None, None],
            AtomicOp::Swap(a) | AtomicOp::Update(_, a) => [Some(a), None],
            AtomicOp::CompareExchange(a, b) => [Some(a), Some(b)],
        };
        a.into_iter().chain(b)
    }

    /// Returns `true` if the operation supports this type.
    pub fn takes(self, dtype: DType) -> bool {
        use BinaryOp::{Add, And, Max, Min, Or, Xor};
        let is_for_floats = match self {
            AtomicOp::Load | AtomicOp::Swap(_) | AtomicOp::Update(Add, _) => true,
            AtomicOp::Update(Min | Max | And | Or | Xor, _) | AtomicOp::CompareExchange(..) => {
                false
            }
            AtomicOp::Update(..) => return false,
        };
        dtype.size() >= 4 && (is_for_floats || !dtype.is_float())
    }

    /// Returns the function that computes what is stored: from the bits of the element, and those of the operands.
    pub fn function(self, dtype: DType) -> impl Fn(u64, [u64; 2]) -> u64 + Copy {
        let update = match self {
            AtomicOp::Update(op, _) => scalar::binary(op, dtype),
            _ => None,
        };
        move |before, [a, b]| match (self, update) {
            (_, Some(update)) => update(before, a),
            (AtomicOp::Swap(_), _) => a,
            (AtomicOp::CompareExchange(..), _) if before == a => b,
            _ => before,
        }
    }
}
