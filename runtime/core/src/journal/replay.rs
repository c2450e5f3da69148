//! Resubmitting a log, from one thread, in its order, through the same calls that users make: what it names is
//! checked like anything else, so a log that was made by hand can be wrong, but not unsound.
//!
//! Everything that can be known before is checked before anything is submitted: kernels and gaps.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use millstream_sync::reply::reply;

use super::digest::Digest;
use super::entry::{Count, Entry, Part, Step, Work};
use super::log::SubmissionLog;
use crate::access::Access;
use crate::cancel::CancelToken;
use crate::client::{ComputeClient, Finish, KernelHandle, Pending, Stream};
use crate::error::Error;
use crate::handle::{Binding, Handle};
use crate::kernel::Signature;
use crate::landing::{Landed, Landing, VecLanding};
use crate::launch::{CubeCount, Logged};
use crate::layout::Strided;
use crate::message::{CopyOut, Op};

/// Readbacks that are asked for and not waited for: enough that the device always has work, and a bound on what
/// lies on the host.
const READBACKS_AHEAD: usize = 16;

/// One readback of a replayed log.
#[derive(Debug)]
pub struct LoggedReadback {
    /// What the asker had called it, where that was a number.
    pub tag: Option<u64>,
    /// The bytes, one binding after the other, or the failure of what was read.
    pub bytes: Result<Vec<u8>, Error>,
}

/// What came of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// All readbacks, in the order in which they were asked for.
    pub readbacks: Vec<LoggedReadback>,
    /// Of all their bytes: see [`SubmissionLog::replay_with`].
    pub digest: Digest,
}

/// Why a log cannot be replayed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// It begins in the middle.
    #[error(
        "this is part {part} of a log, and begins in the middle; append it to the parts before"
    )]
    NotTheStart {
        /// Which part.
        part: u32,
    },
    /// A kernel is missing.
    #[error("the log launches `{name}`, which is not among the kernels that the replay was given")]
    UnknownKernel {
        /// Its name.
        name: Arc<str>,
    },
    /// A kernel is another one.
    #[error("the kernel `{name}` is not the logged one: it was {logged}, it is {given}")]
    Signature {
        /// Its name.
        name: Arc<str>,
        /// The signature that was logged.
        logged: String,
        /// The signature that was given.
        given: String,
    },
    /// Code that is not in the log may have written data.
    #[error(
        "entry {entry} of the log is `{name}`, whose code is not logged and may have written data"
    )]
    Gap {
        /// Which entry.
        entry: u64,
        /// Its name.
        name: Arc<str>,
    },
    /// The entries do not make sense.
    #[error("entry {entry} of the log makes no sense: {what}")]
    Broken {
        /// Which entry.
        entry: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The device did not take it.
    #[error("entry {entry} of the log was not accepted: {error}")]
    Refused {
        /// Which entry.
        entry: u64,
        /// Why.
        error: Error,
    },
}

impl SubmissionLog {
    /// Resubmits the log to the device of `client`, and collects all readbacks. `kernels` are given by name and
    /// signature; the device may be of another kind than the one that was logged.
    ///
    /// Blocks until the last readback is there.
    ///
    /// # Errors
    /// [`ReplayError`]. Readbacks that failed are no error of the replay: they may have failed as they had before.
    pub fn replay(
        &self,
        client: &ComputeClient,
        kernels: &[KernelHandle],
    ) -> Result<Replayed, ReplayError> {
        let mut readbacks = Vec::new();
        let digest = self.replay_with(client, kernels, |readback| readbacks.push(readback))?;
        Ok(Replayed { readbacks, digest })
    }

    /// As [`SubmissionLog::replay`], handing readbacks out as they come, in order. The answer is the digest of their
    /// bytes, each before an 8-byte length; a failure counts as a length of all ones.
    ///
    /// # Errors
    /// As [`SubmissionLog::replay`].
    pub fn replay_with(
        &self,
        client: &ComputeClient,
        kernels: &[KernelHandle],
        on_readback: impl FnMut(LoggedReadback),
    ) -> Result<Digest, ReplayError> {
        let part = *self.parts().start();
        if part > 0 {
            return Err(ReplayError::NotTheStart { part });
        }
        let mut replay = Replay {
            client,
            kernels: self.check(kernels)?,
            withdrawn: self.withdrawn(),
            clients: BTreeMap::new(),
            objects: HashMap::new(),
            next: 0,
            asked: VecDeque::new(),
            digest: Digest::default(),
            on_readback,
        };
        for (number, entry) in self.entries().enumerate() {
            replay.submit(number as u64, entry)?;
        }
        while replay.answer_one() {}
        Ok(replay.digest)
    }

    /// The kernel handle of each logged kernel, in order; no gap that may have written.
    fn check(&self, given: &[KernelHandle]) -> Result<VecDeque<KernelHandle>, ReplayError> {
        let mut found = VecDeque::new();
        for (number, entry) in self.entries().enumerate() {
            let entry_number = number as u64;
            let gap = |work: &Work<'_>, parts: &[Part]| match work {
                Work::Gap(name) if parts.iter().any(|part| part.access.writes()) => {
                    Err(ReplayError::Gap {
                        entry: entry_number,
                        name: name.clone(),
                    })
                }
                _ => Ok(()),
            };
            match &entry {
                Entry::Kernel { name, signature } => {
                    found.push_back(find_kernel(given, name, signature)?.clone());
                }
                Entry::Task { work, parts, .. } => gap(work, parts)?,
                Entry::Recording { steps } => {
                    steps
                        .iter()
                        .try_for_each(|step| gap(&step.work, &step.parts))?;
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// The entries that were withdrawn, and whether by a token.
    fn withdrawn(&self) -> HashMap<u64, bool> {
        let withdrawn = |entry| match entry {
            Entry::Withdrawn { entry, cancelled } => Some((entry, cancelled)),
            _ => None,
        };
        self.entries().filter_map(withdrawn).collect()
    }
}

fn find_kernel<'a>(
    given: &'a [KernelHandle],
    name: &Arc<str>,
    logged: &Signature,
) -> Result<&'a KernelHandle, ReplayError> {
    let mut named = given
        .iter()
        .filter(|kernel| kernel.name() == name)
        .peekable();
    let Some(first) = named.peek() else {
        return Err(ReplayError::UnknownKernel { name: name.clone() });
    };
    let given = first.kernel().signature();
    let fits = |kernel: &&KernelHandle| kernel.kernel().signature().takes_the_same(logged);
    named.find(fits).ok_or_else(|| ReplayError::Signature {
        name: name.clone(),
        logged: logged.to_string(),
        given: given.to_string(),
    })
}

/// What a number of the log stands for.
enum Object {
    Stream(Stream),
    Kernel(KernelHandle),
    Slice(Handle<u8>),
    Recording(Vec<Step>),
}

/// A readback that was asked for.
struct Asked {
    tag: Option<u64>,
    answer: Pending<Vec<Vec<u8>>>,
}

/// A log on its way to a device.
struct Replay<'a, F> {
    client: &'a ComputeClient,
    kernels: VecDeque<KernelHandle>,
    withdrawn: HashMap<u64, bool>,
    /// One for each that was logged: its number, priority and weight.
    clients: BTreeMap<(u32, usize, u32), ComputeClient>,
    objects: HashMap<u32, Object>,
    next: u32,
    asked: VecDeque<Asked>,
    digest: Digest,
    on_readback: F,
}

/// Why one entry cannot be submitted.
enum Stop {
    Broken(&'static str),
    Refused(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Refused(error)
    }
}

impl<F: FnMut(LoggedReadback)> Replay<'_, F> {
    fn submit(&mut self, number: u64, entry: Entry<'_>) -> Result<(), ReplayError> {
        self.submit_entry(number, entry).map_err(|stop| match stop {
            Stop::Broken(what) => ReplayError::Broken {
                entry: number,
                what,
            },
            Stop::Refused(error) => ReplayError::Refused {
                entry: number,
                error,
            },
        })
    }

    fn submit_entry(&mut self, number: u64, entry: Entry<'_>) -> Result<(), Stop> {
        let object = match entry {
            Entry::Stream {
                client,
                priority,
                weight,
            } => {
                let key = (client, priority as usize, weight);
                let made = || self.client.like(priority, weight);
                Object::Stream(self.clients.entry(key).or_insert_with(made).stream())
            }
            Entry::Kernel { .. } => match self.kernels.pop_front() {
                Some(kernel) => Object::Kernel(kernel),
                None => return Err(Stop::Broken("a kernel is not there")),
            },
            Entry::Recording { steps } => Object::Recording(steps),
            Entry::Slice {
                stream,
                bytes,
                mode,
            } => {
                let stream = self.stream(stream, number)?;
                Object::Slice(match mode {
                    None => Handle::whole(stream.reserve_bytes(true, bytes, None)?, bytes),
                    Some(mode) => {
                        let len = usize::try_from(bytes)
                            .map_err(|_| Stop::Broken("a slice is too large"))?;
                        stream.empty_with::<u8>(len, mode)?
                    }
                })
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
        };
        self.objects.insert(self.next, object);
        self.next += 1;
        Ok(())
    }

    fn submit_work(&mut self, stream: &Stream, work: Work<'_>, parts: &[Part]) -> Result<(), Stop> {
        match work {
            Work::Upload { bytes, layout } => {
                let [part] = parts else {
                    return Err(Stop::Broken("an upload has one binding"));
                };
                let access = match &layout {
                    None => Access::Write,
                    Some(_) => Access::ReadWrite,
                };
                let binding = Binding {
                    access,
                    ..self.binding(part)?
                };
                if dense_bytes(&binding, layout.as_ref())? != bytes.len() as u64 {
                    return Err(Stop::Broken(
                        "an upload has another length than its binding",
                    ));
                }
                stream.upload(true, binding, layout, bytes.len(), || bytes.into_owned())?;
            }
            Work::Readback { tag, layouts } => self.ask(stream, tag, layouts, parts)?,
            Work::Mark | Work::Gap(_) => {
                let bindings = parts.iter().map(|part| self.binding(part));
                let bindings = bindings.collect::<Result<Vec<_>, Stop>>()?;
                stream.submit(true, Op::Mark, |task| {
                    bindings
                        .into_iter()
                        .for_each(|binding| task.push_binding(binding));
                })?;
            }
            Work::Replay(recording) => {
                let Some(Object::Recording(steps)) = self.objects.remove(&recording) else {
                    return Err(Stop::Broken("there is no such recording"));
                };
                let outcome = steps.iter().try_for_each(|step| {
                    let inner = step.parts.iter().map(|part| within(parts, part));
                    let inner = inner.collect::<Result<Vec<_>, Stop>>()?;
                    self.submit_work(stream, step.work.clone(), &inner)
                });
                self.objects.insert(recording, Object::Recording(steps));
                outcome?;
            }
            Work::Launch {
                kernel,
                count,
                scalars,
                metadata,
            } => self.launch(stream, kernel, count, (&scalars, metadata), parts)?,
            Work::Copy => {
                let [source, target] = parts else {
                    return Err(Stop::Broken("a copy has two bindings"));
                };
                stream.copy(&self.view(source)?, &self.view(target)?)?;
            }
            Work::Fill(pattern) => {
                let [part] = parts else {
                    return Err(Stop::Broken("a fill has one binding"));
                };
                let binding = Binding {
                    access: Access::Write,
                    ..self.binding(part)?
                };
                stream.submit(true, Op::Fill(pattern), |task| task.push_binding(binding))?;
            }
        }
        Ok(())
    }

    fn launch(
        &self,
        stream: &Stream,
        kernel: u32,
        count: Count,
        (scalars, metadata): (&[u64], Vec<u32>),
        parts: &[Part],
    ) -> Result<(), Stop> {
        let Some(Object::Kernel(kernel)) = self.objects.get(&kernel) else {
            return Err(Stop::Broken("there is no such kernel"));
        };
        let (parts, count) = match (count, parts) {
            (Count::Static([x, y, z]), _) => (parts, CubeCount::Static(x, y, z)),
            (Count::Dynamic, [parts @ .., count]) => {
                let count = self
                    .view(count)?
                    .cast()
                    .map_err(|_| Stop::Broken("a count is no count"))?;
                (parts, CubeCount::Dynamic(count))
            }
            (Count::Dynamic, []) => return Err(Stop::Broken("a dynamic count is not there")),
        };
        let bound = |part: &Part| Ok((self.view(part)?, part.access));
        let bindings = parts.iter().map(bound).collect::<Result<Vec<_>, Stop>>()?;
        let signature = kernel.kernel().signature();
        if signature.scalar_words() != scalars.len() {
            return Err(Stop::Broken(
                "a launch has other scalars than its kernel declares",
            ));
        }
        let arguments = Logged {
            signature,
            bindings,
            scalars,
            metadata,
        };
        Ok(stream.launch(kernel, count, &arguments)?)
    }

    /// Asks for a readback; waits for the oldest one where enough are on their way.
    fn ask(
        &mut self,
        stream: &Stream,
        tag: Option<u64>,
        mut layouts: Vec<Option<Strided>>,
        parts: &[Part],
    ) -> Result<(), Stop> {
        if self.asked.len() >= READBACKS_AHEAD {
            self.answer_one();
        }
        layouts.resize(parts.len(), None);
        let mut typed = Vec::with_capacity(parts.len());
        let mut bindings = Vec::with_capacity(parts.len());
        for (part, layout) in parts.iter().zip(&layouts) {
            let binding = Binding {
                access: Access::Read,
                ..self.binding(part)?
            };
            let bytes = dense_bytes(&binding, layout.as_ref())?;
            typed.push(VecLanding::<u8>::new(bytes as usize).map_err(Error::Memory)?);
            bindings.push(binding);
        }
        let landings = typed
            .iter()
            .map(|landing| landing.clone() as Arc<dyn Landing>)
            .collect();
        let (sender, receiver) = reply();
        let copy = CopyOut {
            landings,
            reply: sender,
            tag,
        };
        let is_strided = layouts.iter().any(Option::is_some);
        stream.submit(true, Op::CopyOut(Box::new(copy)), |task| {
            bindings
                .into_iter()
                .for_each(|binding| task.push_binding(binding));
            if is_strided {
                task.extra.get_or_insert().layouts = layouts;
            }
        })?;
        let take = |landing: &Arc<VecLanding<u8>>| {
            // SAFETY: the answer calls this once, after the copies' point has passed.
            unsafe { landing.take() }
        };
        let finish = Finish::Made(Box::new(move || typed.iter().map(take).collect()));
        let answer = Pending::ticket(stream.home(), receiver, finish);
        self.asked.push_back(Asked { tag, answer });
        Ok(())
    }

    /// Waits for the oldest readback and hands it out, if there is one.
    fn answer_one(&mut self) -> bool {
        let Some(Asked { tag, answer }) = self.asked.pop_front() else {
            return false;
        };
        let bytes = answer.wait().map(|parts| parts.concat());
        self.digest = match &bytes {
            Ok(bytes) => self
                .digest
                .with(&(bytes.len() as u64).to_le_bytes())
                .with(bytes),
            Err(_) => self.digest.with(&u64::MAX.to_le_bytes()),
        };
        (self.on_readback)(LoggedReadback { tag, bytes });
        true
    }

    /// The stream of an entry, under the terms that withdraw what was withdrawn.
    fn stream(&self, stream: u32, entry: u64) -> Result<Stream, Stop> {
        let Some(Object::Stream(stream)) = self.objects.get(&stream) else {
            return Err(Stop::Broken("there is no such stream"));
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

    /// A part of a slice that lives, as a handle.
    fn view(&self, part: &Part) -> Result<Handle<u8>, Stop> {
        let Some(Object::Slice(slice)) = self.objects.get(&part.slice) else {
            return Err(Stop::Broken("there is no such slice"));
        };
        let end = part
            .offset
            .checked_add(part.len)
            .filter(|end| *end <= slice.size());
        let view = end.and_then(|end| slice.slice(part.offset as usize..end as usize).ok());
        view.ok_or(Stop::Broken("a binding ends past its slice"))
    }

    fn binding(&self, part: &Part) -> Result<Binding, Stop> {
        self.view(part).map(|view| view.binding(part.access))
    }
}

/// A part of a recording's parameter, as a part of the slice that the replay binds to it.
fn within(parameters: &[Part], part: &Part) -> Result<Part, Stop> {
    let parameter = parameters.get(part.slice as usize);
    let end = part.offset.checked_add(part.len);
    match (parameter, end) {
        (Some(parameter), Some(end)) if end <= parameter.len => Ok(Part {
            slice: parameter.slice,
            offset: parameter.offset.saturating_add(part.offset),
            ..*part
        }),
        _ => Err(Stop::Broken(
            "a recorded task touches more than its parameters",
        )),
    }
}

/// Bytes of a copy between the host and a binding with this layout.
fn dense_bytes(binding: &Binding, layout: Option<&Strided>) -> Result<u64, Stop> {
    let Some(layout) = layout else {
        return Ok(binding.len);
    };
    // Axes that lie on themselves could ask the host for any amount.
    match layout.extent_bytes() <= binding.len && layout.dense_bytes() <= binding.len {
        true => Ok(layout.dense_bytes()),
        false => Err(Stop::Broken("a layout is larger than its binding")),
    }
}
