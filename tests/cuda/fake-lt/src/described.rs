//! What callers describe: operations, layouts, preferences.

use std::sync::atomic::{AtomicI64, Ordering};

/// `cublasStatus_t`
pub(crate) const SUCCESS: u32 = 0;
pub(crate) const NOT_INITIALIZED: u32 = 1;
pub(crate) const INVALID_VALUE: u32 = 7;
pub(crate) const EXECUTION_FAILED: u32 = 13;
pub(crate) const NOT_SUPPORTED: u32 = 15;

/// What was made and not ended, of all kinds.
pub(crate) static LIVING: AtomicI64 = AtomicI64::new(0);

/// An operation (`cublasLtMatmulDesc_t`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) compute: u32,
    pub(crate) scale: u32,
    /// Whether `a` and `b` are turned.
    pub(crate) turned: [bool; 2],
}

/// A matrix (`cublasLtMatrixLayout_t`), column by column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) data: u32,
    pub(crate) rows: u64,
    pub(crate) columns: u64,
    pub(crate) step: i64,
    pub(crate) batch: i32,
    pub(crate) stride: i64,
}

/// What an algorithm may ask for (`cublasLtMatmulPreference_t`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preference {
    pub(crate) workspace_bytes: u64,
    /// Of `a`, `b`, `c` and `d`: as the documentation has it where nothing is said.
    pub(crate) alignment: [u32; 4],
}

impl Default for Preference {
    fn default() -> Self {
        Self {
            workspace_bytes: 0,
            alignment: [256; 4],
        }
    }
}

/// Gives a value to the caller.
///
/// # Safety
/// There is a place for its address.
pub(crate) unsafe fn make<T>(place: *mut *mut T, value: T) -> u32 {
    if place.is_null() {
        return INVALID_VALUE;
    }
    // A count for tests, which ask once nothing goes on: any order will do.
    LIVING.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the caller's promise.
    unsafe { place.write(Box::into_raw(Box::new(value))) };
    SUCCESS
}

/// Ends what `make` made.
///
/// # Safety
/// It was made by it, and is not ended yet.
pub(crate) unsafe fn end<T>(made: *mut T) -> u32 {
    if made.is_null() {
        return INVALID_VALUE;
    }
    // As above.
    LIVING.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(made) });
    SUCCESS
}

/// The lengths of a product: rows, columns, depth, and how many there are.
pub(crate) type Lens = [u64; 4];

/// The lengths of the product of these, if they fit each other and are known here.
pub(crate) fn fit(operation: &Operation, [a, b, c, d]: [&Layout; 4]) -> Result<Lens, u32> {
    for layout in [a, b, c, d] {
        let fits = layout.rows > 0 && layout.columns > 0 && layout.step >= layout.rows as i64;
        if !fits || layout.batch < 1 {
            return Err(INVALID_VALUE);
        }
    }
    let turned = |layout: &Layout, turned: bool| match turned {
        true => (layout.columns, layout.rows),
        false => (layout.rows, layout.columns),
    };
    let [turn_a, turn_b] = operation.turned;
    let ((rows, depth), (depth_of_b, columns)) = (turned(a, turn_a), turned(b, turn_b));
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
