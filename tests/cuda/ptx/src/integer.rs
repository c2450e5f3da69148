//! Evaluates operations on integers and bits. A narrow value in a register has zero upper bits.

use crate::instruction::{Binary, Carrying, Ternary, Type, Unary};

/// Clears the bits above the width of the type.
#[inline]
pub(super) fn trim(ty: Type, bits: u64) -> u64 {
    match ty.bytes() {
        8 => bits,
        bytes => bits & ((1 << (u32::from(bytes) * 8)) - 1),
    }
}

pub(super) fn width(ty: Type) -> u32 {
    u32::from(ty.bytes()) * 8
}

/// Returns the numeric value of the bits, sign-extended for signed types.
#[inline]
pub(super) fn integer(ty: Type, bits: u64) -> i128 {
    let bits = trim(ty, bits);
    match ty {
        Type::Signed(bytes) => {
            let unused = 64 - u32::from(bytes) * 8;
            i128::from(((bits << unused) as i64) >> unused)
        }
        _ => i128::from(bits),
    }
}

/// Returns the least and the greatest value of an integer type.
pub(super) fn limits(ty: Type) -> (i128, i128) {
    let bits = width(ty);
    match ty {
        Type::Signed(_) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

/// Clamps a value to the range of the type.
pub(super) fn clamped(ty: Type, value: i128) -> u64 {
    let (least, greatest) = limits(ty);
    trim(ty, value.clamp(least, greatest) as u64)
}

pub(super) fn unary(op: Unary, ty: Type, a: u64) -> u64 {
    let (wide, bits) = (integer(ty, a), trim(ty, a));
    let unused = 64 - width(ty);
    let bits = match op {
        Unary::Abs => wide.unsigned_abs() as u64,
        Unary::Neg => wide.wrapping_neg() as u64,
        Unary::Clz => u64::from(bits.leading_zeros() - unused),
        _ if ty == Type::Predicate => 1 - (a & 1),
        _ => !a,
    };
    trim(ty, bits)
}

/// Evaluates a binary operation. Returns `None` for a division by 0, whose result is undefined.
#[inline]
pub(super) fn binary(op: Binary, ty: Type, a: u64, b: u64) -> Option<u64> {
    let width = width(ty);
    let wide = || (integer(ty, a), integer(ty, b));
    let bits = match op {
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::MulLow => a.wrapping_mul(b),
        Binary::MulHigh => {
            let (a, b) = wide();
            match ty {
                // The product of two unsigned 64-bit values needs all 128 bits.
                Type::Signed(_) => (a.wrapping_mul(b) >> width) as u64,
                _ => ((a as u128 * b as u128) >> width) as u64,
            }
        }
        Binary::MulWide => {
            let (a, b) = wide();
            return Some(trim(ty.doubled(), a.wrapping_mul(b) as u64));
        }
        Binary::Div => {
            let (a, b) = wide();
            a.checked_div(b)? as u64
        }
        Binary::Rem => {
            let (a, b) = wide();
            a.checked_rem(b)? as u64
        }
        Binary::Min => {
            let (a, b) = wide();
            a.min(b) as u64
        }
        Binary::Max => {
            let (a, b) = wide();
            a.max(b) as u64
        }
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor | Binary::CopySign => a ^ b,
        // The amount is an unsigned 32-bit number, clamped to the width.
        Binary::Shl => match b as u32 {
            by if by >= width => 0,
            by => a << by,
        },
        Binary::Shr => (integer(ty, a) >> (b as u32).min(width)) as u64,
    };
    Some(trim(ty, bits))
}

pub(super) fn ternary(op: Ternary, ty: Type, a: u64, b: u64, c: u64) -> u64 {
    let product = |op, ty| binary(op, ty, a, b).unwrap_or(0);
    match op {
        Ternary::MadWide => trim(ty.doubled(), product(Binary::MulWide, ty).wrapping_add(c)),
        Ternary::Permute => permute(a, b, c),
        _ => trim(ty, product(Binary::MulLow, ty).wrapping_add(c)),
    }
}

/// Inserts `count` bits of `a` into `b` at `place`.
pub(super) fn insert(ty: Type, a: u64, b: u64, place: u64, count: u64) -> u64 {
    let (place, count) = (place as u32 & 0xFF, count as u32 & 0xFF);
    (0..count)
        .take_while(|at| place + at < width(ty))
        .fold(trim(ty, b), |all, at| {
            all & !(1 << (place + at)) | (a >> at & 1) << (place + at)
        })
}

/// Selects four bytes of two words by four bits each: three for the byte, one to replicate its sign.
fn permute(a: u64, b: u64, selector: u64) -> u64 {
    let both = trim(Type::Bits(4), b) << 32 | trim(Type::Bits(4), a);
    (0..4)
        .map(|place| {
            let from = (selector >> (place * 4)) as u32 & 15;
            let chosen = both >> ((from & 7) * 8) & 0xFF;
            let chosen = match from & 8 {
                0 => chosen,
                _ if chosen >= 0x80 => 0xFF,
                _ => 0,
            };
            chosen << (place * 8)
        })
        .sum()
}

/// Returns the result and the carry, or the borrow of a subtraction.
pub(super) fn carrying(op: Carrying, ty: Type, [a, b, c]: [u64; 3], carry: u64) -> (u64, u64) {
    let (a, b) = (trim(ty, a), trim(ty, b));
    let product = |op| binary(op, Type::Unsigned(ty.bytes()), a, b).unwrap_or(0);
    let high = match ty {
        Type::Signed(_) => binary(Binary::MulHigh, ty, a, b).unwrap_or(0),
        _ => product(Binary::MulHigh),
    };
    let (first, second) = match op {
        Carrying::Add => (a, b),
        Carrying::Sub => {
            let full = i128::from(a) - i128::from(b) - i128::from(carry);
            return (trim(ty, full as u64), u64::from(full < 0));
        }
        Carrying::MadLow => (product(Binary::MulLow), trim(ty, c)),
        Carrying::MadHigh => (high, trim(ty, c)),
    };
    let full = u128::from(first) + u128::from(second) + u128::from(carry);
    (trim(ty, full as u64), (full >> width(ty)) as u64)
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
    fn integers_wrap_within_their_width() {
        let of = |op, ty, a, b| binary(op, ty, a, b);
        assert_eq!(
            of(Binary::Add, S32, bits(i32::MAX), 1),
            Some(bits(i32::MIN))
        );
        assert_eq!(of(Binary::MulHigh, S32, bits(-1), bits(3)), Some(bits(-1)));
        assert_eq!(of(Binary::MulHigh, U32, bits(-1), 3), Some(2));
        let most = u64::MAX;
        assert_eq!(
            of(Binary::MulHigh, Type::Unsigned(8), most, most),
            Some(most - 1)
        );
        assert_eq!(of(Binary::MulWide, S32, bits(-2), 3), Some(-6_i64 as u64));
        assert_eq!(of(Binary::Shr, S32, bits(-8), 1), Some(bits(-4)));
        assert_eq!(of(Binary::Shr, U32, bits(-8), 40), Some(0));
        assert_eq!(of(Binary::Shl, U32, 1, 32), Some(0));
        assert_eq!(of(Binary::Div, S32, bits(-7), 2), Some(bits(-3)));
        assert_eq!(of(Binary::Rem, S32, bits(-7), 2), Some(bits(-1)));
        assert_eq!(of(Binary::Div, S32, 1, 0), None);
        assert_eq!(ternary(Ternary::MadWide, S32, bits(-2), 3, 10), 4);
        assert_eq!(unary(Unary::Clz, U32, 1), 31);
        assert_eq!(unary(Unary::Not, Type::Predicate, 1), 0);
    }

    /// From the tables of the PTX manual.
    #[test]
    fn bits_are_inserted_and_permuted() {
        assert_eq!(insert(U32, 0xFF, 0, 28, 8), 0xF000_0000);
        assert_eq!(insert(U32, 0, 0xFFFF_FFFF, 4, 8), 0xFFFF_F00F);
        let (a, b) = (0x3322_1100, 0x7766_5544);
        assert_eq!(ternary(Ternary::Permute, U32, a, b, 0x7410), 0x7744_1100);
        assert_eq!(ternary(Ternary::Permute, U32, 0x80, 0, 0x9998), 0x0000_00FF);
    }

    #[test]
    fn extended_precision_propagates_the_carry() {
        let add = |a, b, carry| carrying(Carrying::Add, U32, [a, b, 0], carry);
        assert_eq!(add(0xFFFF_FFFF, 0, 1), (0, 1));
        assert_eq!(add(1, 2, 1), (4, 0));
        assert_eq!(carrying(Carrying::Sub, U32, [0, 1, 0], 0), (0xFFFF_FFFF, 1));
        assert_eq!(carrying(Carrying::Sub, U32, [5, 1, 0], 1), (3, 0));
        let most = u64::MAX;
        assert_eq!(
            carrying(Carrying::MadHigh, Type::Unsigned(8), [most, most, 2], 0),
            (0, 1)
        );
    }
}
