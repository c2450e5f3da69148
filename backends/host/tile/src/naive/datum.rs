//! Values, and what operations make of them, by definition.

use std::cmp::Ordering;

use millstream_ir::{BinaryOp, CompareOp, DType, ReduceOp, UnaryOp};

use crate::half::{Bf16, F16, integer_to_odd, to_odd};

/// A value: floats as `f64`, rounded to their type after every operation; all others as `i128`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Datum {
    /// Of a float type.
    Float(f64),
    /// Of any other.
    Whole(i128),
}

use Datum::{Float, Whole};

impl Datum {
    pub(super) fn whole(self) -> i128 {
        match self {
            Whole(value) => value,
            Float(value) => value as i128,
        }
    }

    fn float(self) -> f64 {
        match self {
            Float(value) => value,
            Whole(value) => value as f64,
        }
    }
}

/// Reads an element.
pub fn read(dtype: DType, bytes: &[u8]) -> Datum {
    let mut low = [0; 8];
    low[..dtype.size()].copy_from_slice(&bytes[..dtype.size()]);
    of_bits(dtype, u64::from_le_bytes(low))
}

/// The value that the low bits are of a type.
pub fn of_bits(dtype: DType, bits: u64) -> Datum {
    match dtype {
        DType::F64 => Float(f64::from_bits(bits)),
        DType::F32 => Float(f64::from(f32::from_bits(bits as u32))),
        DType::F16 => Float(f64::from(F16(bits as u16).to_f32())),
        DType::Bf16 => Float(f64::from(Bf16(bits as u16).to_f32())),
        DType::Bool => Whole(i128::from(bits as u8 != 0)),
        dtype => wrapped(dtype, i128::from(bits)),
    }
}

/// The bits of a value of a type.
pub fn to_bits(dtype: DType, value: Datum) -> u64 {
    match dtype {
        DType::F64 => value.float().to_bits(),
        DType::F32 => u64::from((value.float() as f32).to_bits()),
        DType::F16 => u64::from(F16::of_f32(to_odd(value.float())).0),
        DType::Bf16 => u64::from(Bf16::of_f32(to_odd(value.float())).0),
        _ => value.whole() as u64,
    }
}

/// Integers wrap, floats are rounded.
fn wrapped(dtype: DType, value: i128) -> Datum {
    Whole(match dtype {
        DType::I64 => i128::from(value as i64),
        DType::U64 => i128::from(value as u64),
        DType::I32 => i128::from(value as i32),
        DType::U32 => i128::from(value as u32),
        DType::I16 => i128::from(value as i16),
        DType::U16 => i128::from(value as u16),
        DType::I8 => i128::from(value as i8),
        DType::U8 => i128::from(value as u8),
        _ => value & 1,
    })
}

fn rounded(dtype: DType, value: f64) -> Datum {
    match dtype {
        DType::F32 => Float(f64::from(value as f32)),
        _ => Float(value),
    }
}

fn range(dtype: DType) -> (Datum, Datum) {
    let whole = |least: i128, greatest: i128| (Whole(least), Whole(greatest));
    match dtype {
        DType::I64 => whole(i64::MIN.into(), i64::MAX.into()),
        DType::U64 => whole(0, u64::MAX.into()),
        DType::I32 => whole(i32::MIN.into(), i32::MAX.into()),
        DType::U32 => whole(0, u32::MAX.into()),
        DType::I16 => whole(i16::MIN.into(), i16::MAX.into()),
        DType::U16 => whole(0, u16::MAX.into()),
        DType::I8 => whole(i8::MIN.into(), i8::MAX.into()),
        DType::U8 => whole(0, u8::MAX.into()),
        DType::Bool => whole(0, 1),
        _ => (Float(f64::NEG_INFINITY), Float(f64::INFINITY)),
    }
}

pub(super) fn unary(op: UnaryOp, dtype: DType, a: Datum) -> Datum {
    match a {
        Whole(a) => match op {
            UnaryOp::Neg => wrapped(dtype, -a),
            UnaryOp::Abs => wrapped(dtype, a.abs()),
            UnaryOp::Not => wrapped(dtype, !a),
            op => panic!("{op} of {dtype}"),
        },
        Float(a) => rounded(
            dtype,
            match op {
                UnaryOp::Neg => -a,
                UnaryOp::Abs => a.abs(),
                UnaryOp::Sqrt => a.sqrt(),
                UnaryOp::Exp => a.exp(),
                UnaryOp::Log => a.ln(),
                UnaryOp::Sin => a.sin(),
                UnaryOp::Cos => a.cos(),
                UnaryOp::Tanh => a.tanh(),
                UnaryOp::Erf => libm::erf(a),
                UnaryOp::Floor => a.floor(),
                UnaryOp::Ceil => a.ceil(),
                op => panic!("{op} of {dtype}"),
            },
        ),
    }
}

pub(super) fn binary(op: BinaryOp, dtype: DType, a: Datum, b: Datum) -> Datum {
    match (a, b) {
        (Whole(a), Whole(b)) => wrapped(
            dtype,
            match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Mul => a.wrapping_mul(b),
                BinaryOp::Div => a.checked_div(b).unwrap_or(0),
                BinaryOp::Rem => a.checked_rem(b).unwrap_or(0),
                BinaryOp::Min => a.min(b),
                BinaryOp::Max => a.max(b),
                BinaryOp::And => a & b,
                BinaryOp::Or => a | b,
                BinaryOp::Xor => a ^ b,
                BinaryOp::Shl if (0..8 * dtype.size() as i128).contains(&b) => a << b,
                BinaryOp::Shl => 0,
                BinaryOp::Shr if (0..8 * dtype.size() as i128).contains(&b) => a >> b,
                BinaryOp::Shr => a >> 127,
                op => panic!("{op} of {dtype}"),
            },
        ),
        (a, b) => {
            let (a, b) = (a.float(), b.float());
            let either = if a.is_nan() { a } else { b };
            let is_nan = a.is_nan() || b.is_nan();
            rounded(
                dtype,
                match op {
                    BinaryOp::Add => a + b,
                    BinaryOp::Sub => a - b,
                    BinaryOp::Mul => a * b,
                    BinaryOp::Div => a / b,
                    BinaryOp::Rem => a % b,
                    BinaryOp::Min if is_nan => either,
                    BinaryOp::Max if is_nan => either,
                    BinaryOp::Min => a.min(b),
                    BinaryOp::Max => a.max(b),
                    BinaryOp::Pow => a.powf(b),
                    op => panic!("{op} of {dtype}"),
                },
            )
        }
    }
}

pub(super) fn compare(op: CompareOp, a: Datum, b: Datum) -> Datum {
    let order = match (a, b) {
        (Whole(a), Whole(b)) => Some(a.cmp(&b)),
        (a, b) => a.float().partial_cmp(&b.float()),
    };
    Whole(i128::from(match op {
        CompareOp::Eq => order.is_some_and(Ordering::is_eq),
        CompareOp::Ne => order.is_none_or(Ordering::is_ne),
        CompareOp::Lt => order.is_some_and(Ordering::is_lt),
        CompareOp::Le => order.is_some_and(Ordering::is_le),
        CompareOp::Gt => order.is_some_and(Ordering::is_gt),
        CompareOp::Ge => order.is_some_and(Ordering::is_ge),
        op => panic!("{op}"),
    }))
}

pub(super) fn cast(from: Datum, to: DType) -> Datum {
    match (from, to) {
        (Float(value), DType::Bool) => Whole(i128::from(value != 0.0)),
        (Whole(value), DType::Bool) => Whole(i128::from(value != 0)),
        (Float(value), to) if to.is_float() => of_bits(to, to_bits(to, Float(value))),
        (Whole(value), DType::F64) => Float(value as f64),
        (Whole(value), DType::F32) => Float(f64::from(value as f32)),
        (Whole(value), to) if to.is_float() => {
            of_bits(to, to_bits(to, Float(integer_to_odd(value))))
        }
        (Whole(value), to) => wrapped(to, value),
        (Float(value), to) => {
            let (Whole(least), Whole(greatest)) = range(to) else {
                return from;
            };
            Whole((value as i128).clamp(least, greatest))
        }
    }
}

pub(super) fn reduce(op: ReduceOp, dtype: DType, all: &[Datum]) -> Datum {
    let (least, greatest) = range(dtype);
    let is_nan = |a: &Datum| matches!(a, Float(a) if a.is_nan());
    let sum = |start: Datum, op: BinaryOp| match start {
        // Exactly, as far as `f64` goes.
        Float(_) => all.iter().fold(start, |a, b| binary(op, DType::F64, a, *b)),
        Whole(_) => all.iter().fold(start, |a, b| binary(op, dtype, a, *b)),
    };
    let number = |value: i128| {
        if dtype.is_float() {
            Float(value as f64)
        } else {
            Whole(value)
        }
    };
    let best = |op: CompareOp| {
        let mut best: Option<(usize, Datum)> = None;
        for (index, value) in all.iter().enumerate() {
            let takes = best.is_none_or(|(_, best)| {
                !is_nan(&best) && (is_nan(value) || compare(op, *value, best) == Whole(1))
            });
            if takes {
                best = Some((index, *value));
            }
        }
        Whole(best.map_or(0, |(index, _)| index as i128))
    };
    match op {
        ReduceOp::Sum => rounded(dtype, 0.0).pick(dtype, sum(number(0), BinaryOp::Add)),
        ReduceOp::Prod => rounded(dtype, 0.0).pick(dtype, sum(number(1), BinaryOp::Mul)),
        ReduceOp::Min => all
            .iter()
            .fold(greatest, |a, b| binary(BinaryOp::Min, dtype, a, *b)),
        ReduceOp::Max => all
            .iter()
            .fold(least, |a, b| binary(BinaryOp::Max, dtype, a, *b)),
        ReduceOp::ArgMin => best(CompareOp::Lt),
        ReduceOp::ArgMax => best(CompareOp::Gt),
        op => panic!("{op}"),
    }
}

impl Datum {
    /// The other, as its type has it.
    fn pick(self, dtype: DType, other: Datum) -> Datum {
        match other {
            Float(value) => rounded(dtype, value),
            whole => whole,
        }
    }
}
