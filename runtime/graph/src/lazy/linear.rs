//! Matrix products.

use millstream_ir::DType;

use crate::error::{By, why};
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::node::Op;
use crate::shape::Shape;
use crate::size::Size;

impl LazyBuffer {
    /// Returns the product of matrices `[.., m, k]` and `[.., k, n]`. The axes before the last two are broadcast;
    /// missing ones are added in front. Products of integers wrap; those of halves are summed as `f32`.
    ///
    /// ```
    /// # use millstream_graph::{DType, Graph};
    /// let graph = Graph::new();
    /// let a = graph.input("a", DType::F32, [8, 2, 3]);
    /// let b = graph.input("b", DType::F32, [3, 5]);
    /// assert_eq!(a.matmul(&b).shape().to_string(), "[8, 2, 5]");
    /// ```
    #[track_caller]
    pub fn matmul(&self, right: &LazyBuffer) -> LazyBuffer {
        self.product_with(By::new("matmul"), right)
    }

    /// As [`LazyBuffer::matmul`], with the last two axes of the right side exchanged: `[.., n, k]`.
    #[track_caller]
    pub fn matmul_t(&self, right: &LazyBuffer) -> LazyBuffer {
        let by = By::new("matmul_t");
        LazyBuffer::composed(by, &[self, right], || {
            if right.rank() < 2 {
                return Err(why::FEW_AXES);
            }
            Ok(self.product_with(by, &right.t()))
        })
    }

    fn product_with(&self, by: By, right: &LazyBuffer) -> LazyBuffer {
        LazyBuffer::composed(by, &[self, right], || {
            let (a, b) = (self.shape(), right.shape());
            if a.rank() < 2 || b.rank() < 2 {
                return Err(why::FEW_AXES);
            }
            let (a_batch, a_matrix) = a.split_at(a.rank() - 2);
            let (b_batch, b_matrix) = b.split_at(b.rank() - 2);
            if a_matrix[1] != b_matrix[0] {
                return Err(why::lengths("inner lengths", &a_matrix[1], &b_matrix[0]));
            }
            let batch = Shape::new(a_batch).broadcast(&Shape::new(b_batch));
            let batch = batch.ok_or(why::BROADCAST)?;
            let with = |matrix: &[Size]| Shape::new(batch.iter().chain(matrix));
            let left = self.expand(by, &with(a_matrix));
            let right = right.expand(by, &with(b_matrix));
            let shape = with(&[a_matrix[0].clone(), b_matrix[1].clone()]);
            Ok(LazyBuffer::of(by, [&left, &right], |[left, right]| {
                if left.dtype != right.dtype {
                    return Err(why::DTYPES);
                }
                if left.dtype == DType::Bool {
                    return Err(why::dtype(DType::Bool));
                }
                Ok((Op::Matmul, left.dtype, shape))
            }))
        })
    }
}
