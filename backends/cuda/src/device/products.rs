//! One launch of a product by the library, where it does that: see `product`.

use millstream_protocol::backend::Launch;
use millstream_protocol::error::Refused;
use millstream_protocol::id::QueueId;

use super::CudaDevice;
use crate::driver::{Class, Code};
use crate::kernel::CudaKernel;
use crate::launch::{PARAMETERS_INLINE, Parameters};
use crate::product::Multiply;

impl CudaDevice {
    /// How the library does a launch, if it is one of a product that the library does.
    pub(crate) fn library<'k>(
        &mut self,
        launch: &Launch<'_>,
        kernel: &'k CudaKernel,
        addresses: &[u64; PARAMETERS_INLINE],
    ) -> Option<Multiply<'k>> {
        let product = kernel.product.as_ref()?;
        let bound = &addresses[..launch.bindings.len()];
        self.products.multiply(product, launch.scalars, bound)
    }

    /// Gives a launch to the library; false, if that does not do it after all.
    pub(crate) fn multiply(
        &mut self,
        queue: QueueId,
        launch: &Launch<'_>,
        multiply: Multiply<'_>,
        addresses: &[u64; PARAMETERS_INLINE],
    ) -> Result<bool, Refused> {
        let Multiply {
            product,
            asked,
            plan,
            places,
        } = multiply;
        let (words, bound) = (launch.scalars, &addresses[..launch.bindings.len()]);
        let bytes = plan.workspace_bytes;
        let Some(workspace) = self.products.workspace(queue, bytes, &self.pages) else {
            tracing::debug!(target: "millstream::cuda", bytes, "there is no memory for cuBLASLt to work in");
            return Ok(false);
        };
        let stream = self.stream(queue);
        // SAFETY: addresses were resolved, the plan is that of these matrices, and the workspace has what any plan may ask for.
        match unsafe { plan.issue(places, workspace, stream) } {
            Ok(()) => {}
            Err(status) if status.code().class() == Class::Sticky => {
                let said = product.blas.text(status);
                return Err(Refused::Lost(format!(
                    "cuBLASLt answered {said} to cublasLtMatmul"
                )));
            }
            // It was not begun, and our own kernel can do it.
            Err(status) => {
                let said = product.blas.text(status);
                tracing::warn!(target: "millstream::cuda", said, ?asked, "cuBLASLt does not do a product that it has an algorithm for");
                self.products.refuse(&asked);
                return Ok(false);
            }
        }
        let Some(ways) = &product.epilogue else {
            return Ok(true);
        };
        // The product is its first binding; the sides are none.
        let (bound, words) = (&bound[2..], &words[product.matmul.epilogue_words()..]);
        let mut parameters = Parameters::of(bound, words)?;
        let shape = ways.launch(words, bound);
        if shape.cubes.contains(&0) {
            return Ok(true);
        }
        // SAFETY: as of any launch (`launch_kernel`).
        let issued = unsafe { shape.issue(self.api(), stream, parameters.as_mut_ptr()) };
        issued.map(|()| true).map_err(|(call, code): (_, Code)| {
            let refused = self.refusal(call, code);
            self.cut_short(true, refused)
        })
    }
}
