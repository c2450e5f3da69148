//! Pseudo-random elements of every type.

use millstream_ir::DType;
use millstream_protocol::{bf16, f16};

/// Returns pseudo-random elements, the same for the same seed. With `special` some of them are edge cases.
pub fn elements(dtype: DType, len: usize, seed: u64, special: bool) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 11
    };
    let mut bytes = Vec::with_capacity(len * dtype.size());
    for _ in 0..len {
        let draw = next();
        let float = match draw % 97 {
            0 if special => f64::NAN,
            1 if special => f64::INFINITY,
            2 if special => f64::NEG_INFINITY,
            3 if special => -3e19,
            4 if special => 7e9,
            5 if special => 300.5,
            6 if special => -40_000.5,
            // Next to the midpoint of two f16 values, and of two bf16 values. Rounding to f32 first gives the midpoint
            // itself, so a cast by way of f32 rounds the wrong way.
            7 if special => 1.0 + 1.0 / 2048.0 + 1e-10,
            8 if special => -(1.0 + 3.0 / 256.0 - 1e-10),
            _ => (draw >> 8) as f64 % 4096.0 / 512.0 - 4.0,
        };
        let whole = match draw % 13 {
            0 if special => i64::MIN,
            1 if special => 0,
            2 if special => -1,
            3 if special => 128,
            4 if special => (1 << 40) + (1 << 32) + 1,
            _ => (draw >> 8) as i64 % 23 - 7,
        };
        let bits = match dtype {
            DType::F64 => float.to_bits(),
            DType::F32 => u64::from((float as f32).to_bits()),
            DType::F16 => u64::from(f16::from_f64(float).to_bits()),
            DType::Bf16 => u64::from(bf16::from_f64(float).to_bits()),
            _ => whole as u64,
        };
        bytes.extend_from_slice(&bits.to_le_bytes()[..dtype.size()]);
    }
    bytes
}
