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
//! | call | bytes move by |
//! | --- | --- |
//! | copies, sends and receives | copies of the driver, from GPU to GPU |
//! | collectives of members on different GPUs | NCCL, if the machine has it |
//! | other broadcasts and gathers | copies of the driver |
//! | other reductions | memory of the host, without this module |
//!
//! | module | contents |
//! | --- | --- |
//! | `thread` | the thread of a group, which starts with its first such call |
//! | `lanes` | a lane for each member, the communicators of NCCL, and the work of a call on them |
//! | `flight` | a call whose work is on its lanes: its marks and its parts |
//! | `staging` | for networks: the bytes of a part on their way through pinned memory of the host |

mod flight;
mod lanes;
mod staging;
mod thread;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use millstream::backend::Refused;
use millstream::cuda::{self, CollectiveOperation, CudaRaw, Lane, Mark, ReductionOperation};
use millstream::{DType, Device, Failure, FailureRef, Reason, Stream};

use crate::Reduction;
use crate::announcement::Operation;
use crate::lock;
use crate::part::{Part, fail_all};
pub use staging::{EnteredContext, StagedCopy, Staging};
use thread::Inbox;
pub(crate) use thread::Threads;

/// The CUDA devices of a group.
pub(crate) struct Gpus {
    /// Whether each member is one.
    members: Box<[bool]>,
    /// Whether NCCL can serve them.
    by_nccl: bool,
    inbox: Mutex<Inbox>,
    threads: Arc<Threads>,
}

/// How the bytes of a call move between CUDA devices.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transfer {
    /// From the first part to all others, by copies.
    Spread,
    /// From each part to its place in all, by copies.
    Gather,
    /// By NCCL. All members of the group take part.
    Nccl(CollectiveOperation),
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
    /// Returns the CUDA devices among the members of a group. `may_use_nccl` is false if the fleet does without it.
    pub(crate) fn new<'a>(
        devices: impl Iterator<Item = &'a Device>,
        threads: &Arc<Threads>,
        may_use_nccl: bool,
    ) -> Arc<Self> {
        let gpus: Vec<_> = devices.map(Device::raw::<CudaRaw>).collect();
        Arc::new(Self {
            members: gpus.iter().map(Option::is_some).collect(),
            by_nccl: may_use_nccl && are_served_by_nccl(&gpus),
            inbox: Mutex::default(),
            threads: threads.clone(),
        })
    }

    /// Returns how the bytes of a call of these members move, or `None` if they move through memory of the host.
    pub(crate) fn transfer(
        &self,
        operation: Operation,
        dtype: DType,
        members: &[usize],
    ) -> Option<Transfer> {
        if !members.iter().all(|member| self.members[*member]) {
            return None;
        }
        if let Some(collective) = collective(operation, dtype).filter(|_| self.by_nccl) {
            return Some(Transfer::Nccl(collective));
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
        let sent = lock(&self.inbox).send(call, &self.threads);
        if let Err((call, reason)) = sent {
            let cause = Failure::not_run(&call.name.into(), reason);
            fail_all(call.parts, &cause);
        }
    }

    /// Lets the thread of the group end once its calls have.
    pub(crate) fn end(&self) {
        *lock(&self.inbox) = Inbox::Ended;
    }
}

/// Whether NCCL is there, and can serve these devices: they are on different GPUs, in the contexts that libraries share.
fn are_served_by_nccl(gpus: &[Option<Arc<CudaRaw>>]) -> bool {
    let ordinal = |gpu: &Option<Arc<CudaRaw>>| {
        let gpu = gpu.as_ref().filter(|gpu| gpu.has_primary_context());
        gpu.map(|gpu| gpu.ordinal())
    };
    let Some(ordinals) = gpus.iter().map(ordinal).collect::<Option<Vec<_>>>() else {
        return false;
    };
    let different: BTreeSet<_> = ordinals.iter().collect();
    // The library is loaded if it would be of use.
    different.len() == ordinals.len() && ordinals.len() > 1 && cuda::collective_library().is_ok()
}

/// Returns the call as one of NCCL, if it is one.
fn collective(operation: Operation, dtype: DType) -> Option<CollectiveOperation> {
    match operation {
        Operation::AllReduce(_) | Operation::ReduceScatter(_) if !cuda::nccl_reduces(dtype) => None,
        Operation::AllReduce(by) => Some(CollectiveOperation::AllReduce(dtype, reduction(by))),
        Operation::ReduceScatter(by) => {
            Some(CollectiveOperation::ReduceScatter(dtype, reduction(by)))
        }
        Operation::AllGather => Some(CollectiveOperation::AllGather),
        Operation::Broadcast { root } => Some(CollectiveOperation::Broadcast { root }),
        Operation::Send { .. } | Operation::Receive { .. } => None,
    }
}

fn reduction(reduction: Reduction) -> ReductionOperation {
    match reduction {
        Reduction::Sum => ReductionOperation::Sum,
        Reduction::Product => ReductionOperation::Product,
        Reduction::Min => ReductionOperation::Min,
        Reduction::Max => ReductionOperation::Max,
    }
}

/// Whether the device of a stream is a CUDA device.
pub(crate) fn is_on_gpu(stream: &Stream) -> bool {
    stream.client().properties().backend == "cuda"
}

/// Marks the end of the work of a lane. Without a mark it is waited for, and `None` returned.
fn mark_end(lane: &Lane) -> Result<Option<Mark>, Refused> {
    match lane.mark() {
        Err(Refused::Task(_)) => lane.synchronize().map(|()| None),
        marked => marked.map(Some),
    }
}

/// Returns the failure of a call that a driver or a library refused.
fn failure_by(call: &str, refused: Refused) -> FailureRef {
    Failure::not_run(&call.into(), reason_of(refused))
}

fn reason_of(refused: Refused) -> Reason {
    match refused {
        Refused::Lost(_) => Reason::Lost,
        other => Reason::Refused(other.to_string()),
    }
}
