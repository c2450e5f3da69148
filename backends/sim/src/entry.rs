//! One task in a queue, with everything it needs to run without the device's lock.

use std::sync::Arc;

use millstream_protocol::{
    BoundSlice, CustomWork, HostData, Landing, NativeView, Pattern, Point, Strided, Withdrawal,
    staging::Block,
};

use crate::kernel::SimKernel;
use crate::memory::Fill;

/// The operation of a task.
pub(crate) enum Op {
    /// Does nothing.
    Mark,
    Launch(Box<LaunchOp>),
    /// Copies from the host to the binding.
    CopyIn {
        source: HostData,
        layout: Option<Strided>,
    },
    /// Copies from the binding to the host.
    CopyOut {
        landing: Arc<dyn Landing>,
        layout: Option<Strided>,
    },
    /// Copies the first binding to the second.
    Copy,
    Fill(Pattern),
    /// Runs user code.
    Custom(CustomWork),
}

/// A launch.
pub(crate) struct LaunchOp {
    pub(crate) kernel: Arc<SimKernel>,
    /// The number of cubes, or `None` if the last binding holds it.
    pub(crate) count: Option<[u32; 3]>,
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
    /// Undefined bytes of its bindings that it fills when it starts.
    pub(crate) fills: Vec<Fill>,
    /// Bytes whose failures are cleared before the task runs.
    pub(crate) forgets: Vec<BoundSlice>,
    /// The terms of the task, if it may be withdrawn when it begins.
    pub(crate) withdrawal: Option<Withdrawal>,
    /// Keeps the memory of the views allocated, even if its page is freed.
    pub(crate) _blocks: Vec<Arc<Block>>,
}

// SAFETY: everything but `views` and `fills` is Send. Both point into `_blocks`, which the entry keeps, at bytes of its
// bindings, which the task may touch (I2) and which no other thread touches meanwhile.
unsafe impl Send for Entry {}

/// An item of a queue.
pub(crate) enum Item {
    Task(Box<Entry>),
    /// Later items wait for the point.
    Wait(Point),
}
