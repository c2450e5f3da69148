//! Rust types as element types: their bits, and the exact operations on integers and floats.

use half::{bf16, f16};

use super::functions::{self, rounded, wide};
use super::number::Number;
use super::{Binary, Element, Unary};
use crate::{BinaryOp, UnaryOp};

macro_rules! whole {
    ($($name:ident $unsigned:ident),*) => {$(
        impl Element for $name {
            fn of(bits: u64) -> Self {
                bits as $name
            }

            fn bits(self) -> u64 {
                u64::from(self as $unsigned)
            }

            fn value(self) -> Number {
                Number::Whole(self.into())
            }

            fn near(value: Number) -> Self {
                match value {
                    Number::Float(value) => value as $name,
                    Number::Whole(value) => value as $name,
                }
            }

            fn unary(op: UnaryOp) -> Option<Unary> {
                Some(match op {
                    UnaryOp::Neg => |a| Self::of(a).wrapping_neg().bits(),
                    #[allow(unused_comparisons, reason = "false for unsigned types")]
                    UnaryOp::Abs => |a| {
                        let a = Self::of(a);
                        (if a < 0 { a.wrapping_neg() } else { a }).bits()
                    },
                    UnaryOp::Not => |a| (!Self::of(a)).bits(),
                    _ => return None,
                })
            }

            fn binary(op: BinaryOp) -> Option<Binary> {
                Some(match op {
                    BinaryOp::Add => |a, b| Self::of(a).wrapping_add(Self::of(b)).bits(),
                    BinaryOp::Sub => |a, b| Self::of(a).wrapping_sub(Self::of(b)).bits(),
                    BinaryOp::Mul => |a, b| Self::of(a).wrapping_mul(Self::of(b)).bits(),
                    BinaryOp::Div => |a, b| match Self::of(b) {
                        0 => 0,
                        b => Self::of(a).wrapping_div(b).bits(),
                    },
                    BinaryOp::Rem => |a, b| match Self::of(b) {
                        0 => 0,
                        b => Self::of(a).wrapping_rem(b).bits(),
                    },
                    BinaryOp::Min => |a, b| Self::of(a).least(Self::of(b)).bits(),
                    BinaryOp::Max => |a, b| Self::of(a).greatest(Self::of(b)).bits(),
                    // The bits above the type are zero and remain so.
                    BinaryOp::And => |a, b| a & b,
                    BinaryOp::Or => |a, b| a | b,
                    BinaryOp::Xor => |a, b| a ^ b,
                    BinaryOp::Shl => |a, b| match u32::try_from(Self::of(b)) {
                        Ok(by) => Self::of(a).checked_shl(by).unwrap_or(0).bits(),
                        Err(_) => 0,
                    },
                    BinaryOp::Shr => |a, b| {
                        let by = u32::try_from(Self::of(b)).map_or(Self::BITS, |by| by.min(Self::BITS));
                        // In two steps: one shift by all bits of the type would overflow.
                        (Self::of(a) >> (by / 2) >> (by - by / 2)).bits()
                    },
                    BinaryOp::Pow => return None,
                })
            }
        }
    )*};
}

whole!(i64 u64, u64 u64, i32 u32, u32 u32, i16 u16, u16 u16, i8 u8, u8 u8);

macro_rules! float {
    ($($name:ident $unsigned:ident),*) => {$(
        impl Element for $name {
            fn of(bits: u64) -> Self {
                $name::from_bits(bits as $unsigned)
            }

            fn bits(self) -> u64 {
                u64::from(self.to_bits())
            }

            fn value(self) -> Number {
                Number::Float(self.into())
            }

            fn near(value: Number) -> Self {
                match value {
                    Number::Float(value) => value as $name,
                    Number::Whole(value) => value as $name,
                }
            }

            fn unary(op: UnaryOp) -> Option<Unary> {
                functions::unary::<$name>(op)
            }

            fn binary(op: BinaryOp) -> Option<Binary> {
                Some(match op {
                    BinaryOp::Add => |a, b| (Self::of(a) + Self::of(b)).bits(),
                    BinaryOp::Sub => |a, b| (Self::of(a) - Self::of(b)).bits(),
                    BinaryOp::Mul => |a, b| (Self::of(a) * Self::of(b)).bits(),
                    BinaryOp::Div => |a, b| (Self::of(a) / Self::of(b)).bits(),
                    BinaryOp::Rem => |a, b| (Self::of(a) % Self::of(b)).bits(),
                    BinaryOp::Min => |a, b| Self::of(a).least(Self::of(b)).bits(),
                    BinaryOp::Max => |a, b| Self::of(a).greatest(Self::of(b)).bits(),
                    BinaryOp::Pow => |a, b| rounded::<Self>(wide::<Self>(a).powf(wide::<Self>(b))),
                    _ => return None,
                })
            }
        }
    )*};
}

float!(f64 u64, f32 u32);

macro_rules! half {
    ($($name:ident),*) => {$(
        impl Element for $name {
            fn of(bits: u64) -> Self {
                $name::from_bits(bits as u16)
            }

            fn bits(self) -> u64 {
                u64::from(self.to_bits())
            }

            fn value(self) -> Number {
                Number::Float(self.to_f32().into())
            }

            fn near(value: Number) -> Self {
                $name::from_f32(value.to_odd())
            }
        }
    )*};
}

half!(f16, bf16);

impl Element for bool {
    fn of(bits: u64) -> Self {
        bits as u8 != 0
    }

    fn bits(self) -> u64 {
        self.into()
    }

    fn value(self) -> Number {
        Number::Whole(self.into())
    }

    fn near(value: Number) -> Self {
        match value {
            Number::Float(value) => value != 0.0,
            Number::Whole(value) => value != 0,
        }
    }

    fn unary(op: UnaryOp) -> Option<Unary> {
        match op {
            UnaryOp::Not => Some(|a| a ^ 1),
            _ => None,
        }
    }

    fn binary(op: BinaryOp) -> Option<Binary> {
        match op {
            BinaryOp::And | BinaryOp::Min => Some(|a, b| a & b),
            BinaryOp::Or | BinaryOp::Max => Some(|a, b| a | b),
            BinaryOp::Xor => Some(|a, b| a ^ b),
            _ => None,
        }
    }
}
