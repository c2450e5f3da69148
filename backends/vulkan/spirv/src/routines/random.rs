//! Philox4x32-10, the first word.

use millstream_ir::ssa::{Builder, Val};
use millstream_ir::{BinaryOp, DType};

const ROUNDS: usize = 10;
const MULTIPLIERS: [i64; 2] = [0xd251_1f53, 0xcd9e_8d57];
const KEY_STEPS: [i64; 2] = [0x9e37_79b9, 0xbb67_ae85];

/// Returns a random `u32` for a seed, `u64`, and a counter, `i64`.
pub(super) fn random<'k>(k: &'k Builder, seed: Val<'k>, counter: Val<'k>) -> Val<'k> {
    let low = |a: Val<'k>| a.cast(DType::U32);
    let high = |a: Val<'k>| a.binary(BinaryOp::Shr, 32).cast(DType::U32);
    let counter = counter.bits(DType::U64);
    let zero = k.bits(DType::U32, 0);
    let mut x = [low(counter), high(counter), zero, zero];
    let mut key = [low(seed), high(seed)];
    for _ in 0..ROUNDS {
        let [a, b] = [(0, 0), (1, 2)].map(|(by, word)| x[word].cast(DType::U64) * MULTIPLIERS[by]);
        x = [
            high(b) ^ x[1] ^ key[0],
            low(b),
            high(a) ^ x[3] ^ key[1],
            low(a),
        ];
        key = [key[0] + KEY_STEPS[0], key[1] + KEY_STEPS[1]];
    }
    x[0]
}
