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

impl Code {
    pub(crate) const SUCCESS: Self = Self(0);
    pub(crate) const INVALID_VALUE: Self = Self(1);
    pub(crate) const OUT_OF_MEMORY: Self = Self(2);
    pub(crate) const NOT_INITIALIZED: Self = Self(3);
    pub(crate) const NO_DEVICE: Self = Self(100);
    pub(crate) const INVALID_DEVICE: Self = Self(101);
    pub(crate) const INVALID_IMAGE: Self = Self(200);
    pub(crate) const INVALID_CONTEXT: Self = Self(201);
    pub(crate) const NO_BINARY_FOR_GPU: Self = Self(209);
    pub(crate) const INVALID_PTX: Self = Self(218);
    pub(crate) const UNSUPPORTED_PTX_VERSION: Self = Self(222);
    pub(crate) const INVALID_HANDLE: Self = Self(400);
    pub(crate) const NOT_FOUND: Self = Self(500);
    pub(crate) const NOT_READY: Self = Self(600);
    pub(crate) const ILLEGAL_ADDRESS: Self = Self(700);
    pub(crate) const LAUNCH_TIMEOUT: Self = Self(702);
    pub(crate) const CONTEXT_IS_DESTROYED: Self = Self(709);
    pub(crate) const MISALIGNED_ADDRESS: Self = Self(716);
    pub(crate) const LAUNCH_FAILED: Self = Self(719);
    pub(crate) const COOPERATIVE_LAUNCH_TOO_LARGE: Self = Self(720);
    pub(crate) const NOT_SUPPORTED: Self = Self(801);
    pub(crate) const INVALID_CLUSTER_SIZE: Self = Self(912);

    /// Returns the driver's name of the code, with a zero byte; `None` for codes that the fake does not return.
    fn name(self) -> Option<&'static CStr> {
        Some(match self {
            Self::INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
            Self::OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
            Self::NOT_INITIALIZED => c"CUDA_ERROR_NOT_INITIALIZED",
            Self::NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
            Self::INVALID_DEVICE => c"CUDA_ERROR_INVALID_DEVICE",
            Self::INVALID_IMAGE => c"CUDA_ERROR_INVALID_IMAGE",
            Self::INVALID_CONTEXT => c"CUDA_ERROR_INVALID_CONTEXT",
            Self::NO_BINARY_FOR_GPU => c"CUDA_ERROR_NO_BINARY_FOR_GPU",
            Self::INVALID_PTX => c"CUDA_ERROR_INVALID_PTX",
            Self::UNSUPPORTED_PTX_VERSION => c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
            Self::INVALID_HANDLE => c"CUDA_ERROR_INVALID_HANDLE",
            Self::NOT_FOUND => c"CUDA_ERROR_NOT_FOUND",
            Self::NOT_READY => c"CUDA_ERROR_NOT_READY",
            Self::ILLEGAL_ADDRESS => c"CUDA_ERROR_ILLEGAL_ADDRESS",
            Self::LAUNCH_TIMEOUT => c"CUDA_ERROR_LAUNCH_TIMEOUT",
            Self::CONTEXT_IS_DESTROYED => c"CUDA_ERROR_CONTEXT_IS_DESTROYED",
            Self::MISALIGNED_ADDRESS => c"CUDA_ERROR_MISALIGNED_ADDRESS",
            Self::LAUNCH_FAILED => c"CUDA_ERROR_LAUNCH_FAILED",
            Self::COOPERATIVE_LAUNCH_TOO_LARGE => c"CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE",
            Self::NOT_SUPPORTED => c"CUDA_ERROR_NOT_SUPPORTED",
            Self::INVALID_CLUSTER_SIZE => c"CUDA_ERROR_INVALID_CLUSTER_SIZE",
            _ => return None,
        })
    }

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
