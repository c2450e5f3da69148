//! IEEE half-precision floats as bits, converted without branches, so that loops vectorize: the conversions of the crate
//! `half` call the processor's instructions element by element. Those of its `bf16` vectorize.

pub use ::half::bf16;

/// IEEE half precision.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(transparent)]
pub struct F16(pub u16);

impl F16 {
    /// Returns the value, exactly.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        /// 2^112: exponents of halves are biased by 15, those of `f32` by 127.
        const REBIAS: f32 = f32::from_bits((254 - 15) << 23);
        let magnitude = u32::from(self.0 & 0x7fff) << 13;
        let sign = u32::from(self.0 & 0x8000) << 16;
        // The multiplication handles subnormals; infinities and NaNs get their exponent after it.
        let scaled = (f32::from_bits(magnitude) * REBIAS).to_bits();
        let special = if magnitude >= 0x7c00 << 13 {
            0xff << 23
        } else {
            0
        };
        f32::from_bits(scaled | special | sign)
    }

    /// Returns the nearest half, ties to even.
    #[inline(always)]
    pub fn of_f32(value: f32) -> Self {
        /// From here on the result is infinity.
        const OVER: u32 = (127 + 16) << 23;
        /// Below, the result is subnormal: an addition rounds it at the right bit.
        const UNDER: u32 = (127 - 14) << 23;
        const MAGIC: f32 = f32::from_bits(((127 - 15) + (23 - 10) + 1) << 23);
        let bits = value.to_bits();
        let sign = (bits >> 16) & 0x8000;
        let magnitude = bits & 0x7fff_ffff;
        let special = if magnitude > 0xff << 23 {
            0x7e00
        } else {
            0x7c00
        };
        let small = (f32::from_bits(magnitude) + MAGIC)
            .to_bits()
            .wrapping_sub(MAGIC.to_bits());
        let odd = (magnitude >> 13) & 1;
        let usual = magnitude
            .wrapping_sub((127 - 15) << 23)
            .wrapping_add(0xfff + odd)
            >> 13;
        let rounded = if magnitude < UNDER { small } else { usual };
        let found = if magnitude >= OVER { special } else { rounded };
        F16((found | sign) as u16)
    }
}

#[cfg(test)]
mod tests {
    use millstream_ir::DType;
    use millstream_ir::scalar::Number;

    use super::*;

    #[test]
    fn every_half_round_trips_through_f32() {
        for bits in 0..=u16::MAX {
            let value = F16(bits).to_f32();
            if value.is_nan() {
                assert!(F16::of_f32(value).to_f32().is_nan());
            } else {
                assert_eq!(F16::of_f32(value).0, bits, "{value}");
            }
        }
        assert_eq!(F16(0x3c00).to_f32(), 1.0);
        assert_eq!(F16(1).to_f32(), 2_f32.powi(-24));
        assert_eq!(F16(0x7c00).to_f32(), f32::INFINITY);
    }

    #[test]
    fn rounding_is_to_nearest_even_from_every_width() {
        let mut state = 1_u64;
        for _ in 0..200_000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let scale = 2_f64.powi((state >> 58) as i32 - 32);
            // Many values have few bits set, so that they lie near ties.
            let value = ((state >> 20) as u32 as i32 as f64 / 1e9) * scale;
            let value = if state & 1 == 0 {
                value
            } else {
                f64::from_bits(value.to_bits() & (!0 << 41))
            };
            let near = |value: f64, to| Number::Float(value).bits(to) as u16;
            let (single, half) = (value as f32, near(value, DType::F16));
            assert_eq!(
                F16::of_f32(Number::Float(value).to_odd()).0,
                half,
                "{value:e}"
            );
            let half = near(f64::from(single), DType::F16);
            assert_eq!(F16::of_f32(single).0, half, "{value:e}");
            let half = near(value, DType::Bf16);
            assert_eq!(
                bf16::from_f32(Number::Float(value).to_odd()).to_bits(),
                half,
                "{value:e}"
            );
        }
    }
}
