//! The results of calls: `ncclResult_t`.

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const UNHANDLED_CUDA_ERROR: u32 = 1;
pub(crate) const SYSTEM_ERROR: u32 = 2;
pub(crate) const INTERNAL_ERROR: u32 = 3;
pub(crate) const INVALID_ARGUMENT: u32 = 4;
pub(crate) const INVALID_USAGE: u32 = 5;
pub(crate) const REMOTE_ERROR: u32 = 6;
