//! How the library does products of one form: what it is told, and the algorithm that it chose.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use cudarc::cublaslt::sys::{
    cublasComputeType_t as Compute, cublasLtMatmulDescAttributes_t as OfOperation,
    cublasLtMatmulPreferenceAttributes_t as OfPreference,
    cublasLtMatrixLayoutAttribute_t as OfLayout, cudaDataType_t as Data,
};
use cudarc::driver::sys::CUstream;
use millstream_ir::DType;

use super::api::{Found, Lt, Opaque, Status, lt};
use super::form::{Form, Lie};
use crate::driver::{Code, Context};

/// Bytes of device memory that an algorithm may use meanwhile: what NVIDIA's documentation of cuBLASLt recommends for GPUs from
/// Hopper on, and more than for those before.
pub(crate) const WORKSPACE_BYTES: usize = 32 << 20;
/// Addresses are aligned to so many bytes as far as algorithms care.
const ALIGNMENT_MAX: u32 = 256;
/// Forms that are remembered, at most (I12).
const KNOWN_MAX: usize = 256;

/// The library, for one context.
pub(crate) struct Blas {
    context: Arc<Context>,
    lt: &'static Lt,
    handle: Opaque,
}

// SAFETY: the library's documentation allows a handle on any thread, on several at once, too.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

impl Blas {
    /// The library, if it is on this machine. The context is current.
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, String> {
        let lt = lt()?;
        let mut handle: Opaque = std::ptr::null_mut();
        // SAFETY: the place for the answer is ours.
        let created = Status::check(unsafe { (lt.create)(&raw mut handle) });
        created
            .map_err(|status| format!("cuBLASLt answered {} to cublasLtCreate", lt.text(status)))?;
        let version = lt.version;
        tracing::debug!(target: "millstream::cuda", version, "cuBLASLt is there: large products are its own");
        Ok(Self {
            context: context.clone(),
            lt,
            handle,
        })
    }

    /// What an answer of the library means, in words.
    pub(crate) fn text(&self, status: Status) -> String {
        self.lt.text(status)
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        self.context.end("cublasLtDestroy", |_| {
            // SAFETY: made once, ended once; plans hold it, so that there are none left.
            let answer = unsafe { (self.lt.destroy)(self.handle) };
            Status::check(answer).map_or_else(|status| status.code().number(), |()| Code::SUCCESS)
        });
    }
}

/// What is asked of the library: all that its choice depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Asked {
    pub(crate) dtype: DType,
    pub(crate) form: Form,
    /// Of `a`, `b` and `d`: bytes that divide their addresses.
    pub(crate) alignment: [u32; 3],
}

impl Asked {
    pub(crate) fn new(dtype: DType, form: Form, addresses: [u64; 3]) -> Self {
        let alignment = addresses.map(|address| {
            let zeros = address.trailing_zeros().min(ALIGNMENT_MAX.trailing_zeros());
            1 << zeros
        });
        Self {
            dtype,
            form,
            alignment,
        }
    }
}

/// How products of one form are done.
pub(crate) struct Plan {
    blas: Arc<Blas>,
    operation: Opaque,
    /// Of `a`, `b` and `d`.
    layouts: [Opaque; 3],
    algorithm: [u64; 8],
    pub(crate) workspace_bytes: usize,
    is_double: bool,
}

// SAFETY: descriptions are only read once they are made.
unsafe impl Send for Plan {}
// SAFETY: as above.
unsafe impl Sync for Plan {}

impl Plan {
    /// Asks the library, which has no answer for some forms.
    fn new(blas: &Arc<Blas>, asked: &Asked) -> Result<Self, Status> {
        let (data, compute, scale) = match asked.dtype {
            DType::F64 => (
                Data::CUDA_R_64F,
                Compute::CUBLAS_COMPUTE_64F,
                Data::CUDA_R_64F,
            ),
            // Sums are of `f32`, as those of our own kernels; and `f32` is multiplied as such, not as TF32.
            DType::F32 => (
                Data::CUDA_R_32F,
                Compute::CUBLAS_COMPUTE_32F,
                Data::CUDA_R_32F,
            ),
            DType::F16 => (
                Data::CUDA_R_16F,
                Compute::CUBLAS_COMPUTE_32F,
                Data::CUDA_R_32F,
            ),
            DType::Bf16 => (
                Data::CUDA_R_16BF,
                Compute::CUBLAS_COMPUTE_32F,
                Data::CUDA_R_32F,
            ),
            _ => return Err(Status::UNSUPPORTED),
        };
        let mut plan = Self {
            blas: blas.clone(),
            operation: std::ptr::null_mut(),
            layouts: [std::ptr::null_mut(); 3],
            algorithm: [0; 8],
            workspace_bytes: 0,
            is_double: asked.dtype == DType::F64,
        };
        let (lt, form) = (blas.lt, &asked.form);
        // SAFETY: the places for answers are ours; attributes are read during the call, with the sizes that the header says.
        unsafe {
            let place = &raw mut plan.operation;
            Status::check((lt.create_operation)(place, compute as u32, scale as u32))?;
            for (attribute, lie) in [
                (OfOperation::CUBLASLT_MATMUL_DESC_TRANSA, form.a),
                (OfOperation::CUBLASLT_MATMUL_DESC_TRANSB, form.b),
            ] {
                // `CUBLAS_OP_T` and `CUBLAS_OP_N`
                let turn = i32::from(lie.turned);
                set(lt.set_operation, plan.operation, attribute as u32, &turn)?;
            }
            let (rows, columns, depth) = (form.rows, form.columns, form.depth);
            let matrices = [
                (form.a, rows, depth),
                (form.b, depth, columns),
                (form.d, rows, columns),
            ];
            for (layout, (lie, rows, columns)) in plan.layouts.iter_mut().zip(matrices) {
                let Lie {
                    turned,
                    step,
                    stride,
                } = lie;
                let (rows, columns) = if turned {
                    (columns, rows)
                } else {
                    (rows, columns)
                };
                let place = &raw mut *layout;
                Status::check((lt.create_layout)(
                    place,
                    data as u32,
                    rows as u64,
                    columns as u64,
                    step,
                ))?;
                let count = OfLayout::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
                set(lt.set_layout, *layout, count as u32, &(form.batch as i32))?;
                let on = OfLayout::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
                set(lt.set_layout, *layout, on as u32, &stride)?;
            }
        }
        let found = plan.find(asked)?;
        plan.algorithm = found.algorithm;
        plan.workspace_bytes = found.workspace_bytes;
        Ok(plan)
    }

    /// The library's choice.
    fn find(&self, asked: &Asked) -> Result<Found, Status> {
        let lt = self.blas.lt;
        let mut preference: Opaque = std::ptr::null_mut();
        // SAFETY: as in `new`.
        Status::check(unsafe { (lt.create_preference)(&raw mut preference) })?;
        let mut found = Found::default();
        let mut count = 0;
        let [a, b, d] = asked.alignment;
        let wanted = [
            (OfPreference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a),
            (OfPreference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b),
            (OfPreference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, d),
            (OfPreference::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, d),
        ];
        let [of_a, of_b, of_d] = self.layouts;
        // SAFETY: as in `new`; all descriptions live, and there is room for the one answer that is asked for.
        let answer = unsafe {
            let most = OfPreference::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
            let mut answer = set(lt.set_preference, preference, most as u32, &WORKSPACE_BYTES);
            for (attribute, bytes) in wanted {
                answer = answer
                    .and_then(|()| set(lt.set_preference, preference, attribute as u32, &bytes));
            }
            let answer = answer.and_then(|()| {
                Status::check((lt.find)(
                    self.blas.handle,
                    self.operation,
                    of_a,
                    of_b,
                    of_d,
                    of_d,
                    preference,
                    1,
                    &raw mut found,
                    &raw mut count,
                ))
            });
            (lt.destroy_preference)(preference);
            answer
        };
        answer?;
        Status::check(found.state)?;
        match count {
            0 => Err(Status::UNSUPPORTED),
            _ => Ok(found),
        }
    }

    /// Gives a product to a stream.
    ///
    /// # Safety
    /// At these addresses there are matrices as they were asked for, and a workspace of as many bytes as the plan says.
    pub(crate) unsafe fn issue(
        &self,
        [a, b, d]: [u64; 3],
        workspace: u64,
        stream: CUstream,
    ) -> Result<(), Status> {
        let (one, zero, one_double, zero_double) = (1.0_f32, 0.0_f32, 1.0_f64, 0.0_f64);
        let (alpha, beta): (*const c_void, *const c_void) = match self.is_double {
            true => (
                (&raw const one_double).cast(),
                (&raw const zero_double).cast(),
            ),
            false => ((&raw const one).cast(), (&raw const zero).cast()),
        };
        let [of_a, of_b, of_d] = self.layouts;
        // SAFETY: the caller's promise; factors are on the host, as is the default, and are read during the call.
        Status::check(unsafe {
            (self.blas.lt.multiply)(
                self.blas.handle,
                self.operation,
                alpha,
                a,
                of_a,
                b,
                of_b,
                beta,
                d,
                of_d,
                d,
                of_d,
                &raw const self.algorithm,
                workspace,
                self.workspace_bytes,
                stream,
            )
        })
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        let lt = self.blas.lt;
        // SAFETY: made once, ended once; what was given to a stream needs none of it.
        unsafe {
            for layout in self.layouts {
                if !layout.is_null() {
                    (lt.destroy_layout)(layout);
                }
            }
            if !self.operation.is_null() {
                (lt.destroy_operation)(self.operation);
            }
        }
    }
}

/// Sets an attribute.
///
/// # Safety
/// The description lives, and the attribute is of this type.
unsafe fn set<T>(
    call: unsafe extern "C" fn(Opaque, u32, *const c_void, usize) -> u32,
    of: Opaque,
    attribute: u32,
    value: &T,
) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    Status::check(unsafe { call(of, attribute, (&raw const *value).cast(), size_of::<T>()) })
}

/// The forms that were asked for, and what came of it.
#[derive(Default)]
pub(crate) struct Plans {
    known: HashMap<Asked, Known>,
    /// Counts the questions.
    now: u64,
}

struct Known {
    /// None: the library cannot do it.
    plan: Option<Arc<Plan>>,
    asked: u64,
}

impl Plans {
    /// How to do these, if the library can. The first question of a form goes to it, and takes its time.
    pub(crate) fn get(&mut self, blas: &Arc<Blas>, asked: &Asked) -> Option<Arc<Plan>> {
        self.now += 1;
        if let Some(known) = self.known.get_mut(asked) {
            known.asked = self.now;
            return known.plan.clone();
        }
        let plan = Plan::new(blas, asked).map_err(|status| {
            let why = blas.text(status);
            tracing::debug!(target: "millstream::cuda", why, ?asked, "cuBLASLt does not do this product");
        });
        self.remember(asked, plan.ok().map(Arc::new))
    }

    /// Remembers that the library cannot do these after all.
    pub(crate) fn refuse(&mut self, asked: &Asked) {
        self.remember(asked, None);
    }

    fn remember(&mut self, asked: &Asked, plan: Option<Arc<Plan>>) -> Option<Arc<Plan>> {
        if self.known.len() >= KNOWN_MAX {
            // A length that grows asks for a new form each time: those of long ago will not come again.
            let oldest = self.known.iter().min_by_key(|(_, known)| known.asked);
            if let Some(oldest) = oldest.map(|(asked, _)| *asked) {
                self.known.remove(&oldest);
            }
        }
        let known = Known {
            plan: plan.clone(),
            asked: self.now,
        };
        self.known.insert(*asked, known);
        plan
    }
}
