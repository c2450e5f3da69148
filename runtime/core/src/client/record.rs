//! Recording tasks, and replaying them as one message.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::access::Access;
use crate::client::{KernelHandle, Stream};
use crate::element::Element;
use crate::error::{Error, LaunchError, ParameterMisfit};
use crate::handle::{Binding, Handle, Hold};
use crate::id::RecordingId;
use crate::kernel::BindingSpec;
use crate::launch::{ArgumentWriter, Arguments, CubeCount, Packed};
use crate::message::{LaunchCount, Op, Pattern, Registration, Task};
use crate::recording::{Parameter, Parameters, RecordedOp, RecordedTask, overlapping_task};

/// Takes down tasks instead of submitting them.
pub struct Recorder<'a> {
    stream: &'a Stream,
    parameters: Parameters,
    tasks: Vec<(RecordedOp, Task, Vec<Shape>)>,
    kernels: Vec<KernelHandle>,
    /// Holds on what was recorded, in the order of the parameters.
    holds: Vec<Hold>,
}

/// What a recording must know of a binding beside the binding: its alignment, and whether it may
/// overlap others of its kind.
#[derive(Clone, Copy)]
struct Shape {
    align: u64,
    aliases: bool,
}

/// Tasks that were checked and resolved once.
///
/// A recording holds what it was recorded with. It is immutable, so that any thread may replay it
/// on any stream of its device, several at a time: hazards order replays that share what they write.
#[derive(Clone)]
pub struct Recording {
    shared: Arc<RecordingShared>,
}

struct RecordingShared {
    hold: Hold,
    parameters: Vec<Parameter>,
    tasks: Arc<[RecordedTask]>,
    /// Keeps the recorded slices and kernels alive.
    _holds: Vec<Hold>,
    _kernels: Vec<KernelHandle>,
}

impl Stream {
    /// Takes down what `record` does with the recorder. Nothing runs.
    ///
    /// May wait for room in the mailbox.
    ///
    /// # Errors
    /// What `record` returns; [`Error::Closed`].
    pub fn record(
        &self,
        record: impl FnOnce(&mut Recorder<'_>) -> Result<(), Error>,
    ) -> Result<Recording, Error> {
        let mut recorder = Recorder {
            stream: self,
            parameters: Parameters::default(),
            tasks: Vec::new(),
            kernels: Vec::new(),
            holds: Vec::new(),
        };
        record(&mut recorder)?;
        recorder.finish()
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
        count: CubeCount,
        arguments: impl Arguments,
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
        fits.map_err(|error| error.of(kernel.name(), device))?;
        self.stream.check_count(kernel, &count)?;
        let mut task = Task::new(None, Op::Taken);
        packed.move_to(&mut task);
        let count = match &count {
            CubeCount::Static(x, y, z) => LaunchCount::Static([*x, *y, *z]),
            CubeCount::Dynamic(handle) => {
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
        self.take_down(
            RecordedOp::Launch {
                kernel: kernel.id(),
                count,
            },
            task,
            shapes,
        );
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
        self.take_down(RecordedOp::Copy, task, Vec::new());
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
        self.take_down(RecordedOp::Fill(Pattern::of(value)), task, Vec::new());
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

    /// Bindings without a shape (copies, counts) need the alignment of a count and overlap nothing.
    fn take_down(&mut self, op: RecordedOp, task: Task, mut shapes: Vec<Shape>) {
        let align = if matches!(op, RecordedOp::Launch { .. }) {
            size_of::<u32>() as u64
        } else {
            1
        };
        shapes.resize(
            task.all_bindings().count(),
            Shape {
                align,
                aliases: false,
            },
        );
        for (binding, shape) in task.all_bindings().zip(&shapes) {
            self.parameters.add(binding, shape.align);
        }
        self.tasks.push((op, task, shapes));
    }

    fn finish(mut self) -> Result<Recording, Error> {
        let parameters = self.parameters.list.clone();
        let tasks: Arc<[RecordedTask]> = self
            .tasks
            .drain(..)
            .map(|(op, task, shapes)| RecordedTask {
                op,
                bindings: task
                    .all_bindings()
                    .zip(&shapes)
                    .map(|(binding, shape)| self.parameters.relative(binding, shape.aliases))
                    .collect(),
                scalars: task.scalars().into(),
                metadata: task
                    .extra
                    .more()
                    .map(|extra| extra.metadata.clone())
                    .unwrap_or_default(),
                tensor_maps: task
                    .extra
                    .more()
                    .map(|extra| extra.tensor_maps.clone())
                    .unwrap_or_default(),
            })
            .collect();
        let device = self.stream.device();
        let hold = device.slot()?;
        let id = RecordingId(hold.id());
        device.register(Registration::Recording {
            id,
            tasks: tasks.clone(),
        })?;
        let shared = RecordingShared {
            hold,
            parameters,
            tasks,
            _holds: self.holds,
            _kernels: self.kernels,
        };
        Ok(Recording {
            shared: Arc::new(shared),
        })
    }
}

impl Recording {
    /// How many parameters it has: the slices that it touches, in order of first use.
    pub fn parameters(&self) -> usize {
        self.shared.parameters.len()
    }

    /// How many tasks it has.
    pub fn len(&self) -> usize {
        self.shared.tasks.len()
    }

    /// Has it no tasks?
    pub fn is_empty(&self) -> bool {
        self.shared.tasks.is_empty()
    }

    /// Runs the recording on `stream`, with what it was recorded with. One message; may wait for room in
    /// the mailbox.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Closed`].
    pub fn replay(&self, stream: &Stream) -> Result<(), Error> {
        self.submit(
            stream,
            self.shared
                .parameters
                .iter()
                .map(|parameter| parameter.binding),
        )
    }

    /// Runs the recording with other handles in place of some parameters: `(index, handle)`. May wait for
    /// room in the mailbox. A handle needs at least the bytes that the recording touches of its parameter,
    /// aligned as those were; it keeps its own start.
    ///
    /// # Errors
    /// [`Error::Launch`] with [`LaunchError::Parameter`] when an index does not exist, a handle is too small
    /// or aligned otherwise, or the handles overlap so that a task would read what it writes where no kernel
    /// allows that.
    pub fn replay_with<T: Element>(
        &self,
        stream: &Stream,
        rebound: &[(usize, &Handle<T>)],
    ) -> Result<(), Error> {
        // As many as a message has room for.
        let mut parameters: SmallVec<[Binding; 8]> = self
            .shared
            .parameters
            .iter()
            .map(|parameter| parameter.binding)
            .collect();
        for (index, handle) in rebound {
            stream.own(handle)?;
            let Some(parameter) = parameters.get_mut(*index) else {
                let parameters = self.parameters();
                return Err(misfit(*index, ParameterMisfit::Missing { parameters }));
            };
            if handle.size() < parameter.len {
                let (recorded, given) = (parameter.len, handle.size());
                return Err(misfit(
                    *index,
                    ParameterMisfit::TooSmall { recorded, given },
                ));
            }
            let (recorded, given) = (parameter.offset, handle.start());
            let align = self.shared.parameters[*index].align;
            if given % align != recorded % align {
                let misaligned = ParameterMisfit::Misaligned {
                    align,
                    recorded,
                    given,
                };
                return Err(misfit(*index, misaligned));
            }
            *parameter = Binding {
                len: parameter.len,
                ..handle.binding(parameter.access)
            };
        }
        // Recorded parameters never overlap. Rebound ones may: then each launch is looked at again.
        let aliased = parameters.iter().enumerate().any(|(index, first)| {
            parameters[index + 1..]
                .iter()
                .any(|second| first.overlaps(second))
        });
        if aliased && let Some(overlap) = overlapping_task(&self.shared.tasks, &parameters) {
            let (other, task) = (overlap.first, overlap.task);
            return Err(misfit(
                overlap.second,
                ParameterMisfit::Overlap { other, task },
            ));
        }
        self.submit(stream, parameters.into_iter())
    }

    fn submit(
        &self,
        stream: &Stream,
        parameters: impl Iterator<Item = Binding>,
    ) -> Result<(), Error> {
        let table = self.shared.hold.table();
        if !Arc::ptr_eq(table, stream.device().table()) {
            return Err(stream.device().foreign("recording", table));
        }
        stream.submit(
            stream.waits(),
            Op::Replay(RecordingId(self.shared.hold.id())),
            |task| {
                parameters.for_each(|parameter| task.push_binding(parameter));
            },
        )
    }
}

#[cold]
fn misfit(index: usize, misfit: ParameterMisfit) -> Error {
    Error::Launch {
        task: "replay".into(),
        why: LaunchError::Parameter { index, misfit },
    }
}
