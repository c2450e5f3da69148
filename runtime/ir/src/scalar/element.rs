//! Rust types as element types: their bits, and the exact operations on integers and floats.

use half::{bf16, f16};

use super::arith::{self, Bits, Number as _};
use super::functions::{self, rounded, wide};
use super::number::Number;
use super::{Binary, Element, Unary};
use crate::{BinaryOp, UnaryOp};

/// Returns the function of an operation that integers and floats have.
fn arithmetic<T: Element + arith::Number>(op: BinaryOp) -> Option<Binary> {
    Some(match op {
        BinaryOp::Add => |a, b| T::of(a).plus(T::of(b)).bits(),
        BinaryOp::Sub => |a, b| T::of(a).minus(T::of(b)).bits(),
        BinaryOp::Mul => |a, b| T::of(a).times(T::of(b)).bits(),
        BinaryOp::Div => |a, b| T::of(a).over(T::of(b)).bits(),
        BinaryOp::Rem => |a, b| T::of(a).remainder(T::of(b)).bits(),
        BinaryOp::Min => |a, b| T::of(a).least(T::of(b)).bits(),
        BinaryOp::Max => |a, b| T::of(a).greatest(T::of(b)).bits(),
        _ => return None,
    })
}

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
                    UnaryOp::Neg => |a| Self::of(a).negated().bits(),
                    UnaryOp::Abs => |a| Self::of(a).absolute().bits(),
                    UnaryOp::Not => |a| Self::of(a).inverted().bits(),
                    _ => return None,
                })
            }

            fn binary(op: BinaryOp) -> Option<Binary> {
                Some(match op {
                    BinaryOp::And => |a, b| Self::of(a).and(Self::of(b)).bits(),
                    BinaryOp::Or => |a, b| Self::of(a).or(Self::of(b)).bits(),
                    BinaryOp::Xor => |a, b| Self::of(a).xor(Self::of(b)).bits(),
                    BinaryOp::Shl => |a, b| Self::of(a).shifted_up(Self::of(b)).bits(),
                    BinaryOp::Shr => |a, b| Self::of(a).shifted_down(Self::of(b)).bits(),
                    op => return arithmetic::<Self>(op),
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
                    BinaryOp::Pow => |a, b| rounded::<Self>(wide::<Self>(a).powf(wide::<Self>(b))),
                    op => return arithmetic::<Self>(op),
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
