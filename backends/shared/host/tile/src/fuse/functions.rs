//! Exponentials and functions made of them, operation by operation as in [`millstream_loops::math::f32`], so that results do not
//! depend on fusing.

use super::assembler::{Assembler, Operand, Vector};
use super::codes::{
    ADD, ADD_WHOLE, AND, DIV, FMA_213, FMA_231, MAX, MIN, MUL, OR, SCALE, SHIFT_DOWN, SHIFT_UP,
    SUB, SUB_WHOLE,
};
use super::nodes::{LESS, MAGNITUDE, SIGN};
use millstream_loops::math::f32::{EXP, LN_2, LOG2_E, TANH, WHOLE};

impl Assembler<'_> {
    /// e^x for any x, in a new register.
    pub(super) fn exp(&mut self, x: Vector) -> Vector {
        // NaN is preserved, because the instructions return their last operand.
        let clamped = self.filled_with(-104.0);
        self.three(MAX, clamped, clamped, x);
        let most = self.filled_with(89.0);
        self.three(MIN, clamped, most, clamped);
        self.give(most);
        let found = self.exp_within(clamped);
        self.give(clamped);
        found
    }

    /// e^x for x from -104 to 89, or NaN. Overwrites x.
    fn exp_within(&mut self, x: Vector) -> Vector {
        let whole = self.filled_with(WHOLE);
        let log2_e = self.pool(LOG2_E);
        self.three(FMA_231, whole, x, log2_e);
        let n = self.take();
        let offset = self.pool(WHOLE);
        self.three(SUB, n, whole, offset);
        for part in LN_2 {
            let part = self.pool(-part);
            self.three(FMA_231, x, n, part);
        }
        let p = self.polynomial(&EXP, x);
        let square = self.take();
        self.three(MUL, square, x, x);
        self.three(FMA_213, p, square, x);
        let one = self.pool(1.0);
        self.three(ADD, p, p, one);
        self.give(square);
        match self.is_512 {
            true => self.three(SCALE, p, p, n),
            false => self.scale_in_halves(p, whole, n),
        }
        self.give(n);
        self.give(whole);
        p
    }

    /// Multiplies p by two to the power in the low bits of `whole`, in two steps, so that subnormal results are
    /// correct. Overwrites both others.
    fn scale_in_halves(&mut self, p: Vector, whole: Vector, half: Vector) {
        let (offset, bias) = (self.pool(WHOLE), self.constant(127));
        self.three(SUB_WHOLE, whole, whole, offset);
        self.three(SHIFT_DOWN, half, whole, Operand::Immediate(1));
        self.three(SUB_WHOLE, whole, whole, half);
        for part in [half, whole] {
            self.three(ADD_WHOLE, part, part, bias);
            self.three(SHIFT_UP, part, part, Operand::Immediate(23));
            self.three(MUL, p, p, part);
        }
    }

    /// The first coefficient times x, plus the next, times x, and so on.
    fn polynomial(&mut self, coefficients: &[f32], x: Vector) -> Vector {
        let p = self.filled_with(coefficients[0]);
        for coefficient in &coefficients[1..] {
            let coefficient = self.pool(*coefficient);
            self.three(FMA_213, p, x, coefficient);
        }
        p
    }

    /// tanh x, in a new register.
    pub(super) fn tanh(&mut self, x: Vector) -> Vector {
        let square = self.take();
        self.three(MUL, square, x, x);
        let near = self.polynomial(&TANH, square);
        self.three(MUL, near, near, square);
        self.three(FMA_213, near, x, x);
        self.give(square);

        let [magnitude, sign] = [MAGNITUDE, SIGN].map(|bits| self.constant(bits));
        let t = self.take();
        self.three(AND, t, x, magnitude);
        let most = self.filled_with(10.0);
        self.three(MIN, t, most, t);
        self.give(most);
        let twice = self.take();
        self.three(ADD, twice, t, t);
        let power = self.exp_within(twice);
        let one = self.pool(1.0);
        self.three(ADD, power, power, one);
        let far = self.filled_with(2.0);
        self.three(DIV, far, far, power);
        let ones = self.filled_with(1.0);
        self.three(SUB, far, ones, far);
        self.give(ones);
        // The result has the sign of x.
        self.three(AND, far, far, magnitude);
        self.three(AND, power, x, sign);
        self.three(OR, far, far, power);
        self.give(power);
        self.give(twice);

        let limit = self.pool(0.55);
        let is_near = self.mask(t, LESS, limit);
        self.blend(far, is_near, far, near);
        self.give_mask(is_near);
        self.give(t);
        self.give(near);
        far
    }
}
