//! External tasks whose data passes through memory of the host, on devices of any backend.
//!
//! ```text
//!  Stream::external_staged ──► its queue copies the input to the host ──► `begin` receives the StagedTask
//!                                                                              │ any thread, any time later
//!                              its queue copies the output to the device ◄── complete_with
//! ```
//! It is one task: no other task comes between its two copies.

use std::cell::UnsafeCell;
use std::sync::{Arc, OnceLock};

use millstream_protocol::access::Access;
use millstream_protocol::error::{Error, LaunchError, MemoryError};
use millstream_protocol::failure::{Failure, FailureRef, Reason};
use millstream_protocol::landing::Landing;
use millstream_protocol::message::{
    HostBytes, HostDone, HostNeeds, HostOutcome, HostUpload, ReleaseToken,
};
use smallvec::SmallVec;

use crate::copies::same_length;
use crate::external::{ExternalTask, external_work};
use crate::handle::Handle;
use crate::{Permit, Returned, Stream};

/// Bytes of the host, aligned for elements of every type.
#[derive(Debug, Default)]
pub struct HostBuffer {
    words: Vec<u64>,
    bytes: usize,
}

impl HostBuffer {
    /// Creates a zeroed buffer.
    ///
    /// # Errors
    /// [`MemoryError::Host`].
    pub fn zeroed(bytes: usize) -> Result<Self, MemoryError> {
        let words = bytemuck::allocation::try_zeroed_slice_box(bytes.div_ceil(8));
        let words = words.map_err(|()| MemoryError::Host {
            requested: bytes as u64,
        })?;
        Ok(Self {
            words: words.into_vec(),
            bytes,
        })
    }

    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.bytes]
    }

    /// Returns the bytes, to be changed.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.bytes]
    }
}

impl HostBytes for HostBuffer {
    fn bytes(&self) -> &[u8] {
        self.as_slice()
    }

    fn release(&mut self, _: ReleaseToken) {
        *self = Self::default();
    }
}

/// A buffer that a queue writes.
struct BufferLanding {
    buffer: UnsafeCell<HostBuffer>,
    /// The start of the buffer, taken once, so that the queue does not access the buffer itself.
    pointer: *mut u8,
    bytes: usize,
    failure: OnceLock<FailureRef>,
}

// SAFETY: the queue writes the bytes before it publishes the copy's cursor, and the task takes the buffer after it has
// observed that; the rest is plain data.
unsafe impl Send for BufferLanding {}
// SAFETY: as above; shared access is limited to the pointer, the length and the `OnceLock`.
unsafe impl Sync for BufferLanding {}

impl BufferLanding {
    fn new(bytes: u64) -> Result<Arc<Self>, MemoryError> {
        let mut buffer = HostBuffer::zeroed(bytes as usize)?;
        Ok(Arc::new(Self {
            pointer: buffer.as_mut_slice().as_mut_ptr(),
            bytes: buffer.bytes,
            buffer: UnsafeCell::new(buffer),
            failure: OnceLock::new(),
        }))
    }

    /// Takes the buffer, or the failure of the copy.
    ///
    /// # Safety
    /// The copy has completed, and this is called once.
    unsafe fn take(&self) -> Result<HostBuffer, FailureRef> {
        match self.failure.get() {
            Some(failure) => Err(failure.clone()),
            // SAFETY: the queue has finished with the buffer and nothing else takes it, by the contract.
            None => Ok(std::mem::take(unsafe { &mut *self.buffer.get() })),
        }
    }
}

impl Landing for BufferLanding {
    fn target(&self) -> (*mut u8, usize) {
        (self.pointer, self.bytes)
    }

    fn fail(&self, failure: FailureRef) {
        // Only the first failure is kept.
        let _ = self.failure.set(failure);
    }
}

/// An external task that has begun, with its input on the host: see [`Stream::external_staged`].
///
/// A drop without an end fails the task.
#[must_use = "a drop fails the task"]
pub struct StagedTask {
    name: Arc<str>,
    input: Option<HostBuffer>,
    /// The bytes of its output.
    output_bytes: Option<u64>,
    /// `None` once the end is reported.
    done: Option<HostDone>,
    _permit: Permit,
}

impl StagedTask {
    /// Returns the bytes of the input; empty if there is none.
    pub fn input(&self) -> &[u8] {
        self.input.as_ref().map_or(&[], HostBuffer::as_slice)
    }

    /// Takes the buffer of the input, if there is one and it was not taken before.
    pub fn take_input(&mut self) -> Option<HostBuffer> {
        self.input.take()
    }

    /// Ends a task without output.
    ///
    /// # Errors
    /// [`Error::Launch`] if it has an output; the task then fails.
    pub fn complete(mut self) -> Result<(), Error> {
        same_length(&self.name, 0, self.output_bytes.unwrap_or(0))?;
        self.end(HostOutcome::Completed);
        Ok(())
    }

    /// Provides the bytes of the output, which are copied to the device next.
    ///
    /// # Errors
    /// [`Error::Launch`] if the output has another length; the task then fails. The error carries `data`.
    pub fn complete_with<H: HostBytes>(mut self, data: H) -> Result<(), Returned<H>> {
        let expected = self.output_bytes.unwrap_or(0);
        let upload = HostUpload::<H>::new(data);
        match same_length(&self.name, upload.len() as u64, expected) {
            Ok(()) => {
                self.end(HostOutcome::Arrived(upload.erase()));
                Ok(())
            }
            Err(error) => Err(Returned {
                value: upload.into_data(),
                error,
            }),
        }
    }

    /// Fails the task: its output is poisoned.
    pub fn fail(mut self, reason: Reason) {
        let failure = Failure::not_run(&self.name, reason);
        self.end(HostOutcome::Failed(failure));
    }

    /// Fails the task because of another failure: its output is poisoned, with `cause` as its origin.
    pub fn fail_by(mut self, cause: FailureRef) {
        let failure = Failure::input(&self.name, cause);
        self.end(HostOutcome::Failed(failure));
    }

    fn end(&mut self, outcome: HostOutcome) {
        if let Some(done) = self.done.take() {
            done.end(outcome);
        }
    }
}

impl Drop for StagedTask {
    fn drop(&mut self) {
        if self.done.is_some() {
            let failure = ExternalTask::dropped(&self.name);
            self.end(HostOutcome::Failed(failure));
        }
    }
}

impl std::fmt::Debug for StagedTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StagedTask({})", self.name)
    }
}

impl Stream {
    /// As [`Stream::external`], for devices of any backend: the bytes of `input` are copied to the host before the task
    /// begins, and those of `output` are copied from the host when it ends. If both are the same view, the task
    /// replaces it; otherwise they must not overlap. May block as [`Stream::host`].
    ///
    /// # Errors
    /// Same as [`Stream::host`]; also [`Error::Launch`] if the two overlap, and [`Error::Memory`] if the host has no
    /// memory for the input. The error carries the uncalled `begin`.
    pub fn external_staged<F>(
        &self,
        name: &str,
        input: Option<&Handle<u8>>,
        output: Option<&Handle<u8>>,
        begin: F,
    ) -> Result<(), Returned<F>>
    where
        F: FnOnce(Result<StagedTask, Error>) + Send + 'static,
    {
        let name: Arc<str> = name.into();
        let prepared = staged_bindings(&name, input, output).and_then(|bindings| {
            let landing = input.map(|input| BufferLanding::new(input.size()));
            Ok((bindings, landing.transpose()?))
        });
        let (bindings, landing) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                return Err(Returned {
                    value: begin,
                    error,
                });
            }
        };
        let output_bytes = output.map(Handle::size);
        self.submit_host(&&bindings[..], begin, |begin, permit| {
            let needs = match &landing {
                Some(landing) => HostNeeds::Download(landing.clone()),
                None => HostNeeds::Nothing,
            };
            let work = external_work(name, needs, move |begun| match begun {
                Err(error) => begin(Err(error)),
                Ok((done, _resources, name)) => {
                    // SAFETY: the task begins after its copy has completed, and begins once.
                    let input = landing.map(|landing| unsafe { landing.take() });
                    match input.transpose() {
                        Ok(input) => begin(Ok(StagedTask {
                            name,
                            input,
                            output_bytes,
                            done: Some(done),
                            _permit: permit,
                        })),
                        Err(cause) => {
                            let failure = Failure::input(&name, cause.clone());
                            done.end(HostOutcome::Failed(failure));
                            begin(Err(Error::Failed(cause)));
                        }
                    }
                }
            });
            self.fails_off_the_turn(work)
        })
    }
}

/// The bindings of a staged task.
type StagedBindings<'a> = SmallVec<[(&'a Handle<u8>, Access); 2]>;

/// Returns the bindings of a staged task: the input first.
fn staged_bindings<'a>(
    name: &Arc<str>,
    input: Option<&'a Handle<u8>>,
    output: Option<&'a Handle<u8>>,
) -> Result<StagedBindings<'a>, Error> {
    let (from, to) = match (input, output) {
        (Some(input), Some(output)) if input.overlaps(output) => {
            let (from, to) = (input.binding(Access::Read), output.binding(Access::Write));
            if (from.offset, from.len) == (to.offset, to.len) {
                return Ok(SmallVec::from_iter([(input, Access::ReadWrite)]));
            }
            return Err(Error::Launch {
                task: name.clone(),
                why: LaunchError::Overlap {
                    first: "input".into(),
                    second: "output".into(),
                    bytes: from.shared_bytes(&to),
                },
            });
        }
        (from, to) => (
            from.map(|handle| (handle, Access::Read)),
            to.map(|handle| (handle, Access::Write)),
        ),
    };
    Ok(from.into_iter().chain(to).collect())
}
