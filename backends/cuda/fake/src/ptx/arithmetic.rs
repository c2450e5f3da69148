//! What operations compute. Registers hold bits; a narrow value leaves the upper ones 0.

use crate::ptx::instruction::{Binary, Comparison, Rounding, Ternary, Type, Unary};

/// The bits that a value of this type has.
pub(super) fn trim(ty: Type, bits: u64) -> u64 {
    match ty.bytes() {
        8 => bits,
        bytes => bits & ((1 << (u32::from(bytes) * 8)) - 1),
    }
}

/// As a number; signed ones have their sign.
fn integer(ty: Type, bits: u64) -> i128 {
    let bits = trim(ty, bits);
    match ty {
        Type::Signed(bytes) => {
            let unused = 64 - u32::from(bytes) * 8;
            i128::from(((bits << unused) as i64) >> unused)
        }
        _ => i128::from(bits),
    }
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn double(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// Of floats, in their own width.
fn floats(ty: Type, a: u64, b: u64, of32: fn(f32, f32) -> f32, of64: fn(f64, f64) -> f64) -> u64 {
    match ty.bytes() {
        4 => u64::from(of32(single(a), single(b)).to_bits()),
        _ => of64(double(a), double(b)).to_bits(),
    }
}

/// A function of either width.
type Both = (fn(f32) -> f32, fn(f64) -> f64);

pub(super) fn unary(op: Unary, ty: Type, a: u64) -> u64 {
    if !ty.is_float() {
        let wide = integer(ty, a);
        let bits = match op {
            Unary::Abs => wide.unsigned_abs() as u64,
            Unary::Neg => wide.wrapping_neg() as u64,
            Unary::Popc => u64::from(trim(ty, a).count_ones()),
            Unary::Clz => u64::from(trim(ty, a).leading_zeros()) + u64::from(ty.bytes()) * 8 - 64,
            Unary::Not if ty == Type::Predicate => 1 - (a & 1),
            _ => !a,
        };
        return trim(ty, bits);
    }
    let (of32, of64): Both = match op {
        Unary::Abs => (f32::abs, f64::abs),
        Unary::Sqrt => (f32::sqrt, f64::sqrt),
        Unary::Rsqrt => (|a| 1.0 / a.sqrt(), |a| 1.0 / a.sqrt()),
        Unary::Rcp => (|a| 1.0 / a, |a| 1.0 / a),
        Unary::Ex2 => (f32::exp2, f64::exp2),
        Unary::Lg2 => (f32::log2, f64::log2),
        Unary::Sin => (f32::sin, f64::sin),
        Unary::Cos => (f32::cos, f64::cos),
        _ => (|a| -a, |a| -a),
    };
    match ty.bytes() {
        4 => u64::from(of32(single(a)).to_bits()),
        _ => of64(double(a)).to_bits(),
    }
}

/// None where it is a division of integers by 0, whose result is undefined.
pub(super) fn binary(op: Binary, ty: Type, a: u64, b: u64) -> Option<u64> {
    if ty.is_float() {
        return Some(match op {
            Binary::Add => floats(ty, a, b, |a, b| a + b, |a, b| a + b),
            Binary::Sub => floats(ty, a, b, |a, b| a - b, |a, b| a - b),
            Binary::Div => floats(ty, a, b, |a, b| a / b, |a, b| a / b),
            Binary::Min => floats(ty, a, b, f32::min, f64::min),
            Binary::Max => floats(ty, a, b, f32::max, f64::max),
            _ => floats(ty, a, b, |a, b| a * b, |a, b| a * b),
        });
    }
    let width = u32::from(ty.bytes()) * 8;
    let (wide_a, wide_b) = (integer(ty, a), integer(ty, b));
    let bits = match op {
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::MulLow => a.wrapping_mul(b),
        Binary::MulHigh => (wide_a.wrapping_mul(wide_b) >> width) as u64,
        Binary::MulWide => return Some(trim(ty.doubled(), wide_a.wrapping_mul(wide_b) as u64)),
        Binary::Div => wide_a.checked_div(wide_b)? as u64,
        Binary::Rem => wide_a.checked_rem(wide_b)? as u64,
        Binary::Min => wide_a.min(wide_b) as u64,
        Binary::Max => wide_a.max(wide_b) as u64,
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        // The amount is 32 bits without sign; more than the width is the width.
        Binary::Shl => match b as u32 {
            by if by >= width => 0,
            by => a << by,
        },
        Binary::Shr => (wide_a >> (b as u32).min(width)) as u64,
    };
    Some(trim(ty, bits))
}

pub(super) fn ternary(op: Ternary, ty: Type, a: u64, b: u64, c: u64) -> u64 {
    if ty.is_float() {
        return match ty.bytes() {
            4 => u64::from(single(a).mul_add(single(b), single(c)).to_bits()),
            _ => double(a).mul_add(double(b), double(c)).to_bits(),
        };
    }
    let (product, ty) = match op {
        Ternary::MadHigh => (binary(Binary::MulHigh, ty, a, b), ty),
        Ternary::MadWide => (binary(Binary::MulWide, ty, a, b), ty.doubled()),
        _ => (binary(Binary::MulLow, ty, a, b), ty),
    };
    trim(ty, product.unwrap_or(0).wrapping_add(c))
}

pub(super) fn compare(how: Comparison, ty: Type, a: u64, b: u64) -> bool {
    let order = match ty {
        Type::Float(4) => single(a).partial_cmp(&single(b)),
        Type::Float(_) => double(a).partial_cmp(&double(b)),
        _ => Some(integer(ty, a).cmp(&integer(ty, b))),
    };
    match (how, order) {
        (Comparison::NotEqualOrNan, None) => true,
        (_, None) => false,
        (Comparison::Equal, Some(order)) => order.is_eq(),
        (Comparison::NotEqual | Comparison::NotEqualOrNan, Some(order)) => order.is_ne(),
        (Comparison::Less, Some(order)) => order.is_lt(),
        (Comparison::LessOrEqual, Some(order)) => order.is_le(),
        (Comparison::Greater, Some(order)) => order.is_gt(),
        (Comparison::GreaterOrEqual, Some(order)) => order.is_ge(),
    }
}

/// The least and the greatest of a type of integers.
fn limits(ty: Type) -> (i128, i128) {
    let bits = u32::from(ty.bytes()) * 8;
    match ty {
        Type::Signed(_) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

pub(super) fn convert(to: Type, from: Type, rounding: Rounding, a: u64) -> u64 {
    match (from, to) {
        (Type::Float(4), Type::Float(8)) => f64::from(single(a)).to_bits(),
        (Type::Float(8), Type::Float(4)) => u64::from((double(a) as f32).to_bits()),
        (Type::Float(bytes), Type::Float(_)) => match bytes {
            4 => u64::from((round(f64::from(single(a)), rounding) as f32).to_bits()),
            _ => round(double(a), rounding).to_bits(),
        },
        (Type::Float(bytes), _) => {
            let value = if bytes == 4 {
                f64::from(single(a))
            } else {
                double(a)
            };
            let (least, greatest) = limits(to);
            // What is too large is the greatest, and no number is 0.
            trim(
                to,
                (round(value, rounding) as i128).clamp(least, greatest) as u64,
            )
        }
        (_, Type::Float(4)) => u64::from((integer(from, a) as f32).to_bits()),
        (_, Type::Float(_)) => (integer(from, a) as f64).to_bits(),
        _ => trim(to, integer(from, a) as u64),
    }
}

fn round(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S32: Type = Type::Signed(4);
    const U32: Type = Type::Unsigned(4);

    fn bits(value: i32) -> u64 {
        u64::from(value as u32)
    }

    #[test]
    fn integers_wrap_and_keep_their_width() {
        assert_eq!(
            binary(Binary::Add, S32, bits(i32::MAX), 1),
            Some(bits(i32::MIN))
        );
        assert_eq!(
            binary(Binary::MulHigh, S32, bits(-1), bits(3)),
            Some(bits(-1))
        );
        assert_eq!(binary(Binary::MulHigh, U32, bits(-1), 3), Some(2));
        assert_eq!(
            binary(Binary::MulWide, S32, bits(-2), 3),
            Some(-6_i64 as u64)
        );
        assert_eq!(binary(Binary::Shr, S32, bits(-8), 1), Some(bits(-4)));
        assert_eq!(binary(Binary::Shr, U32, bits(-8), 40), Some(0));
        assert_eq!(binary(Binary::Shl, U32, 1, 32), Some(0));
        assert_eq!(binary(Binary::Div, S32, bits(-7), 2), Some(bits(-3)));
        assert_eq!(binary(Binary::Rem, S32, bits(-7), 2), Some(bits(-1)));
        assert_eq!(binary(Binary::Div, S32, 1, 0), None);
        assert_eq!(ternary(Ternary::MadWide, S32, bits(-2), 3, 10), 4);
        assert_eq!(unary(Unary::Clz, U32, 1), 31);
        assert_eq!(unary(Unary::Not, Type::Predicate, 1), 0);
    }

    #[test]
    fn numbers_that_are_none_compare_as_nothing_but_unequal() {
        let nan = u64::from(f32::NAN.to_bits());
        let one = u64::from(1_f32.to_bits());
        assert!(!compare(Comparison::NotEqual, Type::Float(4), nan, one));
        assert!(compare(Comparison::NotEqualOrNan, Type::Float(4), nan, one));
        assert!(compare(Comparison::Less, S32, bits(-1), 0));
        assert!(!compare(Comparison::Less, U32, bits(-1), 0));
    }

    #[test]
    fn conversions_round_as_said_and_stop_at_the_ends() {
        let of = |value: f32, rounding| {
            convert(S32, Type::Float(4), rounding, u64::from(value.to_bits()))
        };
        assert_eq!(of(2.5, Rounding::Nearest), 2);
        assert_eq!(of(-2.5, Rounding::Zero), bits(-2));
        assert_eq!(of(-2.5, Rounding::Down), bits(-3));
        assert_eq!(of(1e20, Rounding::Zero), bits(i32::MAX));
        assert_eq!(of(f32::NAN, Rounding::Zero), 0);
        assert_eq!(
            convert(Type::Signed(8), S32, Rounding::Zero, bits(-1)),
            u64::MAX
        );
        assert_eq!(
            convert(Type::Unsigned(8), U32, Rounding::Zero, bits(-1)),
            0xFFFF_FFFF
        );
    }
}
