//! Matrix products, batched, with something done to each element of the result.

use crate::nest::BufferMode;
use crate::{DType, Nest, NestError};

/// A product of matrices: `out[b.., i, j] = epilogue(sum over k of lhs[b.., i, k] * rhs[b.., k, j])`.
///
/// Its bindings are `lhs` (read), `rhs` (read), `out`, and then those of the epilogue but its first. Like a
/// [`Nest`] it says nothing of lengths. Its launch words are, in order:
///
/// | words | what |
/// | --- | --- |
/// | `batch` | lengths of the batch axes |
/// | 3 | m, n, k |
/// | `batch` + 2 | strides of `lhs`: batch axes, m, k; a stride of 0 broadcasts |
/// | `batch` + 2 | strides of `rhs`: batch axes, k, n |
/// | `batch` + 2 | strides of `out`: batch axes, m, n |
/// | 3 | offsets of `lhs`, `rhs` and `out`, in elements |
/// | rest | the words of the epilogue |
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Matmul {
    /// The type of all three. Products of halves are summed as `f32`; those of integers wrap.
    pub dtype: DType,
    /// How many batch axes there are.
    pub batch: usize,
    /// Whether the product is only a part of what `out` is bound to, as in a concatenation. Then `out` is updated: what the
    /// product does not cover keeps its bytes, and its failures. Otherwise every byte of `out` is written.
    pub partial: bool,
    /// What is done to each element of the product. Its axes are `batch..`, m and n, all of them outer, and its first buffer is `out`,
    /// which it updates in place through its access 0: the product is there when it runs.
    pub epilogue: Option<Nest>,
}

impl Matmul {
    /// How many launch words there are.
    pub fn words(&self) -> usize {
        self.epilogue_words() + self.epilogue.as_ref().map_or(0, |nest| nest.words)
    }

    /// Index of the first word of the epilogue.
    pub fn epilogue_words(&self) -> usize {
        self.batch + 3 + 3 * (self.batch + 2) + 3
    }

    /// Is this a product?
    ///
    /// # Errors
    /// What is wrong with its epilogue.
    pub fn check(&self) -> Result<(), NestError> {
        let Some(epilogue) = &self.epilogue else {
            return Ok(());
        };
        epilogue.check()?;
        let refuse = |why| Err(NestError::Epilogue { why });
        if (epilogue.outer, epilogue.inner) != (self.batch + 2, 0) {
            return refuse("has not the axes of the product");
        }
        match (epilogue.buffers.first(), epilogue.accesses.first()) {
            (Some(buffer), Some(access)) if access.buffer == 0 && buffer.dtype == self.dtype => {
                if buffer.mode == BufferMode::Update {
                    Ok(())
                } else {
                    refuse("does not update the product")
                }
            }
            _ => refuse("does not begin with the product"),
        }
    }
}
