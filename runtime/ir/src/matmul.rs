//! Matrix products, batched, with an optional epilogue.
//!
//! A product is a program like a nest, and no call of a backend's library: recordings, hazards, replays, traces and
//! the cache of kernels exist for programs, and a second kind of task would need each of them again, in every backend.
//! The epilogue is any elementwise expression, where a library has a fixed list, and operands are walked by strides,
//! so a view is not copied. A backend may still run a product by its library, as the CUDA backend does for large ones;
//! nothing above the backend knows of it.

use crate::nest::BufferMode;
use crate::{DType, Nest, ProgramError};

/// A matrix product: `out[b.., i, j] = epilogue(sum over k of lhs[b.., i, k] * rhs[b.., k, j])`.
///
/// The bindings are `lhs` (read), `rhs` (read), `out`, and then those of the epilogue without its first. Like a
/// [`Nest`] it contains no lengths. The launch words are, in order:
///
/// | words | contents |
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
    /// The type of all three matrices. Products of halves are summed as `f32`; those of integers wrap.
    pub dtype: DType,
    /// The number of batch axes.
    pub batch: usize,
    /// Whether the product covers only a part of the buffer of `out`, as in a concatenation. Then `out` is updated: the
    /// other bytes keep their content and their failures. Otherwise every byte of `out` is written.
    pub partial: bool,
    /// Operations on each element of the product. Its axes are `batch..`, m and n, all outer. Its first buffer is
    /// `out`, which it updates in place through its access 0: at that place it loads the product.
    pub epilogue: Option<Nest>,
}

impl Matmul {
    /// Returns the number of launch words.
    pub fn words(&self) -> usize {
        self.epilogue_words() + self.epilogue.as_ref().map_or(0, |nest| nest.words)
    }

    /// Returns the index of the first word of the epilogue.
    pub fn epilogue_words(&self) -> usize {
        self.batch + 3 + 3 * (self.batch + 2) + 3
    }

    /// Checks the product.
    ///
    /// # Errors
    /// The first error of the epilogue.
    pub fn check(&self) -> Result<(), ProgramError> {
        let Some(epilogue) = &self.epilogue else {
            return Ok(());
        };
        epilogue.check()?;
        let refuse = |why| {
            Err(ProgramError::new(format!(
                "the epilogue of a product {why}"
            )))
        };
        if (epilogue.outer, epilogue.inner) != (self.batch + 2, 0) {
            return refuse("does not have the axes of the product");
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
