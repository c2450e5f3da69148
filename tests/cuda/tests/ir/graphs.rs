//! Graphs, from lazy buffers to results on the GPU.

use millstream_graph::{DType, Graph, Schedule, Size};
use millstream_kernel_cases::Runs;

use crate::support::Gpu;

/// Returns pseudo-random numbers between -1 and 1.
fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Some((*state >> 8) as f32 / 8_388_608.0 - 1.0)
    };
    let state = &mut seed.clone();
    std::iter::from_fn(|| next(state)).take(len).collect()
}

/// Computes `softmax(q k^T / 4 + bias) v` by its definition.
fn attention(q: &[f32], k: &[f32], v: &[f32], bias: f32, width: usize) -> Vec<f32> {
    let mut out = Vec::new();
    for q in q.chunks(width) {
        let dot = |k: &[f32]| -> f64 {
            let products = q.iter().zip(k).map(|(a, b)| f64::from(*a) * f64::from(*b));
            products.sum::<f64>() / 4.0 + f64::from(bias)
        };
        let weights: Vec<f64> = k.chunks(width).map(|k| dot(k).exp()).collect();
        let total: f64 = weights.iter().sum();
        out.extend((0..width).map(|column| {
            let rows = weights.iter().zip(v.chunks(width));
            let sum: f64 = rows.map(|(weight, v)| weight * f64::from(v[column])).sum();
            (sum / total) as f32
        }));
    }
    out
}

/// Runs with different lengths, scalars and buffers are replays of one recording. Each run selects an entry point of
/// each kernel.
#[test]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn each_run_of_a_schedule_selects_entry_points_by_its_own_lengths() {
    let (rows, longest) = (3_u64, 700);
    let gpu = Gpu::new(11);
    let (client, stream) = gpu.stream();
    let graph = Graph::new();
    let past = graph.length("past", longest);
    let q = graph.input("q", DType::F32, [rows, 16_u64]);
    let [k, v] = ["k", "v"]
        .map(|name| graph.input(name, DType::F32, [Size::from(&past), Size::from(16_u64)]));
    let (bias, bias_value) = graph.scalar("bias", DType::F32, 0.0_f32);
    let scores = q.matmul_t(&k) * 0.25_f32 + &bias_value;
    let out = scores.softmax(-1).matmul(&v);
    let compiled = Schedule::create_one(&out).unwrap().compile(client).unwrap();
    for (turn, len) in [5_usize, 5, 700, 33, 5].into_iter().enumerate() {
        let [q_data, k_data, v_data] = [(rows as usize * 16, 1), (700 * 16, 2), (700 * 16, 3)]
            .map(|(len, seed)| numbers(len, seed + 10 * turn as u32));
        let [q_handle, k_handle, v_handle] =
            [&q_data, &k_data, &v_data].map(|data| stream.create(data).unwrap());
        let offset = turn as f32;
        let run = compiled
            .run()
            .length(&past, len as u64)
            .scalar(&bias, offset);
        let run = run
            .input(&q, &q_handle)
            .input(&k, &k_handle)
            .input(&v, &v_handle);
        let outputs = run.submit(stream).unwrap();
        let actual = stream
            .read(&outputs[0].handle::<f32>().unwrap())
            .wait()
            .unwrap();
        let expected = attention(
            &q_data,
            &k_data[..len * 16],
            &v_data[..len * 16],
            offset,
            16,
        );
        for (actual, expected) in actual.iter().zip(&expected) {
            assert!(
                (actual - expected).abs() < 1e-5,
                "run {turn}: expected {expected}, got {actual}"
            );
        }
        assert_eq!(actual.len(), expected.len());
    }
}
