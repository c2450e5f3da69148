//! Communicators, and the launch of a collective.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Weak};

use millstream_ir::DType;
use millstream_protocol::Refused;
use millstream_sync::facade::{Mutex, lock};

use super::api::{Nccl, RawCommunicator, nccl};
use super::number_of;
use crate::device::CudaResources;
use crate::driver::{Context, CuEvent, context_may_have_changed};
use crate::lane::{Lane, Mark};

/// Held while the library is called. For each GPU: the end of the last collective on it, while that is of interest.
static LAUNCHES: Mutex<Option<HashMap<i32, Weak<CuEvent>>>> = Mutex::new(None);

/// What a collective does. The buffers of a member are its binding to read and its binding to write, which may be the same
/// one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CollectiveOperation {
    /// Combines the buffers of all members.
    AllReduce(DType, ReductionOperation),
    /// Combines the buffers of all members. Each gets its part.
    ReduceScatter(DType, ReductionOperation),
    /// Copies the buffers of all members, one after the other, to each.
    AllGather,
    /// Copies the buffer of a member to all others.
    Broadcast {
        /// The member.
        root: usize,
    },
}

/// How a collective combines elements: NCCL's number of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum ReductionOperation {
    /// The sum.
    Sum = 0,
    /// The product.
    Product = 1,
    /// The greatest.
    Max = 2,
    /// The smallest.
    Min = 3,
}

/// A part in a collective: the member's lane, its resources, and its bindings to read and to write.
pub struct CollectivePart<'a> {
    /// The lane of the member.
    pub lane: &'a Lane,
    /// The resources with the bindings.
    pub resources: &'a CudaResources,
    /// The binding to read.
    pub source: usize,
    /// The binding to write.
    pub target: usize,
}

/// NCCL's communicators of several GPUs, one for each. A drop destroys them, and waits for their work.
pub struct Communicators {
    nccl: &'static Nccl,
    raw: Vec<RawCommunicator>,
    /// A context of the process, which the library restores at the end of its calls.
    context: Arc<Context>,
}

// SAFETY: the library accepts a communicator on any thread, one thread at a time.
unsafe impl Send for Communicators {}

impl Communicators {
    /// Creates communicators of the GPUs of these lanes, which must be different, in this order. May take seconds.
    ///
    /// # Errors
    /// The library is not available, or refuses.
    ///
    /// # Panics
    /// There is no lane.
    pub fn new(lanes: &[&Lane]) -> Result<Self, Refused> {
        let nccl = nccl().map_err(|why| Refused::Task(why.to_owned()))?;
        let first = lanes[0];
        let ordinals: Vec<c_int> = lanes
            .iter()
            .map(|lane| lane.context.gpu.info.ordinal as c_int)
            .collect();
        let mut raw = vec![std::ptr::null_mut(); lanes.len()];
        let _launches = lock(&LAUNCHES);
        let _current = first.enter()?;
        // SAFETY: both lists have this length.
        let created = unsafe {
            nccl.create_all(raw.as_mut_ptr(), ordinals.len() as c_int, ordinals.as_ptr())
        };
        context_may_have_changed();
        created.map_err(Refused::Task)?;
        Ok(Self {
            nccl,
            raw,
            context: first.context.clone(),
        })
    }

    /// Submits a collective to the lanes of all members, and returns the mark of its end on each.
    ///
    /// # Errors
    /// The library or the driver refuses it. It may run on some GPUs nevertheless: the caller aborts the communicators,
    /// and waits for the lanes.
    ///
    /// # Safety
    /// `parts` has one part for each communicator, with a lane of its GPU. The bindings stay alive, and no other work
    /// accesses them, until the marks have completed.
    pub unsafe fn launch(
        &self,
        operation: CollectiveOperation,
        parts: &[CollectivePart<'_>],
    ) -> Result<Vec<Mark>, Refused> {
        let Some(first) = parts.first() else {
            return Ok(Vec::new());
        };
        let mut launches = lock(&LAUNCHES);
        let launches = launches.get_or_insert_default();
        for part in parts {
            let last = launches.get(&part.lane.context.gpu.device);
            // An event that was dropped has completed.
            if let Some(last) = last.and_then(Weak::upgrade) {
                part.lane.wait(&last)?;
            }
        }
        {
            // The library restores the context that is current here.
            let _current = first.lane.enter()?;
            // SAFETY: the caller's duty.
            let submitted = unsafe { self.submit(operation, parts) };
            context_may_have_changed();
            submitted.map_err(Refused::Task)?;
        }
        let marks = parts.iter().map(|part| part.lane.mark());
        let marks = marks.collect::<Result<Vec<_>, _>>()?;
        for (part, mark) in parts.iter().zip(&marks) {
            let end = Arc::downgrade(&mark.event);
            launches.insert(part.lane.context.gpu.device, end);
        }
        Ok(marks)
    }

    /// Calls the library for each member, as one group.
    ///
    /// # Safety
    /// As [`Communicators::launch`].
    unsafe fn submit(
        &self,
        operation: CollectiveOperation,
        parts: &[CollectivePart<'_>],
    ) -> Result<(), String> {
        let nccl = self.nccl;
        // SAFETY: the group is ended below, on every way.
        unsafe { nccl.begin_group() }?;
        let mut calls = parts.iter().zip(&self.raw);
        let submitted = calls.try_for_each(|(part, raw)| {
            // SAFETY: the caller's duty.
            unsafe { self.submit_part(operation, part, *raw) }
        });
        // SAFETY: the group was begun above.
        let ended = unsafe { nccl.end_group() };
        submitted.and(ended)
    }

    /// # Safety
    /// As [`Communicators::launch`].
    unsafe fn submit_part(
        &self,
        operation: CollectiveOperation,
        part: &CollectivePart<'_>,
        raw: RawCommunicator,
    ) -> Result<(), String> {
        let bound = |binding| match part.resources.binding(binding) {
            Some((address, bytes, _)) => Ok((address, bytes)),
            None => Err("a collective has no such binding".to_owned()),
        };
        let ((source, read_bytes), (target, written_bytes)) =
            (bound(part.source)?, bound(part.target)?);
        let (from, to) = (source as *const c_void, target as *mut c_void);
        let stream = part.lane.stream.raw;
        let nccl = self.nccl;
        let reduction = |dtype: DType| {
            let number = number_of(dtype)
                .ok_or_else(|| format!("NCCL has no elements of type {dtype:?}"))?;
            Ok::<_, String>((number, written_bytes as usize / dtype.size()))
        };
        let bytes = number_of(DType::U8).unwrap_or_default();
        // SAFETY: the caller's duty; the counts are those of the bindings.
        unsafe {
            match operation {
                CollectiveOperation::AllReduce(dtype, by) => {
                    let (number, count) = reduction(dtype)?;
                    nccl.all_reduce(from, to, count, number, by as u32, raw, stream)
                }
                CollectiveOperation::ReduceScatter(dtype, by) => {
                    let (number, count) = reduction(dtype)?;
                    nccl.reduce_scatter(from, to, count, number, by as u32, raw, stream)
                }
                CollectiveOperation::AllGather => {
                    nccl.all_gather(from, to, read_bytes as usize, bytes, raw, stream)
                }
                CollectiveOperation::Broadcast { root } => {
                    let (count, root) = (read_bytes as usize, root as c_int);
                    nccl.broadcast(from, to, count, bytes, root, raw, stream)
                }
            }
        }
    }

    /// Returns an error that a collective met after its launch, if any.
    pub fn asynchronous_error(&self) -> Option<Refused> {
        let refused = self.raw.iter().find_map(|raw| {
            let mut error = 0;
            // SAFETY: the communicator is alive, and the out pointer is valid.
            let asked = unsafe { self.nccl.asynchronous_error(*raw, &raw mut error) };
            match (asked, error) {
                (Err(why), _) => Some(why),
                (Ok(()), 0) => None,
                (Ok(()), error) => Some(format!(
                    "a collective of NCCL failed after its launch: {}",
                    self.nccl.text(error)
                )),
            }
        });
        refused.map(Refused::Task)
    }

    /// Ends the collectives that run, and destroys the communicators.
    pub fn abort(mut self) {
        // Without the lock: its holder may wait for the GPUs, which wait for this.
        let raw = std::mem::take(&mut self.raw);
        // SAFETY: each communicator is ended once.
        self.end(raw, |raw| unsafe { self.nccl.abort(raw) });
    }

    fn end(&self, raw: Vec<RawCommunicator>, end: impl Fn(RawCommunicator) -> Result<(), String>) {
        // A destroyed context does not keep the library from releasing memory of the host.
        let _current = self.context.push_current();
        for raw in raw {
            if let Err(why) = end(raw) {
                tracing::warn!(target: "millstream::cuda", why, "NCCL refused to release a communicator");
            }
        }
        context_may_have_changed();
    }
}

impl Drop for Communicators {
    fn drop(&mut self) {
        let _launches = (!self.raw.is_empty()).then(|| lock(&LAUNCHES));
        let raw = std::mem::take(&mut self.raw);
        // SAFETY: each communicator is ended once.
        self.end(raw, |raw| unsafe { self.nccl.destroy(raw) });
    }
}
