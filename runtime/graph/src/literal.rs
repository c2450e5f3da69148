//! Numbers as they are written in expressions, and what they are as elements of a type.

use half::{bf16, f16};
use millstream_ir::DType;

/// A number that becomes an element of whatever type it meets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Literal {
    /// A float.
    Float(f64),
    /// A whole number.
    Int(i128),
    /// A truth value.
    Bool(bool),
}

impl Literal {
    /// Its bits as an element of this type, if the type has it: floats take any number, rounded; integers take whole
    /// numbers in their range; truth values take truth values.
    pub fn bits(self, dtype: DType) -> Option<u64> {
        match self {
            Literal::Bool(value) => (dtype == DType::Bool).then_some(u64::from(value)),
            Literal::Int(value) if dtype.is_float() => float_bits(value as f64, dtype),
            Literal::Float(value) if dtype.is_float() => float_bits(value, dtype),
            Literal::Int(value) => int_bits(value, dtype),
            Literal::Float(value) if value.fract() == 0.0 && value.abs() < 1e30 => {
                int_bits(value as i128, dtype)
            }
            Literal::Float(_) => None,
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

fn float_bits(value: f64, dtype: DType) -> Option<u64> {
    match dtype {
        DType::F64 => Some(value.to_bits()),
        DType::F32 => Some(u64::from((value as f32).to_bits())),
        DType::F16 => Some(u64::from(f16::from_f64(value).to_bits())),
        DType::Bf16 => Some(u64::from(bf16::from_f64(value).to_bits())),
        _ => None,
    }
}

fn int_bits(value: i128, dtype: DType) -> Option<u64> {
    match dtype {
        DType::I64 => i64::try_from(value).ok().map(|value| value as u64),
        DType::I32 => i32::try_from(value)
            .ok()
            .map(|value| u64::from(value as u32)),
        DType::U64 => u64::try_from(value).ok(),
        DType::U32 => u32::try_from(value).ok().map(u64::from),
        DType::U8 => u8::try_from(value).ok().map(u64::from),
        _ => None,
    }
}

/// The bits of a half as those of the same number in `f32`, which halves are computed in; other types stay.
pub(crate) fn computed_bits(bits: u64, dtype: DType) -> u64 {
    match dtype {
        DType::F16 => u64::from(f16::from_bits(bits as u16).to_f32().to_bits()),
        DType::Bf16 => u64::from(bf16::from_bits(bits as u16).to_f32().to_bits()),
        _ => bits,
    }
}

/// An element as text, for schedules that are printed.
pub(crate) fn text(bits: u64, dtype: DType) -> String {
    match dtype {
        DType::F64 => f64::from_bits(bits).to_string(),
        DType::F32 => f32::from_bits(bits as u32).to_string(),
        DType::F16 | DType::Bf16 => f32::from_bits(computed_bits(bits, dtype) as u32).to_string(),
        DType::I64 => (bits as i64).to_string(),
        DType::I32 => (bits as i32).to_string(),
        DType::Bool => (bits != 0).to_string(),
        _ => bits.to_string(),
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
    fn a_number_is_an_element_only_where_the_type_has_it() {
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
