//! The library's functions, as declared in its header.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use crate::controls::state;
use crate::descriptors::{
    EXECUTION_FAILED, INVALID_VALUE, Layout, NOT_INITIALIZED, NOT_SUPPORTED, Operation, Preference,
    SUCCESS, check_layouts, create, destroy,
};
use crate::loaded;
use crate::product::Product;

/// A handle of the library (`cublasLtHandle_t`).
#[derive(Default)]
pub(crate) struct Handle {
    /// The modules by type of data, each loaded by the first product of its type, as the real library does.
    modules: Mutex<BTreeMap<u32, u64>>,
}

impl Handle {
    /// Loads the module for a type of data at the first call. Returns whether this is it.
    fn load(&self, data: u32) -> Option<bool> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if modules.contains_key(&data) {
            return Some(false);
        }
        let mut module = 0_u64;
        let text = c".version 8.0\n.target sm_80\n.address_size 64\n";
        driver(
            "cuModuleLoadData",
            &[&raw mut module as u64, text.as_ptr() as u64],
        )?;
        modules.insert(data, module);
        Some(true)
    }
}

/// Calls a function of the loaded driver. Returns none if it fails.
fn driver(name: &str, arguments: &[u64]) -> Option<()> {
    (loaded::call(loaded::driver()?, name, arguments) == 0).then_some(())
}

/// `cublasLtMatmulHeuristicResult_t`
#[repr(C)]
pub(crate) struct Found {
    algorithm: [u64; 8],
    workspace_bytes: usize,
    state: u32,
    waves: f32,
    reserved: [c_int; 4],
}

/// The workspace of an algorithm of this library, if the caller allows one.
const WORKSPACE_BYTES: u64 = 1024;

/// Returns a hash of the product that an algorithm is for. The algorithm is refused for any other.
fn seal(operation: &Operation, layouts: [&Layout; 4]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (operation.compute, operation.transposed).hash(&mut hasher);
    for of in layouts {
        (
            of.data, of.rows, of.columns, of.leading, of.batch, of.stride,
        )
            .hash(&mut hasher);
    }
    hasher.finish()
}

fn refused(index: usize) -> Result<(), u32> {
    match state().refused[index] {
        SUCCESS => Ok(()),
        status => Err(status),
    }
}

fn status(result: Result<(), u32>) -> u32 {
    result.err().unwrap_or(SUCCESS)
}

macro_rules! functions {
    ($($(#[$about:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> u32 $body:block)*) => {
        $(
            $(#[$about])*
            /// # Safety
            /// As in C: handles are from this library and not destroyed, and out pointers are valid.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
                // SAFETY: the caller upholds the contract above.
                unsafe { $body }
            }
        )*
    };
}

functions! {
    fn cublasLtCreate(place: *mut *mut Handle) -> u32 {
        match loaded::driver() {
            Some(_) => create(place, Handle::default()),
            None => NOT_INITIALIZED,
        }
    }

    fn cublasLtDestroy(handle: *mut Handle) -> u32 {
        let Some(library) = handle.as_ref() else {
            return INVALID_VALUE;
        };
        let modules = library.modules.lock().unwrap_or_else(PoisonError::into_inner);
        modules.values().for_each(|module| _ = driver("cuModuleUnload", &[*module]));
        drop(modules);
        destroy(handle)
    }

    fn cublasLtMatmulDescCreate(place: *mut *mut Operation, compute: u32, scale: u32) -> u32 {
        create(place, Operation { compute, scale, transposed: [false; 2] })
    }

    fn cublasLtMatmulDescDestroy(operation: *mut Operation) -> u32 { destroy(operation) }

    fn cublasLtMatmulDescSetAttribute(
        operation: *mut Operation, attribute: u32, value: *const c_void, bytes: usize,
    ) -> u32 {
        match (operation.as_mut(), attribute, bytes) {
            // `TRANSA` and `TRANSB`, as `cublasOperation_t`. Conjugation does not apply to real types.
            (Some(operation), 3 | 4, 4) => match value.cast::<i32>().read_unaligned() {
                transpose @ (0 | 1) => {
                    operation.transposed[attribute as usize - 3] = transpose == 1;
                    SUCCESS
                }
                _ => NOT_SUPPORTED,
            },
            _ => INVALID_VALUE,
        }
    }

    fn cublasLtMatrixLayoutCreate(
        place: *mut *mut Layout, data: u32, rows: u64, columns: u64, leading: i64,
    ) -> u32 {
        create(place, Layout { data, rows, columns, leading, batch: 1, stride: 0 })
    }

    fn cublasLtMatrixLayoutDestroy(layout: *mut Layout) -> u32 { destroy(layout) }

    fn cublasLtMatrixLayoutSetAttribute(
        layout: *mut Layout, attribute: u32, value: *const c_void, bytes: usize,
    ) -> u32 {
        match (layout.as_mut(), attribute, bytes) {
            (Some(layout), 5, 4) => layout.batch = value.cast::<i32>().read_unaligned(),
            (Some(layout), 6, 8) => layout.stride = value.cast::<i64>().read_unaligned(),
            _ => return INVALID_VALUE,
        }
        SUCCESS
    }

    fn cublasLtMatmulPreferenceCreate(place: *mut *mut Preference) -> u32 {
        create(place, Preference::default())
    }

    fn cublasLtMatmulPreferenceDestroy(preference: *mut Preference) -> u32 { destroy(preference) }

    fn cublasLtMatmulPreferenceSetAttribute(
        preference: *mut Preference, attribute: u32, value: *const c_void, bytes: usize,
    ) -> u32 {
        match (preference.as_mut(), attribute, bytes) {
            (Some(preference), 1, 8) => preference.workspace_bytes = value.cast::<u64>().read_unaligned(),
            (Some(preference), 3, 4) => preference.reductions = value.cast::<u32>().read_unaligned(),
            (Some(preference), 5..=8, 4) => {
                preference.alignment[attribute as usize - 5] = value.cast::<u32>().read_unaligned();
            }
            _ => return INVALID_VALUE,
        }
        SUCCESS
    }

    fn cublasLtMatmulAlgoGetHeuristic(
        handle: *mut Handle, operation: *const Operation, a: *const Layout, b: *const Layout, c: *const Layout,
        d: *const Layout, preference: *const Preference, wanted: c_int, found: *mut Found, count: *mut c_int,
    ) -> u32 {
        let (Some(operation), Some(preference)) = (operation.as_ref(), preference.as_ref()) else {
            return INVALID_VALUE;
        };
        let (Some(a), Some(b), Some(c), Some(d)) = (a.as_ref(), b.as_ref(), c.as_ref(), d.as_ref()) else {
            return INVALID_VALUE;
        };
        if handle.is_null() || wanted < 1 || found.is_null() || count.is_null() {
            return INVALID_VALUE;
        }
        status(refused(1).and_then(|()| check_layouts(operation, [a, b, c, d])).map(|_| {
            let workspace = preference.workspace_bytes.min(WORKSPACE_BYTES);
            let [of_a, of_b, _, of_d] = preference.alignment.map(u64::from);
            let sealed = seal(operation, [a, b, c, d]);
            found.write(Found {
                algorithm: [sealed, of_a, of_b, of_d, workspace, preference.reductions.into(), 0, 0],
                workspace_bytes: workspace as usize,
                state: SUCCESS,
                waves: 1.0,
                reserved: [0; 4],
            });
            count.write(1);
        }))
    }

    fn cublasLtMatmul(
        handle: *mut Handle, operation: *const Operation, alpha: *const c_void, a: u64, of_a: *const Layout,
        b: u64, of_b: *const Layout, beta: *const c_void, c: u64, of_c: *const Layout, d: u64, of_d: *const Layout,
        algorithm: *const [u64; 8], workspace: u64, workspace_bytes: usize, stream: u64,
    ) -> u32 {
        let (Some(library), Some(operation), Some(algorithm)) =
            (handle.as_ref(), operation.as_ref(), algorithm.as_ref())
        else {
            return INVALID_VALUE;
        };
        let (Some(of_a), Some(of_b), Some(of_c), Some(of_d)) =
            (of_a.as_ref(), of_b.as_ref(), of_c.as_ref(), of_d.as_ref())
        else {
            return INVALID_VALUE;
        };
        let one = match operation.scale {
            1 => (alpha.cast::<f64>().read(), beta.cast::<f64>().read()) == (1.0, 0.0),
            _ => (alpha.cast::<f32>().read(), beta.cast::<f32>().read()) == (1.0, 0.0),
        };
        let [sealed, align_a, align_b, align_d, workspace_needed, reductions, ..] = *algorithm;
        let aligned = [(a, align_a), (b, align_b), (d, align_d)];
        let fits = sealed == seal(operation, [of_a, of_b, of_c, of_d])
            && aligned.iter().all(|(address, to)| address.is_multiple_of((*to).max(1)))
            && workspace_bytes as u64 >= workspace_needed
            && (workspace_needed == 0 || workspace != 0)
            && c == d;
        if !fits {
            return INVALID_VALUE;
        }
        if !one {
            return NOT_SUPPORTED;
        }
        status(refused(0).and_then(|()| check_layouts(operation, [of_a, of_b, of_c, of_d])).and_then(|lens| {
            let is_first = library.load(of_d.data).ok_or(EXECUTION_FAILED)?;
            state().reductions |= reductions as u32;
            let workspace = if workspace_needed > 0 { workspace } else { 0 };
            Product::new(operation, [of_a, of_b, of_d], lens).submit([a, b, d], workspace, stream)?;
            state().products += u64::from(!is_first);
            Ok(())
        }))
    }
}

/// Version 13.0.0, in the format of the real library.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cublasLtGetVersion() -> usize {
    130_000
}

/// Returns the name of a status that this library returns.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cublasLtGetStatusString(status: u32) -> *const c_char {
    let text = match status {
        SUCCESS => c"CUBLAS_STATUS_SUCCESS",
        NOT_INITIALIZED => c"CUBLAS_STATUS_NOT_INITIALIZED",
        INVALID_VALUE => c"CUBLAS_STATUS_INVALID_VALUE",
        EXECUTION_FAILED => c"CUBLAS_STATUS_EXECUTION_FAILED",
        NOT_SUPPORTED => c"CUBLAS_STATUS_NOT_SUPPORTED",
        _ => return std::ptr::null(),
    };
    text.as_ptr()
}
