//! The driver's error codes that the fake returns, from `cuda.h` of CUDA 13.0.

use std::ffi::{CStr, c_char};

/// Returns the name of a code. Neither counted nor refused: errors are formatted at any time, also after a session.
#[unsafe(no_mangle)]
extern "C" fn cuGetErrorName(number: u32, name: *mut *const c_char) -> u32 {
    let Some(found) = Code(number).name().filter(|_| !name.is_null()) else {
        return Code::INVALID_VALUE.0;
    };
    // SAFETY: the caller passed a valid pointer.
    unsafe { name.write_unaligned(found.as_ptr()) };
    Code::SUCCESS.0
}

/// A return value of a call, or the code of a fault on the GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Code(pub(crate) u32);

macro_rules! codes {
    ($($name:ident = $number:literal $text:literal;)*) => {
        impl Code {
            pub(crate) const SUCCESS: Self = Self(0);
            $(pub(crate) const $name: Self = Self($number);)*

            /// Returns the driver's name of the code; `None` for codes that the fake does not return.
            fn name(self) -> Option<&'static CStr> {
                match self.0 {
                    $($number => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    INVALID_VALUE = 1 c"CUDA_ERROR_INVALID_VALUE";
    OUT_OF_MEMORY = 2 c"CUDA_ERROR_OUT_OF_MEMORY";
    NOT_INITIALIZED = 3 c"CUDA_ERROR_NOT_INITIALIZED";
    NO_DEVICE = 100 c"CUDA_ERROR_NO_DEVICE";
    INVALID_DEVICE = 101 c"CUDA_ERROR_INVALID_DEVICE";
    INVALID_IMAGE = 200 c"CUDA_ERROR_INVALID_IMAGE";
    INVALID_CONTEXT = 201 c"CUDA_ERROR_INVALID_CONTEXT";
    NO_BINARY_FOR_GPU = 209 c"CUDA_ERROR_NO_BINARY_FOR_GPU";
    INVALID_PTX = 218 c"CUDA_ERROR_INVALID_PTX";
    UNSUPPORTED_PTX_VERSION = 222 c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION";
    INVALID_HANDLE = 400 c"CUDA_ERROR_INVALID_HANDLE";
    NOT_FOUND = 500 c"CUDA_ERROR_NOT_FOUND";
    NOT_READY = 600 c"CUDA_ERROR_NOT_READY";
    ILLEGAL_ADDRESS = 700 c"CUDA_ERROR_ILLEGAL_ADDRESS";
    LAUNCH_TIMEOUT = 702 c"CUDA_ERROR_LAUNCH_TIMEOUT";
    CONTEXT_IS_DESTROYED = 709 c"CUDA_ERROR_CONTEXT_IS_DESTROYED";
    MISALIGNED_ADDRESS = 716 c"CUDA_ERROR_MISALIGNED_ADDRESS";
    LAUNCH_FAILED = 719 c"CUDA_ERROR_LAUNCH_FAILED";
    NOT_SUPPORTED = 801 c"CUDA_ERROR_NOT_SUPPORTED";
    STREAM_CAPTURE_UNSUPPORTED = 900 c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    STREAM_CAPTURE_INVALIDATED = 901 c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
    CAPTURED_EVENT = 907 c"CUDA_ERROR_CAPTURED_EVENT";
    INVALID_CLUSTER_SIZE = 912 c"CUDA_ERROR_INVALID_CLUSTER_SIZE";
}

impl Code {
    /// Returns `true` if this code, from the GPU or an injected fault, destroys the context.
    pub(crate) fn is_sticky(self) -> bool {
        matches!(self.0, 214 | 220 | 700 | 702 | 710 | 714..=719 | 721)
    }
}

impl From<ptx::Fault> for Code {
    fn from(fault: ptx::Fault) -> Self {
        match fault {
            ptx::Fault::IllegalAddress => Self::ILLEGAL_ADDRESS,
            ptx::Fault::MisalignedAddress => Self::MISALIGNED_ADDRESS,
            ptx::Fault::LaunchFailed => Self::LAUNCH_FAILED,
            ptx::Fault::LaunchTimeout => Self::LAUNCH_TIMEOUT,
        }
    }
}
