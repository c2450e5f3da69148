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
use millstream_protocol::id::QueueId;
pub(crate) use plan::Blas;
use plan::{Asked, Plan, Plans, WORKSPACE_BYTES};

use crate::ir::Ways;
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
    pub(crate) product: &'k Product,
    pub(crate) asked: Asked,
    pub(crate) plan: Arc<Plan>,
    /// Of `a`, `b` and `d`.
    pub(crate) places: [u64; 3],
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
    pub(crate) fn multiply<'k>(
        &mut self,
        product: &'k Product,
        words: &[u64],
        addresses: &[u64],
    ) -> Option<Multiply<'k>> {
        let form = Form::of(&product.matmul, words)?;
        if form.multiplications() < self.from {
            return None;
        }
        let places = places(&product.matmul, words, addresses, form.swapped)?;
        let asked = Asked::new(product.matmul.dtype, form, places);
        let plan = self.plans.get(&product.blas, &asked)?;
        Some(Multiply {
            product,
            asked,
            plan,
            places,
        })
    }

    /// The library does not do a product after all: it is not asked again.
    pub(crate) fn refuse(&mut self, asked: &Asked) {
        self.plans.refuse(asked);
    }

    /// The workspace of a queue, if one of so many bytes can be had.
    pub(crate) fn workspace(&mut self, queue: QueueId, bytes: usize, pages: &Pages) -> Option<u64> {
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
