//! Taking down tasks instead of submitting them.

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
use millstream_protocol::table::Hold;

use crate::arguments::{ArgumentWriter, Arguments, Bound, CubeCount, Packed, Untyped};
use crate::handle::Handle;
use crate::launch::check_own_count;
use crate::{KernelHandle, Recording, Stream};

/// Takes down tasks instead of submitting them.
pub struct Recorder<'a> {
    stream: &'a Stream,
    parameters: Parameters,
    tasks: Vec<Taken>,
    kernels: Vec<KernelHandle>,
    /// Holds on what was recorded, in the order of the parameters.
    holds: Vec<Hold>,
}

/// A task that was taken down.
struct Taken {
    op: RecordedOp,
    task: Task,
    /// One a binding.
    shapes: Vec<Shape>,
    slots: Box<[WordSlot]>,
}

/// What a recording must know of a binding beside the binding: its alignment, and whether it may
/// overlap others of its kind.
#[derive(Clone, Copy)]
struct Shape {
    align: u64,
    aliases: bool,
}

impl Stream {
    /// Takes down what `record` does with the recorder. Nothing runs.
    ///
    /// May wait for room in the mailbox, or for a slot ([`max_handles`](millstream_protocol::options::DeviceOptions::max_handles)).
    ///
    /// # Errors
    /// What `record` returns; [`Error::Closed`].
    pub fn record(
        &self,
        record: impl FnOnce(&mut Recorder<'_>) -> Result<(), Error>,
    ) -> Result<Recording, Error> {
        let mut recorder = self.recorder();
        record(&mut recorder)?;
        recorder.finish()
    }

    /// Takes down tasks until [`Recorder::finish`] makes a recording of them. Nothing runs. It is [`Stream::record`] without a
    /// function around it, so that parameters keep their names for the replays ([`Recording::bind`]).
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
    /// Takes down a launch.
    ///
    /// # Errors
    /// As [`Stream::launch`].
    pub fn launch(
        &mut self,
        kernel: &KernelHandle,
        count: impl Into<CubeCount>,
        arguments: impl Arguments,
    ) -> Result<(), Error> {
        self.take_launch(kernel, count.into(), &arguments, Box::default())
    }

    /// Takes down a launch as [`Stream::launch_words`] makes it. Words may be slots: then each replay gives their values
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
    /// As [`Stream::launch_words`].
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
        self.take_launch(kernel, count.into(), &arguments, slots)
    }

    fn take_launch(
        &mut self,
        kernel: &KernelHandle,
        count: CubeCount,
        arguments: &impl Arguments,
        slots: Box<[WordSlot]>,
    ) -> Result<(), Error> {
        let device = self.stream.device();
        if !Arc::ptr_eq(kernel.hold.table(), device.table()) {
            return Err(device.foreign("kernel", kernel.hold.table()));
        }
        let signature = kernel.kernel.signature();
        let mut packed = Packed::new();
        let given = arguments.count();
        let fits = ArgumentWriter::new(signature, device.table(), &mut packed, given)
            .and_then(|writer| arguments.write(&mut writer.keeping(&mut self.holds)));
        fits.map_err(|error| device.misfit(error, kernel.name()))?;
        self.stream.check_count(kernel, &count)?;
        let mut task = Task::new(None, Op::Taken);
        packed.move_to(&mut task);
        if matches!(count, CubeCount::Static(x, y, z) if [x, y, z].contains(&0)) {
            // No cube runs: a replay must not take what the launch declares as written for data.
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
        self.take_down(op, task, shapes, slots);
        Ok(())
    }

    /// Takes down a copy.
    ///
    /// # Errors
    /// As [`Stream::copy`].
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
        self.take_down(RecordedOp::Copy, task, Vec::new(), Box::default());
        Ok(())
    }

    /// Takes down a fill.
    ///
    /// # Errors
    /// As [`Stream::fill`].
    pub fn fill<T: Element>(&mut self, target: &Handle<T>, value: T) -> Result<(), Error> {
        self.stream.own(target)?;
        self.holds.push(target.hold().clone());
        let mut task = Task::new(None, Op::Taken);
        task.push_binding(target.binding(Access::Write));
        let op = RecordedOp::Fill(Pattern::of(value));
        self.take_down(op, task, Vec::new(), Box::default());
        Ok(())
    }

    /// Memory that belongs to the recording: a temporary of its own. Replays that use it at the same
    /// time are ordered.
    ///
    /// # Errors
    /// As [`Stream::empty`].
    pub fn empty<T: Element>(&mut self, len: usize) -> Result<Handle<T>, Error> {
        let handle = self.stream.empty(len)?;
        self.holds.push(handle.hold().clone());
        Ok(handle)
    }

    /// A parameter: `len` elements that each replay binds, without memory of their own. It takes a slot of the device's
    /// table. A replay must bind a handle to it ([`Recording::bind`]) that has at least as many bytes; what the handle has
    /// beyond them is not touched.
    ///
    /// It is for recordings only: a task outside of one that is given it does not run, and whoever reads what that would
    /// have written is told so ([`Reason::Parameter`](millstream_protocol::failure::Reason::Parameter)). May wait for room in the
    /// mailbox, or for a slot.
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
        let handle = Handle::whole(self.stream.formal(bytes)?, bytes);
        self.parameters.formal.push(handle.id());
        Ok(handle)
    }

    /// As [`Recorder::parameter`], for memory whose contents no replay needs: temporaries, and results that are written part by
    /// part. A replay defines what it reads there, so a failure of an earlier one that lies in the memory is not inherited.
    ///
    /// # Errors
    /// As [`Recorder::parameter`].
    pub fn scratch<T: Element>(&mut self, len: usize) -> Result<Handle<T>, Error> {
        let handle = self.parameter(len)?;
        self.parameters.scratch.push(handle.id());
        Ok(handle)
    }

    /// Lets replays bind fewer bytes to a parameter than it was made with: of what the recording touches beyond the handle, tasks
    /// get nothing. For results and inputs whose lengths the words of a replay say.
    ///
    /// # Safety
    /// Every replay must bind a handle that has all bytes which its tasks then read or write: the launches were checked against
    /// the length that was recorded, and nothing else keeps a kernel within a shorter one. Both sides of a copy must be as long,
    /// and what a fill is left with must be whole elements.
    pub unsafe fn allow_shorter<T: Element>(&mut self, parameter: &Handle<T>) {
        self.parameters.shorter.push(parameter.id());
    }

    /// Bindings without a shape overlap nothing: counts and fills need the alignment of their elements, copies none.
    fn take_down(
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
        self.tasks.push(Taken {
            op,
            task,
            shapes,
            slots,
        });
    }

    /// The recording of what was taken down. May wait for room in the mailbox, or for a slot.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn finish(mut self) -> Result<Recording, Error> {
        let parameters = self.parameters.finished();
        let tasks: Arc<[RecordedTask]> = self
            .tasks
            .drain(..)
            .map(|taken| recorded(&self.parameters, taken))
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

fn recorded(parameters: &Parameters, taken: Taken) -> RecordedTask {
    let bindings = taken.task.all_bindings().zip(&taken.shapes);
    let more = taken.task.extra.more();
    RecordedTask {
        op: taken.op,
        bindings: bindings
            .map(|(binding, shape)| parameters.relative(binding, shape.aliases))
            .collect(),
        scalars: taken.task.scalars().into(),
        slots: taken.slots,
        metadata: more.map(|extra| extra.metadata.clone()).unwrap_or_default(),
        tensor_maps: more
            .map(|extra| extra.tensor_maps.clone())
            .unwrap_or_default(),
    }
}
