//! The element types of all backends and all levels of the IR.

use crate::named::named;

named! {
    /// The type of one element.
    ///
    /// The order of the variants is the packing order of scalars: by size, largest first, so that each group is aligned
    /// behind the one before it.
    #[non_exhaustive]
    DType {
        /// 64-bit float.
        F64 = "f64",
        /// 64-bit signed integer.
        I64 = "i64",
        /// 64-bit unsigned integer.
        U64 = "u64",
        /// 32-bit float.
        F32 = "f32",
        /// 32-bit signed integer.
        I32 = "i32",
        /// 32-bit unsigned integer.
        U32 = "u32",
        /// 16-bit float, IEEE half.
        F16 = "f16",
        /// 16-bit float, bfloat16.
        Bf16 = "bf16",
        /// 16-bit signed integer.
        I16 = "i16",
        /// 16-bit unsigned integer.
        U16 = "u16",
        /// 8-bit signed integer.
        I8 = "i8",
        /// 8-bit unsigned integer.
        U8 = "u8",
        /// A bool in one byte: 0 or 1.
        Bool = "bool",
    }
}

impl DType {
    /// Returns the size of one element in bytes, which is also its alignment.
    ///
    /// ```
    /// use millstream_ir::DType;
    /// assert_eq!(DType::Bf16.size(), 2);
    /// ```
    pub const fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 | DType::U64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::Bf16 | DType::I16 | DType::U16 => 2,
            DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }

    /// Returns the type of words that elements of all these types consist of: the type itself if there is one, otherwise the
    /// unsigned integer of the smallest size. A `bool` among others counts as a byte.
    ///
    /// ```
    /// use millstream_ir::DType;
    /// assert_eq!(DType::common(&[DType::F32, DType::F32]), DType::F32);
    /// assert_eq!(DType::common(&[DType::F64, DType::U32]), DType::U32);
    /// ```
    ///
    /// # Panics
    /// There is no type.
    pub const fn common(all: &[Self]) -> Self {
        assert!(!all.is_empty(), "an element has at least one number");
        let (mut common, mut at) = (all[0], 1);
        while at < all.len() {
            if common as u8 != all[at] as u8 {
                common = match all[at].size() < common.size() {
                    true => all[at].unsigned(),
                    false => common.unsigned(),
                };
            }
            at += 1;
        }
        common
    }

    /// Returns `true` for floats.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F64 | DType::F32 | DType::F16 | DType::Bf16)
    }

    /// Returns `true` for signed integers.
    pub const fn is_signed(self) -> bool {
        matches!(self, DType::I64 | DType::I32 | DType::I16 | DType::I8)
    }

    /// Returns the unsigned integer of the same size.
    pub const fn unsigned(self) -> Self {
        match self.size() {
            8 => DType::U64,
            4 => DType::U32,
            2 => DType::U16,
            _ => DType::U8,
        }
    }

    /// Returns whether the bits of each value of this type are those of one of the other type, and the other way around.
    pub(crate) fn has_bits_of(self, other: Self) -> bool {
        self.size() == other.size() && self != DType::Bool && other != DType::Bool
    }

    /// Returns the type of computation: `f32` for halves, which are only stored and cast.
    pub const fn computed(self) -> Self {
        match self {
            DType::F16 | DType::Bf16 => DType::F32,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_order_needs_no_padding_between_types() {
        for pair in DType::ALL.windows(2) {
            assert!(pair[0].size() >= pair[1].size() && pair[0] < pair[1]);
        }
    }
}
