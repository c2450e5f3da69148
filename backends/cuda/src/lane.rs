//! Lanes: streams of a GPU outside of the queues of its device, for work on the memory of external tasks.
//!
//! The data of an external task is complete when the task begins, so a lane waits for no queue. The owner of the tasks
//! submits work to lanes, marks its end, and ends the tasks once the mark has completed: the device then issues what
//! depends on them.

use std::ops::Range;
use std::sync::{Arc, Weak};

use millstream_protocol::Refused;
use millstream_sync::facade::{Mutex, lock};

use crate::device::CudaResources;
use crate::driver::{Context, CuEvent, CuStream};
use crate::peer::allow_peer;

/// A stream of a GPU for work on the memory of external tasks. Its calls may come from any thread.
pub struct Lane {
    pub(crate) context: Arc<Context>,
    pub(crate) stream: CuStream,
    /// The contexts of the devices to whose memory the GPU was given access, if it could be.
    reached: Mutex<Vec<Weak<Context>>>,
}

/// The end of the work that a stream had: a lane when it was marked, or a
/// [`ConsumerStream`](crate::ConsumerStream) when its use of the memory ended.
pub struct Mark {
    pub(crate) context: Arc<Context>,
    pub(crate) event: Arc<CuEvent>,
}

impl CudaResources {
    /// Creates a lane of the GPU of these resources.
    ///
    /// # Errors
    /// The driver refuses the stream.
    pub fn new_lane(&self) -> Result<Lane, Refused> {
        let context = self.context.clone();
        let current = context.push_current()?;
        let stream = CuStream::new(&context, 0)?;
        drop(current);
        Ok(Lane {
            context,
            stream,
            reached: Mutex::default(),
        })
    }

    /// Whether the lane is of the GPU and the context of these resources.
    pub fn has_lane(&self, lane: &Lane) -> bool {
        Arc::ptr_eq(&self.context, &lane.context)
    }
}

impl Lane {
    /// Copies binding `from` of `source`, which is of the lane's GPU, to a range of binding `to` of `target`, which may
    /// be of another GPU. The copy is direct if the GPUs are peers, and goes through the host otherwise.
    ///
    /// # Errors
    /// The ranges have different lengths, or the driver refuses the copy; nothing is copied then.
    ///
    /// # Safety
    /// Both bindings stay alive, and no other work accesses these bytes of the target, until a mark that is recorded
    /// later on this lane has completed.
    pub unsafe fn copy(
        &self,
        (source, from): (&CudaResources, usize),
        (target, to): (&CudaResources, usize),
        range: Range<u64>,
    ) -> Result<(), Refused> {
        let (Some((from, bytes, _)), Some((to, room, _))) =
            (source.binding(from), target.binding(to))
        else {
            return Err(Refused::Task("a copy has no such binding".to_owned()));
        };
        if range.end > room || range.end.checked_sub(range.start) != Some(bytes) {
            return Err(Refused::Task(format!(
                "a copy of {bytes} bytes does not fit into bytes {range:?} of {room}"
            )));
        }
        if bytes == 0 {
            return Ok(());
        }
        let _current = self.enter()?;
        let (api, stream, to) = (self.context.api(), self.stream.raw, to + range.start);
        let (of, context) = (source.context(), target.context());
        // SAFETY: both ranges are within their bindings, whose addresses are of these contexts; the caller keeps them alive
        // until the copy has completed.
        Ok(unsafe {
            match of == context {
                true => api.copy(to, from, bytes as usize, stream),
                false => {
                    self.reach(target);
                    api.copy_peer(to, context, from, of, bytes as usize, stream)
                }
            }
        }?)
    }

    /// Gives the lane's GPU access to the memory of a device, once. If it gets none, copies go through the host.
    fn reach(&self, target: &CudaResources) {
        let mut reached = lock(&self.reached);
        let context = Arc::downgrade(&target.context);
        if reached.iter().any(|known| known.ptr_eq(&context)) {
            return;
        }
        let (api, device) = (self.context.api(), self.context.gpu.device);
        allow_peer(api, target.memory, device);
        reached.retain(|known| known.strong_count() > 0);
        reached.push(context);
    }

    /// Marks the end of the work that the lane has now.
    ///
    /// # Errors
    /// The driver refuses the event. If it is lost, no work of the lane runs any more.
    pub fn mark(&self) -> Result<Mark, Refused> {
        let _current = self.enter()?;
        let event = CuEvent::new(&self.context)?;
        self.stream.record(&event)?;
        Ok(Mark {
            context: self.context.clone(),
            event: Arc::new(event),
        })
    }

    /// Blocks until the lane has completed its work.
    ///
    /// # Errors
    /// The GPU is lost: no work of the lane runs any more.
    pub fn synchronize(&self) -> Result<(), Refused> {
        let _current = self.enter()?;
        Ok(self.stream.synchronize()?)
    }

    /// Makes later work of the lane wait for an event of the same GPU.
    pub(crate) fn wait(&self, event: &CuEvent) -> Result<(), Refused> {
        let _current = self.enter()?;
        Ok(self.stream.wait(event)?)
    }

    /// Makes the context current until the guard is dropped.
    pub(crate) fn enter(&self) -> Result<impl Drop + '_, Refused> {
        Ok(self.context.push_current()?)
    }
}

impl Mark {
    /// Returns whether the work before the mark has completed. Never waits.
    ///
    /// # Errors
    /// [`Refused::Lost`]: the work does not run any more. After any other error of the driver it may.
    pub fn is_complete(&self) -> Result<bool, Refused> {
        Ok(self.context.ask(|| self.event.is_complete())?)
    }

    /// Blocks until the work before the mark has completed.
    ///
    /// # Errors
    /// As [`Mark::is_complete`].
    pub fn wait(&self) -> Result<(), Refused> {
        Ok(self.context.ask(|| self.event.synchronize())?)
    }
}
