//! Handwritten loops for this processor; unsafe, because they need its instructions.

const ROUND: f32 = 12_582_912.0;

#[inline(always)]
fn exp(x: f32) -> f32 {
    let x = if x < -87.3 { -87.3 } else { x };
    let x = if x > 88.3 { 88.3 } else { x };
    let t = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = t - ROUND;
    let f = n.mul_add(-0.693_359_4, x);
    let f = n.mul_add(2.121_944_4e-4, f);
    let mut p = 1.987_569_1e-4_f32;
    for c in [
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        p = p.mul_add(f, c);
    }
    (p.mul_add(f * f, f) + 1.0) * f32::from_bits((t.to_bits() << 23).wrapping_add(0x3f80_0000))
}

macro_rules! both {
    ($($name:ident($($a:ident: $t:ty),*) $body:block)*) => {$(
        #[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl"))]
        pub(super) unsafe fn $name($($a: $t),*) $body
    )*};
}

both! {
    chain(a: &[f32], b: &[f32], c: &[f32], out: &mut [f32]) {
        for (((out, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
            *out = exp(a * b + c);
        }
    }
    gelu(x: &[f32], _b: &[f32], _c: &[f32], out: &mut [f32]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = x / (1.0 + exp((x * x * x).mul_add(0.044715, *x) * -1.595_769));
        }
    }
    softmax(x: &[f32], _b: &[f32], _c: &[f32], out: &mut [f32]) {
        for (x, out) in x.chunks(1024).zip(out.chunks_mut(1024)) {
            let mut greatest = [f32::NEG_INFINITY; 64];
            for block in x.as_chunks::<64>().0 {
                for (greatest, x) in greatest.iter_mut().zip(block) {
                    *greatest = if x > greatest { *x } else { *greatest };
                }
            }
            let greatest = greatest.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut sums = [0_f32; 64];
            for (out, x) in out.as_chunks_mut::<64>().0.iter_mut().zip(x.as_chunks::<64>().0) {
                for lane in 0..64 {
                    let power = exp(x[lane] - greatest);
                    out[lane] = power;
                    sums[lane] += power;
                }
            }
            let inverse = 1.0 / sums.iter().sum::<f32>();
            out.iter_mut().for_each(|out| *out *= inverse);
        }
    }
    layer_norm(x: &[f32], scale: &[f32], shift: &[f32], out: &mut [f32]) {
        for (x, out) in x.chunks(1024).zip(out.chunks_mut(1024)) {
            let (mut sums, mut squares) = ([0_f32; 64], [0_f32; 64]);
            for block in x.as_chunks::<64>().0 {
                for lane in 0..64 {
                    sums[lane] += block[lane];
                    squares[lane] = block[lane].mul_add(block[lane], squares[lane]);
                }
            }
            let mean = sums.iter().sum::<f32>() / 1024.0;
            let variance = squares.iter().sum::<f32>() / 1024.0 - mean * mean;
            let inverse = 1.0 / (variance + 1e-5).sqrt();
            for (((out, x), scale), shift) in out.iter_mut().zip(x).zip(scale).zip(shift) {
                *out = ((x - mean) * inverse).mul_add(*scale, *shift);
            }
        }
    }
}
