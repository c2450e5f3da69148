//! Writes whose bytes arrive later than their place in the order, such as those of a network.

use std::sync::Arc;

use millstream_protocol::{
    Access, Element, Error, Failure, FailureRef, HostBytes, HostDone, HostNeeds, HostOutcome,
    HostUpload, Reason,
};
use millstream_sync::facade::{Mutex, lock};

use crate::arguments::bind;
use crate::copies::same_length;
use crate::external::external_work;
use crate::handle::Handle;
use crate::{Permit, Returned, Stream};

/// The bytes of a write that has its place in the order already: see [`Stream::write_later`]. May be sent to another
/// thread.
///
/// A drop without [`LateWrite::send`] fails the write.
#[must_use = "a drop fails the write"]
pub struct LateWrite {
    name: Arc<str>,
    bytes: u64,
    meeting: Arc<Mutex<Meeting>>,
}

/// The turn of the task and its bytes, which arrive in any order.
enum Meeting {
    /// Neither has arrived.
    Open,
    /// The task's turn has come, and its bytes have not arrived.
    Turn(HostDone, Permit),
    /// The bytes have arrived, or never will.
    Outcome(HostOutcome),
    /// Both have arrived, or the task cannot run.
    Over,
}

impl Meeting {
    /// The task's turn has come.
    fn turn(meeting: &Mutex<Self>, done: HostDone, permit: Permit) {
        let mut state = lock(meeting);
        match std::mem::replace(&mut *state, Self::Over) {
            Self::Outcome(outcome) => {
                drop(state);
                done.end(outcome);
            }
            _ => *state = Self::Turn(done, permit),
        }
    }

    /// The outcome is known. Only the first one counts.
    fn outcome(meeting: &Mutex<Self>, outcome: HostOutcome) {
        let mut state = lock(meeting);
        match std::mem::replace(&mut *state, Self::Over) {
            Self::Open => *state = Self::Outcome(outcome),
            Self::Turn(done, _permit) => {
                drop(state);
                done.end(outcome);
            }
            settled => *state = settled,
        }
    }

    /// The task cannot run.
    fn cannot_run(meeting: &Mutex<Self>) {
        let settled = std::mem::replace(&mut *lock(meeting), Self::Over);
        // Its bytes, which are user code, are dropped outside of the lock.
        drop(settled);
    }
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
        let upload = HostUpload::<H>::new(data);
        match same_length(&self.name, upload.len() as u64, self.bytes) {
            Ok(()) => {
                Meeting::outcome(&self.meeting, HostOutcome::Arrived(upload.erase()));
                Ok(())
            }
            Err(error) => Err(Returned {
                value: upload.into_data(),
                error,
            }),
        }
    }

    /// Fails the write: its target is poisoned.
    pub fn fail(self, reason: Reason) {
        let failure = Failure::not_run(&self.name, reason);
        Meeting::outcome(&self.meeting, HostOutcome::Failed(failure));
    }

    /// Fails the write because of another failure, such as that of a task on another device.
    pub fn fail_by(self, cause: FailureRef) {
        let failure = Failure::input(&self.name, cause);
        Meeting::outcome(&self.meeting, HostOutcome::Failed(failure));
    }
}

impl Drop for LateWrite {
    fn drop(&mut self) {
        // Without effect once an outcome was sent.
        let why = "its bytes were dropped before they were sent".to_owned();
        let failure = Failure::not_run(&self.name, Reason::Refused(why));
        Meeting::outcome(&self.meeting, HostOutcome::Failed(failure));
    }
}

impl std::fmt::Debug for LateWrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LateWrite({}, {} bytes)", self.name, self.bytes)
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
        let late = LateWrite {
            name: name.clone(),
            bytes: target.size(),
            meeting: Arc::new(Mutex::new(Meeting::Open)),
        };
        let meeting = late.meeting.clone();
        let target = bind(target, Access::Write);
        self.submit_host(&target, (), |(), permit| {
            external_work(name, HostNeeds::Nothing, move |begun| match begun {
                Ok((done, _resources, _name)) => Meeting::turn(&meeting, done, permit),
                Err(_) => Meeting::cannot_run(&meeting),
            })
        })
        .map_err(|returned| returned.error)?;
        Ok(late)
    }
}
