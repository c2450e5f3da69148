//! Owners of the driver's resources: `drop` releases them, errors are typed, and a missing library or function is an
//! error instead of a panic.
//!
//! cudarc's safe layer is not used: it tracks one reader per slice, returns the errors of a `drop` from the next
//! unrelated call, and panics without a driver.

mod api;
mod code;
mod context;
mod gpu;
mod memory;
mod module;
mod reaper;
mod retired;
mod stream;

pub(crate) use api::{Api, GraphApi, api, graph_api};
pub(crate) use context::{Context, CurrentGuard, context_may_have_changed};
pub use gpu::GpuInfo;
pub(crate) use gpu::{Gpu, gpus};
pub(crate) use memory::PagePool;
pub use memory::Pinned;
pub(crate) use module::{Function, LoadError, Module};
pub(crate) use stream::{CuEvent, CuStream};

/// The error of a driver call, with the name of the call; never `CUDA_SUCCESS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Code {
    call: &'static str,
    pub(crate) number: u32,
}

/// The oldest supported driver, as `cuDriverGetVersion` counts. It is the first that reports the parameters of an
/// entry point; without that check, a wrong declaration would make the driver read out of bounds.
pub(crate) const VERSION_MIN: i32 = 12_040;

/// Formats a driver version as major and minor.
pub(crate) fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}
