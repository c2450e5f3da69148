//! Exponentials and functions made of them, operation by operation as in [`crate::math::f32`], so that results do not
//! depend on fusing.

use iced_x86::Code::{self, *};

use super::assembler::{Assembler, Operand, Vector};
use super::nodes::{LESS, MAGNITUDE, SIGN};
use crate::math::f32::{EXP, LN_2, LOG2_E, TANH, WHOLE};

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

// The vector instructions, each with its codes for 512-bit and for 256-bit registers.

/// The codes of an instruction with 512-bit and with 256-bit registers.
pub(super) type Wide = (Code, Code);

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident: $of_512:ident, $of_256:ident;)*) => {
        $($(#[$doc])* pub(super) const $name: Wide = ($of_512, $of_256);)*
    };
}

#[rustfmt::skip]
codes! {
    ADD: EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vaddps_ymm_ymm_ymmm256;
    SUB: EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vsubps_ymm_ymm_ymmm256;
    MUL: EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vmulps_ymm_ymm_ymmm256;
    DIV: EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vdivps_ymm_ymm_ymmm256;
    /// The smaller or the greater value; the last operand if either is NaN.
    MIN: EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae, VEX_Vminps_ymm_ymm_ymmm256;
    MAX: EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae, VEX_Vmaxps_ymm_ymm_ymmm256;
    AND: EVEX_Vandps_zmm_k1z_zmm_zmmm512b32, VEX_Vandps_ymm_ymm_ymmm256;
    OR: EVEX_Vorps_zmm_k1z_zmm_zmmm512b32, VEX_Vorps_ymm_ymm_ymmm256;
    XOR: EVEX_Vxorps_zmm_k1z_zmm_zmmm512b32, VEX_Vxorps_ymm_ymm_ymmm256;
    /// `d = d * a + b`, and `d = a * b + d`.
    FMA_213: EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vfmadd213ps_ymm_ymm_ymmm256;
    FMA_231: EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er, VEX_Vfmadd231ps_ymm_ymm_ymmm256;
    SQRT: EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er, VEX_Vsqrtps_ymm_ymmm256;
    ROUND: EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae, VEX_Vroundps_ymm_ymmm256_imm8;
    COMPARE: EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae, VEX_Vcmpps_ymm_ymm_ymmm256_imm8;
    /// `d = a`, except `d = b` where the mask is set.
    BLEND: EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32, VEX_Vblendvps_ymm_ymm_ymmm256_ymm;
    LOAD: EVEX_Vmovups_zmm_k1z_zmmm512, VEX_Vmovups_ymm_ymmm256;
    STORE: EVEX_Vmovups_zmmm512_k1z_zmm, VEX_Vmovups_ymmm256_ymm;
    STREAM: EVEX_Vmovntps_m512_zmm, VEX_Vmovntps_m256_ymm;
    BROADCAST: EVEX_Vbroadcastss_zmm_k1z_xmmm32, VEX_Vbroadcastss_ymm_m32;
    /// Loads a constant of the pool, which has eight copies of it for 256 bits.
    FILL: EVEX_Vbroadcastss_zmm_k1z_xmmm32, VEX_Vmovups_ymm_ymmm256;
    /// The lanes whose mask is set.
    LOAD_LAST: INVALID, VEX_Vmaskmovps_ymm_ymm_m256;
    STORE_LAST: INVALID, VEX_Vmaskmovps_m256_ymm_ymm;
    /// `a` times two to the power of `b`; integers, shifted by a number of bits.
    SCALE: EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er, INVALID;
    SUB_WHOLE: INVALID, VEX_Vpsubd_ymm_ymm_ymmm256;
    ADD_WHOLE: INVALID, VEX_Vpaddd_ymm_ymm_ymmm256;
    SHIFT_DOWN: INVALID, VEX_Vpsrad_ymm_ymm_imm8;
    SHIFT_UP: INVALID, VEX_Vpslld_ymm_ymm_imm8;
    /// The upper half of a vector, and of half of one; the lower half stays what it is.
    UPPER_HALF: EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8, INVALID;
    UPPER_QUARTER: EVEX_Vextractf32x4_xmmm128_k1z_ymm_imm8, VEX_Vextractf128_xmmm128_ymm_imm8;
    STORE_FEW: EVEX_Vmovups_xmmm128_k1z_xmm, VEX_Vmovups_xmmm128_xmm;
    PREFETCH_READ: Prefetcht0_m8, Prefetcht0_m8;
    PREFETCH_WRITE: Prefetchw_m8, Prefetchw_m8;
}
