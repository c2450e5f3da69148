//! Matrix products: shapes, and products by their definition.

use millstream_ir::{DType, Matmul, Nest, Program, scalar};
use millstream_ir_text::naive;

use crate::data::elements;

/// The shape of a product: its lengths, and the strides of each matrix along batch, rows and columns.
#[derive(Clone, Copy)]
pub struct Shape {
    /// The number of products.
    pub batch: usize,
    /// The rows and columns of the result, and the length of the sums.
    pub lens: [usize; 3],
    lhs: [usize; 3],
    rhs: [usize; 3],
}

/// A product with its data.
pub struct Case {
    /// The product.
    pub program: Program,
    /// The contents of the buffers before: left, right, result, and those of the epilogue.
    pub buffers: Vec<Vec<u8>>,
    /// The launch words.
    pub words: Vec<u64>,
    /// The expected result.
    pub expected: Vec<u8>,
}

/// Dense row-major matrices.
pub fn dense(batch: usize, [m, n, k]: [usize; 3]) -> Shape {
    Shape {
        batch,
        lens: [m, n, k],
        lhs: [m * k, k, 1],
        rhs: [k * n, n, 1],
    }
}

/// Column-major matrices; all batches share the right one.
pub fn column_major(batch: usize, [m, n, k]: [usize; 3]) -> Shape {
    Shape {
        lhs: [m * k, 1, m],
        rhs: [0, 1, k],
        ..dense(batch, [m, n, k])
    }
}

/// Returns a product of one batch axis.
pub fn product(dtype: DType, epilogue: Option<Nest>) -> Program {
    Program::Matmul(Matmul {
        dtype,
        partial: false,
        batch: 1,
        epilogue,
    })
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
                    let bits = naive::dot(dtype, pairs).to_le_bytes();
                    out.extend_from_slice(&bits[..dtype.size()]);
                }
            }
        }
        out
    }

    /// Returns a product of matrices of this shape.
    pub fn case(&self, dtype: DType) -> Case {
        let [m, n, k] = self.lens;
        let lhs = elements(dtype, 2 + self.batch * m * k, 1, false);
        let rhs = elements(dtype, (self.batch * k * n).max(1), 2, false);
        let out = elements(dtype, self.batch * m * n, 3, false);
        Case {
            program: product(dtype, None),
            expected: self.product(dtype, &lhs, &rhs),
            buffers: vec![lhs, rhs, out],
            words: self.words(),
        }
    }
}

/// Returns a product whose epilogue adds a row to each element as it is stored in memory, rounded to its type, and
/// replaces it in place.
pub fn with_epilogue(dtype: DType) -> Case {
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
    let nest = millstream_ir_text::nest(&nest).unwrap();
    let words = [shape.batch, m, n, m * n, n].map(|word| word as u64);
    let words = [&words[..], &[u64::from(0.25_f32.to_bits())]].concat();
    let lhs = elements(dtype, 2 + shape.batch * m * k, 1, false);
    let rhs = elements(dtype, k * n, 2, false);
    let bias = elements(DType::F32, n, 3, false);
    let mut expected = [shape.product(dtype, &lhs, &rhs), bias.clone()];
    naive::run(&nest, &mut expected, &words);
    let [expected, _] = expected;
    let out = vec![0; expected.len()];
    Case {
        program: product(dtype, Some(nest)),
        buffers: vec![lhs, rhs, out, bias],
        words: [shape.words(), words].concat(),
        expected,
    }
}
