//! The vector instructions, each with its codes for 512-bit and for 256-bit registers.

use iced_x86::Code::{self, *};

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
