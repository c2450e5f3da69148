//! The interface of a backend: the trait, its inputs, and helpers that backends may share.
//!
//! A *backend* implements a kind of device: [`Open`] is its options, [`Backend`] the device. A backend stays thin,
//! since the runtime validates, orders and owns; the trait's documentation states which side has which duty.
//! `examples/backend` is a small complete backend. The guide's page "Writing a backend" explains it, and how to run the
//! conformance suite (`millstream-conformance`) on a backend.
//!
//! | | |
//! | --- | --- |
//! | [`Timeline`], [`Cursor`], [`Point`] | the progress of a queue: a backend publishes it, and all waits use it |
//! | [`settle`], [`Table`] | failures that occur while a task runs, for devices whose tasks can fail then |
//! | [`Block`], [`for_each_run`], [`host_memory`] | for devices with host memory: pages, strided copies, native kernels |
//! | [`HostMemory`], [`HostContext::set_host_memory`] | pinned host memory for uploads, if the device has it |
//! | [`Spawner`], [`Thread`], [`mark_runtime_thread`] | the backend's own threads |
//! | [`DeviceStatus`] | reports a loss that the backend detects |

pub use millstream_host as host_memory;
pub use millstream_protocol::backend::*;
pub use millstream_protocol::device_status::DeviceStatus;
pub use millstream_protocol::error::Refused;
pub use millstream_protocol::id::{Cursor, MAX_QUEUES, Point, RecordingId};
pub use millstream_protocol::kernel::{BackendKernel, NativeKernel, NativeView};
pub use millstream_protocol::landing::{Landed, Landing};
pub use millstream_protocol::launch::Pattern;
pub use millstream_protocol::layout::{Strided, check_layout, for_each_run};
pub use millstream_protocol::marks::mark_runtime_thread;
pub use millstream_protocol::memory::PageId;
pub use millstream_protocol::message::{CustomWork, HostBytes, OwnedBytes};
#[doc(hidden)]
pub use millstream_protocol::process::Process;
pub use millstream_protocol::properties::{ALIGNMENT_MAX, ALIGNMENT_MIN};
pub use millstream_protocol::settle;
pub use millstream_protocol::staging::{Block, HostBlock, HostMemory};
pub use millstream_protocol::table::Table;
pub use millstream_protocol::threads::{Spawner, Thread};
pub use millstream_sync::payload::panic_message;
pub use millstream_sync::timeline::Timeline;
