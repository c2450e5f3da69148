//! Floats of every width, rounded as asked: a number is taken apart, computed exactly, and rounded once.
//!
//! The processor's own floats do the common cases, which are the same bits: single and double, to the nearest.

use std::cmp::Ordering;

pub(super) use crate::ptx::format::Format;

/// Where a result goes that is between two floats, or a float that is to be whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rounding {
    Nearest,
    /// To the nearest, and what is half way away from 0.
    NearestAway,
    Zero,
    Down,
    Up,
}

/// How an operation treats floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mode {
    pub(super) rounding: Rounding,
    /// `.ftz`: what is subnormal is 0, before and after.
    pub(super) flush: bool,
    /// `.sat`: from 0 to 1, and what is no number is 0; of integers, within bounds.
    pub(super) saturate: bool,
    /// A conversion to a whole number of the same kind of float.
    pub(super) whole: bool,
}

impl Default for Mode {
    fn default() -> Self {
        Self {
            rounding: Rounding::Nearest,
            flush: false,
            saturate: false,
            whole: false,
        }
    }
}

/// `mantissa * 2^exponent`, not 0, of which the lowest bit may stand for all below it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exact {
    pub(super) negative: bool,
    pub(super) exponent: i32,
    pub(super) mantissa: u128,
}

impl Exact {
    /// Of a float that is neither 0 nor infinite nor no number.
    fn of(format: Format, bits: u64) -> Self {
        let fraction = format.fraction_bits();
        let used = (bits & (format.sign_bit() - 1)) >> format.unused_bits();
        let (biased, low) = (used >> fraction, used & ((1 << fraction) - 1));
        let mantissa = if biased == 0 {
            low
        } else {
            low | 1 << fraction
        };
        Self {
            negative: format.is_negative(bits),
            exponent: (biased.max(1)) as i32 - format.bias() - fraction as i32,
            mantissa: u128::from(mantissa),
        }
    }

    /// With the highest bit at a place.
    fn raised(mut self, top: u32) -> Self {
        let by = top as i32 - (127 - self.mantissa.leading_zeros() as i32);
        self.mantissa <<= by;
        self.exponent -= by;
        self
    }

    /// The sum; none if it is 0.
    fn plus(self, other: Self) -> Option<Self> {
        // Room for a carry above, and for what is sticky below.
        let (mut big, mut small) = (self.raised(124), other.raised(124));
        if small.exponent > big.exponent {
            std::mem::swap(&mut big, &mut small);
        }
        let down = (big.exponent - small.exponent) as u32;
        let lost = match down {
            0 => 0,
            1..128 => small.mantissa & ((1 << down) - 1),
            _ => 1,
        };
        let moved = small.mantissa.checked_shr(down).unwrap_or(0) | u128::from(lost != 0);
        let (negative, mantissa) = match (big.negative == small.negative, big.mantissa.cmp(&moved))
        {
            (true, _) => (big.negative, big.mantissa + moved),
            (false, Ordering::Equal) => return None,
            (false, Ordering::Greater) => (big.negative, big.mantissa - moved),
            (false, Ordering::Less) => (small.negative, moved - big.mantissa),
        };
        Some(Self {
            negative,
            exponent: big.exponent,
            mantissa,
        })
    }

    fn times(self, other: Self) -> Self {
        Self {
            negative: self.negative != other.negative,
            exponent: self.exponent + other.exponent,
            mantissa: self.mantissa * other.mantissa,
        }
    }

    fn over(self, other: Self) -> Self {
        let numerator = self.raised(126);
        let rest = numerator.mantissa % other.mantissa;
        Self {
            negative: self.negative != other.negative,
            exponent: numerator.exponent - other.exponent,
            mantissa: (numerator.mantissa / other.mantissa) | u128::from(rest != 0),
        }
    }

    fn root(self) -> Self {
        let mut of = self.raised(125);
        if of.exponent % 2 != 0 {
            of.mantissa <<= 1;
            of.exponent -= 1;
        }
        let root = of.mantissa.isqrt();
        // One more bit, so that what is sticky is below all that counts.
        Self {
            negative: false,
            exponent: of.exponent / 2 - 1,
            mantissa: root << 1 | u128::from(root * root != of.mantissa),
        }
    }

    /// Rounded to a float.
    pub(super) fn round(self, format: Format, rounding: Rounding) -> u64 {
        let precision = format.fraction_bits() as i32 + 1;
        let least = 1 - format.bias();
        let top = self.exponent + 127 - self.mantissa.leading_zeros() as i32;
        // The place of the lowest bit that is kept.
        let lowest = (top - precision + 1).max(least - precision + 1);
        let mut kept = self.kept(lowest, rounding) as u64;
        let mut place = lowest;
        if kept >> precision != 0 {
            kept >>= 1;
            place += 1;
        }
        let sign = if self.negative { format.sign_bit() } else { 0 };
        let hidden = 1 << format.fraction_bits();
        let biased = match kept >= hidden {
            true => place + precision - 1 + format.bias(),
            false => 0,
        };
        let bits = if biased >= (1 << format.exponent_bits()) - 1 {
            let stays = match rounding {
                Rounding::Nearest | Rounding::NearestAway => false,
                Rounding::Zero => true,
                Rounding::Down => !self.negative,
                Rounding::Up => self.negative,
            };
            let lowest_bit = 1 << format.unused_bits();
            return sign | (format.infinity() - if stays { lowest_bit } else { 0 });
        } else {
            (biased as u64) << format.fraction_bits() | (kept & (hidden - 1))
        };
        sign | bits << format.unused_bits()
    }

    /// The mantissa with its lowest bit at a place, rounded.
    fn kept(self, lowest: i32, rounding: Rounding) -> u128 {
        let down = lowest - self.exponent;
        if down <= 0 {
            return self.mantissa << -down;
        }
        let down = down as u32;
        let kept = self.mantissa.checked_shr(down).unwrap_or(0);
        let half = down <= 128 && self.mantissa >> (down - 1) & 1 == 1;
        let below = match down {
            1..=128 => self.mantissa & ((1 << (down - 1)) - 1) != 0,
            _ => true,
        };
        let up = match rounding {
            Rounding::Nearest => half && (below || kept & 1 == 1),
            Rounding::NearestAway => half,
            Rounding::Zero => false,
            Rounding::Down => self.negative && (half || below),
            Rounding::Up => !self.negative && (half || below),
        };
        kept + u128::from(up)
    }

    /// As a whole number; what is too large is larger than any integer that there is.
    fn whole(self, rounding: Rounding) -> i128 {
        let size = 128 - self.mantissa.leading_zeros() as i32 + self.exponent;
        let size = if size > 100 {
            1 << 100
        } else {
            self.kept(0, rounding) as i128
        };
        if self.negative { -size } else { size }
    }
}

/// The sum, in the sign that a rounding gives to nothing.
fn nothing(format: Format, rounding: Rounding) -> u64 {
    match rounding {
        Rounding::Down => format.sign_bit(),
        _ => 0,
    }
}

/// An operation of floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Add,
    Mul,
    Div,
    Fma,
    Sqrt,
}

/// Exactly what the operation is, rounded once.
pub(super) fn compute(operation: Operation, format: Format, mode: Mode, values: [u64; 3]) -> u64 {
    let values = match mode.flush {
        true => values.map(|bits| format.flushed(bits)),
        false => values,
    };
    let bits = match (format, mode.rounding) {
        (Format::F32, Rounding::Nearest) => {
            let [a, b, c] = values.map(|bits| f32::from_bits(bits as u32));
            u64::from(
                match operation {
                    Operation::Add => a + b,
                    Operation::Mul => a * b,
                    Operation::Div => a / b,
                    Operation::Fma => a.mul_add(b, c),
                    Operation::Sqrt => a.sqrt(),
                }
                .to_bits(),
            )
        }
        (Format::F64, Rounding::Nearest) => {
            let [a, b, c] = values.map(f64::from_bits);
            match operation {
                Operation::Add => a + b,
                Operation::Mul => a * b,
                Operation::Div => a / b,
                Operation::Fma => a.mul_add(b, c),
                Operation::Sqrt => a.sqrt(),
            }
            .to_bits()
        }
        _ => carefully(operation, format, mode.rounding, values),
    };
    finished(format, mode, bits, values)
}

/// A result as it is stored: what is no number in the one form that it has, the rest as the mode says.
fn finished(format: Format, mode: Mode, bits: u64, values: [u64; 3]) -> u64 {
    if format.is_nan(bits) {
        if mode.saturate {
            return 0;
        }
        // Doubles hand on what they were given.
        let given = values.into_iter().find(|bits| format.is_nan(*bits));
        return match (format, given) {
            (Format::F64, Some(given)) => given | 1 << 51,
            _ => format.nan(),
        };
    }
    settled(format, mode, bits)
}

/// Flushed and saturated.
pub(super) fn settled(format: Format, mode: Mode, bits: u64) -> u64 {
    let bits = if mode.flush {
        format.flushed(bits)
    } else {
        bits
    };
    match mode.saturate {
        true if format.is_nan(bits) || format.is_negative(bits) => 0,
        true => bits.min(format.one()),
        false => bits,
    }
}

/// In the one form that what is no number has.
pub(super) fn tidy(format: Format, bits: u64) -> u64 {
    match format.is_nan(bits) {
        true => format.nan(),
        false => bits,
    }
}

fn carefully(operation: Operation, format: Format, rounding: Rounding, values: [u64; 3]) -> u64 {
    let [a, b, c] = values;
    let is_plain =
        |bits| !format.is_zero(bits) && !format.is_nan(bits) && !format.is_infinite(bits);
    let exact = |bits| Exact::of(format, bits);
    // What has a 0, an infinity or no number in it is exact as a double, too.
    let special = |value: f64| match value.is_nan() {
        true => format.nan(),
        false => convert(format, Format::F64, rounding, value.to_bits()),
    };
    let [wide_a, wide_b, wide_c] = [a, b, c].map(|bits| format.wide(bits));
    let sum = |x: Option<Exact>| x.map_or(nothing(format, rounding), |x| x.round(format, rounding));
    match operation {
        Operation::Add if is_plain(a) && is_plain(b) => sum(exact(a).plus(exact(b))),
        Operation::Add => match wide_a + wide_b {
            // Of two zeros with other signs.
            0.0 if format.is_negative(a) != format.is_negative(b) => nothing(format, rounding),
            value => special(value),
        },
        Operation::Mul if is_plain(a) && is_plain(b) => {
            exact(a).times(exact(b)).round(format, rounding)
        }
        Operation::Mul => special(wide_a * wide_b),
        Operation::Div if is_plain(a) && is_plain(b) => {
            exact(a).over(exact(b)).round(format, rounding)
        }
        Operation::Div => special(wide_a / wide_b),
        Operation::Fma if is_plain(a) && is_plain(b) && is_plain(c) => {
            sum(exact(a).times(exact(b)).plus(exact(c)))
        }
        Operation::Fma if is_plain(a) && is_plain(b) && format.is_zero(c) => {
            exact(a).times(exact(b)).round(format, rounding)
        }
        Operation::Fma => {
            let product = wide_a * wide_b;
            match product + wide_c {
                0.0 if product.is_sign_negative() != wide_c.is_sign_negative() => {
                    nothing(format, rounding)
                }
                // A product of what is plain cannot outgrow an infinity, nor can 0 change what is added to it.
                _ if format.is_infinite(c) && is_plain(a) && is_plain(b) => c,
                value => special(value),
            }
        }
        Operation::Sqrt if is_plain(a) && !format.is_negative(a) => {
            exact(a).root().round(format, rounding)
        }
        Operation::Sqrt => special(wide_a.sqrt()),
    }
}

/// From one kind of float to another.
pub(super) fn convert(to: Format, from: Format, rounding: Rounding, bits: u64) -> u64 {
    if from.is_nan(bits) {
        return to.nan();
    }
    let sign = if from.is_negative(bits) {
        to.sign_bit()
    } else {
        0
    };
    if from.is_infinite(bits) {
        sign | to.infinity()
    } else if from.is_zero(bits) {
        sign
    } else {
        Exact::of(from, bits).round(to, rounding)
    }
}

/// As a whole number of the same kind.
pub(super) fn whole(format: Format, rounding: Rounding, bits: u64) -> u64 {
    if format.is_nan(bits) {
        return format.nan();
    }
    let value = format.wide(bits);
    let rounded = match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::NearestAway => value.round(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    };
    format.of(rounded)
}

/// As an integer; what is no number is 0, what is too large is larger than any.
pub(super) fn to_integer(format: Format, rounding: Rounding, bits: u64) -> i128 {
    if format.is_nan(bits) || format.is_zero(bits) {
        return 0;
    }
    match (format.is_infinite(bits), format.is_negative(bits)) {
        (true, true) => -(1 << 100),
        (true, false) => 1 << 100,
        _ => Exact::of(format, bits).whole(rounding),
    }
}

/// Of an integer.
pub(super) fn of_integer(format: Format, rounding: Rounding, value: i128) -> u64 {
    match value {
        0 => 0,
        _ => Exact {
            negative: value < 0,
            exponent: 0,
            mantissa: value.unsigned_abs(),
        }
        .round(format, rounding),
    }
}
