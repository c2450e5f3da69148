//! The element types of all backends and all levels of the IR.

use std::fmt;

/// The type of one element.
///
/// The order of the variants is the packing order of scalars: by size, largest first, so that each group is aligned
/// behind the one before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum DType {
    /// 64-bit float.
    F64,
    /// 64-bit signed integer.
    I64,
    /// 64-bit unsigned integer.
    U64,
    /// 32-bit float.
    F32,
    /// 32-bit signed integer.
    I32,
    /// 32-bit unsigned integer.
    U32,
    /// 16-bit float, IEEE half.
    F16,
    /// 16-bit float, bfloat16.
    Bf16,
    /// 16-bit signed integer.
    I16,
    /// 16-bit unsigned integer.
    U16,
    /// 8-bit signed integer.
    I8,
    /// 8-bit unsigned integer.
    U8,
    /// A bool in one byte: 0 or 1.
    Bool,
}

impl DType {
    /// All element types, in packing order.
    pub const ALL: [DType; 13] = [
        DType::F64,
        DType::I64,
        DType::U64,
        DType::F32,
        DType::I32,
        DType::U32,
        DType::F16,
        DType::Bf16,
        DType::I16,
        DType::U16,
        DType::I8,
        DType::U8,
        DType::Bool,
    ];

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

    /// Returns `true` for floats.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F64 | DType::F32 | DType::F16 | DType::Bf16)
    }

    /// Returns the type of computation: `f32` for halves, which are only stored and cast.
    pub const fn computed(self) -> Self {
        match self {
            DType::F16 | DType::Bf16 => DType::F32,
            other => other,
        }
    }

    /// Returns the type of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Returns the name, as in Rust.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::I64 => "i64",
            DType::U64 => "u64",
            DType::F32 => "f32",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::I16 => "i16",
            DType::U16 => "u16",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::Bool => "bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
