//! The functions of NCCL; return values are plain numbers, and opaque types are pointers.

use std::ffi::{c_char, c_int, c_void};
use std::sync::LazyLock;

use cudarc::driver::sys::CUstream;

use crate::library::{describe, functions, load};

/// The oldest supported version, as `ncclGetVersion` counts: the first with `bf16`.
const VERSION_MIN: c_int = 21_003;

/// `ncclComm_t`
pub(super) type RawCommunicator = *mut c_void;

functions! {
    /// The library's functions.
    struct Nccl;
    needed -> String = Nccl::check => {
        get_version = ncclGetVersion(version: *mut c_int);
        create_all = ncclCommInitAll(all: *mut RawCommunicator, count: c_int, gpus: *const c_int);
        destroy = ncclCommDestroy(of: RawCommunicator);
        abort = ncclCommAbort(of: RawCommunicator);
        asynchronous_error = ncclCommGetAsyncError(of: RawCommunicator, error: *mut u32);
        begin_group = ncclGroupStart();
        end_group = ncclGroupEnd();
        all_reduce = ncclAllReduce(
            from: *const c_void, to: *mut c_void, count: usize, dtype: u32, by: u32, of: RawCommunicator,
            stream: CUstream
        );
        reduce_scatter = ncclReduceScatter(
            from: *const c_void, to: *mut c_void, count: usize, dtype: u32, by: u32, of: RawCommunicator,
            stream: CUstream
        );
        all_gather = ncclAllGather(
            from: *const c_void, to: *mut c_void, count: usize, dtype: u32, of: RawCommunicator, stream: CUstream
        );
        broadcast = ncclBroadcast(
            from: *const c_void, to: *mut c_void, count: usize, dtype: u32, root: c_int, of: RawCommunicator,
            stream: CUstream
        );
    }
    plain { text = ncclGetErrorString(u32) -> *const c_char; }
}

impl Nccl {
    /// Converts a return value to a result. The error says which call failed, and how.
    fn check(&self, call: &str, number: u32) -> Result<(), String> {
        match number {
            0 => Ok(()),
            number => Err(format!("NCCL's `{call}` failed: {}", self.text(number))),
        }
    }

    /// Returns the library's description of a result.
    pub(super) fn text(&self, number: u32) -> String {
        describe(self.text, number)
    }

    /// Returns the library's version: 22800 for 2.28.0.
    pub(super) fn version(&self) -> c_int {
        let mut version = 0;
        // SAFETY: the out pointer is valid. Without an answer the version stays 0, which is too old.
        let _ = unsafe { self.get_version(&raw mut version) };
        version
    }
}

/// Returns the library, loaded once and never unloaded.
///
/// # Errors
/// The library or a function is missing; the message says what to do.
pub(crate) fn nccl() -> Result<&'static Nccl, &'static str> {
    static NCCL: LazyLock<Result<Nccl, String>> = LazyLock::new(|| {
        // The versioned name is that of the library's interface since 2.0, which packages install without a link for
        // developers.
        let names = cudarc::get_lib_name_candidates("nccl").into_iter();
        let library = load(
            ("NCCL", "libnccl.so"),
            "MILLSTREAM_NCCL",
            names.chain(["libnccl.so.2".to_owned()]),
            "libnccl.so not found, so reductions of GPUs go through memory of the host; to use NCCL, install it, or run \
            `pip install nvidia-nccl-cu13` and set MILLSTREAM_NCCL to its folder `nvidia/nccl/lib`",
        )?;
        let loaded = Nccl::of(library).map_err(|symbol| {
            format!("NCCL has no function `{symbol}`; install version 2.10 or later")
        })?;
        match loaded.version() {
            VERSION_MIN.. => Ok(loaded),
            older => Err(format!(
                "expected NCCL {VERSION_MIN} or later, got {older}; install version 2.10 or later"
            )),
        }
    });
    NCCL.as_ref().map_err(String::as_str)
}
