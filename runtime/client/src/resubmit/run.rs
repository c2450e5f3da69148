//! Resubmits the entries of a log one after the other. Maps each slot in the log to an object of the device.

mod readbacks;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Instant;

use millstream_protocol::{
    Access, Binding, CancelToken, Error, LaunchCount, Op, TensorMap,
    journal::{Digest, Entry, Work},
    recording::{RecordedBinding, RecordedOp, RecordedTask, cut},
};

use readbacks::{InFlight, dense_bytes};

use super::{LoggedReadback, ReplayError, find_kernel};
use crate::arguments::{CubeCount, Untyped, bind};
use crate::handle::Handle;
use crate::{ComputeClient, KernelHandle, Stream};

/// The inconsistency of an entry whose kind was added in a later version.
const UNKNOWN: &str = "this version does not support entries of this kind";

/// The object of the device that a slot of the log maps to.
enum Object {
    Stream(Stream),
    Kernel(KernelHandle),
    Slice(Handle<u8>),
    /// A slice without memory, which only orders tasks.
    Point(Handle<u8>),
    Recording(Vec<RecordedTask>),
}

/// The state of resubmitting one log.
pub(super) struct Replay<'a, F> {
    client: &'a ComputeClient,
    kernels: &'a [KernelHandle],
    withdrawn: HashMap<u64, bool>,
    /// One client for each logged combination of client number, priority and weight.
    clients: BTreeMap<(u32, usize, u32), ComputeClient>,
    objects: HashMap<u32, Object>,
    /// The slot of the last recording.
    recording: u32,
    in_flight: VecDeque<InFlight>,
    digest: Digest,
    on_readback: F,
}

/// Why an entry cannot be submitted.
enum EntryError {
    Broken(&'static str),
    Refused(Error),
}

impl From<Error> for EntryError {
    fn from(error: Error) -> Self {
        EntryError::Refused(error)
    }
}

impl From<&'static str> for EntryError {
    fn from(what: &'static str) -> Self {
        EntryError::Broken(what)
    }
}

impl<'a, F: FnMut(LoggedReadback)> Replay<'a, F> {
    /// Creates a replay to the device of `client`, with the withdrawn entries, each with whether a token withdrew it.
    pub(super) fn new(
        client: &'a ComputeClient,
        kernels: &'a [KernelHandle],
        withdrawn: HashMap<u64, bool>,
        on_readback: F,
    ) -> Self {
        Self {
            client,
            kernels,
            withdrawn,
            clients: BTreeMap::new(),
            objects: HashMap::new(),
            recording: 0,
            in_flight: VecDeque::new(),
            digest: Digest::default(),
            on_readback,
        }
    }

    /// Completes all readbacks in flight and returns the digest of all readbacks. Blocks.
    pub(super) fn finish(mut self) -> Digest {
        while self.complete_oldest() {}
        self.digest
    }

    /// Resubmits the next entry.
    pub(super) fn submit(&mut self, number: u64, entry: Entry<'_>) -> Result<(), ReplayError> {
        let submitted = self.submit_entry(number, entry);
        submitted.map_err(|error| match error {
            EntryError::Broken(what) => ReplayError::Broken {
                entry: number,
                what,
            },
            EntryError::Refused(error) => ReplayError::Refused {
                entry: number,
                error,
            },
        })
    }

    fn submit_entry(&mut self, number: u64, entry: Entry<'_>) -> Result<(), EntryError> {
        let (id, object) = match entry {
            Entry::Stream {
                id,
                client,
                priority,
                weight,
            } => {
                let key = (client, priority as usize, weight);
                let made = || self.client.sibling(priority, weight);
                let client = self.clients.entry(key).or_insert_with(made);
                (id, Object::Stream(client.new_stream()))
            }
            Entry::Kernel {
                id,
                name,
                signature,
            } => {
                let kernel = find_kernel(self.kernels, &name, &signature);
                let kernel = kernel.map_err(|_| "its kernel is missing")?;
                (id, Object::Kernel(kernel.clone()))
            }
            Entry::Recording { id } => {
                self.recording = id;
                (id, Object::Recording(Vec::new()))
            }
            Entry::Recorded(task) => {
                let Some(Object::Recording(tasks)) = self.objects.get_mut(&self.recording) else {
                    return Err("its recording does not exist".into());
                };
                tasks.push(task.into_owned());
                return Ok(());
            }
            Entry::Parameter { id, bytes } => {
                let stream = self.client.new_stream();
                (id, Object::Slice(Handle::new(stream.formal(bytes)?, bytes)))
            }
            Entry::Slice {
                id,
                stream,
                bytes,
                mode,
            } => {
                let stream = self.stream(stream, number)?;
                match mode {
                    None => {
                        let point = stream.new_point(bytes)?;
                        let hold = stream.submit_reservation(point)?;
                        (id, Object::Point(Handle::new(hold, bytes)))
                    }
                    Some(mode) => {
                        let len = usize::try_from(bytes).map_err(|_| "its slice is too large")?;
                        (id, Object::Slice(stream.empty_with::<u8>(len, mode)?))
                    }
                }
            }
            Entry::Task {
                stream,
                work,
                bindings,
            } => {
                let stream = self.stream(stream, number)?;
                return self.submit_work(&stream, work, &bindings);
            }
            Entry::Dropped { id } => {
                self.objects.remove(&id);
                return Ok(());
            }
            Entry::Withdrawn { .. } => return Ok(()),
            _ => return Err(UNKNOWN.into()),
        };
        self.objects.insert(id, object);
        Ok(())
    }

    fn submit_work(
        &mut self,
        stream: &Stream,
        work: Work<'_>,
        parts: &[RecordedBinding],
    ) -> Result<(), EntryError> {
        match work {
            Work::Upload { bytes, layout } => {
                let [part] = parts else {
                    return Err("an upload needs one binding".into());
                };
                let access = match &layout {
                    None => Access::Write,
                    Some(_) => Access::ReadWrite,
                };
                let binding = self.binding(part)?.with_access(access);
                if dense_bytes(&binding, layout.as_deref())? != bytes.len() as u64 {
                    return Err("the upload and its binding differ in length".into());
                }
                let layout = layout.map(|layout| *layout);
                stream.upload(binding, layout, bytes.len(), || bytes.into_owned())?;
            }
            Work::Readback { tag, layouts } => {
                self.request_readback(stream, tag, layouts, parts)?;
            }
            Work::Mark | Work::Gap(_) => {
                let bindings = parts.iter().map(|part| {
                    let view = self.view_or_point(part)?;
                    Ok(view.binding(part.access))
                });
                let bindings = bindings.collect::<Result<Vec<_>, EntryError>>()?;
                stream.submit(Op::Mark, |task| task.set_bindings(&bindings))?;
            }
            Work::Replay { recording, words } => {
                let Some(Object::Recording(tasks)) = self.objects.remove(&recording) else {
                    return Err("its recording does not exist".into());
                };
                let outcome = tasks.iter().try_for_each(|task| {
                    let inner = task.bindings.iter().map(|part| within(parts, part));
                    let inner = inner.collect::<Result<Vec<_>, EntryError>>()?;
                    self.submit_work(stream, with_words(task, &words)?, &inner)
                });
                self.objects.insert(recording, Object::Recording(tasks));
                outcome?;
            }
            Work::Launch {
                kernel,
                count,
                scalars,
                metadata,
                tensor_maps,
            } => {
                let arguments = (&*scalars, &*metadata, &*tensor_maps);
                self.launch(stream, (kernel, count), arguments, parts)?;
            }
            Work::Copy => {
                let [source, target] = parts else {
                    return Err("a copy needs two bindings".into());
                };
                stream.copy(&self.view(source)?, &self.view(target)?)?;
            }
            Work::Fill(pattern) => {
                let [part] = parts else {
                    return Err("a fill needs one binding".into());
                };
                let binding = self.binding(part)?.with_access(Access::Write);
                if !pattern.divides(binding.offset, binding.len) {
                    return Err("the fill is not a whole number of elements".into());
                }
                stream.submit(Op::Fill(pattern), |task| task.push_binding(binding))?;
            }
            _ => return Err(UNKNOWN.into()),
        }
        Ok(())
    }

    fn launch(
        &self,
        stream: &Stream,
        (kernel, count): (u32, LaunchCount),
        (words, metadata, tensor_maps): (&[u64], &[u32], &[TensorMap]),
        parts: &[RecordedBinding],
    ) -> Result<(), EntryError> {
        let Some(Object::Kernel(kernel)) = self.objects.get(&kernel) else {
            return Err("its kernel does not exist".into());
        };
        let (parts, count) = match (count, parts) {
            (LaunchCount::Static([x, y, z]), _) => (parts, CubeCount::Static(x, y, z)),
            (LaunchCount::Dynamic, [parts @ .., count]) => {
                let count = self.view(count)?.cast();
                let count = count.map_err(|_| "its dynamic count is not an array of `u32`")?;
                (parts, CubeCount::Dynamic(count))
            }
            (LaunchCount::Dynamic, []) => return Err("its dynamic count is missing".into()),
        };
        let signature = kernel.kernel().signature();
        if signature.scalar_words() != words.len() {
            return Err("the launch and its kernel differ in the number of scalar words".into());
        }
        let mut views = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            let view = self.view(part)?;
            // A replay may have bound a shorter handle: bytes after its last whole element are not part of the launch.
            let spec = signature.bindings().get(index);
            let spare = spec.map_or(0, |spec| view.size() % spec.dtype.size() as u64);
            let whole = view.offset_end(spare);
            views.push(whole.map_err(|_| "a binding ends past its slice")?);
        }
        let bindings: Vec<_> = views
            .iter()
            .zip(parts)
            .map(|(view, part)| bind(view, part.access))
            .collect();
        let arguments = Untyped {
            signature,
            bindings: &bindings,
            words,
            metadata,
            tensor_maps,
        };
        Ok(stream.launch(kernel, count, arguments)?)
    }

    /// Returns the stream of an entry, with a cancelled token or a passed deadline if the entry was withdrawn.
    fn stream(&self, stream: u32, entry: u64) -> Result<Stream, EntryError> {
        let Some(Object::Stream(stream)) = self.objects.get(&stream) else {
            return Err("its stream does not exist".into());
        };
        Ok(match self.withdrawn.get(&entry) {
            None => stream.clone(),
            Some(true) => {
                let token = CancelToken::new();
                token.cancel();
                stream.with_cancel(&token)
            }
            Some(false) => stream.with_deadline(Instant::now()),
        })
    }

    /// Returns the part of a live slice as a handle.
    fn view(&self, part: &RecordedBinding) -> Result<Handle<u8>, EntryError> {
        match self.objects.get(&part.parameter) {
            Some(Object::Point(_)) => Err("a point has no memory to access".into()),
            _ => self.view_or_point(part),
        }
    }

    /// As [`Replay::view`], for tasks that access no bytes: a point is valid, too.
    fn view_or_point(&self, part: &RecordedBinding) -> Result<Handle<u8>, EntryError> {
        let Some(Object::Slice(slice) | Object::Point(slice)) = self.objects.get(&part.parameter)
        else {
            return Err("its slice does not exist".into());
        };
        let end = part.offset.checked_add(part.len);
        let end = end.filter(|end| *end <= slice.size());
        let view = end.and_then(|end| slice.slice(part.offset as usize..end as usize).ok());
        Ok(view.ok_or("a binding ends past its slice")?)
    }

    fn binding(&self, part: &RecordedBinding) -> Result<Binding, EntryError> {
        self.view(part).map(|view| view.binding(part.access))
    }
}

/// Maps a part of a recording's parameter to a part of the slice that the replay binds to it, which may be shorter than
/// recorded.
fn within(
    parameters: &[RecordedBinding],
    part: &RecordedBinding,
) -> Result<RecordedBinding, EntryError> {
    let parameter = parameters.get(part.parameter as usize);
    let parameter = parameter.ok_or("a recorded task uses a parameter that does not exist")?;
    let (offset, len) = cut(part.offset, part.len, parameter.len);
    Ok(RecordedBinding {
        parameter: parameter.parameter,
        offset: parameter.offset.saturating_add(offset),
        len,
        ..*part
    })
}

/// Returns the work of a recorded task with `words` in its slots.
fn with_words<'a>(task: &'a RecordedTask, words: &[u64]) -> Result<Work<'a>, EntryError> {
    Ok(match task.op {
        RecordedOp::Launch { kernel, count } => {
            let mut scalars = task.scalars.to_vec();
            if !task.slots.iter().all(|slot| slot.set(&mut scalars, words)) {
                return Err("a recorded task uses a slot that does not exist".into());
            }
            Work::Launch {
                kernel: kernel.index(),
                count,
                scalars: scalars.into(),
                metadata: Cow::Borrowed(&task.metadata),
                tensor_maps: Cow::Borrowed(&task.tensor_maps),
            }
        }
        RecordedOp::Copy => Work::Copy,
        RecordedOp::Fill(pattern) => Work::Fill(pattern),
    })
}
