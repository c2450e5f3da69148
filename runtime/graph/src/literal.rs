//! Numbers in expressions, and their conversion to elements of a type.

use millstream_ir::DType;
use millstream_ir::scalar::Number;

/// A number in an expression. It becomes an element of the type of its context.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Literal {
    /// A float.
    Float(f64),
    /// An integer.
    Int(i128),
    /// A bool.
    Bool(bool),
}

impl Literal {
    /// Returns the bits of the number as an element of this type, if the type can represent it: floats take any number,
    /// rounded; integers take integers in their range; `bool` takes bools.
    pub fn bits(self, dtype: DType) -> Option<u64> {
        match self {
            Literal::Bool(value) => (dtype == DType::Bool).then_some(u64::from(value)),
            Literal::Int(value) => Number::Whole(value).exact_bits(dtype),
            Literal::Float(value) => Number::Float(value).exact_bits(dtype),
        }
    }
}

impl std::fmt::Display for Literal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Literal::Float(value) => write!(f, "{value}"),
            Literal::Int(value) => write!(f, "{value}"),
            Literal::Bool(value) => write!(f, "{value}"),
        }
    }
}

/// Returns an element as text, for printed schedules.
pub(crate) fn text(bits: u64, dtype: DType) -> String {
    match Number::of(dtype, bits) {
        // Without digits that the type does not have.
        Number::Float(value) if dtype != DType::F64 => (value as f32).to_string(),
        Number::Float(value) => value.to_string(),
        Number::Whole(value) if dtype == DType::Bool => (value != 0).to_string(),
        Number::Whole(value) => value.to_string(),
    }
}

macro_rules! literals {
    ($($rust:ty => $variant:ident),* $(,)?) => {$(
        impl From<$rust> for Literal {
            fn from(value: $rust) -> Self {
                Literal::$variant(value.into())
            }
        }
    )*};
}

literals! {
    f64 => Float, f32 => Float,
    i64 => Int, i32 => Int, u64 => Int, u32 => Int, u8 => Int,
    bool => Bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_converts_only_to_types_that_can_represent_it() {
        assert_eq!(Literal::from(2.0).bits(DType::I32), Some(2));
        assert_eq!(Literal::from(2.5).bits(DType::I32), None);
        assert_eq!(Literal::from(-1).bits(DType::I64), Some(u64::MAX));
        assert_eq!(Literal::from(-1).bits(DType::U8), None);
        assert_eq!(Literal::from(300).bits(DType::U8), None);
        assert_eq!(Literal::from(1).bits(DType::Bf16), Some(0x3f80));
        assert_eq!(Literal::from(true).bits(DType::F32), None);
        assert_eq!(
            Literal::from(i64::MAX).bits(DType::I64),
            Some(i64::MAX as u64)
        );
    }
}
