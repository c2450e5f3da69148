//! Large products of floats by cuBLASLt, if the library is available and supports the operands. A kernel of millstream
//! performs all other products; it is compiled for every product.
//!
//! The library writes the product, and a kernel behind it applies the epilogue to each element: one task with two
//! calls. A recording with such a product is replayed task by task, because the kernels that the library launches are
//! not known. A child graph would fix their addresses, so each replay with other handles would capture again. The
//! library's own epilogues are not used: those of millstream are any expression.

mod api;
mod gemm;
mod plan;

use std::collections::HashMap;
use std::sync::Arc;

use gemm::Gemm;
use millstream_ir::Matmul;
use millstream_protocol::QueueId;
pub(crate) use plan::Blas;
use plan::{Plan, PlanKey, WORKSPACE_BYTES};

use crate::driver::PagePool;
use crate::ir::Entries;

/// The default for the fewest multiplications of a product that the library performs: about 128 cubed. Not measured
/// yet.
pub(crate) const MULTIPLICATIONS_MIN: u64 = 1 << 21;
/// Most plans that are remembered (I12).
const PLANS_MAX: usize = 256;

/// Returns the library's version.
///
/// # Errors
/// The library is not available; the message says what to do.
pub(crate) fn version() -> Result<usize, &'static str> {
    // SAFETY: the function has no arguments.
    api::lt().map(|lt| unsafe { (lt.version)() })
}

/// The part of a kernel for products by the library.
pub(crate) struct Product {
    pub(crate) blas: Arc<Blas>,
    pub(crate) matmul: Matmul,
    /// The kernel that is applied to each element of the product.
    pub(crate) epilogue: Option<Entries>,
}

/// The part of a device for products by the library.
pub(crate) struct Products {
    multiplications_min: u64,
    /// Each plan with the number of products up to its last use. `None` for a product that the library does not support,
    /// or has refused.
    plans: HashMap<PlanKey, (Option<Arc<Plan>>, u64)>,
    /// The number of products so far.
    products: u64,
    /// The workspace of each queue, or 0 if none was needed yet. The tasks of one queue run in order and share it.
    workspaces: Box<[u64]>,
}

/// A product that the library performs.
pub(crate) struct Multiply<'k> {
    pub(crate) product: &'k Product,
    pub(crate) key: PlanKey,
    pub(crate) plan: Arc<Plan>,
    /// The addresses of `a`, `b` and `d`.
    pub(crate) addresses: [u64; 3],
}

impl Products {
    pub(crate) fn new(multiplications_min: u64, queues: usize) -> Self {
        Self {
            multiplications_min,
            plans: HashMap::new(),
            products: 0,
            workspaces: vec![0; queues].into(),
        }
    }

    /// Returns how the library performs this launch, or `None` if it does not.
    pub(crate) fn multiply<'k>(
        &mut self,
        product: &'k Product,
        words: &[u64],
        addresses: &[u64],
    ) -> Option<Multiply<'k>> {
        let gemm = Gemm::of(&product.matmul, words)?;
        if gemm.multiplications() < self.multiplications_min {
            return None;
        }
        let addresses = element_addresses(&product.matmul, words, addresses, gemm.swapped)?;
        let key = PlanKey::new(product.matmul.dtype, gemm, addresses);
        self.products += 1;
        if self.plans.len() >= PLANS_MAX && !self.plans.contains_key(&key) {
            // A growing length produces a new key each time, and its old keys do not come back.
            let oldest = self.plans.iter().min_by_key(|(_, (_, used))| *used);
            let oldest = oldest.map(|(key, _)| *key);
            oldest.and_then(|oldest| self.plans.remove(&oldest));
        }
        let plan = self.plans.entry(key);
        let (plan, used) = plan.or_insert_with(|| (Plan::find(&product.blas, &key), 0));
        *used = self.products;
        let plan = plan.clone()?;
        Some(Multiply {
            product,
            key,
            plan,
            addresses,
        })
    }

    /// Remembers that the library refused a product that it had a plan for, so that it is not used again.
    pub(crate) fn refuse(&mut self, key: &PlanKey) {
        self.plans.insert(*key, (None, self.products));
    }

    /// Returns the workspace of a queue for a plan that needs `bytes` bytes, or `None` if there is no memory.
    pub(crate) fn workspace(
        &mut self,
        queue: QueueId,
        bytes: usize,
        pool: &PagePool,
    ) -> Option<u64> {
        let workspace = &mut self.workspaces[queue.index()];
        if bytes == 0 || *workspace != 0 {
            return Some(*workspace);
        }
        *workspace = pool.allocate(WORKSPACE_BYTES).ok()?;
        Some(*workspace)
    }

    /// Frees all workspaces. No task uses them any more.
    pub(crate) fn free_all(&mut self, pool: &PagePool) {
        for workspace in &mut self.workspaces {
            if *workspace != 0 {
                pool.free(std::mem::take(workspace));
            }
        }
    }
}

/// Returns the addresses of the first elements of `a`, `b` and `d`.
fn element_addresses(
    matmul: &Matmul,
    words: &[u64],
    addresses: &[u64],
    swapped: bool,
) -> Option<[u64; 3]> {
    let offsets = words.get(matmul.epilogue_words() - 3..matmul.epilogue_words())?;
    let size = matmul.dtype.size() as u64;
    let element = |index: usize| {
        let offset = offsets[index].wrapping_mul(size);
        addresses
            .get(index)
            .map(|address| address.wrapping_add(offset))
    };
    let (lhs, rhs, out) = (element(0)?, element(1)?, element(2)?);
    Some(if swapped {
        [rhs, lhs, out]
    } else {
        [lhs, rhs, out]
    })
}
