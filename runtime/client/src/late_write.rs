//! Writes whose bytes arrive later than their place in the order, such as those of a network.

use std::sync::Arc;

use millstream_protocol::{Access, Element, Error, FailureRef, HostBytes, HostNeeds, Reason};
use millstream_sync::facade::{Mutex, lock};

use crate::arguments::bind;
use crate::external::external_work;
use crate::handle::Handle;
use crate::task_end::{Meeting, TaskEnd};
use crate::{Returned, Stream};

/// The bytes of a write that has its place in the order already: see [`Stream::write_later`]. May be sent to another
/// thread.
///
/// A drop without [`LateWrite::send`] fails the write.
#[must_use = "a drop fails the write"]
pub struct LateWrite {
    bytes: u64,
    meeting: Arc<Mutex<Meeting>>,
    end: TaskEnd,
}

impl LateWrite {
    /// Returns the number of bytes that the write expects.
    pub fn expected_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns `true` if the write cannot run any more: it was withdrawn, or the device ended, before its turn came. Bytes
    /// that are sent are dropped.
    pub fn is_over(&self) -> bool {
        matches!(*lock(&self.meeting), Meeting::Over)
    }

    /// Provides the bytes. The write goes on at its place in the order. Never blocks.
    ///
    /// # Errors
    /// [`Error::Argument`] if the number of bytes is not [`LateWrite::expected_bytes`]; the write then fails. The error
    /// carries `data`.
    pub fn send<H: HostBytes>(self, data: H) -> Result<(), Returned<H>> {
        self.end.arrive(data, self.bytes)
    }

    /// Fails the write: its target is poisoned.
    pub fn fail(self, reason: Reason) {
        self.end.fail(reason);
    }

    /// Fails the write because of another failure, such as that of a task on another device.
    pub fn fail_by(self, cause: FailureRef) {
        self.end.fail_by(cause);
    }
}

impl std::fmt::Debug for LateWrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LateWrite({}, {} bytes)", self.end.name, self.bytes)
    }
}

impl Stream {
    /// Adds a write of `target` whose bytes are sent later. Tasks that are added afterwards see them: tasks that read
    /// `target` are held until then, and so are the later tasks of this stream. May block as [`Stream::host`].
    ///
    /// ```
    /// # fn f(stream: &millstream_client::Stream, target: &millstream_client::handle::Handle<u32>)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// let late = stream.write_later("receive", target)?;
    /// let sum = stream.client().new_stream().read(target);
    /// std::thread::spawn(move || late.send(vec![7_u32; 4]).map_err(|returned| returned.error));
    /// assert_eq!(sum.wait()?, [7; 4]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Same as [`Stream::host`].
    pub fn write_later<T: Element>(
        &self,
        name: &str,
        target: &Handle<T>,
    ) -> Result<LateWrite, Error> {
        let name: Arc<str> = name.into();
        let meeting = Arc::new(Mutex::new(Meeting::Open));
        let met = meeting.clone();
        let bound = bind(target, Access::Write);
        self.submit_host(&bound, name.clone(), |name, permit| {
            external_work(name, HostNeeds::Nothing, move |begun| match begun {
                Ok((done, _resources, _name)) => Meeting::turn(&met, done, permit),
                Err(_) => Meeting::cannot_run(&met),
            })
        })?;
        Ok(LateWrite {
            bytes: target.size(),
            meeting: meeting.clone(),
            end: TaskEnd::early(name, meeting),
        })
    }
}
