//! Resubmits the entries of a log one after the other. Maps each object number of the log to an object of the device.

mod readbacks;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Instant;

use millstream_protocol::access::Access;
use millstream_protocol::binding::Binding;
use millstream_protocol::cancel::CancelToken;
use millstream_protocol::error::Error;
use millstream_protocol::journal::{Digest, Entry, Part, Step, Work};
use millstream_protocol::launch::LaunchCount;
use millstream_protocol::message::Op;
use millstream_protocol::recording::cut;

use readbacks::{InFlight, dense_bytes};

use super::{LoggedReadback, ReplayError};
use crate::arguments::{CubeCount, Untyped, bind};
use crate::handle::Handle;
use crate::{ComputeClient, KernelHandle, Stream};

/// The inconsistency of an entry whose kind was added in a later version.
const UNKNOWN: &str = "this version does not support entries of this kind";

/// The object of the device that an object number of the log maps to.
enum Object {
    Stream(Stream),
    Kernel(KernelHandle),
    Slice(Handle<u8>),
    /// A slice without memory, which only orders tasks.
    Point(Handle<u8>),
    Recording(Vec<Step>),
}

/// The state of resubmitting one log.
pub(super) struct Replay<'a, F> {
    client: &'a ComputeClient,
    kernels: VecDeque<KernelHandle>,
    withdrawn: HashMap<u64, bool>,
    /// One client for each logged combination of client number, priority and weight.
    clients: BTreeMap<(u32, usize, u32), ComputeClient>,
    objects: HashMap<u32, Object>,
    next: u32,
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

impl<'a, F: FnMut(LoggedReadback)> Replay<'a, F> {
    /// Creates a replay to the device of `client`, with the kernel handle of each logged kernel in order, and the
    /// withdrawn entries, each with whether a token withdrew it.
    pub(super) fn new(
        client: &'a ComputeClient,
        kernels: VecDeque<KernelHandle>,
        withdrawn: HashMap<u64, bool>,
        on_readback: F,
    ) -> Self {
        Self {
            client,
            kernels,
            withdrawn,
            clients: BTreeMap::new(),
            objects: HashMap::new(),
            next: 0,
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
        self.submit_entry(number, entry)
            .map_err(|error| match error {
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
        let object = match entry {
            Entry::Stream {
                client,
                priority,
                weight,
            } => {
                let key = (client, priority as usize, weight);
                let made = || self.client.sibling(priority, weight);
                Object::Stream(self.clients.entry(key).or_insert_with(made).new_stream())
            }
            Entry::Kernel { .. } => match self.kernels.pop_front() {
                Some(kernel) => Object::Kernel(kernel),
                None => return Err(EntryError::Broken("its kernel is missing")),
            },
            Entry::Recording { steps } => Object::Recording(steps),
            Entry::Parameter { bytes } => {
                let stream = self.client.new_stream();
                Object::Slice(Handle::new(stream.formal(bytes)?, bytes))
            }
            Entry::Slice {
                stream,
                bytes,
                mode,
            } => {
                let stream = self.stream(stream, number)?;
                match mode {
                    None => {
                        let point = stream.new_point(bytes)?;
                        let hold = stream.submit_reservation(point)?;
                        Object::Point(Handle::new(hold, bytes))
                    }
                    Some(mode) => {
                        let len = usize::try_from(bytes)
                            .map_err(|_| EntryError::Broken("its slice is too large"))?;
                        Object::Slice(stream.empty_with::<u8>(len, mode)?)
                    }
                }
            }
            Entry::Task {
                stream,
                work,
                parts,
            } => {
                let stream = self.stream(stream, number)?;
                return self.submit_work(&stream, work, &parts);
            }
            Entry::Dropped { object } => {
                self.objects.remove(&object);
                return Ok(());
            }
            Entry::Withdrawn { .. } => return Ok(()),
            _ => return Err(EntryError::Broken(UNKNOWN)),
        };
        self.objects.insert(self.next, object);
        self.next += 1;
        Ok(())
    }

    fn submit_work(
        &mut self,
        stream: &Stream,
        work: Work<'_>,
        parts: &[Part],
    ) -> Result<(), EntryError> {
        match work {
            Work::Upload { bytes, layout } => {
                let [part] = parts else {
                    return Err(EntryError::Broken("an upload needs one binding"));
                };
                let access = match &layout {
                    None => Access::Write,
                    Some(_) => Access::ReadWrite,
                };
                let binding = self.binding(part)?.with_access(access);
                if dense_bytes(&binding, layout.as_deref())? != bytes.len() as u64 {
                    return Err(EntryError::Broken(
                        "the upload and its binding differ in length",
                    ));
                }
                let layout = layout.map(|layout| *layout);
                stream.upload(binding, layout, bytes.len(), || bytes.into_owned())?;
            }
            Work::Readback { tag, layouts } => {
                self.request_readback(stream, tag, layouts, parts)?;
            }
            Work::Mark | Work::Gap(_) => {
                let bindings = parts.iter().map(|part| self.binding_or_point(part));
                let bindings = bindings.collect::<Result<Vec<_>, EntryError>>()?;
                stream.submit(Op::Mark, |task| {
                    bindings
                        .into_iter()
                        .for_each(|binding| task.push_binding(binding));
                })?;
            }
            Work::Replay { recording, words } => {
                let Some(Object::Recording(steps)) = self.objects.remove(&recording) else {
                    return Err(EntryError::Broken("its recording does not exist"));
                };
                let outcome = steps.iter().try_for_each(|step| {
                    let inner = step.parts.iter().map(|part| within(parts, part));
                    let inner = inner.collect::<Result<Vec<_>, EntryError>>()?;
                    self.submit_work(stream, with_words(step, &words)?, &inner)
                });
                self.objects.insert(recording, Object::Recording(steps));
                outcome?;
            }
            Work::Launch {
                kernel,
                count,
                scalars,
                metadata,
            } => self.launch(stream, kernel, count, (&scalars, &metadata), parts)?,
            Work::Copy => {
                let [source, target] = parts else {
                    return Err(EntryError::Broken("a copy needs two bindings"));
                };
                stream.copy(&self.view(source)?, &self.view(target)?)?;
            }
            Work::Fill(pattern) => {
                let [part] = parts else {
                    return Err(EntryError::Broken("a fill needs one binding"));
                };
                let binding = self.binding(part)?.with_access(Access::Write);
                let width = u64::from(pattern.width);
                if !(binding.offset.is_multiple_of(width) && binding.len.is_multiple_of(width)) {
                    return Err(EntryError::Broken(
                        "the fill is not a whole number of elements",
                    ));
                }
                stream.submit(Op::Fill(pattern), |task| task.push_binding(binding))?;
            }
            _ => return Err(EntryError::Broken(UNKNOWN)),
        }
        Ok(())
    }

    fn launch(
        &self,
        stream: &Stream,
        kernel: u32,
        count: LaunchCount,
        (scalars, metadata): (&[u64], &[u32]),
        parts: &[Part],
    ) -> Result<(), EntryError> {
        let Some(Object::Kernel(kernel)) = self.objects.get(&kernel) else {
            return Err(EntryError::Broken("its kernel does not exist"));
        };
        let (parts, count) = match (count, parts) {
            (LaunchCount::Static([x, y, z]), _) => (parts, CubeCount::Static(x, y, z)),
            (LaunchCount::Dynamic, [parts @ .., count]) => {
                let count = self.view(count)?.cast().map_err(|_| {
                    EntryError::Broken("its dynamic count is not an array of `u32`")
                })?;
                (parts, CubeCount::Dynamic(count))
            }
            (LaunchCount::Dynamic, []) => {
                return Err(EntryError::Broken("its dynamic count is missing"));
            }
        };
        let signature = kernel.kernel().signature();
        if signature.scalar_words() != scalars.len() {
            return Err(EntryError::Broken(
                "the launch and its kernel differ in the number of scalar words",
            ));
        }
        let mut views = Vec::with_capacity(parts.len());
        for (index, part) in parts.iter().enumerate() {
            let view = self.view(part)?;
            // A replay may have bound a shorter handle: bytes after its last whole element are not part of the launch.
            let spec = signature.bindings().get(index);
            let spare = spec.map_or(0, |spec| view.size() % spec.dtype.size() as u64);
            let whole = view.offset_end(spare);
            views.push(whole.map_err(|_| EntryError::Broken("a binding ends past its slice"))?);
        }
        let bindings: Vec<_> = views
            .iter()
            .zip(parts)
            .map(|(view, part)| bind(view, part.access))
            .collect();
        let arguments = Untyped {
            signature,
            bindings: &bindings,
            words: scalars,
            metadata,
        };
        Ok(stream.launch(kernel, count, &arguments)?)
    }

    /// Returns the stream of an entry, with a cancelled token or a passed deadline if the entry was withdrawn.
    fn stream(&self, stream: u32, entry: u64) -> Result<Stream, EntryError> {
        let Some(Object::Stream(stream)) = self.objects.get(&stream) else {
            return Err(EntryError::Broken("its stream does not exist"));
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
    fn view(&self, part: &Part) -> Result<Handle<u8>, EntryError> {
        match self.objects.get(&part.slice) {
            Some(Object::Slice(slice)) => view_of(slice, part),
            Some(Object::Point(_)) => Err(EntryError::Broken("a point has no memory to access")),
            _ => Err(EntryError::Broken("its slice does not exist")),
        }
    }

    /// As [`Replay::view`], for tasks that access no bytes: a point is valid, too.
    fn binding_or_point(&self, part: &Part) -> Result<Binding, EntryError> {
        let view = match self.objects.get(&part.slice) {
            Some(Object::Slice(slice) | Object::Point(slice)) => view_of(slice, part),
            _ => Err(EntryError::Broken("its slice does not exist")),
        };
        view.map(|view| view.binding(part.access))
    }

    fn binding(&self, part: &Part) -> Result<Binding, EntryError> {
        self.view(part).map(|view| view.binding(part.access))
    }
}

fn view_of(slice: &Handle<u8>, part: &Part) -> Result<Handle<u8>, EntryError> {
    let end = part
        .offset
        .checked_add(part.len)
        .filter(|end| *end <= slice.size());
    let view = end.and_then(|end| slice.slice(part.offset as usize..end as usize).ok());
    view.ok_or(EntryError::Broken("a binding ends past its slice"))
}

/// Maps a part of a recording's parameter to a part of the slice that the replay binds to it, which may be shorter than
/// recorded.
fn within(parameters: &[Part], part: &Part) -> Result<Part, EntryError> {
    let Some(parameter) = parameters.get(part.slice as usize) else {
        return Err(EntryError::Broken(
            "a recorded task uses a parameter that does not exist",
        ));
    };
    let (offset, len) = cut(part.offset, part.len, parameter.len);
    Ok(Part {
        slice: parameter.slice,
        offset: parameter.offset.saturating_add(offset),
        len,
        ..*part
    })
}

/// Returns the work of a recorded task with `words` in its slots.
fn with_words(step: &Step, words: &[u64]) -> Result<Work<'static>, EntryError> {
    let mut work = step.work.clone();
    if let Work::Launch { scalars, .. } = &mut work {
        for slot in &step.slots {
            if !slot.set(scalars, words) {
                return Err(EntryError::Broken(
                    "a recorded task uses a slot that does not exist",
                ));
            }
        }
    }
    Ok(work)
}
