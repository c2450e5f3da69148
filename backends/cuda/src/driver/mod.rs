//! The driver behind values of our own: what is made here ends here, errors are typed, nothing panics for lack of a
//! library or a function.
//!
//! cudarc's safe layer is not used: it tracks one reader per slice, parks errors of `drop` for whoever calls next,
//! and panics where there is no driver (`docs/decisions/0011`).

mod api;
mod code;
mod context;
mod gpu;
mod library;
mod memory;
mod module;
mod stream;

pub(crate) use api::{Api, GraphApi, api, graph_api};
pub(crate) use code::{Class, Code};
pub(crate) use context::{Context, context_may_have_changed};
pub(crate) use gpu::{Gpu, gpus, refused};
pub(crate) use memory::{PagePool, Pinned};
pub(crate) use module::{Function, Module};
pub(crate) use stream::{CuEvent, CuStream, TimedEvent};

/// The oldest driver that will do, as `cuDriverGetVersion` counts: the first that tells what an entry point takes, without which
/// a wrong declaration would have the driver read what is not there.
pub(crate) const VERSION_MIN: i32 = 12_040;

/// A version as people write it.
pub(crate) fn version_text(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}
