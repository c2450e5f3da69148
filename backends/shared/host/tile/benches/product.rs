//! Products compared with `gemm` alone, on one thread, in one run: `cargo bench -p millstream-tile --bench product`.
//!
//! As in the bench `tile`, the two alternate; the output has medians and, in brackets, minima.

#![allow(missing_docs, reason = "a bench has no users")]

use std::hint::black_box;
use std::time::Instant;

use millstream_ir::nest::{Access, Buffer, BufferMode, Level, Op, Store, Stride, Value};
use millstream_ir::{BinaryOp, DType, Matmul, Nest, Program};
use millstream_protocol::kernel::NativeView;
use millstream_tile::{Code, Options, SingleThread};

/// Returns an epilogue that adds a bias to each column, and a ReLU if `is_rectified`.
fn epilogue(is_rectified: bool) -> Nest {
    let buffer = |mode| Buffer {
        dtype: DType::F32,
        mode,
    };
    let access = |buffer, strides| Access {
        buffer,
        offset: None,
        strides,
    };
    let value = |op| Value {
        dtype: DType::F32,
        op,
    };
    let mut values = vec![
        value(Op::Load(0)),
        value(Op::Load(1)),
        value(Op::Binary(BinaryOp::Add, 0, 1)),
    ];
    if is_rectified {
        values.push(value(Op::Const(0)));
        values.push(value(Op::Binary(BinaryOp::Max, 2, 3)));
    }
    Nest {
        outer: 2,
        words: 3,
        buffers: vec![buffer(BufferMode::Update), buffer(BufferMode::Read)],
        accesses: vec![
            access(0, vec![Stride::Word(2), Stride::One]),
            access(1, vec![Stride::Zero, Stride::One]),
        ],
        stores: vec![Store {
            access: 0,
            value: values.len() as u16 - 1,
            level: Level::Inner,
            scatter: None,
        }],
        values,
        ..Nest::default()
    }
}

fn numbers(len: usize) -> Vec<f32> {
    let number = |index: usize| ((index * 7919) % 2003) as f32 / 40_000.0 - 0.025;
    (0..len).map(number).collect()
}

/// One layer: weights, bias, output, and the code of its product.
struct Layer {
    sizes: [usize; 3],
    code: Code,
    words: Vec<u64>,
    weights: Vec<f32>,
    bias: Vec<f32>,
    out: Vec<f32>,
}

impl Layer {
    fn new(sizes: [usize; 3], epilogue: Option<Nest>) -> Self {
        let [m, n, k] = sizes.map(|size| size as u64);
        let mut words = vec![m, n, k, k, 1, n, 1, n, 1, 0, 0, 0];
        if epilogue.is_some() {
            words.extend([m, n, n]);
        }
        let product = Matmul {
            dtype: DType::F32,
            partial: false,
            batch: 0,
            epilogue,
        };
        Self {
            sizes,
            code: Code::compile(&Program::Matmul(product), Options::default())
                .expect("the program compiles"),
            words,
            weights: numbers(sizes[1] * sizes[2]),
            bias: numbers(sizes[1]),
            out: vec![0.0; sizes[0] * sizes[1]],
        }
    }

    fn by_ours(&mut self, input: &[f32]) {
        let view = |slice: &[f32]| NativeView {
            pointer: slice.as_ptr().cast_mut().cast(),
            bytes: size_of_val(slice) as u64,
        };
        let out = NativeView {
            pointer: self.out.as_mut_ptr().cast(),
            bytes: size_of_val(&self.out[..]) as u64,
        };
        let views = [view(input), view(&self.weights), out, view(&self.bias)];
        // SAFETY: the memory belongs to this bench, and only this call writes the output.
        unsafe {
            self.code
                .run(black_box(&views), &self.words, &mut SingleThread)
        }
        .expect("the program compiles");
    }

    fn by_gemm(&mut self, input: &[f32], least: Option<f32>) {
        let [m, n, k] = self.sizes;
        assert_eq!(input.len(), m * k);
        let (row, inner) = (n as isize, k as isize);
        let (out, right) = (self.out.as_mut_ptr(), self.weights.as_ptr());
        let gemm = gemm_f32::gemm::f32::get_gemm_fn();
        // Transposed: `gemm` is fastest if the columns of its output are contiguous.
        // SAFETY: the lengths cover everything that the strides reach.
        unsafe {
            gemm(
                n,
                m,
                k,
                out,
                row,
                1,
                false,
                right,
                row,
                1,
                input.as_ptr(),
                inner,
                1,
                0.0,
                1.0,
                false,
                false,
                false,
                gemm_common::Parallelism::None,
            );
        }
        if let Some(least) = least {
            for row in self.out.chunks_mut(n) {
                for (x, bias) in row.iter_mut().zip(&self.bias) {
                    *x = (*x + bias).max(least);
                }
            }
        }
    }
}

/// Measures layers one after the other, all but the last with a ReLU.
fn row(name: &str, mut layers: Vec<Layer>, has_bias: bool, times: u32) {
    let [m, _, k] = layers[0].sizes;
    let input = numbers(m * k);
    let last = layers.len() - 1;
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..21 {
        for (which, samples) in samples.iter_mut().enumerate() {
            let start = Instant::now();
            for _ in 0..times {
                let mut from = &input[..];
                for (index, layer) in layers.iter_mut().enumerate() {
                    let least = if index < last { 0.0 } else { f32::NEG_INFINITY };
                    match which {
                        0 => layer.by_ours(from),
                        _ => layer.by_gemm(from, has_bias.then_some(least)),
                    }
                    from = &layer.out;
                }
                black_box(from);
            }
            samples.push(start.elapsed().as_secs_f64() / f64::from(times));
        }
    }
    let [ours, theirs] = samples.map(|mut all| {
        all.sort_by(f64::total_cmp);
        (all[all.len() / 2], all[0])
    });
    let us = |(median, least): (f64, f64)| format!("{:9.1} ({:9.1})", median * 1e6, least * 1e6);
    println!(
        "{name:28} ours {} us   gemm {} us   ratio {:.2} ({:.2})",
        us(ours),
        us(theirs),
        ours.0 / theirs.0,
        ours.1 / theirs.1
    );
}

fn main() {
    row("matmul 1024", vec![Layer::new([1024; 3], None)], false, 1);
    let one = vec![Layer::new([1024; 3], Some(epilogue(false)))];
    row("matmul 1024 and a bias", one, true, 1);
    let widths = [784, 512, 512, 10];
    let layers = (0..3).map(|index| {
        let sizes = [64, widths[index + 1], widths[index]];
        Layer::new(sizes, Some(epilogue(index < 2)))
    });
    row("MLP, 64 x 784-512-512-10", layers.collect(), true, 5);
}
