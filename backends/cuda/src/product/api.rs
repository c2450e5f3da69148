//! The functions of cuBLASLt; return values are plain numbers, and opaque types are pointers.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

use cudarc::driver::sys::CUstream;
use libloading::Library;
use millstream_gpu::library_folder;

use crate::driver::Code;

/// The environment variable with the folder of the library, for systems that do not find it otherwise.
const FOLDER: &str = "MILLSTREAM_CUBLASLT";
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

macro_rules! functions {
    ($($name:ident = $symbol:ident($($type:ty),*);)*) => {
        /// The library's functions.
        pub(crate) struct Lt {
            $(pub(super) $name: unsafe extern "C" fn($($type),*) -> u32,)*
            pub(super) version: usize,
            text: unsafe extern "C" fn(u32) -> *const c_char,
        }

        impl Lt {
            fn of(library: &'static Library) -> Result<Self, &'static str> {
                // SAFETY: the types are those of the library's header, except for the return type: the ABI of a C enum
                // is that of an unsigned number.
                unsafe {
                    let version: unsafe extern "C" fn() -> usize = *library
                        .get("cublasLtGetVersion")
                        .map_err(|_| "cublasLtGetVersion")?;
                    Ok(Self {
                        $($name: *library
                            .get(stringify!($symbol))
                            .map_err(|_| stringify!($symbol))?,)*
                        version: version(),
                        text: *library
                            .get("cublasLtGetStatusString")
                            .map_err(|_| "cublasLtGetStatusString")?,
                    })
                }
            }
        }
    };
}

functions! {
    create = cublasLtCreate(*mut Opaque);
    destroy = cublasLtDestroy(Opaque);
    create_operation = cublasLtMatmulDescCreate(*mut Opaque, u32, u32);
    set_operation = cublasLtMatmulDescSetAttribute(Opaque, u32, *const c_void, usize);
    destroy_operation = cublasLtMatmulDescDestroy(Opaque);
    create_layout = cublasLtMatrixLayoutCreate(*mut Opaque, u32, u64, u64, i64);
    set_layout = cublasLtMatrixLayoutSetAttribute(Opaque, u32, *const c_void, usize);
    destroy_layout = cublasLtMatrixLayoutDestroy(Opaque);
    create_preference = cublasLtMatmulPreferenceCreate(*mut Opaque);
    set_preference = cublasLtMatmulPreferenceSetAttribute(Opaque, u32, *const c_void, usize);
    destroy_preference = cublasLtMatmulPreferenceDestroy(Opaque);
    find = cublasLtMatmulAlgoGetHeuristic(
        Opaque, Opaque, Opaque, Opaque, Opaque, Opaque, Opaque, c_int, *mut HeuristicResult, *mut c_int
    );
    multiply = cublasLtMatmul(
        Opaque, Opaque, *const c_void, u64, Opaque, u64, Opaque, *const c_void, u64, Opaque, u64, Opaque,
        *const [u64; 8], u64, usize, CUstream
    );
}

/// An error code of the library; never success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Status(u32);

impl Status {
    const ALLOC_FAILED: u32 = 3;
    const INVALID_VALUE: u32 = 7;
    const EXECUTION_FAILED: u32 = 13;
    const INTERNAL_ERROR: u32 = 14;
    const NOT_SUPPORTED: u32 = 15;

    /// No algorithm supports the product.
    pub(super) const UNSUPPORTED: Self = Self(Self::NOT_SUPPORTED);

    pub(super) fn check(number: u32) -> Result<(), Self> {
        match number {
            0 => Ok(()),
            number => Err(Self(number)),
        }
    }

    /// Returns the equivalent code of the driver. A product that failed during execution may have been started in part,
    /// so that code is sticky.
    pub(crate) fn code(self) -> Code {
        match self.0 {
            Self::ALLOC_FAILED => Code::OUT_OF_MEMORY,
            Self::INVALID_VALUE => Code::INVALID_VALUE,
            Self::NOT_SUPPORTED => Code::NOT_SUPPORTED,
            Self::EXECUTION_FAILED | Self::INTERNAL_ERROR => Code::LAUNCH_FAILED,
            _ => Code::UNKNOWN,
        }
    }
}

impl Lt {
    /// Returns the library's description of an error code.
    pub(super) fn text(&self, status: Status) -> String {
        let Status(number) = status;
        // SAFETY: the function returns null or a string that lives as long as the library, for every number.
        let text = unsafe { (self.text)(number) };
        if text.is_null() {
            return format!("status {number}");
        }
        // SAFETY: as above; the string ends with a zero byte.
        let text = unsafe { CStr::from_ptr(text) };
        format!("{} ({number})", text.to_string_lossy())
    }
}

/// Returns the library, loaded once and never unloaded.
///
/// # Errors
/// The library or a function is missing; the message says what to do.
pub(crate) fn lt() -> Result<&'static Lt, &'static str> {
    static LT: OnceLock<Result<Lt, String>> = OnceLock::new();
    let load = || {
        // Never unloaded, because `Lt` holds addresses in it.
        let library: &'static Library = Box::leak(Box::new(find()?));
        let loaded = Lt::of(library).map_err(|symbol| {
            format!("cuBLASLt has no function `{symbol}`; install that of CUDA 12 or 13")
        })?;
        match loaded.version {
            VERSION_MIN.. => Ok(loaded),
            older => Err(format!(
                "expected cuBLASLt {VERSION_MIN} or later, got {older}; install that of CUDA 12 or 13"
            )),
        }
    };
    LT.get_or_init(load).as_ref().map_err(String::as_str)
}

fn find() -> Result<Library, String> {
    let names = cudarc::get_lib_name_candidates("cublasLt");
    let folder = library_folder(FOLDER);
    let load = |name: &String| {
        let path = match &folder {
            Some(folder) => folder.join(name),
            None => PathBuf::from(name),
        };
        // SAFETY: the initializers are the library's own, which every user of it runs.
        unsafe { Library::new(path) }.ok()
    };
    names.iter().find_map(load).ok_or_else(|| match &folder {
        Some(folder) => format!(
        "no libcublasLt.so can be loaded from `{}` ({FOLDER}); set {FOLDER} to the folder of cuBLASLt",
        folder.display()
        ),
        None => format!(
        "libcublasLt.so not found, so millstream's kernels compute products; to use cuBLASLt, install CUDA's \
        libraries, or run `pip install nvidia-cublas` and set {FOLDER} to its folder `nvidia/cu13/lib`"
        ),
    })
}
