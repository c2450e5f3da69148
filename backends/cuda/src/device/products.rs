//! One launch of a product by cuBLASLt (see `product`).

use millstream_protocol::{Launch, QueueId, Refused};

use super::CudaDevice;
use crate::ir;
use crate::launch::{PARAMETERS_INLINE, Parameters};
use crate::product::Multiply;

impl CudaDevice {
    /// Submits a launch through the library. Returns `false` if nothing was submitted, so that millstream's kernel has
    /// to perform the product.
    pub(crate) fn multiply(
        &mut self,
        queue: QueueId,
        launch: &Launch<'_>,
        multiply: Multiply<'_>,
        addresses: &[u64; PARAMETERS_INLINE],
    ) -> Result<bool, Refused> {
        let (product, plan) = (multiply.product, multiply.plan);
        let (words, bound) = (launch.scalars, &addresses[..launch.bindings.len()]);
        let bytes = plan.workspace_bytes;
        let Some(workspace) = self.products.workspace(queue, bytes, &self.pool) else {
            tracing::debug!(target: "millstream::cuda", bytes, "no memory for the workspace of cuBLASLt; using millstream's kernel");
            return Ok(false);
        };
        let stream = self.stream(queue);
        // SAFETY: the addresses are resolved, the plan is that of these matrices, and the workspace has the size that
        // every plan may use.
        match unsafe { plan.issue(multiply.addresses, workspace, stream) } {
            Ok(()) => {}
            Err(status) if status.is_sticky() => {
                let why = product.blas.text(status);
                return Err(Refused::Lost(format!(
                    "the call `cublasLtMatmul` failed: {why}"
                )));
            }
            // Nothing was submitted, so millstream's kernel can perform the product.
            Err(status) => {
                let why = product.blas.text(status);
                tracing::warn!(target: "millstream::cuda", why, key = ?multiply.key, "cuBLASLt refused a product that it has an algorithm for");
                self.products.refuse(&multiply.key);
                return Ok(false);
            }
        }
        let Some(variants) = &product.epilogue else {
            return Ok(true);
        };
        // The epilogue's first binding is the product; it does not bind the operands.
        let (bound, words) = (&bound[2..], &words[product.matmul.epilogue_words()..]);
        let mut parameters = Parameters::of(bound, words)?;
        let shape = ir::shape(variants, [0; 3], words, bound);
        if shape.cubes.contains(&0) {
            return Ok(true);
        }
        // SAFETY: as for any launch (`launch_kernel`).
        let issued = unsafe { shape.issue(self.api(), stream, parameters.as_mut_ptr()) };
        issued
            .map(|()| true)
            .map_err(|code| self.partial_failure(true, code.into()))
    }
}
