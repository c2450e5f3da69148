//! The functions of NCCL; return values are plain numbers, and opaque types are pointers.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;

use cudarc::driver::sys::CUstream;
use libloading::Library;
use millstream_gpu::library_folder;

/// The environment variable with the folder of the library, for systems that do not find it otherwise.
const FOLDER: &str = "MILLSTREAM_NCCL";
/// The name of the library's interface since 2.0, which packages install without a link for developers.
const VERSIONED: &str = "libnccl.so.2";
/// The oldest supported version, as `ncclGetVersion` counts: the first with `bf16`.
const VERSION_MIN: c_int = 21_003;

/// `ncclComm_t`
pub(super) type RawCommunicator = *mut c_void;
/// The function of a collective with a reduction: buffers, count, type, reduction.
pub(super) type Reduce = unsafe extern "C" fn(
    *const c_void,
    *mut c_void,
    usize,
    u32,
    u32,
    RawCommunicator,
    CUstream,
) -> u32;

macro_rules! functions {
    ($($name:ident = $symbol:ident: $type:ty;)*) => {
        /// The library's functions.
        pub(crate) struct Nccl {
            $(pub(super) $name: $type,)*
            pub(super) version: c_int,
            text: unsafe extern "C" fn(u32) -> *const c_char,
        }

        impl Nccl {
            fn of(library: &'static Library) -> Result<Self, &'static str> {
                // SAFETY: the types are those of the library's header, except for enums: their ABI is that of an
                // unsigned number.
                unsafe {
                    let get_version: unsafe extern "C" fn(*mut c_int) -> u32 =
                        *library.get("ncclGetVersion").map_err(|_| "ncclGetVersion")?;
                    let mut version = 0;
                    // Without an answer the version stays 0, which is too old.
                    get_version(&raw mut version);
                    Ok(Self {
                        $($name: *library
                            .get(stringify!($symbol))
                            .map_err(|_| stringify!($symbol))?,)*
                        version,
                        text: *library.get("ncclGetErrorString").map_err(|_| "ncclGetErrorString")?,
                    })
                }
            }
        }
    };
}

functions! {
    create_all = ncclCommInitAll: unsafe extern "C" fn(*mut RawCommunicator, c_int, *const c_int) -> u32;
    destroy = ncclCommDestroy: unsafe extern "C" fn(RawCommunicator) -> u32;
    abort = ncclCommAbort: unsafe extern "C" fn(RawCommunicator) -> u32;
    asynchronous_error = ncclCommGetAsyncError: unsafe extern "C" fn(RawCommunicator, *mut u32) -> u32;
    begin_group = ncclGroupStart: unsafe extern "C" fn() -> u32;
    end_group = ncclGroupEnd: unsafe extern "C" fn() -> u32;
    all_reduce = ncclAllReduce: Reduce;
    reduce_scatter = ncclReduceScatter: Reduce;
    all_gather = ncclAllGather:
        unsafe extern "C" fn(*const c_void, *mut c_void, usize, u32, RawCommunicator, CUstream) -> u32;
    broadcast = ncclBroadcast:
        unsafe extern "C" fn(*const c_void, *mut c_void, usize, u32, c_int, RawCommunicator, CUstream) -> u32;
}

impl Nccl {
    /// Converts a return value to a result. The error says which call failed, and how.
    pub(super) fn check(&self, call: &str, number: u32) -> Result<(), String> {
        match number {
            0 => Ok(()),
            number => Err(format!("NCCL's `{call}` failed: {}", self.text(number))),
        }
    }

    /// Returns the library's description of a result.
    pub(super) fn text(&self, number: u32) -> String {
        // SAFETY: the function returns null or a string that lives as long as the library, for every number.
        let text = unsafe { (self.text)(number) };
        let text = match text.is_null() {
            true => "unknown error".into(),
            // SAFETY: as above; the string ends with a zero byte.
            false => unsafe { CStr::from_ptr(text) }.to_string_lossy(),
        };
        format!("{text} ({number})")
    }
}

/// Returns the library, loaded once and never unloaded.
///
/// # Errors
/// The library or a function is missing; the message says what to do.
pub(crate) fn nccl() -> Result<&'static Nccl, &'static str> {
    static NCCL: OnceLock<Result<Nccl, String>> = OnceLock::new();
    let load = || {
        // Never unloaded, because `Nccl` holds addresses in it.
        let library: &'static Library = Box::leak(Box::new(find()?));
        let loaded = Nccl::of(library).map_err(|symbol| {
            format!("NCCL has no function `{symbol}`; install version 2.10 or later")
        })?;
        match loaded.version {
            VERSION_MIN.. => Ok(loaded),
            older => Err(format!(
                "expected NCCL {VERSION_MIN} or later, got {older}; install version 2.10 or later"
            )),
        }
    };
    NCCL.get_or_init(load).as_ref().map_err(String::as_str)
}

fn find() -> Result<Library, String> {
    let names = cudarc::get_lib_name_candidates("nccl");
    let folder = library_folder(FOLDER);
    let load = |name: &str| {
        let path = match &folder {
            Some(folder) => folder.join(name),
            None => PathBuf::from(name),
        };
        // SAFETY: the initializers are the library's own, which every user of it runs.
        unsafe { Library::new(path) }.ok()
    };
    let mut names = names.iter().map(String::as_str).chain([VERSIONED]);
    names.find_map(load).ok_or_else(|| match &folder {
        Some(folder) => format!(
            "no libnccl.so can be loaded from `{}` ({FOLDER}); set {FOLDER} to the folder of NCCL",
            folder.display()
        ),
        None => format!(
            "libnccl.so not found, so reductions of GPUs go through memory of the host; to use NCCL, install it, or run \
            `pip install nvidia-nccl-cu13` and set {FOLDER} to its folder `nvidia/nccl/lib`"
        ),
    })
}
