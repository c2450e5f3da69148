//! One task as it lies in a queue, and what it needs to run away from the device's lock.

use std::sync::Arc;

use millstream_protocol::backend::{BoundSlice, HostData};
use millstream_protocol::id::Point;
use millstream_protocol::kernel::{ExecutionMode, NativeView};
use millstream_protocol::landing::Landing;
use millstream_protocol::launch::Pattern;
use millstream_protocol::layout::Strided;
use millstream_protocol::message::CustomWork;
use millstream_protocol::staging::Block;

use crate::kernel::SimKernel;

/// What a task does.
pub(crate) enum Op {
    /// Nothing.
    Mark,
    Launch(Box<LaunchOp>),
    /// From the host to the binding.
    CopyIn {
        source: HostData,
        layout: Option<Strided>,
    },
    /// From the binding to the host.
    CopyOut {
        landing: Arc<dyn Landing>,
        layout: Option<Strided>,
    },
    /// From the first binding to the second.
    Copy,
    Fill(Pattern),
    /// User code.
    Custom(CustomWork),
}

/// A launch.
pub(crate) struct LaunchOp {
    pub(crate) kernel: Arc<SimKernel>,
    /// The cubes, or that they are in the last binding.
    pub(crate) count: Option<[u32; 3]>,
    pub(crate) mode: ExecutionMode,
    pub(crate) scalars: Vec<u64>,
    pub(crate) metadata: Vec<u32>,
}

/// One task of a queue.
pub(crate) struct Entry {
    pub(crate) point: Point,
    pub(crate) name: Arc<str>,
    pub(crate) op: Op,
    pub(crate) bindings: Vec<BoundSlice>,
    /// The memory of the bindings, in the same order.
    pub(crate) views: Vec<NativeView>,
    /// Bytes whose failures are forgotten before the task runs.
    pub(crate) forgets: Vec<BoundSlice>,
    /// What keeps that memory allocated, whoever frees its page.
    pub(crate) _blocks: Vec<Arc<Block>>,
}

// SAFETY: everything but the views is Send; they point into the blocks, which the entry keeps, and which the
// task may touch (I2).
unsafe impl Send for Entry {}

/// What lies in a queue.
pub(crate) enum Item {
    Task(Box<Entry>),
    /// What comes after waits for the point.
    Wait(Point),
}
