//! Plans: the descriptors of a product for cuBLASLt, and the algorithm that its heuristic selected.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::cublaslt::sys::{
    cublasComputeType_t as Compute, cublasLtMatmulDescAttributes_t as OfOperation,
    cublasLtMatmulPreferenceAttributes_t as OfPreference,
    cublasLtMatrixLayoutAttribute_t as OfLayout, cublasLtReductionScheme_t as Reduction,
    cudaDataType_t as Data,
};
use cudarc::driver::sys::CUstream;
use millstream_ir::DType;
use millstream_sync::facade::{Mutex, lock};

use super::api::{HeuristicResult, Lt, Opaque, Status, lt};
use super::gemm::{Gemm, MatrixLayout};
use crate::driver::{Code, Context, CuStream};

/// Bytes of an algorithm's workspace: the size that the documentation of cuBLASLt recommends for Hopper and later GPUs,
/// and more than it recommends for earlier ones.
pub(crate) const WORKSPACE_BYTES: usize = 32 << 20;
/// The largest alignment of addresses that algorithms distinguish, in bytes.
const ALIGNMENT_MAX: u32 = 256;
/// The schemes by which an algorithm may add the parts of a product whose depth it splits, besides not splitting it: in
/// the type of the computation. The others add in the type of the output, which for `f16` and `bf16` rounds each part.
const REDUCTIONS: u32 = Reduction::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
/// Rows, columns and depth of the products by which [`Blas::warm`] makes the library load its code.
const WARM_LENGTH: i64 = 64;

/// A handle of the library for one context.
pub(crate) struct Blas {
    context: Arc<Context>,
    lt: &'static Lt,
    handle: Opaque,
    /// The types for which the library has loaded its code.
    warmed: Mutex<Vec<DType>>,
}

// SAFETY: the library's documentation allows a handle on any thread, also on several at once.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

impl Blas {
    /// Creates a handle if the library is available. The context must be current.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, String> {
        let lt = lt()?;
        let mut handle: Opaque = std::ptr::null_mut();
        // SAFETY: the out pointer is valid.
        let created = unsafe { lt.create(&raw mut handle) };
        created.map_err(|status| format!("`cublasLtCreate` failed: {}", lt.describe(status)))?;
        tracing::debug!(target: "millstream::cuda", "using cuBLASLt for large products");
        Ok(Self {
            context: context.clone(),
            lt,
            handle,
            warmed: Mutex::default(),
        })
    }

    /// Lets the library load its code for products of this type now, by a small product on a stream of its own: the
    /// library loads it with the first product, and loading code waits for all work of the context. The context must be
    /// current. Waits for the product. Algorithms for other lengths may load more code later.
    pub(crate) fn warm(self: &Arc<Self>, dtype: DType) {
        let mut warmed = lock(&self.warmed);
        if warmed.contains(&dtype) {
            return;
        }
        // Also after an error, which the first product reports.
        warmed.push(dtype);
        if let Err(why) = self.multiply_once(dtype) {
            tracing::debug!(target: "millstream::cuda", why, %dtype, "cuBLASLt loads its code with the first product");
        }
    }

    fn multiply_once(self: &Arc<Self>, dtype: DType) -> Result<(), String> {
        let api = self.context.api();
        let layout = MatrixLayout {
            transposed: false,
            lens: [WARM_LENGTH; 2],
            leading: WARM_LENGTH,
            batch_stride: 0,
        };
        let gemm = Gemm {
            depth: WARM_LENGTH,
            batch: 1,
            a: layout,
            b: layout,
            d: layout,
            swapped: false,
        };
        let bytes = (WARM_LENGTH * WARM_LENGTH) as usize * dtype.size();
        let refused = |code: Code| code.to_string();
        let mut memory = 0;
        // SAFETY: the out pointer is valid.
        unsafe { api.allocate(&raw mut memory, 3 * bytes) }.map_err(refused)?;
        let places = [0, 1, 2].map(|nth| memory + nth * bytes as u64);
        let multiply = || {
            let plan = Plan::new(self, &PlanKey::new(dtype, gemm, places), 0);
            let plan = plan.map_err(|status| self.text(status))?;
            let stream = CuStream::new(&self.context, 0).map_err(refused)?;
            // SAFETY: the three matrices lie in the memory, and the plan needs no workspace.
            let issued = unsafe { plan.issue(places, 0, stream.raw) };
            // Also after an error: the memory must not be in use.
            stream.synchronize().map_err(refused)?;
            issued.map_err(|status| self.text(status))
        };
        let done = multiply();
        // SAFETY: the memory is from `cuMemAlloc`, and the stream has completed.
        let freed = unsafe { api.free(memory) };
        done.and(freed.map_err(refused))
    }

    /// Returns the library's description of an error code.
    pub(crate) fn text(&self, status: Status) -> String {
        self.lt.describe(status)
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        self.context.with_current(|_| {
            // SAFETY: created once, destroyed once; every plan holds this value, so no plan is left.
            let destroyed = unsafe { self.lt.destroy(self.handle) };
            if let Err(why) = destroyed.map_err(|status| self.text(status)) {
                tracing::warn!(target: "millstream::cuda", why, "cuBLASLt refused to release its handle");
            }
        });
    }
}

/// The key of a plan: everything that the library's heuristic depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PlanKey {
    pub(crate) dtype: DType,
    pub(crate) gemm: Gemm,
    /// The alignment of the addresses of `a`, `b` and `d` in bytes.
    pub(crate) alignment: [u32; 3],
}

impl PlanKey {
    pub(crate) fn new(dtype: DType, gemm: Gemm, addresses: [u64; 3]) -> Self {
        let alignment = addresses.map(|address| {
            let zeros = address.trailing_zeros().min(ALIGNMENT_MAX.trailing_zeros());
            1 << zeros
        });
        Self {
            dtype,
            gemm,
            alignment,
        }
    }
}

/// The descriptors and the algorithm for the products with one key.
pub(crate) struct Plan {
    blas: Arc<Blas>,
    operation: Opaque,
    /// The layouts of `a`, `b` and `d`.
    layouts: [Opaque; 3],
    algorithm: [u64; 8],
    pub(crate) workspace_bytes: usize,
    /// The factors of the product and of what the result was before: the bytes of 1 and 0 in the type of the computation.
    factors: [u64; 2],
}

// SAFETY: descriptors are only read after their creation.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

impl Plan {
    /// Returns the plan for a key, or `None` if the library does not support it. Queries the library, which takes a while.
    pub(crate) fn find(blas: &Arc<Blas>, key: &PlanKey) -> Option<Arc<Self>> {
        let plan = Self::new(blas, key, WORKSPACE_BYTES).map_err(|status| {
            let why = blas.text(status);
            tracing::debug!(target: "millstream::cuda", why, ?key, "cuBLASLt does not support this product");
        });
        plan.ok().map(Arc::new)
    }

    /// Creates the descriptors and queries the library's heuristic, which supports no algorithm for some products. The
    /// algorithm uses a workspace of at most `workspace_max` bytes.
    fn new(blas: &Arc<Blas>, key: &PlanKey, workspace_max: usize) -> Result<Self, Status> {
        let data = match key.dtype {
            DType::F64 => Data::CUDA_R_64F,
            DType::F32 => Data::CUDA_R_32F,
            DType::F16 => Data::CUDA_R_16F,
            DType::Bf16 => Data::CUDA_R_16BF,
            _ => return Err(Status::UNSUPPORTED),
        };
        let (compute, scale, one) = match key.dtype {
            DType::F64 => (Compute::CUBLAS_COMPUTE_64F, data, 1_f64.to_bits()),
            // Accumulates in `f32`, as millstream's kernels do, and multiplies `f32` as such, not as TF32.
            _ => {
                let one = u64::from(1_f32.to_bits()).to_le();
                (Compute::CUBLAS_COMPUTE_32F, Data::CUDA_R_32F, one)
            }
        };
        let mut plan = Self {
            blas: blas.clone(),
            operation: std::ptr::null_mut(),
            layouts: [std::ptr::null_mut(); 3],
            algorithm: [0; 8],
            workspace_bytes: 0,
            factors: [one, 0],
        };
        let (lt, gemm) = (blas.lt, &key.gemm);
        // SAFETY: the out pointers are valid; attributes are only read during the call, and have the sizes of the
        // header.
        unsafe {
            let place = &raw mut plan.operation;
            lt.create_operation(place, compute as u32, scale as u32)?;
            for (attribute, layout) in [
                (OfOperation::CUBLASLT_MATMUL_DESC_TRANSA, gemm.a),
                (OfOperation::CUBLASLT_MATMUL_DESC_TRANSB, gemm.b),
            ] {
                // `CUBLAS_OP_T` and `CUBLAS_OP_N`
                let (of, transpose) = (attribute as u32, i32::from(layout.transposed));
                set(lt.set_operation, plan.operation, of, &transpose)?;
            }
            let layouts = [gemm.a, gemm.b, gemm.d];
            for (descriptor, layout) in plan.layouts.iter_mut().zip(layouts) {
                let (place, [rows, columns]) = (&raw mut *descriptor, layout.lens);
                let (rows, columns) = (rows as u64, columns as u64);
                lt.create_layout(place, data as u32, rows, columns, layout.leading)?;
                let set_layout = lt.set_layout;
                let count = OfLayout::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT as u32;
                set(set_layout, *descriptor, count, &(gemm.batch as i32))?;
                let stride = OfLayout::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET as u32;
                set(set_layout, *descriptor, stride, &layout.batch_stride)?;
            }
        }
        let found = plan.find_algorithm(key, workspace_max)?;
        plan.algorithm = found.algorithm;
        plan.workspace_bytes = found.workspace_bytes;
        Ok(plan)
    }

    /// Queries the library's heuristic.
    fn find_algorithm(
        &self,
        key: &PlanKey,
        workspace_max: usize,
    ) -> Result<HeuristicResult, Status> {
        let lt = self.blas.lt;
        let mut preference: Opaque = std::ptr::null_mut();
        // SAFETY: as in `new`.
        unsafe { lt.create_preference(&raw mut preference) }?;
        let mut found = HeuristicResult::default();
        let mut count = 0;
        let [a, b, d] = key.alignment;
        let alignments = [
            (OfPreference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a),
            (OfPreference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b),
            (OfPreference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, d),
            (OfPreference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, d),
        ];
        let [of_a, of_b, of_d] = self.layouts;
        // SAFETY: as in `new`; all descriptors are alive, and `found` has room for the one requested result.
        let mut query = || unsafe {
            let most = OfPreference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            set(lt.set_preference, preference, most as u32, &workspace_max)?;
            let schemes = OfPreference::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK;
            set(lt.set_preference, preference, schemes as u32, &REDUCTIONS)?;
            for (attribute, bytes) in alignments {
                set(lt.set_preference, preference, attribute as u32, &bytes)?;
            }
            let (handle, operation) = (self.blas.handle, self.operation);
            let (place, count) = (&raw mut found, &raw mut count);
            lt.find(
                handle, operation, of_a, of_b, of_d, of_d, preference, 1, place, count,
            )
        };
        let answer = query();
        // SAFETY: created once, destroyed once.
        let _ = unsafe { lt.destroy_preference(preference) };
        answer?;
        Status::check(found.state)?;
        match count {
            0 => Err(Status::UNSUPPORTED),
            _ => Ok(found),
        }
    }

    /// Submits a product to a stream.
    ///
    /// # Safety
    /// The addresses are those of matrices with the plan's key, and of a workspace with as many bytes as the plan
    /// needs.
    pub(crate) unsafe fn issue(
        &self,
        [a, b, d]: [u64; 3],
        workspace: u64,
        stream: CUstream,
    ) -> Result<(), Status> {
        let [alpha, beta] = self
            .factors
            .each_ref()
            .map(|factor| (&raw const *factor).cast());
        let [of_a, of_b, of_d] = self.layouts;
        // SAFETY: the caller upholds the contract above; the factors are on the host, which is the default, and are
        // only read during the call.
        unsafe {
            let (lt, handle) = (self.blas.lt, self.blas.handle);
            let (operation, bytes) = (self.operation, self.workspace_bytes);
            let algorithm = &raw const self.algorithm;
            lt.multiply(
                handle, operation, alpha, a, of_a, b, of_b, beta, d, of_d, d, of_d, algorithm,
                workspace, bytes, stream,
            )
        }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        let lt = self.blas.lt;
        // SAFETY: created once, destroyed once; submitted products do not need the descriptors.
        unsafe {
            for layout in self.layouts {
                if !layout.is_null() {
                    let _ = lt.destroy_layout(layout);
                }
            }
            if !self.operation.is_null() {
                let _ = lt.destroy_operation(self.operation);
            }
        }
    }
}

/// Sets an attribute of a descriptor.
///
/// # Safety
/// The descriptor is alive, and the attribute has type `T`.
unsafe fn set<T>(
    call: unsafe extern "C" fn(Opaque, u32, *const c_void, usize) -> u32,
    descriptor: Opaque,
    attribute: u32,
    value: &T,
) -> Result<(), Status> {
    // SAFETY: the caller upholds the contract above.
    Status::check(unsafe {
        call(
            descriptor,
            attribute,
            (&raw const *value).cast(),
            size_of::<T>(),
        )
    })
}
