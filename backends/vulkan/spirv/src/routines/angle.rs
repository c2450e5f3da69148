//! Sines and cosines of any angle.
//!
//! An angle is reduced to a number of quarter turns and a rest within an eighth of a turn, which has two parts, because
//! near a multiple of a quarter turn only the second one has significant digits. Small `f64` are reduced by
//! subtracting quarters in three parts (Cody and Waite). All other angles are multiplied by a window of the bits of
//! 2/pi (Payne and Hanek): the bits before the window only add whole turns.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_4};

use millstream_ir::ssa::Val;
use millstream_ir::{BinaryOp, CompareOp, DType};

use super::math::Math;

/// 2/pi in words of 64 bits.
const TWO_OVER_PI: [u64; 19] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];

/// Half of pi in parts of 33 bits, whose products with a number of quarters below 2^20 are exact, and the rest.
const QUARTER_F64: [f64; 4] = [
    1.570_796_326_734_125_6,
    6.077_100_506_303_966e-11,
    2.022_266_248_711_166_5e-21,
    8.478_427_660_368_9e-32,
];
/// Half of pi in two floats.
const QUARTER_IN_TWO_F64: [f64; 2] = [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17];
const QUARTER_IN_TWO_F32: [f64; 2] = [1.570_796_370_506_286_6, -4.371_139_000_186_241e-8];
/// The words of 32 bits of 2/pi that the greatest `f32` needs.
const WORDS_F32: usize = 7;
/// The greatest `f64` that is reduced by subtraction.
const SUBTRACTED_MAX: f64 = 1e6;

/// Coefficients of (sin x - x) / x^3 and (cos x - 1 + x^2 / 2) / x^4 in x^2.
const SINE_F32: [f64; 3] = [-1.951_529_589_1e-4, 8.332_160_873_6e-3, -1.666_665_461_1e-1];
const COSINE_F32: [f64; 3] = [
    2.443_315_711_809_948e-5,
    -1.388_731_625_493_765e-3,
    4.166_664_568_298_827e-2,
];
const SINE_F64: [f64; 6] = [
    1.589_690_995_211_55e-10,
    -2.505_076_025_340_686_3e-8,
    2.755_731_370_707_006_8e-6,
    -1.984_126_982_985_795e-4,
    8.333_333_333_322_49e-3,
    -1.666_666_666_666_663_2e-1,
];
const COSINE_F64: [f64; 6] = [
    -1.135_964_755_778_819_5e-11,
    2.087_572_321_298_175e-9,
    -2.755_731_435_139_066_3e-7,
    2.480_158_728_947_673e-5,
    -1.388_888_888_887_411e-3,
    4.166_666_666_666_66e-2,
];

/// A reduced angle: the number of quarters modulo 4, an unsigned integer of the size of a float, and the rest.
#[derive(Clone, Copy)]
struct Reduced<'k> {
    quarters: Val<'k>,
    rest: Val<'k>,
    low: Val<'k>,
}

impl<'k> Math<'k> {
    /// Returns the sine or the cosine.
    pub(super) fn sine(self, x: Val<'k>, is_cosine: bool) -> Val<'k> {
        let t = self.abs(x);
        let k = self.k;
        let quarters = k.var("quarters", self.whole(0));
        let rest = k.var("rest", t);
        let low = k.var("low", self.number(0.0));
        let set = |found: Reduced<'k>| {
            quarters.set(found.quarters);
            rest.set(found.rest);
            low.set(found.low);
        };
        // False for NaN.
        k.when(t.compare(CompareOp::Gt, FRAC_PI_4), || {
            if !self.is_f64() {
                return set(self.by_window(t));
            }
            k.either(
                t.compare(CompareOp::Le, SUBTRACTED_MAX),
                || set(self.by_subtraction(t)),
                || set(self.by_window(t)),
            );
        });
        let (quarters, rest, low) = (quarters.get(), rest.get(), low.get());

        let (sine, cosine) = self.of_eighth(rest, low);
        let quarters = if is_cosine { quarters + 1 } else { quarters };
        let is_odd = (quarters & 1).eq(1);
        let found = is_odd.select(cosine, sine);
        let is_negated = (quarters & 2).eq(2);
        let found = is_negated.select(-found, found);
        let sign = self.sign(self.bits(x));
        let found = match is_cosine {
            true => found,
            // The sine is odd; zeros and subnormals keep their bits.
            false => {
                let is_tiny = t.lt(2_f64.powi(-30));
                let found = self.of_bits(self.bits(found) ^ sign);
                is_tiny.select(x, found)
            }
        };
        let is_finite = self.magnitude(self.bits(x)).lt(self.infinity_bits());
        is_finite.select(found, self.number(f64::NAN))
    }

    /// Returns the sine and the cosine of the sum of two parts.
    fn of_eighth(self, x: Val<'k>, low: Val<'k>) -> (Val<'k>, Val<'k>) {
        let (of_sine, of_cosine): (&[f64], &[f64]) = match self.is_f64() {
            true => (&SINE_F64, &COSINE_F64),
            false => (&SINE_F32, &COSINE_F32),
        };
        let z = x * x;
        let half = z * 0.5;
        let one = self.number(1.0);
        let change = low * (one - half);
        let sine = x + (z * x * self.polynomial(of_sine, z) + change);
        let near = one - half;
        let change = ((one - near) - half) - x * low;
        let cosine = near + (z * z * self.polynomial(of_cosine, z) + change);
        (sine, cosine)
    }

    fn by_subtraction(self, x: Val<'k>) -> Reduced<'k> {
        let (whole, n) = self.rounded(x * FRAC_2_PI);
        let [first, second, third, fourth] = QUARTER_F64.map(|part| -(whole * part));
        // The first difference is exact: both are about the same.
        let (rest, error) = self.two_sum(x + first, second);
        let (rest, error_2) = self.two_sum(rest, third);
        let low = error + error_2 + fourth;
        let sum = rest + low;
        Reduced {
            quarters: n.bits(self.unsigned()),
            rest: sum,
            low: (rest - sum) + low,
        }
    }

    /// Returns words of 2/pi that begin at a bit, which `offset` counts from the first bit of the table.
    fn window<const N: usize>(
        self,
        offset: Val<'k>,
        word: impl Fn(Val<'k>) -> Val<'k>,
    ) -> [Val<'k>; N] {
        let bits: i64 = if self.is_f64() { 64 } else { 32 };
        let first = self.shift_right(offset, if self.is_f64() { 6 } else { 5 });
        let shift = offset & (bits - 1);
        let rest = -shift + bits;
        std::array::from_fn(|index| {
            let (high, low) = (word(first + index as i64), word(first + (index + 1) as i64));
            // A shift by all bits gives zero.
            high.binary(BinaryOp::Shl, shift) | low.binary(BinaryOp::Shr, rest)
        })
    }

    /// Returns the bit at which the window of 2/pi begins, and the significand of the angle.
    fn window_start(self, x: Val<'k>) -> (Val<'k>, Val<'k>) {
        let bits = self.bits(x);
        let digits = self.digits();
        let leading = 1_i64 << digits;
        let exponent = self.shift_right(bits, digits);
        // The angle is significand * 2^e, with e = exponent - bias - digits. Bit i of 2/pi has the weight 2^-i, so
        // those with i up to e - 2 add multiples of 4. Word 0 is zero.
        let before = if self.is_f64() { 64 } else { 32 };
        let offset = exponent + (before - 2 - self.bias() - digits);
        (offset, (bits & (leading - 1)) | leading)
    }

    /// Returns a function that looks a word of 2/pi up. Word 0 is zero, and the others follow.
    fn table(self) -> impl Fn(Val<'k>) -> Val<'k> {
        let halves = |word: &u64| [word >> 32, word & 0xffff_ffff];
        let words: Vec<u64> = match self.is_f64() {
            true => [0].into_iter().chain(TWO_OVER_PI).collect(),
            false => {
                let words = TWO_OVER_PI.iter().flat_map(halves).take(WORDS_F32);
                [0].into_iter().chain(words).collect()
            }
        };
        let words = words.into_iter().enumerate();
        let words = words.map(|(at, word)| (at as i64, self.k.bits(self.unsigned(), word)));
        let words: Vec<_> = words.collect();
        // So few words are found without memory. The index of infinity is beyond them.
        move |index| {
            words.iter().fold(self.whole(0), |found, (at, word)| {
                index.eq(*at).select(*word, found)
            })
        }
    }

    fn by_window(self, x: Val<'k>) -> Reduced<'k> {
        let (offset, significand) = self.window_start(x);
        let (size, spare) = if self.is_f64() { (64, 12) } else { (32, 8) };
        let [high, middle, low]: [Val<'k>; 3] = self.window(offset, self.table());
        // The low three words of the product: two bits of quarters, and the rest of a fraction.
        let (low_high, low) = self.wide_product(significand, low);
        let (middle_high, middle_low) = self.wide_product(significand, middle);
        let middle = middle_low + low_high;
        let carry = middle.lt(low_high).cast(self.unsigned());
        let high = significand * high + middle_high + carry;
        let joined = |high: Val<'k>, low: Val<'k>| {
            self.shift_left(high, 2) | self.shift_right(low, size - 2)
        };
        let (fraction, below) = (joined(high, middle), joined(middle, low));
        let quarters = self.shift_right(high, size - 2) + self.shift_right(fraction, size - 1);
        // A signed fraction in units of its last bit, as the sum of three floats. The first has no more digits than a float.
        let fraction = fraction.bits(self.signed());
        let float = |a: Val<'k>| a.cast(self.float);
        let unit = 2_f64.powi(-size as i32);
        let rest = (1_i64 << spare) - 1;
        let first = float(fraction & !rest) * unit;
        let second = float(fraction & rest) + float(below) * unit;
        let (first, second) = self.two_sum(first, second * unit);
        let [rest, low] = self.times_quarter([first, second]);
        Reduced {
            quarters,
            rest,
            low,
        }
    }

    /// Returns the product of two words in two words.
    fn wide_product(self, a: Val<'k>, b: Val<'k>) -> (Val<'k>, Val<'k>) {
        if !self.is_f64() {
            let product = a.cast(DType::U64) * b.cast(DType::U64);
            let high = self.shift_right(product, 32);
            return (high.cast(DType::U32), product.cast(DType::U32));
        }
        let half = |a: Val<'k>| (self.shift_right(a, 32), a & 0xffff_ffff_i64);
        let ((a_high, a_low), (b_high, b_low)) = (half(a), half(b));
        let (low_high, _) = half(a_low * b_low);
        let middle = a_high * b_low + low_high;
        let (middle_high, middle_low) = half(middle);
        let (other_high, _) = half(a_low * b_high + middle_low);
        (a_high * b_high + middle_high + other_high, a * b)
    }

    /// Returns the product of a number in two parts with half of pi.
    fn times_quarter(self, [first, second]: [Val<'k>; 2]) -> [Val<'k>; 2] {
        let [quarter, quarter_low] = match self.is_f64() {
            true => QUARTER_IN_TWO_F64,
            false => QUARTER_IN_TWO_F32,
        };
        let (product, error) = self.two_product(first, self.number(quarter));
        let low = first * quarter_low + second * quarter + error;
        let sum = product + low;
        [sum, (product - sum) + low]
    }
}
