//! The functions of cuBLASLt; return values are plain numbers, and opaque types are pointers.

use std::ffi::{c_char, c_int, c_void};
use std::sync::LazyLock;

use cudarc::driver::sys::CUstream;

use crate::library::{describe, functions, load};

/// The oldest supported version, as `cublasLtGetVersion` counts: the first of CUDA 12.
const VERSION_MIN: usize = 120_000;

/// A handle or a descriptor of the library.
pub(super) type Opaque = *mut c_void;

/// `cublasLtMatmulHeuristicResult_t`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct HeuristicResult {
    pub(super) algorithm: [u64; 8],
    pub(super) workspace_bytes: usize,
    pub(super) state: u32,
    waves: f32,
    reserved: [c_int; 4],
}

functions! {
    /// The library's functions.
    struct Lt;
    needed -> Status = |_, _, number| Status::check(number) => {
        create = cublasLtCreate(handle: *mut Opaque);
        destroy = cublasLtDestroy(handle: Opaque);
        create_operation = cublasLtMatmulDescCreate(of: *mut Opaque, compute: u32, scale: u32);
        destroy_operation = cublasLtMatmulDescDestroy(of: Opaque);
        create_layout = cublasLtMatrixLayoutCreate(
            of: *mut Opaque, data: u32, rows: u64, columns: u64, leading: i64
        );
        destroy_layout = cublasLtMatrixLayoutDestroy(of: Opaque);
        create_preference = cublasLtMatmulPreferenceCreate(of: *mut Opaque);
        destroy_preference = cublasLtMatmulPreferenceDestroy(of: Opaque);
        find = cublasLtMatmulAlgoGetHeuristic(
            handle: Opaque, operation: Opaque, a: Opaque, b: Opaque, c: Opaque, d: Opaque, preference: Opaque,
            room: c_int, found: *mut HeuristicResult, count: *mut c_int
        );
        multiply = cublasLtMatmul(
            handle: Opaque, operation: Opaque, alpha: *const c_void, a: u64, of_a: Opaque, b: u64, of_b: Opaque,
            beta: *const c_void, c: u64, of_c: Opaque, d: u64, of_d: Opaque, algorithm: *const [u64; 8],
            workspace: u64, bytes: usize, stream: CUstream
        );
    }
    plain {
        version = cublasLtGetVersion() -> usize;
        text = cublasLtGetStatusString(u32) -> *const c_char;
        set_operation = cublasLtMatmulDescSetAttribute(Opaque, u32, *const c_void, usize) -> u32;
        set_layout = cublasLtMatrixLayoutSetAttribute(Opaque, u32, *const c_void, usize) -> u32;
        set_preference = cublasLtMatmulPreferenceSetAttribute(Opaque, u32, *const c_void, usize) -> u32;
    }
}

/// An error code of the library; never success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Status(u32);

impl Status {
    /// No algorithm supports the product.
    pub(super) const UNSUPPORTED: Self = Self(15);

    pub(super) fn check(number: u32) -> Result<(), Self> {
        match number {
            0 => Ok(()),
            number => Err(Self(number)),
        }
    }

    /// Whether the product failed during execution, or the library did internally: it may have been started in part, and
    /// the context is destroyed.
    pub(crate) fn is_sticky(self) -> bool {
        matches!(self.0, 13 | 14)
    }
}

impl Lt {
    /// Returns the library's description of an error code.
    pub(super) fn describe(&self, status: Status) -> String {
        describe(self.text, status.0)
    }
}

/// Returns the library, loaded once and never unloaded.
///
/// # Errors
/// The library or a function is missing; the message says what to do.
pub(crate) fn lt() -> Result<&'static Lt, &'static str> {
    static LT: LazyLock<Result<Lt, String>> = LazyLock::new(|| {
        let library = load(
            ("cuBLASLt", "libcublasLt.so"),
            "MILLSTREAM_CUBLASLT",
            cudarc::get_lib_name_candidates("cublasLt"),
            "libcublasLt.so not found, so millstream's kernels compute products; to use cuBLASLt, install CUDA's \
            libraries, or run `pip install nvidia-cublas` and set MILLSTREAM_CUBLASLT to its folder `nvidia/cu13/lib`",
        )?;
        let loaded = Lt::of(library).map_err(|symbol| {
            format!("cuBLASLt has no function `{symbol}`; install that of CUDA 12 or 13")
        })?;
        // SAFETY: the function has no arguments.
        match unsafe { (loaded.version)() } {
            VERSION_MIN.. => Ok(loaded),
            older => Err(format!(
                "expected cuBLASLt {VERSION_MIN} or later, got {older}; install that of CUDA 12 or 13"
            )),
        }
    });
    LT.as_ref().map_err(String::as_str)
}
