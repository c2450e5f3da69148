//! Records tasks instead of submitting them.
//!
//! # Protocol
//! ```text
//!  Stream::recorder ──► Recorder: launch, copy, fill, empty, parameter, ... ──finish──► Recording ──replay──► one task
//! ```
//! 1. Each call checks its arguments as the stream's call does, and adds one task. The task's bindings name slices:
//!    memory that exists, or parameters, which are slices without memory that each replay binds.
//! 2. Adding a task also extends the byte range and the alignment that the recording needs of each slice it touches. So
//!    the set of slices, in order of first use, becomes the recording's parameter list; see [`Parameters`].
//! 3. Scalars are fixed, or set by each replay: [`Recorder::scalar`] for one scalar, [`Recorder::launch_words`] for whole
//!    words. Both become words of the replay; see `scalar_words`.
//! 4. [`Recorder::finish`] rewrites each binding to (parameter index, offset), computes which tasks depend on which
//!    (`order_of`), and registers the recording with the device in one message. Nothing runs before a replay.
//!
//! A recording keeps a reference to every slice and kernel that it names, so replays need no further lookups (I4).
//!
//! # Example: two streams, one recording
//! ```text
//!  recorder                          stream A                    stream B
//!  p = parameter(64)
//!  fill(p, 0); launch(k, update(p))
//!  finish                            bind(p, x).replay           bind(p, y).replay
//!                                    one task, which uses x      one task, which uses y: not ordered with A's
//!                                                                unless x and y share bytes
//! ```
//! The modules `recordings`, `parameters` and `replays` of the conformance suite, and `replaying` of its device tests,
//! check this; the order of tasks is checked by the tests of `hazard/order` in the protocol crate.

mod launches;

use std::borrow::Cow;
use std::iter::repeat;
use std::sync::Arc;

use millstream_protocol::{
    Access, Element, Error, Op, Pattern, RecordingId, Registration, Stored, Task,
    recording::{Parameters, RecordedOp, RecordedTask, ScalarSlot, order_of},
};

use crate::arguments::{RecordedArguments, RecorderKey, ScalarParameter};
use crate::handle::Handle;
use crate::replay::ReplayWords;
use crate::reserve::bytes_of;
use crate::scalar_values::ScalarParameters;
use crate::{Recording, Stream};

/// Records tasks instead of submitting them.
pub struct Recorder<'a> {
    stream: Cow<'a, Stream>,
    parameters: Parameters,
    tasks: Vec<RecordedTask>,
    /// The slots of the scalar parameters that a task has, by its index.
    scalar_slots: Vec<(usize, Vec<ScalarSlot>)>,
    recorded: RecordedArguments,
    /// The number of scalar parameters.
    scalars: u32,
}

/// What a recording needs to know of a binding beyond the binding itself: its alignment, and whether it may
/// overlap other such bindings.
type Shape = (u64, bool);

impl Stream {
    /// Records the calls that `record` makes on the recorder. Nothing runs.
    ///
    /// May block while the mailbox is full, or while no slot is free
    /// ([`max_handles`](millstream_protocol::DeviceOptions::max_handles)).
    ///
    /// # Errors
    /// The error that `record` returns; [`Error::Closed`].
    pub fn record(
        &self,
        record: impl FnOnce(&mut Recorder<'_>) -> Result<(), Error>,
    ) -> Result<Recording, Error> {
        let mut recorder = self.recorder();
        record(&mut recorder)?;
        recorder.finish()
    }

    /// Starts recording; [`Recorder::finish`] ends it. Nothing runs. Unlike [`Stream::record`] it needs no closure,
    /// so parameters stay in scope for the replays ([`Recording::bind`]).
    pub fn recorder(&self) -> Recorder<'_> {
        Recorder::new(Cow::Borrowed(self))
    }

    /// As [`Stream::recorder`], for a recorder that is kept: it owns the stream.
    pub fn into_recorder(self) -> Recorder<'static> {
        Recorder::new(Cow::Owned(self))
    }
}

impl<'a> Recorder<'a> {
    /// Returns the stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    fn new(stream: Cow<'a, Stream>) -> Self {
        Self {
            stream,
            parameters: Parameters::default(),
            tasks: Vec::new(),
            scalar_slots: Vec::new(),
            recorded: RecordedArguments {
                holds: Vec::new(),
                key: RecorderKey::new(),
                parameters: Vec::new(),
            },
            scalars: 0,
        }
    }
}

impl Recorder<'_> {
    /// Records a copy.
    ///
    /// # Errors
    /// Same as [`Stream::copy`].
    pub fn copy<T: Stored>(&mut self, source: &Handle<T>, target: &Handle<T>) -> Result<(), Error> {
        let (from, to) = self.stream.check_copy(source, target)?;
        self.recorded
            .holds
            .extend([source.hold().clone(), target.hold().clone()]);
        let mut task = Task::new(None, Op::Taken);
        task.push_binding(from);
        task.push_binding(to);
        self.add_task(RecordedOp::Copy, &task, &[], Box::default());
        Ok(())
    }

    /// Records a fill.
    ///
    /// # Errors
    /// Same as [`Stream::fill`].
    pub fn fill<T: Element>(&mut self, target: &Handle<T>, value: T) -> Result<(), Error> {
        self.stream.check_handle(target)?;
        self.recorded.holds.push(target.hold().clone());
        let mut task = Task::new(None, Op::Taken);
        task.push_binding(target.binding(Access::Write));
        let op = RecordedOp::Fill(Pattern::of(value));
        self.add_task(op, &task, &[], Box::default());
        Ok(())
    }

    /// Allocates memory that belongs to the recording, as a temporary. Replays that use it are ordered one after the
    /// other. May block as [`Stream::empty`].
    ///
    /// # Errors
    /// Same as [`Stream::empty`].
    pub fn empty<T: Stored>(&mut self, len: usize) -> Result<Handle<T>, Error> {
        let handle = self.stream.empty(len)?;
        self.recorded.holds.push(handle.hold().clone());
        Ok(handle)
    }

    /// Creates a parameter: a handle for `len` elements without memory, which each replay binds to memory. It takes a
    /// slot of the device's table. A replay must bind a handle of at least as many bytes to it ([`Recording::bind`]);
    /// bytes beyond them are not touched.
    ///
    /// A parameter is valid in recordings only. A task outside a recording that uses it does not run, and its outputs
    /// are poisoned with [`Reason::Parameter`](millstream_protocol::Reason::Parameter). May block while the
    /// mailbox is full, or while no slot is free.
    ///
    /// # Errors
    /// [`Error::Argument`] if the size overflows, [`Error::Closed`].
    pub fn parameter<T: Stored>(&mut self, len: usize) -> Result<Handle<T>, Error> {
        let bytes = bytes_of::<T>(len).map_err(|why| why.of("parameter"))?;
        let handle = Handle::new(self.stream.formal(bytes)?, bytes);
        self.parameters.formal.insert(handle.id());
        Ok(handle)
    }

    /// As [`Recorder::parameter`], for memory whose previous contents no replay needs: temporaries, and results that
    /// are written in parts. A replay defines what it reads there, so it does not inherit a failure that an earlier
    /// task left in the memory.
    ///
    /// # Errors
    /// Same as [`Recorder::parameter`].
    pub fn scratch<T: Stored>(&mut self, len: usize) -> Result<Handle<T>, Error> {
        let handle = self.parameter(len)?;
        self.parameters.scratch.insert(handle.id());
        Ok(handle)
    }

    /// Creates a scalar parameter: a scalar of launches whose value each replay sets with
    /// [`ReplayArgs::set`](super::ReplayArgs::set). Pass a reference to it in place of the number, to one launch or to
    /// several. `T` is the type that the kernel declares: `u64` for a `usize`, `u8` for a `bool`.
    ///
    /// ```
    /// # use millstream_client::{KernelHandle, Stream};
    /// # use millstream_protocol::Error;
    /// # use millstream_client::handle::Handle;
    /// use millstream_client::arguments::{CubeCount, update};
    /// # fn f(stream: &Stream, integrate: &KernelHandle, world: &Handle<f32>, times: &[f32]) -> Result<(), Error> {
    /// let mut recorder = stream.recorder();
    /// let dt = recorder.scalar::<f32>();
    /// recorder.launch(integrate, CubeCount::single(), (update(world), &dt, 9.81_f32))?;
    /// let step = recorder.finish()?;
    /// for time in times {
    ///     step.set(&dt, *time).replay(stream)?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn scalar<T: Element>(&mut self) -> ScalarParameter<T> {
        let index = self.scalars;
        self.scalars += 1;
        ScalarParameter::new(index, self.recorded.key.clone())
    }

    /// Allows replays to bind fewer bytes to a parameter than it was made with. Tasks then receive only the part of
    /// their binding that lies within the handle. For inputs and results whose lengths are words of the replay.
    ///
    /// # Safety
    /// Every replay must bind a handle that contains all bytes which its tasks then read or write: launches are checked
    /// against the recorded length only, and nothing else keeps a kernel within a shorter handle. Both sides of a copy
    /// must have the same length, and the remaining part of a fill must be whole elements.
    pub unsafe fn allow_shorter<T: Stored>(&mut self, parameter: &Handle<T>) {
        self.parameters.shorter.insert(parameter.id());
    }

    /// Adds a task. Bindings beyond `shapes` may not overlap; counts and fills need the alignment of their elements,
    /// copies need none.
    fn add_task(
        &mut self,
        op: RecordedOp,
        task: &Task,
        shapes: &[Shape],
        slots: Box<[ScalarSlot]>,
    ) {
        let align = match &op {
            RecordedOp::Launch { .. } => size_of::<u32>() as u64,
            RecordedOp::Fill(pattern) => u64::from(pattern.width),
            RecordedOp::Copy => 1,
        };
        let shapes = shapes.iter().copied().chain(repeat((align, false)));
        let bindings = task.all_bindings().zip(shapes);
        let more = task.extra.more();
        self.tasks.push(RecordedTask {
            op,
            bindings: bindings
                .map(|(binding, shape)| self.parameters.add(&op, binding, shape))
                .collect(),
            scalars: task.scalars().into(),
            slots,
            metadata: more.map_or_else(Box::default, |extra| extra.metadata[..].into()),
            tensor_maps: more.map_or_else(Box::default, |extra| extra.tensor_maps[..].into()),
        });
    }

    /// Makes a recording of the recorded tasks. May block while the mailbox is full, or while no slot is free.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn finish(mut self) -> Result<Recording, Error> {
        let parameters = self.parameters.finished();
        let slots = self.tasks.iter().flat_map(|task| &task.slots);
        let words = slots.map(|slot| slot.slot + 1).max().unwrap_or(0);
        let mut is_used = vec![false; self.scalars as usize];
        for (task, mut slots) in self.scalar_slots {
            for slot in &mut slots {
                is_used[slot.slot as usize] = true;
                slot.slot += words;
            }
            // A launch has either scalar parameters or slots of words.
            self.tasks[task].slots = slots.into();
        }
        self.parameters.place(&mut self.tasks);
        let tasks: Arc<[RecordedTask]> = self.tasks.into();
        let device = self.stream.device();
        let hold = device.slot(true)?;
        let id = RecordingId(hold.id());
        device.register(Registration::Recording {
            id,
            tasks: tasks.clone(),
            order: order_of(&tasks),
            stale: self.parameters.stale(&tasks),
        })?;
        Ok(Recording::new(
            (device, hold),
            parameters,
            tasks,
            ReplayWords {
                own: words as usize,
                scalars: ScalarParameters {
                    key: self.recorded.key,
                    is_used: is_used.into(),
                },
            },
            self.recorded.holds,
        ))
    }
}
