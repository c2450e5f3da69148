//! Large products of floats by cuBLASLt, where that is on the machine and knows the form. All others, and all where it is not, are
//! done by a kernel of ours, which each product has in any case.
//!
//! The library writes the product, and what is done to each element then is a kernel behind it: one task, of two calls. A recording
//! with such a product is issued task by task, since what the library launches is its own business (`docs/decisions/0014`).

mod api;
mod form;
mod plan;

use std::sync::Arc;

use form::Form;
use millstream_ir::Matmul;
use millstream_protocol::backend::Launch;
use millstream_protocol::error::Refused;
use millstream_protocol::id::QueueId;
pub(crate) use plan::Blas;
use plan::{Asked, Plan, Plans, WORKSPACE_BYTES};

use crate::device::CudaDevice;
use crate::driver::{Class, Code};
use crate::ir::Ways;
use crate::kernel::CudaKernel;
use crate::launch::{PARAMETERS_INLINE, Parameters};
use crate::pages::Pages;

/// From how many multiplications on a product is the library's, where nobody says: about 128 cubed. Not measured yet.
pub(crate) const FROM: u64 = 1 << 21;

/// The library's version, if it is there.
pub(crate) fn version() -> Result<usize, &'static str> {
    api::lt().map(|lt| lt.version)
}

/// What the kernel of a product has for the library.
pub(crate) struct Product {
    pub(crate) blas: Arc<Blas>,
    pub(crate) matmul: Matmul,
    /// What is done to each element then.
    pub(crate) epilogue: Option<Ways>,
}

/// What a device has for the library.
pub(crate) struct Products {
    from: u64,
    plans: Plans,
    /// Of each queue, 0 until one is needed: what is on one queue uses it in turn.
    workspaces: Box<[u64]>,
}

/// A product as the library does it.
pub(crate) struct Multiply<'k> {
    product: &'k Product,
    asked: Asked,
    plan: Arc<Plan>,
    /// Of `a`, `b` and `d`.
    places: [u64; 3],
}

impl Products {
    pub(crate) fn new(from: u64, queues: usize) -> Self {
        Self {
            from,
            plans: Plans::default(),
            workspaces: vec![0; queues].into(),
        }
    }

    /// How the library does this launch, if it does.
    fn multiply(
        &mut self,
        product: &Product,
        words: &[u64],
        addresses: &[u64],
    ) -> Option<(Asked, Arc<Plan>, [u64; 3])> {
        let form = Form::of(&product.matmul, words)?;
        if form.multiplications() < self.from {
            return None;
        }
        let places = places(&product.matmul, words, addresses, form.swapped)?;
        let asked = Asked::new(product.matmul.dtype, form, places);
        let plan = self.plans.get(&product.blas, &asked)?;
        Some((asked, plan, places))
    }

    /// The workspace of a queue, if one of so many bytes can be had.
    fn workspace(&mut self, queue: QueueId, bytes: usize, pages: &Pages) -> Option<u64> {
        let workspace = &mut self.workspaces[queue.index()];
        if bytes == 0 || *workspace != 0 {
            return Some(*workspace);
        }
        *workspace = pages.reserve(WORKSPACE_BYTES).ok()?;
        Some(*workspace)
    }

    /// Gives all workspaces back. Nothing uses them any more.
    pub(crate) fn end(&mut self, pages: &Pages) {
        for workspace in &mut self.workspaces {
            if *workspace != 0 {
                pages.give_back(std::mem::take(workspace));
            }
        }
    }
}

/// Addresses of the first elements of `a`, `b` and `d`.
fn places(matmul: &Matmul, words: &[u64], addresses: &[u64], swapped: bool) -> Option<[u64; 3]> {
    let offsets = words.get(matmul.epilogue_words() - 3..matmul.epilogue_words())?;
    let size = matmul.dtype.size() as u64;
    let place = |index: usize| {
        let offset = offsets[index].wrapping_mul(size);
        addresses
            .get(index)
            .map(|address| address.wrapping_add(offset))
    };
    let (lhs, rhs, out) = (place(0)?, place(1)?, place(2)?);
    Some(if swapped {
        [rhs, lhs, out]
    } else {
        [lhs, rhs, out]
    })
}

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
        let (asked, plan, places) = self.products.multiply(product, launch.scalars, bound)?;
        Some(Multiply {
            product,
            asked,
            plan,
            places,
        })
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
                self.products.plans.refuse(&asked);
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
