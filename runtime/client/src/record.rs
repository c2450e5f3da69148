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
//! 3. [`Recorder::finish`] rewrites each binding to (parameter index, offset), computes which tasks depend on which
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

use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::element::Element;
use millstream_protocol::error::{Error, LaunchError};
use millstream_protocol::id::RecordingId;
use millstream_protocol::kernel::BindingSpec;
use millstream_protocol::launch::{LaunchCount, Pattern};
use millstream_protocol::message::{Op, Registration, Task};
use millstream_protocol::recording::{
    Parameters, RecordedOp, RecordedTask, RecordedWord, WordSlot, order_of,
};
use millstream_protocol::table::SlotRef;

use crate::arguments::{ArgumentWriter, Arguments, Bound, CubeCount, Packed, Untyped};
use crate::handle::Handle;
use crate::launch::check_own_count;
use crate::{KernelHandle, Recording, Stream};

/// Records tasks instead of submitting them.
pub struct Recorder<'a> {
    stream: &'a Stream,
    parameters: Parameters,
    tasks: Vec<NewTask>,
    kernels: Vec<KernelHandle>,
    /// References that keep the recorded slices alive.
    holds: Vec<SlotRef>,
}

/// A task that was recorded.
struct NewTask {
    op: RecordedOp,
    task: Task,
    /// One for each binding.
    shapes: Vec<Shape>,
    slots: Box<[WordSlot]>,
}

/// What a recording needs to know of a binding beyond the binding itself: its alignment, and whether it may
/// overlap other such bindings.
#[derive(Clone, Copy)]
struct Shape {
    align: u64,
    aliases: bool,
}

impl Stream {
    /// Records the calls that `record` makes on the recorder. Nothing runs.
    ///
    /// May block while the mailbox is full, or while no slot is free
    /// ([`max_handles`](millstream_protocol::options::DeviceOptions::max_handles)).
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
        Recorder {
            stream: self,
            parameters: Parameters::default(),
            tasks: Vec::new(),
            kernels: Vec::new(),
            holds: Vec::new(),
        }
    }
}

impl Recorder<'_> {
    /// Records a launch.
    ///
    /// # Errors
    /// Same as [`Stream::launch`].
    pub fn launch(
        &mut self,
        kernel: &KernelHandle,
        count: impl Into<CubeCount>,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        self.record_launch(kernel, count.into(), &arguments, Box::default())
    }

    /// Records a launch as [`Stream::launch_words`] makes it. A word may be a slot, whose value each replay provides
    /// ([`ReplayArgs::words`](super::ReplayArgs::words)).
    ///
    /// ```
    /// # use millstream_client::{KernelHandle, Recording, Stream};
    /// # use millstream_protocol::error::Error;
    /// # use millstream_client::handle::Handle;
    /// use millstream_client::arguments::{CubeCount, read, write};
    /// use millstream_protocol::recording::RecordedWord;
    /// # fn f(stream: &Stream, scale: &KernelHandle, x: &Handle<f32>, y: &Handle<f32>) -> Result<(), Error> {
    /// let mut recorder = stream.recorder();
    /// let (a, b) = (recorder.parameter::<f32>(64)?, recorder.parameter::<f32>(64)?);
    /// let words = [RecordedWord::Value(64), RecordedWord::Slot(0)];
    /// let bindings = [read(a.as_bytes()), write(b.as_bytes())];
    /// recorder.launch_words(scale, CubeCount::single(), &bindings, &words)?;
    /// let step = recorder.finish()?;
    /// let factor = u64::from(0.5_f32.to_bits());
    /// step.bind(&a, x).bind(&b, y).words(&[factor]).replay(stream)
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`Stream::launch_words`].
    pub fn launch_words(
        &mut self,
        kernel: &KernelHandle,
        count: impl Into<CubeCount>,
        bindings: &[Bound<'_, u8>],
        words: &[RecordedWord],
    ) -> Result<(), Error> {
        let values = words.iter().map(|word| match word {
            RecordedWord::Value(value) => *value,
            RecordedWord::Slot(_) => 0,
        });
        let values: Vec<u64> = values.collect();
        let slot = |(index, word): (usize, &RecordedWord)| match word {
            RecordedWord::Value(_) => None,
            RecordedWord::Slot(slot) => Some(WordSlot {
                word: index as u32,
                slot: *slot,
            }),
        };
        let slots = words.iter().enumerate().filter_map(slot).collect();
        let arguments = Untyped {
            signature: kernel.kernel.signature(),
            bindings,
            words: &values,
            metadata: &[],
        };
        self.record_launch(kernel, count.into(), &arguments, slots)
    }

    fn record_launch(
        &mut self,
        kernel: &KernelHandle,
        count: CubeCount,
        arguments: &impl Arguments,
        slots: Box<[WordSlot]>,
    ) -> Result<(), Error> {
        let device = self.stream.device();
        if !Arc::ptr_eq(kernel.hold.table(), device.table()) {
            return Err(device.foreign(
                "kernel",
                format!("`{}`", kernel.name()),
                kernel.hold.table(),
            ));
        }
        let signature = kernel.kernel.signature();
        let mut packed = Packed::new();
        let given = arguments.count();
        let fits = ArgumentWriter::new(signature, device.table(), &mut packed, given)
            .and_then(|writer| arguments.write(&mut writer.with_holds(&mut self.holds)));
        fits.map_err(|error| device.argument_error(error, kernel.name()))?;
        self.stream.check_count(kernel, &count)?;
        let mut task = Task::new(None, Op::Taken);
        packed.move_to(&mut task);
        if matches!(count, CubeCount::Static(x, y, z) if [x, y, z].contains(&0)) {
            // No cube runs, so a replay must not treat the declared outputs as written.
            task.all_bindings_mut()
                .for_each(|binding| binding.access = Access::Read);
        }
        let count = match &count {
            CubeCount::Static(x, y, z) => LaunchCount::Static([*x, *y, *z]),
            CubeCount::Dynamic(handle) => {
                let bindings = task.all_bindings().copied();
                check_own_count(kernel, handle, bindings)?;
                task.push_binding(handle.binding(Access::Read));
                self.holds.push(handle.hold().clone());
                LaunchCount::Dynamic
            }
        };
        self.kernels.push(kernel.clone());
        let shape = |spec: &BindingSpec| Shape {
            align: spec.dtype.size() as u64,
            aliases: signature.aliases() && spec.share.is_shared_by_pointer(),
        };
        let shapes = signature.bindings().iter().map(shape).collect();
        let op = RecordedOp::Launch {
            kernel: kernel.id(),
            count,
        };
        self.add_task(op, task, shapes, slots);
        Ok(())
    }

    /// Records a copy.
    ///
    /// # Errors
    /// Same as [`Stream::copy`].
    pub fn copy<T: Element>(
        &mut self,
        source: &Handle<T>,
        target: &Handle<T>,
    ) -> Result<(), Error> {
        let (from, to) = self.stream.check_copy(source, target)?;
        self.holds
            .extend([source.hold().clone(), target.hold().clone()]);
        let mut task = Task::new(None, Op::Taken);
        task.push_binding(from);
        task.push_binding(to);
        self.add_task(RecordedOp::Copy, task, Vec::new(), Box::default());
        Ok(())
    }

    /// Records a fill.
    ///
    /// # Errors
    /// Same as [`Stream::fill`].
    pub fn fill<T: Element>(&mut self, target: &Handle<T>, value: T) -> Result<(), Error> {
        self.stream.check_handle(target)?;
        self.holds.push(target.hold().clone());
        let mut task = Task::new(None, Op::Taken);
        task.push_binding(target.binding(Access::Write));
        let op = RecordedOp::Fill(Pattern::of(value));
        self.add_task(op, task, Vec::new(), Box::default());
        Ok(())
    }

    /// Allocates memory that belongs to the recording, as a temporary. Replays that use it are ordered one after the
    /// other. May block as [`Stream::empty`].
    ///
    /// # Errors
    /// Same as [`Stream::empty`].
    pub fn empty<T: Element>(&mut self, len: usize) -> Result<Handle<T>, Error> {
        let handle = self.stream.empty(len)?;
        self.holds.push(handle.hold().clone());
        Ok(handle)
    }

    /// Creates a parameter: a handle for `len` elements without memory, which each replay binds to memory. It takes a
    /// slot of the device's table. A replay must bind a handle of at least as many bytes to it ([`Recording::bind`]);
    /// bytes beyond them are not touched.
    ///
    /// A parameter is valid in recordings only. A task outside a recording that uses it does not run, and its outputs
    /// are poisoned with [`Reason::Parameter`](millstream_protocol::failure::Reason::Parameter). May block while the
    /// mailbox is full, or while no slot is free.
    ///
    /// # Errors
    /// [`LaunchError::SizeOverflow`], [`Error::Closed`].
    pub fn parameter<T: Element>(&mut self, len: usize) -> Result<Handle<T>, Error> {
        let (elements, element_bytes) = (len as u64, size_of::<T>() as u64);
        let Some(bytes) = elements.checked_mul(element_bytes) else {
            let why = LaunchError::SizeOverflow {
                elements,
                element_bytes,
            };
            let task = "parameter".into();
            return Err(Error::Launch { task, why });
        };
        let handle = Handle::new(self.stream.formal(bytes)?, bytes);
        self.parameters.formal.push(handle.id());
        Ok(handle)
    }

    /// As [`Recorder::parameter`], for memory whose previous contents no replay needs: temporaries, and results that
    /// are written in parts. A replay defines what it reads there, so it does not inherit a failure that an earlier
    /// task left in the memory.
    ///
    /// # Errors
    /// Same as [`Recorder::parameter`].
    pub fn scratch<T: Element>(&mut self, len: usize) -> Result<Handle<T>, Error> {
        let handle = self.parameter(len)?;
        self.parameters.scratch.push(handle.id());
        Ok(handle)
    }

    /// Allows replays to bind fewer bytes to a parameter than it was made with. Tasks then receive only the part of
    /// their binding that lies within the handle. For inputs and results whose lengths are words of the replay.
    ///
    /// # Safety
    /// Every replay must bind a handle that contains all bytes which its tasks then read or write: launches are checked
    /// against the recorded length only, and nothing else keeps a kernel within a shorter handle. Both sides of a copy
    /// must have the same length, and the remaining part of a fill must be whole elements.
    pub unsafe fn allow_shorter<T: Element>(&mut self, parameter: &Handle<T>) {
        self.parameters.shorter.push(parameter.id());
    }

    /// Adds a task. Bindings beyond `shapes` may not overlap; counts and fills need the alignment of their elements,
    /// copies need none.
    fn add_task(
        &mut self,
        op: RecordedOp,
        task: Task,
        mut shapes: Vec<Shape>,
        slots: Box<[WordSlot]>,
    ) {
        let align = match &op {
            RecordedOp::Launch { .. } => size_of::<u32>() as u64,
            RecordedOp::Fill(pattern) => u64::from(pattern.width),
            RecordedOp::Copy => 1,
        };
        shapes.resize(
            task.all_bindings().count(),
            Shape {
                align,
                aliases: false,
            },
        );
        for (binding, shape) in task.all_bindings().zip(&shapes) {
            self.parameters.add(&op, binding, shape.align);
        }
        self.tasks.push(NewTask {
            op,
            task,
            shapes,
            slots,
        });
    }

    /// Makes a recording of the recorded tasks. May block while the mailbox is full, or while no slot is free.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn finish(mut self) -> Result<Recording, Error> {
        let parameters = self.parameters.finished();
        let tasks: Arc<[RecordedTask]> = self
            .tasks
            .drain(..)
            .map(|new| recorded(&self.parameters, new))
            .collect();
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
            hold,
            parameters,
            tasks,
            self.holds,
            self.kernels,
        ))
    }
}

fn recorded(parameters: &Parameters, new: NewTask) -> RecordedTask {
    let bindings = new.task.all_bindings().zip(&new.shapes);
    let more = new.task.extra.more();
    RecordedTask {
        op: new.op,
        bindings: bindings
            .map(|(binding, shape)| parameters.relative(binding, shape.aliases))
            .collect(),
        scalars: new.task.scalars().into(),
        slots: new.slots,
        metadata: more.map(|extra| extra.metadata.clone()).unwrap_or_default(),
        tensor_maps: more
            .map(|extra| extra.tensor_maps.clone())
            .unwrap_or_default(),
    }
}
