//! Ranges of integers, as bits in the low end of a `u64`: of a signed type, negative numbers are the greatest. A range that
//! would hold numbers of both signs is that of the whole type.

use crate::{BinaryOp, DType};

/// The least and the greatest bits of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub(super) least: u64,
    pub(super) most: u64,
}

/// Returns the greatest bits of a type.
fn bits_max(dtype: DType) -> u64 {
    match (dtype, dtype.size()) {
        (DType::Bool, _) => 1,
        (_, size) => u64::MAX >> (64 - 8 * size),
    }
}

/// Returns whether the type is an integer, of which ranges are known.
pub(super) fn is_integer(dtype: DType) -> bool {
    !dtype.is_float() && dtype != DType::Bool
}

impl Range {
    pub(super) fn new(least: u64, most: u64) -> Self {
        Self { least, most }
    }

    /// Returns the range of all values of a type.
    pub(super) fn all(dtype: DType) -> Self {
        Self::new(0, bits_max(dtype))
    }

    /// Returns whether no value is negative as this type, so that bits compare as the values do.
    pub(super) fn is_natural(self, dtype: DType) -> bool {
        self.most <= bits_max(dtype) >> u32::from(dtype.is_signed())
    }

    /// Returns what both ranges have; this one if that is nothing, as in code that is never executed.
    pub(super) fn and(self, other: Self) -> Self {
        let both = Self::new(self.least.max(other.least), self.most.min(other.most));
        if both.least <= both.most { both } else { self }
    }

    /// Returns the range of both.
    pub(super) fn or(self, other: Self) -> Self {
        Self::new(self.least.min(other.least), self.most.max(other.most))
    }

    /// Returns the range of a cast between integers, or from bools.
    pub(super) fn cast(self, from: DType, to: DType) -> Self {
        let fits = self.most <= bits_max(to);
        let is_known = !from.is_float() && is_integer(to);
        match is_known && fits && self.is_natural(from) {
            true => self,
            false => Self::all(to),
        }
    }

    /// Returns the range of an operation on integers of a type.
    pub(super) fn binary(op: BinaryOp, dtype: DType, a: Self, b: Self) -> Self {
        Self::known(op, dtype, a, b)
            .filter(|range| is_integer(dtype) && range.most <= bits_max(dtype))
            .unwrap_or(Self::all(dtype))
    }

    fn known(op: BinaryOp, dtype: DType, a: Self, b: Self) -> Option<Self> {
        let is_natural = a.is_natural(dtype) && b.is_natural(dtype);
        Some(match op {
            BinaryOp::Add => Self::new(a.least.checked_add(b.least)?, a.most.checked_add(b.most)?),
            BinaryOp::Sub => Self::new(a.least.checked_sub(b.most)?, a.most - b.least),
            BinaryOp::Mul => Self::new(a.least.checked_mul(b.least)?, a.most.checked_mul(b.most)?),
            BinaryOp::And => Self::new(0, a.most.min(b.most)),
            BinaryOp::Or | BinaryOp::Xor => {
                let bits = u64::BITS - (a.most | b.most).leading_zeros();
                Self::new(0, u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0))
            }
            _ if !is_natural => return None,
            BinaryOp::Min => Self::new(a.least.min(b.least), a.most.min(b.most)),
            BinaryOp::Max => Self::new(a.least.max(b.least), a.most.max(b.most)),
            // A quotient or remainder by zero is zero.
            BinaryOp::Div if b.least == 0 => Self::new(0, a.most),
            BinaryOp::Div => Self::new(a.least / b.most, a.most / b.least),
            BinaryOp::Rem => Self::new(0, a.most.min(b.most.saturating_sub(1))),
            BinaryOp::Shr => {
                let shift = |by: u64| move |bits: u64| bits.checked_shr(by.min(64) as u32);
                let least = shift(b.most)(a.least).unwrap_or(0);
                Self::new(least, shift(b.least)(a.most).unwrap_or(0))
            }
            BinaryOp::Shl if b.least == b.most && b.most < 64 => {
                let power = 1_u64 << b.most;
                Self::new(a.least.checked_mul(power)?, a.most.checked_mul(power)?)
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scalar;

    proptest! {
        #[test]
        fn a_range_has_every_result(
            (dtype, op) in (prop::sample::select(&DType::ALL), prop::sample::select(&BinaryOp::ALL)),
            ends in prop::array::uniform4(prop_oneof![any::<u64>(), 0..300_u64, (0..64_u32).prop_map(|s| u64::MAX >> s)]),
            parts in prop::array::uniform2(any::<u64>()),
        ) {
            prop_assume!(is_integer(dtype));
            let range = |a: u64, b: u64| {
                let [a, b] = [a, b].map(|end| end & bits_max(dtype));
                Range::new(a.min(b), a.max(b))
            };
            let within = |range: Range, part: u64| match (range.most - range.least).checked_add(1) {
                Some(count) => range.least + part % count,
                None => part,
            };
            let (a, b) = (range(ends[0], ends[1]), range(ends[2], ends[3]));
            let (x, y) = (within(a, parts[0]), within(b, parts[1]));
            if let Some(f) = scalar::binary(op, dtype) {
                let all = Range::binary(op, dtype, a, b);
                prop_assert!((all.least..=all.most).contains(&f(x, y)), "{op} {dtype} {a:?} {b:?}");
            }
            for to in DType::ALL.iter().copied() {
                let all = a.cast(dtype, to);
                let bits = scalar::cast(dtype, to)(x);
                prop_assert!((all.least..=all.most).contains(&bits), "{dtype} as {to}: {a:?}");
            }
        }
    }
}
