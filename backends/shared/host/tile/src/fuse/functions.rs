//! Exponentials and functions made of them, operation by operation as in [`crate::math::f32`], so that results do not
//! depend on fusing.

use iced_x86::{Code, Instruction};

use super::arithmetic::{ADD, DIV, FMA_213, FMA_231, MAGNITUDE, MAX, MIN, MUL, OR, SIGN, SUB};
use super::assembler::{Assembler, CannotEncode, Source, Vector, Wide};
use crate::math::f32::{EXP, LN_2, LOG2_E, TANH, WHOLE};

/// x times two to the power of the last operand; only with 512 bits.
const SCALE: Code = Code::EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er;

impl Assembler {
    /// e^x for any x, in a new register.
    pub(super) fn exp(&mut self, x: Vector) -> Result<Vector, CannotEncode> {
        // NaN is preserved, because the instructions return their last operand.
        let clamped = self.filled_with(-104.0)?;
        self.three(MAX, clamped, clamped, Source::Vector(x))?;
        let most = self.filled_with(89.0)?;
        self.three(MIN, clamped, most, Source::Vector(clamped))?;
        self.give(most);
        let found = self.exp_within(clamped)?;
        self.give(clamped);
        Ok(found)
    }

    /// e^x for x from -104 to 89, or NaN. Overwrites x.
    fn exp_within(&mut self, x: Vector) -> Result<Vector, CannotEncode> {
        let whole = self.filled_with(WHOLE)?;
        let log2_e = self.pool(LOG2_E);
        self.three(FMA_231, whole, x, log2_e)?;
        let n = self.take()?;
        let offset = self.pool(WHOLE);
        self.three(SUB, n, whole, offset)?;
        for part in LN_2 {
            let part = self.pool(-part);
            self.three(FMA_231, x, n, part)?;
        }
        let p = self.polynomial(&EXP, x)?;
        let square = self.take()?;
        self.three(MUL, square, x, Source::Vector(x))?;
        self.three(FMA_213, p, square, Source::Vector(x))?;
        let one = self.pool(1.0);
        self.three(ADD, p, p, one)?;
        self.give(square);
        if self.is_512 {
            let (p, n) = (self.vector(p), self.vector(n));
            self.push(Instruction::with3(SCALE, p, p, n)?);
        } else {
            self.scale_in_halves(p, whole, n)?;
        }
        self.give(n);
        self.give(whole);
        Ok(p)
    }

    /// Multiplies p by two to the power in the low bits of `whole`, in two steps, so that subnormal results are
    /// correct. Overwrites both others.
    fn scale_in_halves(
        &mut self,
        p: Vector,
        whole: Vector,
        half: Vector,
    ) -> Result<(), CannotEncode> {
        const MINUS: Wide = (Code::INVALID, Code::VEX_Vpsubd_ymm_ymm_ymmm256);
        const PLUS: Wide = (Code::INVALID, Code::VEX_Vpaddd_ymm_ymm_ymmm256);
        let offset = Source::Pool(self.constant(WHOLE.to_bits()));
        self.three(MINUS, whole, whole, offset)?;
        let (n, h) = (self.vector(whole), self.vector(half));
        self.push(Instruction::with3(
            Code::VEX_Vpsrad_ymm_ymm_imm8,
            h,
            n,
            1_u32,
        )?);
        self.three(MINUS, whole, whole, Source::Vector(half))?;
        for part in [half, whole] {
            let bias = Source::Pool(self.constant(127));
            self.three(PLUS, part, part, bias)?;
            let register = self.vector(part);
            self.push(Instruction::with3(
                Code::VEX_Vpslld_ymm_ymm_imm8,
                register,
                register,
                23_u32,
            )?);
            self.three(MUL, p, p, Source::Vector(part))?;
        }
        Ok(())
    }

    /// The first coefficient times x, plus the next, times x, and so on.
    fn polynomial(&mut self, coefficients: &[f32], x: Vector) -> Result<Vector, CannotEncode> {
        let (first, rest) = coefficients.split_first().ok_or(CannotEncode)?;
        let p = self.filled_with(*first)?;
        for coefficient in rest {
            let coefficient = self.pool(*coefficient);
            self.three(FMA_213, p, x, coefficient)?;
        }
        Ok(p)
    }

    /// tanh x, in a new register.
    pub(super) fn tanh(&mut self, x: Vector) -> Result<Vector, CannotEncode> {
        let square = self.take()?;
        self.three(MUL, square, x, Source::Vector(x))?;
        let near = self.polynomial(&TANH, square)?;
        self.three(MUL, near, near, Source::Vector(square))?;
        self.three(FMA_213, near, x, Source::Vector(x))?;
        self.give(square);

        let t = self.take()?;
        self.and(t, x, MAGNITUDE)?;
        let most = self.filled_with(10.0)?;
        self.three(MIN, t, most, Source::Vector(t))?;
        self.give(most);
        let twice = self.take()?;
        self.three(ADD, twice, t, Source::Vector(t))?;
        let power = self.exp_within(twice)?;
        let one = self.pool(1.0);
        self.three(ADD, power, power, one)?;
        let far = self.filled_with(2.0)?;
        self.three(DIV, far, far, Source::Vector(power))?;
        let ones = self.filled_with(1.0)?;
        self.three(SUB, far, ones, Source::Vector(far))?;
        self.give(ones);
        // The result has the sign of x.
        self.and(far, far, MAGNITUDE)?;
        self.and(power, x, SIGN)?;
        self.three(OR, far, far, Source::Vector(power))?;
        self.give(power);
        self.give(twice);

        let limit = self.pool(0.55);
        let is_near = self.is_less(t, limit)?;
        self.blend(far, is_near, far, Source::Vector(near))?;
        self.give_mask(is_near);
        self.give(t);
        self.give(near);
        Ok(far)
    }
}
