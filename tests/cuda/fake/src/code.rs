//! The driver's error codes that the fake returns, from `cuda.h` of CUDA 13.0.

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
