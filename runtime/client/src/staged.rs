//! External tasks whose data passes through memory of the host, on devices of any backend.
//!
//! ```text
//!  Stream::external_staged ──► its queue copies the input to the host ──► `begin` receives the StagedTask
//!                                                                              │ any thread, any time later
//!                              its queue copies the output to the device ◄── complete_with
//! ```
//! It is one task: no other task comes between its two copies.

use std::sync::Arc;

use millstream_protocol::{
    Access, ArgumentError, Error, Extent, Failure, FailureRef, HostBytes, HostNeeds, HostOutcome,
    Landed, MemoryError, Reason, ReleaseToken, Stored, VecLanding,
};
use millstream_sync::facade::Mutex;
use smallvec::SmallVec;

use crate::arguments::bind;
use crate::copies::same_length;
use crate::external::external_work;
use crate::handle::Handle;
use crate::task_end::{Meeting, TaskEnd};
use crate::{Returned, Stream};

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

/// An external task that has begun, with its input on the host: see [`Stream::external_staged`].
///
/// A drop without an end fails the task.
#[must_use = "a drop fails the task"]
pub struct StagedTask {
    input: Option<HostBuffer>,
    /// The bytes of its output.
    output_bytes: u64,
    end: TaskEnd,
}

impl StagedTask {
    /// Returns the bytes of the input; empty if there is none.
    pub fn input(&self) -> &[u8] {
        self.input.as_ref().map_or(&[], HostBuffer::as_slice)
    }

    /// Ends a task without output.
    ///
    /// # Errors
    /// [`Error::Argument`] if it has an output; the task then fails.
    pub fn complete(self) -> Result<(), Error> {
        same_length(&self.end.name, 0, self.output_bytes)?;
        self.end.report(HostOutcome::Completed);
        Ok(())
    }

    /// Provides the bytes of the output, which are copied to the device next.
    ///
    /// # Errors
    /// [`Error::Argument`] if the output has another length; the task then fails. The error carries `data`.
    pub fn complete_with<H: HostBytes>(self, data: H) -> Result<(), Returned<H>> {
        self.end.arrive(data, self.output_bytes)
    }

    /// Fails the task: its output is poisoned.
    pub fn fail(self, reason: Reason) {
        self.end.fail(reason);
    }

    /// Fails the task because of another failure: its output is poisoned, with `cause` as its origin.
    pub fn fail_by(self, cause: FailureRef) {
        self.end.fail_by(cause);
    }
}

impl std::fmt::Debug for StagedTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StagedTask({})", self.end.name)
    }
}

impl Stream {
    /// As [`Stream::external`], for devices of any backend: the bytes of `input` are copied to the host before the task
    /// begins, and those of `output` are copied from the host when it ends. If both are the same view, the task
    /// replaces it; otherwise they must not overlap. May block as [`Stream::host`].
    ///
    /// # Errors
    /// Same as [`Stream::host`]; also [`Error::Argument`] if the two overlap, and [`Error::Memory`] if the host has no
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
            let buffer = input.map(|input| HostBuffer::zeroed(input.size() as usize));
            Ok((bindings, buffer.transpose()?))
        });
        let (bindings, buffer) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                return Err(Returned {
                    value: begin,
                    error,
                });
            }
        };
        let output_bytes = output.map_or(0, Handle::size);
        let input_bytes = buffer.as_ref().map_or(0, |buffer| buffer.bytes);
        let landing = buffer.map(|buffer| VecLanding::over(buffer.words, buffer.bytes));
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
                        Ok(words) => begin(Ok(StagedTask {
                            input: words.map(|words| HostBuffer {
                                words,
                                bytes: input_bytes,
                            }),
                            output_bytes,
                            end: TaskEnd::begun(name, Extent::NotRun, done, Some(permit)),
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
            let why = ArgumentError::overlap("input", "output", from.shared_bytes(&to));
            return Err(why.of(name.clone()).into());
        }
        (from, to) => (
            from.map(|handle| (handle, Access::Read)),
            to.map(|handle| (handle, Access::Write)),
        ),
    };
    Ok(from.into_iter().chain(to).collect())
}

// Writes whose bytes arrive later than their place in the order, such as those of a network.

/// The bytes of a write that has its place in the order already: see [`Stream::write_later`]. May be sent to another
/// thread.
///
/// A drop without [`LateWrite::send`] fails the write.
#[must_use = "a drop fails the write"]
pub struct LateWrite {
    bytes: u64,
    end: TaskEnd,
}

impl LateWrite {
    /// Returns the number of bytes that the write expects.
    pub fn expected_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns `true` if the write cannot run any more: it was withdrawn, or the device ended, before its turn came; or the
    /// process is a child that was forked since. Bytes that are sent are dropped.
    pub fn is_over(&self) -> bool {
        self.end.is_over()
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
    pub fn write_later<T: Stored>(
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
            end: TaskEnd::early(name, meeting),
        })
    }
}
