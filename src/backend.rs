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
#[doc(hidden)]
pub use millstream_protocol::Process;
pub use millstream_protocol::{
    ALIGNMENT_MAX, ALIGNMENT_MIN, Table, settle,
    staging::{Block, HostBlock, HostMemory},
    threads::{Spawner, Thread},
};
pub use millstream_protocol::{
    Backend, BackendKernel, BoundCount, BoundPlan, BoundSlice, Call, Compiler, CompletionWait,
    Cursor, CustomWork, DeviceStatus, Held, HostBytes, HostContext, HostData, Landed, Landing,
    Large, Launch, MAX_QUEUES, NativeKernel, NativeView, Open, OwnedBytes, PageId, Pattern, Plan,
    Point, Prepared, RecordingId, Refused, Replay, Span, StartOutcome, Step, Strided, TaskPoint,
    Verdict, check_layout, for_each_run, marks::mark_runtime_thread,
};
pub use millstream_sync::payload::panic_message;
pub use millstream_sync::timeline::Timeline;
