//! The descriptors of callers: operations, layouts, preferences.

use crate::controls::state;

/// `cublasStatus_t`
pub(crate) const SUCCESS: u32 = 0;
pub(crate) const NOT_INITIALIZED: u32 = 1;
pub(crate) const INVALID_VALUE: u32 = 7;
pub(crate) const EXECUTION_FAILED: u32 = 13;
pub(crate) const NOT_SUPPORTED: u32 = 15;

/// A descriptor of an operation (`cublasLtMatmulDesc_t`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) compute: u32,
    pub(crate) scale: u32,
    /// Whether `a` and `b` are transposed.
    pub(crate) transposed: [bool; 2],
}

/// A column-major layout of a matrix (`cublasLtMatrixLayout_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) data: u32,
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    pub(crate) leading: i64,
    pub(crate) batch: i32,
    pub(crate) stride: i64,
}

/// The requirements of an algorithm (`cublasLtMatmulPreference_t`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preference {
    pub(crate) workspace_bytes: u64,
    /// The alignment of `a`, `b`, `c` and `d`. The default is the documented one.
    pub(crate) alignment: [u32; 4],
    /// The allowed reduction schemes, by default all.
    pub(crate) reductions: u32,
}

impl Default for Preference {
    fn default() -> Self {
        Self {
            workspace_bytes: 0,
            alignment: [256; 4],
            reductions: 7,
        }
    }
}

/// Allocates an object and writes its pointer for the caller.
///
/// # Safety
/// `place` is null or valid for a write.
pub(crate) unsafe fn create<T>(place: *mut *mut T, value: T) -> u32 {
    if place.is_null() {
        return INVALID_VALUE;
    }
    state().living += 1;
    // SAFETY: the caller upholds the contract above.
    unsafe { place.write(Box::into_raw(Box::new(value))) };
    SUCCESS
}

/// Destroys an object that `create` allocated.
///
/// # Safety
/// The pointer is null, or from `create` and not destroyed yet.
pub(crate) unsafe fn destroy<T>(object: *mut T) -> u32 {
    if object.is_null() {
        return INVALID_VALUE;
    }
    state().living -= 1;
    // SAFETY: the caller upholds the contract above.
    drop(unsafe { Box::from_raw(object) });
    SUCCESS
}

/// The lengths of a product: rows, columns, depth, batch.
pub(crate) type Lens = [u64; 4];

/// Returns the lengths of a product if its layouts match and its types are supported.
pub(crate) fn check_layouts(
    operation: &Operation,
    [a, b, c, d]: [&Layout; 4],
) -> Result<Lens, u32> {
    for layout in [a, b, c, d] {
        let fits = layout.rows > 0 && layout.columns > 0 && layout.leading >= layout.rows as i64;
        if !fits || layout.batch < 1 {
            return Err(INVALID_VALUE);
        }
    }
    let shape = |layout: &Layout, transposed: bool| match transposed {
        true => (layout.columns, layout.rows),
        false => (layout.rows, layout.columns),
    };
    let [transposed_a, transposed_b] = operation.transposed;
    let ((rows, depth), (depth_of_b, columns)) = (shape(a, transposed_a), shape(b, transposed_b));
    let fits = depth == depth_of_b && (d.rows, d.columns) == (rows, columns) && c == d;
    if !fits || [a, b].iter().any(|side| side.batch != d.batch) {
        return Err(INVALID_VALUE);
    }
    // `CUBLAS_COMPUTE_32F` and `64F`; `CUDA_R_32F`, `64F`, `16F` and `16BF`.
    let known = match d.data {
        1 => (operation.compute, operation.scale) == (70, 1),
        0 | 2 | 14 => (operation.compute, operation.scale) == (68, 0),
        _ => false,
    };
    match known && a.data == d.data && b.data == d.data {
        true => Ok([rows, columns, depth, d.batch as u64]),
        false => Err(NOT_SUPPORTED),
    }
}
