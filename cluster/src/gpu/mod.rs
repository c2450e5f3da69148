//! Calls between CUDA devices of one process, whose bytes do not go through the host.
//!
//! ```text
//!  device 0: external task ── its data is ready ──►┐           thread of the group              GPUs
//!  device 1: external task ── its data is ready ──►┴─ call ──► submits copies to lanes ───────► copies run
//!                                                              polls their marks ◄───────────── marks complete
//!                                                              completes, or fails, all parts
//! ```
//! The parts are external tasks with the addresses of their bindings. Their data is ready when they arrive, so the work of
//! a call waits for no queue of a device, and no device's thread calls the driver for it or waits for it.
//!
//! | module | contents |
//! | --- | --- |
//! | `thread` | the thread of a group, which starts with its first such call |
//! | `lanes` | a lane for each member, and the work of a call on them |
//! | `flight` | a call whose work is on its lanes: its marks and its parts |

mod flight;
mod lanes;
mod thread;

use std::sync::Arc;

use millstream::backend::Refused;
use millstream::cuda::CudaRaw;
use millstream::{Device, Failure, FailureRef, Reason};

use crate::network::Operation;
use crate::part::Part;
use thread::GroupThread;
pub(crate) use thread::Threads;

/// The CUDA devices of a group.
pub(crate) struct Gpus {
    /// Whether each member is one.
    members: Box<[bool]>,
    thread: Arc<GroupThread>,
    threads: Arc<Threads>,
}

/// How the bytes of a call move between CUDA devices.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transfer {
    /// From the first part to all others, by copies.
    Spread,
    /// From each part to its place in all, by copies.
    Gather,
}

/// A call whose parts have arrived.
pub(crate) struct Arrived {
    pub(crate) name: &'static str,
    pub(crate) transfer: Transfer,
    /// The member of each part.
    pub(crate) members: Box<[usize]>,
    pub(crate) parts: Vec<Part>,
}

impl Gpus {
    /// Returns the CUDA devices among the members of a group.
    pub(crate) fn new<'a>(
        devices: impl Iterator<Item = &'a Device>,
        threads: &Arc<Threads>,
    ) -> Arc<Self> {
        let is_gpu = |device: &Device| device.raw::<CudaRaw>().is_some();
        Arc::new(Self {
            members: devices.map(is_gpu).collect(),
            thread: Arc::default(),
            threads: threads.clone(),
        })
    }

    /// Returns how the bytes of a call of these members move, or `None` if they move through memory of the host.
    pub(crate) fn transfer(
        &self,
        operation: Operation,
        mut members: impl Iterator<Item = usize>,
    ) -> Option<Transfer> {
        if !members.all(|member| self.members[member]) {
            return None;
        }
        match operation {
            Operation::Send { .. } | Operation::Receive { .. } | Operation::Broadcast { .. } => {
                Some(Transfer::Spread)
            }
            Operation::AllGather => Some(Transfer::Gather),
            Operation::AllReduce(_) | Operation::ReduceScatter(_) => None,
        }
    }

    /// Hands a call to the thread of the group.
    pub(crate) fn begin(&self, call: Arrived) {
        self.thread.begin(call, &self.threads);
    }

    /// Lets the thread of the group end once its calls have.
    pub(crate) fn end(&self) {
        self.thread.end();
    }
}

impl Drop for Gpus {
    fn drop(&mut self) {
        self.end();
    }
}

impl Arrived {
    /// Fails all parts.
    fn fail(self, reason: Reason) {
        let cause = Failure::not_run(&self.name.into(), reason);
        let parts = self.parts.into_iter();
        parts.for_each(|part| part.fail_by(cause.clone()));
    }
}

/// Returns the failure of a call that a driver or a library refused.
fn failure_by(call: &str, refused: Refused) -> FailureRef {
    let reason = match refused {
        Refused::Lost(_) => Reason::Lost,
        other => Reason::Refused(other.to_string()),
    };
    Failure::not_run(&call.into(), reason)
}
