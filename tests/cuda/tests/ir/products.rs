//! Matrix products, by the tiled kernel and by cuBLASLt.

use std::sync::Arc;

use millstream_ir::lower;
use millstream_ir::{Blocking, DType, Matmul, Nest, Program, scalar};
use millstream_protocol::kernel::Kernel;
use millstream_tile::naive;
use rstest::rstest;

use crate::library::library;
use crate::support::{Gpu, elements};
use crate::tolerance::assert_close;

/// The shape of a product: its lengths, and the strides of each matrix along batch, rows and columns.
#[derive(Clone, Copy)]
struct Shape {
    batch: usize,
    lens: [usize; 3],
    lhs: [usize; 3],
    rhs: [usize; 3],
}

/// Dense row-major matrices.
fn dense(batch: usize, [m, n, k]: [usize; 3]) -> Shape {
    Shape {
        batch,
        lens: [m, n, k],
        lhs: [m * k, k, 1],
        rhs: [k * n, n, 1],
    }
}

/// Column-major matrices; all batches share the right one.
fn column_major(batch: usize, [m, n, k]: [usize; 3]) -> Shape {
    Shape {
        lhs: [m * k, 1, m],
        rhs: [0, 1, k],
        ..dense(batch, [m, n, k])
    }
}

impl Shape {
    /// Returns the strides of the result.
    fn out(&self) -> [usize; 3] {
        let [m, n, _] = self.lens;
        [m * n, n, 1]
    }

    fn words(&self) -> Vec<u64> {
        let [m, n, k] = self.lens;
        let all = [self.batch, m, n, k].into_iter();
        let all = all.chain(self.lhs).chain(self.rhs).chain(self.out());
        // Offsets: only the left matrix has one.
        all.chain([2, 0, 0]).map(|word| word as u64).collect()
    }

    /// Computes the product by its definition, as bytes.
    fn product(&self, dtype: DType, lhs: &[u8], rhs: &[u8]) -> Vec<u8> {
        let [m, n, k] = self.lens;
        let element = |bytes: &[u8], at: usize| scalar::load(dtype, &bytes[at * dtype.size()..]);
        let mut out = Vec::new();
        for b in 0..self.batch {
            for i in 0..m {
                for j in 0..n {
                    let pairs = (0..k).map(|l| {
                        let lhs =
                            element(lhs, 2 + b * self.lhs[0] + i * self.lhs[1] + l * self.lhs[2]);
                        let rhs = element(rhs, b * self.rhs[0] + l * self.rhs[1] + j * self.rhs[2]);
                        (lhs, rhs)
                    });
                    let bits = scalar::dot(dtype, pairs).to_le_bytes();
                    out.extend_from_slice(&bits[..dtype.size()]);
                }
            }
        }
        out
    }
}

#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn products_match_their_definition(
    #[values(dense(1, [5, 7, 3]), dense(2, [64, 64, 16]), column_major(2, [70, 65, 33]), dense(1, [3, 130, 0]))]
    shape: Shape,
    #[values(
        DType::F32,
        DType::F64,
        DType::F16,
        DType::Bf16,
        DType::I32,
        DType::I64,
        DType::U8
    )]
    dtype: DType,
    #[values(u64::MAX, 0)] library_from: u64,
) {
    let [m, n, k] = shape.lens;
    let lhs = elements(dtype, 2 + shape.batch * m * k, 1, false);
    let rhs = elements(dtype, (shape.batch * k * n).max(1), 2, false);
    let expected = shape.product(dtype, &lhs, &rhs);
    let out = elements(dtype, shape.batch * m * n, 3, false);
    let matmul = Matmul {
        dtype,
        partial: false,
        batch: 1,
        epilogue: None,
    };
    let gpu = Gpu::with(3, |cuda| cuda.library_products_from(library_from));
    let before = library().products();
    let program = Program::Matmul(matmul);
    let outputs = gpu.run(program, 1, &[lhs, rhs, out], &shape.words());
    assert_close("product", dtype, &outputs[2], &expected);
    let by_library = library_from == 0 && dtype.is_float() && k > 0;
    assert_eq!(library().products() - before, u64::from(by_library));
    gpu.close();
}

/// A blocking with a tile size selects the tiled kernel, even if the library is available.
#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn products_match_their_definition_for_every_tile_size(
    #[values(dense(1, [5, 7, 3]), column_major(2, [130, 65, 33]))] shape: Shape,
    #[values(DType::F32, DType::F64, DType::F16, DType::I32, DType::U8)] dtype: DType,
) {
    let [m, n, k] = shape.lens;
    let lhs = elements(dtype, 2 + shape.batch * m * k, 1, false);
    let rhs = elements(dtype, shape.batch * k * n, 2, false);
    let expected = shape.product(dtype, &lhs, &rhs);
    let buffers = [lhs, rhs, elements(dtype, shape.batch * m * n, 3, false)];
    let product = Program::Matmul(Matmul {
        dtype,
        partial: false,
        batch: 1,
        epilogue: None,
    });
    let gpu = Gpu::with(3, |cuda| cuda.library_products_from(0));
    let before = library().products();
    let blockings = lower::blockings(&product);
    assert!(!blockings.is_empty());
    for blocking in blockings {
        let outputs = gpu.run_blocked(product.clone(), blocking, 1, &buffers, &shape.words());
        assert_close(&blocking.to_string(), dtype, &outputs[2], &expected);
    }
    assert_eq!(library().products(), before);
    let kernel = Kernel::from_program("tested", Arc::new(product)).unwrap();
    let kernel = kernel.with(Blocking::DEFAULT.tile(3, 3));
    let error = gpu.open().0.kernel(kernel).unwrap_err();
    assert!(error.to_string().contains("tiles of 3 x 3"), "{error}");
    gpu.close();
}

/// The epilogue reads each element as it is stored in memory, rounded to its type, and replaces it in place.
#[rstest]
#[ignore = "needs NVRTC: run `cargo xtask gpu`"]
fn an_epilogue_is_applied_to_each_element(
    #[values(DType::F32, DType::F16)] dtype: DType,
    #[values(u64::MAX, 0)] library_from: u64,
) {
    let shape = column_major(2, [33, 70, 20]);
    let [m, n, k] = shape.lens;
    let nest = format!(
        "nest outer 3 inner 0 words 6
         buffer 0 {dtype} update  buffer 1 f32 read
         access 0 = buffer 0 [w3 w4 1]  access 1 = buffer 1 [0 0 1]
         %0 {dtype} = load 0  %1 f32 = cast %0  %2 f32 = load 1  %3 f32 = add %1 %2
         %4 f32 = word w5  %5 f32 = max %3 %4  %6 {dtype} = cast %5
         store outer 0 %6"
    );
    let nest: Nest = nest.parse().unwrap();
    let words = [shape.batch, m, n, m * n, n].map(|word| word as u64);
    let words = [&words[..], &[u64::from(0.25_f32.to_bits())]].concat();

    let lhs = elements(dtype, 2 + shape.batch * m * k, 1, false);
    let rhs = elements(dtype, k * n, 2, false);
    let bias = elements(DType::F32, n, 3, false);
    let mut expected = [shape.product(dtype, &lhs, &rhs), bias.clone()];
    naive::run(&nest, &mut expected, &words);

    let matmul = Matmul {
        dtype,
        partial: false,
        batch: 1,
        epilogue: Some(nest),
    };
    let out = vec![0; expected[0].len()];
    let words = [shape.words(), words].concat();
    let gpu = Gpu::with(4, |cuda| cuda.library_products_from(library_from));
    let outputs = gpu.run(Program::Matmul(matmul), 1, &[lhs, rhs, out, bias], &words);
    assert_close("product", dtype, &outputs[2], &expected[0]);
    gpu.close();
}
