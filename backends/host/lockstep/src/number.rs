//! Arithmetic on the bits of values: each function is chosen once a statement, by operation and type.

use half::{bf16, f16};
use millstream_ir::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};

/// One operand.
pub(crate) type One = fn(u64) -> u64;
/// Two.
pub(crate) type Two = fn(u64, u64) -> u64;
/// Three.
pub(crate) type Three = fn(u64, u64, u64) -> u64;

/// A type that values are computed in.
trait Number: Copy + PartialOrd {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn unary(op: UnaryOp) -> Option<One>;
    fn binary(op: BinaryOp) -> Option<Two>;

    /// The one, if it is less or is NaN.
    fn least(self, other: Self) -> Self {
        if self < other || self.is_nan() {
            self
        } else {
            other
        }
    }

    fn greatest(self, other: Self) -> Self {
        if self > other || self.is_nan() {
            self
        } else {
            other
        }
    }

    fn is_nan(self) -> bool {
        self.partial_cmp(&self).is_none()
    }
}

macro_rules! whole {
    ($($name:ident $unsigned:ident),*) => {$(
        impl Number for $name {
            fn of(bits: u64) -> Self {
                bits as $name
            }

            fn bits(self) -> u64 {
                u64::from(self as $unsigned)
            }

            fn unary(op: UnaryOp) -> Option<One> {
                Some(match op {
                    UnaryOp::Neg => |a| Self::of(a).wrapping_neg().bits(),
                    #[allow(unused_comparisons, reason = "of the unsigned ones")]
                    UnaryOp::Abs => |a| {
                        let a = Self::of(a);
                        (if a < 0 { a.wrapping_neg() } else { a }).bits()
                    },
                    UnaryOp::Not => |a| (!Self::of(a)).bits(),
                    _ => return None,
                })
            }

            fn binary(op: BinaryOp) -> Option<Two> {
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
                    // Bits beyond the type's are zero, and stay so.
                    BinaryOp::And => |a, b| a & b,
                    BinaryOp::Or => |a, b| a | b,
                    BinaryOp::Xor => |a, b| a ^ b,
                    BinaryOp::Shl => |a, b| match u32::try_from(Self::of(b)) {
                        Ok(by) => Self::of(a).checked_shl(by).unwrap_or(0).bits(),
                        Err(_) => 0,
                    },
                    BinaryOp::Shr => |a, b| {
                        let by = u32::try_from(Self::of(b)).map_or(Self::BITS, |by| by.min(Self::BITS));
                        // In two steps: one may move all but one of the bits.
                        (Self::of(a) >> (by / 2) >> (by - by / 2)).bits()
                    },
                    _ => return None,
                })
            }
        }
    )*};
}

whole!(i64 u64, u64 u64, i32 u32, u32 u32, i16 u16, u16 u16, i8 u8, u8 u8);

macro_rules! float {
    ($($name:ident $unsigned:ident $erf:path),*) => {$(
        impl Number for $name {
            fn of(bits: u64) -> Self {
                $name::from_bits(bits as $unsigned)
            }

            fn bits(self) -> u64 {
                u64::from(self.to_bits())
            }

            fn unary(op: UnaryOp) -> Option<One> {
                Some(match op {
                    UnaryOp::Neg => |a| (-Self::of(a)).bits(),
                    UnaryOp::Abs => |a| Self::of(a).abs().bits(),
                    UnaryOp::Sqrt => |a| Self::of(a).sqrt().bits(),
                    UnaryOp::Exp => |a| Self::of(a).exp().bits(),
                    UnaryOp::Log => |a| Self::of(a).ln().bits(),
                    UnaryOp::Sin => |a| Self::of(a).sin().bits(),
                    UnaryOp::Cos => |a| Self::of(a).cos().bits(),
                    UnaryOp::Tanh => |a| Self::of(a).tanh().bits(),
                    UnaryOp::Erf => |a| $erf(Self::of(a)).bits(),
                    UnaryOp::Floor => |a| Self::of(a).floor().bits(),
                    UnaryOp::Ceil => |a| Self::of(a).ceil().bits(),
                    _ => return None,
                })
            }

            fn binary(op: BinaryOp) -> Option<Two> {
                Some(match op {
                    BinaryOp::Add => |a, b| (Self::of(a) + Self::of(b)).bits(),
                    BinaryOp::Sub => |a, b| (Self::of(a) - Self::of(b)).bits(),
                    BinaryOp::Mul => |a, b| (Self::of(a) * Self::of(b)).bits(),
                    BinaryOp::Div => |a, b| (Self::of(a) / Self::of(b)).bits(),
                    BinaryOp::Rem => |a, b| (Self::of(a) % Self::of(b)).bits(),
                    BinaryOp::Min => |a, b| Self::of(a).least(Self::of(b)).bits(),
                    BinaryOp::Max => |a, b| Self::of(a).greatest(Self::of(b)).bits(),
                    BinaryOp::Pow => |a, b| Self::of(a).powf(Self::of(b)).bits(),
                    _ => return None,
                })
            }
        }
    )*};
}

float!(f64 u64 libm::erf, f32 u32 libm::erff);

/// Calls a generic function for the type that a dtype computes as; halves and truth values compute as none.
macro_rules! by_type {
    ($dtype:expr, $function:ident($($argument:expr),*)) => {
        match $dtype {
            DType::F64 => $function::<f64>($($argument),*),
            DType::F32 => $function::<f32>($($argument),*),
            DType::I64 => $function::<i64>($($argument),*),
            DType::U64 => $function::<u64>($($argument),*),
            DType::I32 => $function::<i32>($($argument),*),
            DType::U32 => $function::<u32>($($argument),*),
            DType::I16 => $function::<i16>($($argument),*),
            DType::U16 => $function::<u16>($($argument),*),
            DType::I8 => $function::<i8>($($argument),*),
            DType::U8 => $function::<u8>($($argument),*),
            _ => None,
        }
    };
}

/// An operation on values of this type; none where it is for others.
pub(crate) fn unary(op: UnaryOp, dtype: DType) -> Option<One> {
    fn of<T: Number>(op: UnaryOp) -> Option<One> {
        T::unary(op)
    }
    match (dtype, op) {
        (DType::Bool, UnaryOp::Not) => Some(|a| a ^ 1),
        (dtype, op) => by_type!(dtype, of(op)),
    }
}

/// An operation on two values of this type.
pub(crate) fn binary(op: BinaryOp, dtype: DType) -> Option<Two> {
    fn of<T: Number>(op: BinaryOp) -> Option<Two> {
        T::binary(op)
    }
    match (dtype, op) {
        (DType::Bool, BinaryOp::And | BinaryOp::Min) => Some(|a, b| a & b),
        (DType::Bool, BinaryOp::Or | BinaryOp::Max) => Some(|a, b| a | b),
        (DType::Bool, BinaryOp::Xor) => Some(|a, b| a ^ b),
        (dtype, op) => by_type!(dtype, of(op)),
    }
}

/// What a reduction makes two values one by.
pub(crate) fn reduction(op: ReduceOp, dtype: DType) -> Option<Two> {
    let op = match op {
        ReduceOp::Sum => BinaryOp::Add,
        ReduceOp::Prod => BinaryOp::Mul,
        ReduceOp::Min => BinaryOp::Min,
        ReduceOp::Max => BinaryOp::Max,
        _ => return None,
    };
    binary(op, dtype)
}

/// A comparison of two values of this type.
pub(crate) fn compare(op: CompareOp, dtype: DType) -> Option<Two> {
    fn of<T: Number>(op: CompareOp) -> Option<Two> {
        Some(match op {
            CompareOp::Eq => |a, b| u64::from(T::of(a) == T::of(b)),
            CompareOp::Ne => |a, b| u64::from(T::of(a) != T::of(b)),
            CompareOp::Lt => |a, b| u64::from(T::of(a) < T::of(b)),
            CompareOp::Le => |a, b| u64::from(T::of(a) <= T::of(b)),
            CompareOp::Gt => |a, b| u64::from(T::of(a) > T::of(b)),
            CompareOp::Ge => |a, b| u64::from(T::of(a) >= T::of(b)),
            _ => return None,
        })
    }
    /// A type that is compared as another.
    macro_rules! by_way_of {
        ($half:ident) => {{
            fn wide(bits: u64) -> f32 {
                $half::from_bits(bits as u16).to_f32()
            }
            match op {
                CompareOp::Eq => Some(|a, b| u64::from(wide(a) == wide(b))),
                CompareOp::Ne => Some(|a, b| u64::from(wide(a) != wide(b))),
                CompareOp::Lt => Some(|a, b| u64::from(wide(a) < wide(b))),
                CompareOp::Le => Some(|a, b| u64::from(wide(a) <= wide(b))),
                CompareOp::Gt => Some(|a, b| u64::from(wide(a) > wide(b))),
                CompareOp::Ge => Some(|a, b| u64::from(wide(a) >= wide(b))),
                _ => None,
            }
        }};
    }
    match dtype {
        DType::Bool => of::<u8>(op),
        DType::F16 => by_way_of!(f16),
        DType::Bf16 => by_way_of!(bf16),
        dtype => by_type!(dtype, of(op)),
    }
}

/// `a * b + c`, rounded once.
pub(crate) fn fma(dtype: DType) -> Option<Three> {
    match dtype {
        DType::F64 => Some(|a, b, c| f64::of(a).mul_add(f64::of(b), f64::of(c)).bits()),
        DType::F32 => Some(|a, b, c| f32::of(a).mul_add(f32::of(b), f32::of(c)).bits()),
        _ => None,
    }
}

/// Any value, without loss.
#[derive(Clone, Copy)]
enum Any {
    Float(f64),
    Whole(i128),
}

/// A value of one type as another.
pub(crate) fn cast(bits: u64, from: DType, to: DType) -> u64 {
    let value = match from {
        DType::F64 => Any::Float(f64::of(bits)),
        DType::F32 => Any::Float(f32::of(bits).into()),
        DType::F16 => Any::Float(f16::from_bits(bits as u16).into()),
        DType::Bf16 => Any::Float(bf16::from_bits(bits as u16).into()),
        DType::I64 => Any::Whole((bits as i64).into()),
        DType::I32 => Any::Whole((bits as i32).into()),
        DType::I16 => Any::Whole((bits as i16).into()),
        DType::I8 => Any::Whole((bits as i8).into()),
        _ => Any::Whole(bits.into()),
    };
    match (value, to) {
        (Any::Float(value), DType::Bool) => u64::from(value != 0.0),
        (Any::Whole(value), DType::Bool) => u64::from(value != 0),
        (Any::Float(value), DType::F64) => value.to_bits(),
        (Any::Whole(value), DType::F64) => (value as f64).to_bits(),
        (Any::Float(value), DType::F32) => (value as f32).bits(),
        (Any::Whole(value), DType::F32) => (value as f32).bits(),
        (value, DType::F16) => f16::from_f32(to_odd(value)).to_bits().into(),
        (value, DType::Bf16) => bf16::from_f32(to_odd(value)).to_bits().into(),
        // Integers wrap, floats are cut and kept within what the type has.
        (Any::Whole(value), to) => value as u64 & mask(to),
        (Any::Float(value), DType::I64) => (value as i64).bits(),
        (Any::Float(value), DType::U64) => (value as u64).bits(),
        (Any::Float(value), DType::I32) => (value as i32).bits(),
        (Any::Float(value), DType::U32) => (value as u32).bits(),
        (Any::Float(value), DType::I16) => (value as i16).bits(),
        (Any::Float(value), DType::U16) => (value as u16).bits(),
        (Any::Float(value), DType::I8) => (value as i8).bits(),
        (Any::Float(value), _) => (value as u8).bits(),
    }
}

/// The bits that a type has.
pub(crate) fn mask(dtype: DType) -> u64 {
    u64::MAX >> (64 - 8 * dtype.size())
}

/// As a single: cut, with the last bit set where that cut anything off. Rounded once more, to a half, it is as if it was rounded
/// once.
fn to_odd(value: Any) -> f32 {
    let (near, exact, beyond) = match value {
        Any::Float(value) => {
            let near = value as f32;
            let back = f64::from(near);
            (
                near,
                back == value || value.is_nan(),
                back.abs() > value.abs(),
            )
        }
        Any::Whole(value) => {
            let near = value as f32;
            let back = near as i128;
            (near, back == value, back.abs() > value.abs())
        }
    };
    match exact {
        true => near,
        false => f32::from_bits((near.to_bits() - u32::from(beyond)) | 1),
    }
}

/// Philox4x32-10: the first word, for a counter in the low half of the four.
pub(crate) fn random(seed: u64, counter: u64) -> u64 {
    let mut x = [counter as u32, (counter >> 32) as u32, 0, 0];
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..10 {
        let [low, high] =
            [(0xd251_1f53_u64, x[0]), (0xcd9e_8d57, x[2])].map(|(by, word)| by * u64::from(word));
        x = [
            (high >> 32) as u32 ^ x[1] ^ key[0],
            high as u32,
            (low >> 32) as u32 ^ x[3] ^ key[1],
            low as u32,
        ];
        key = [
            key[0].wrapping_add(0x9e37_79b9),
            key[1].wrapping_add(0xbb67_ae85),
        ];
    }
    x[0].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_known_answer() {
        assert_eq!(random(0, 0), 0x6627_e8d5);
    }

    #[test]
    fn a_half_is_rounded_once_from_whatever() {
        // Just above the middle of two neighbours of bf16: a single has only the middle, which goes to the even one.
        let wide = 1.0 + 1.0 / 256.0 + 1e-12_f64;
        let bits = cast(wide.to_bits(), DType::F64, DType::Bf16);
        assert_eq!(bf16::from_bits(bits as u16).to_f32(), 1.0 + 1.0 / 128.0);
        let whole = (1_i64 << 40) + (1 << 32) + 1;
        let bits = cast(whole as u64, DType::I64, DType::Bf16);
        assert_eq!(
            bf16::from_bits(bits as u16).to_f32(),
            ((1_i64 << 40) + (1 << 33)) as f32
        );
        let most = cast(1e300_f64.to_bits(), DType::F64, DType::F16);
        assert_eq!(f16::from_bits(most as u16), f16::INFINITY);
    }

    #[test]
    fn floats_are_cut_and_kept_within_integers() {
        let cast = |value: f64, to| cast(value.to_bits(), DType::F64, to);
        assert_eq!(cast(300.5, DType::U8), 255);
        assert_eq!(cast(-1.5, DType::I8), 0xff);
        assert_eq!(cast(-1e30, DType::I64), 1 << 63);
        assert_eq!(cast(f64::NAN, DType::I32), 0);
        assert_eq!(cast(f64::NAN, DType::Bool), 1);
    }
}
