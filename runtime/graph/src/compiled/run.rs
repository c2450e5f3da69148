//! One run of a compiled schedule: binds arguments, checks them, and submits the run.
//!
//! A [`Run`] is a builder. The first wrong binding is kept as an error, and later ones are ignored; `submit` returns
//! it. `submit` performs these steps, and each may fail before anything is replayed:
//!
//! 1. the value of each slot: scalars and sizes, from the bound lengths;
//! 2. externals: a bound buffer must be large enough, and each input is bound; an output that is not is allocated (a
//!    message each);
//! 3. overlaps: a stored buffer shares no byte with another one of the run ([`Run::check_overlaps`]);
//! 4. the arena of the stream, allocated at its first use;
//! 5. the replay: one message. From here on failures travel with the data (I7).

mod overlaps;

use std::sync::PoisonError;

use millstream_client::Stream;
use millstream_client::handle::Handle;
use millstream_protocol::{Element, Error};
use smallvec::SmallVec;

use super::tensor::{Output, Outputs};
use crate::compiled::CompiledSchedule;
use crate::elements::check_elements;
use crate::error::ScheduleError;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::scalar::Scalar;
use crate::literal::Literal;
use crate::schedule::item::WordValue;
use crate::schedule::memory::External;
use crate::size::{Size, Symbol};

/// A run that is not submitted yet. Bind inputs, scalars, lengths and, optionally, outputs; then submit it.
#[must_use = "a run does nothing until it is submitted"]
pub struct Run<'a> {
    compiled: &'a CompiledSchedule,
    /// The buffer of each external.
    bound: SmallVec<[Option<Handle<u8>>; 12]>,
    /// The outputs that the run has allocated itself.
    allocated: SmallVec<[usize; 4]>,
    /// The slots of scalars, and their bits.
    scalars: SmallVec<[(u32, u64); 4]>,
    lengths: SmallVec<[(Symbol, u64); 2]>,
    error: Option<ScheduleError>,
}

impl CompiledSchedule {
    /// Returns a run without bindings.
    pub fn run(&self) -> Run<'_> {
        let externals = self.steps.memory.externals.iter();
        let bound = externals.map(|external| self.steps.node(external.node).handle().cloned());
        Run {
            compiled: self,
            bound: bound.collect(),
            allocated: SmallVec::new(),
            scalars: SmallVec::new(),
            lengths: SmallVec::new(),
            error: None,
        }
    }
}

impl Run<'_> {
    /// Returns `true` if a run binds this input. An input that no item uses is not bound by a run.
    pub fn takes(&self, input: &LazyBuffer) -> bool {
        self.compiled.steps.input(input).is_some()
    }

    /// Sets one argument. Keeps the first error.
    fn set(mut self, set: impl FnOnce(&mut Self) -> Result<(), ScheduleError>) -> Self {
        if let Err(error) = set(&mut self) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// Binds an input, or replaces a buffer of the graph. The handle has elements of the input's type or bytes, and is
    /// large enough for the lengths of the run; the run does not access bytes beyond.
    pub fn input<T: Element>(self, input: &LazyBuffer, handle: &Handle<T>) -> Self {
        self.set(|run| {
            let name = || format!("{input:?}");
            check_elements::<T>(input.dtype(), name)?;
            let index = run.compiled.steps.input(input);
            let index = index.ok_or_else(|| ScheduleError::unknown("input", name()))?;
            run.bound[index] = Some(handle.as_bytes().clone());
            Ok(())
        })
    }

    /// Sets a scalar for this run.
    pub fn scalar(self, scalar: &Scalar, value: impl Into<Literal>) -> Self {
        self.set(|run| {
            let slot = run.compiled.steps.slots.scalar(scalar);
            let slot = slot.ok_or_else(|| ScheduleError::unknown("scalar", scalar.name()))?;
            let value = value.into();
            let bits = value
                .bits(scalar.dtype())
                .ok_or_else(|| ScheduleError::Scalar {
                    name: scalar.name().to_owned(),
                    expected: scalar.dtype(),
                    given: value.to_string(),
                })?;
            run.scalars.push((slot, bits));
            Ok(())
        })
    }

    /// Sets a length for this run.
    pub fn length(self, symbol: &Symbol, length: u64) -> Self {
        self.set(|run| {
            if !run.compiled.steps.symbols().any(|known| known == symbol) {
                return Err(ScheduleError::unknown("length", symbol.name()));
            }
            if length > symbol.max() {
                return Err(ScheduleError::Length {
                    name: symbol.name().to_owned(),
                    max: symbol.max(),
                    given: length,
                });
            }
            run.lengths.push((symbol.clone(), length));
            Ok(())
        })
    }

    /// Binds the buffer that a root is computed into, instead of allocating one. The handle has elements of the root's
    /// type or bytes, and is large enough for the lengths of the run. A root that is a new version of an input is in
    /// the buffer of that input and cannot be bound.
    pub fn output<T: Element>(self, root: usize, handle: &Handle<T>) -> Self {
        self.set(|run| {
            let (steps, name) = (&run.compiled.steps, || format!("root {root}"));
            let external = steps.memory.roots.get(root).copied();
            let output = external.filter(|index| !steps.memory.externals[*index].is_input);
            let output = output.ok_or_else(|| ScheduleError::unknown("output", name()))?;
            check_elements::<T>(steps.node(steps.roots[root]).dtype, name)?;
            run.bound[output] = Some(handle.as_bytes().clone());
            Ok(())
        })
    }

    /// Sets every length to its maximum.
    #[cfg(feature = "tune")]
    pub(crate) fn at_greatest(mut self) -> Self {
        let symbols = self.compiled.steps.symbols();
        self.lengths = symbols
            .map(|symbol| (symbol.clone(), symbol.max()))
            .collect();
        self
    }

    /// Binds each input, and each buffer of the graph, to the buffer of its node, which is named by when it was written.
    #[cfg(feature = "tune")]
    pub(crate) fn with_inputs(mut self, buffer: impl Fn(u64) -> Option<Handle<u8>>) -> Self {
        let steps = &self.compiled.steps;
        for (external, bound) in steps.memory.externals.iter().zip(&mut self.bound) {
            *bound = buffer(steps.node(external.node).written).filter(|_| external.is_input);
        }
        self
    }

    /// Submits the run: one message, and one for each output that is not bound. May block on a full mailbox.
    ///
    /// # Errors
    /// An unknown or a missing binding; [`ScheduleError::Device`]. Later failures are returned to the readers of the
    /// outputs.
    pub fn submit(mut self, stream: &Stream) -> Result<Outputs, ScheduleError> {
        self.try_submit(stream)
    }

    /// As [`Run::submit`], for a stream whose calls do not block ([`Stream::nowait`]): after
    /// [`Error::Busy`] the run keeps the outputs that it has allocated, and the next attempt continues with them. After
    /// a success the run has its bindings and no allocated outputs, and may be submitted again.
    pub fn try_submit(&mut self, stream: &Stream) -> Result<Outputs, ScheduleError> {
        self.issue(stream)?;
        let results = self.results();
        for index in self.allocated.drain(..) {
            self.bound[index] = None;
        }
        results
    }

    /// Submits the run once there is room for it: the async variant of [`Run::submit`], as [`Stream::when_ready`] is for
    /// a call. Outputs that are allocated stay allocated during the wait, so each attempt makes progress.
    ///
    /// ```
    /// # use millstream_client::{Stream, handle::Handle};
    /// # use millstream_graph::{CompiledSchedule, LazyBuffer, ScheduleError};
    /// async fn step(
    ///     compiled: &CompiledSchedule,
    ///     stream: &Stream,
    ///     x: &LazyBuffer,
    ///     photo: &Handle<f32>,
    /// ) -> Result<Vec<f32>, ScheduleError> {
    ///     let outputs = compiled.run().input(x, photo).submit_when_ready(stream).await?;
    ///     Ok(outputs[0].read::<f32>(stream)?.await?)
    /// }
    /// ```
    pub async fn submit_when_ready(mut self, stream: &Stream) -> Result<Outputs, ScheduleError> {
        let attempt = |stream: &Stream| match self.try_submit(stream) {
            Err(ScheduleError::Device(busy @ Error::Busy { .. })) => Err(busy),
            outcome => Ok(outcome),
        };
        stream.when_ready(attempt).await?
    }

    /// Submits the run. Afterwards all outputs are bound.
    fn issue(&mut self, stream: &Stream) -> Result<(), ScheduleError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let span = tracing::trace_span!("run");
        let _entered = span.enter();
        let (shared, steps) = (&*self.compiled.shared, &*self.compiled.steps);
        let words = self.words()?;
        // Views of the inputs that the run stores into and that have more bytes than its lengths need.
        let mut stored: SmallVec<[(usize, Handle<u8>); 2]> = SmallVec::new();
        for (index, external) in steps.memory.externals.iter().enumerate() {
            let expected = bytes(&self.lengths, external)?;
            match &self.bound[index] {
                Some(handle) if handle.size() < expected => {
                    return Err(self.too_small(index, expected, handle.size()));
                }
                Some(handle) => {
                    // The bytes behind those that the run stores into keep their content and its failures (I7).
                    let is_stored_input = external.is_input && external.is_stored;
                    let is_symbolic = external.size.known().is_none();
                    if is_stored_input && is_symbolic && handle.size() > expected {
                        stored.push((index, first_bytes(handle, expected)?));
                    }
                }
                None if external.is_input => {
                    return Err(ScheduleError::unbound("input", &self.name(index)));
                }
                None => {
                    self.bound[index] = Some(stream.empty::<u8>(expected as usize)?);
                    self.allocated.push(index);
                }
            }
        }
        self.check_overlaps()?;
        let arena = self.arena(stream)?;
        let handle = |parameter: &usize| match stored.iter().find(|(index, _)| index == parameter) {
            Some((_, part)) => Some(part),
            None => self.bound.get(*parameter).unwrap_or(&arena).as_ref(),
        };
        let handles = shared.parameters.iter().map(handle).enumerate();
        let bound = handles.filter_map(|(index, handle)| Some((index, handle?)));
        let bound: SmallVec<[(usize, &Handle<u8>); 8]> = bound.collect();
        if !shared.recording.is_empty() {
            shared.recording.replay_args(stream, &bound, &words)?;
        }
        Ok(())
    }

    /// Returns the error for a buffer of too few bytes.
    #[cold]
    fn too_small(&self, external: usize, expected: u64, given: u64) -> ScheduleError {
        let name = self.name(external);
        match self.compiled.steps.memory.externals[external].is_input {
            true => ScheduleError::InputBytes {
                name,
                expected,
                given,
            },
            false => ScheduleError::OutputBytes {
                root: self.root_of(external),
                expected,
                given,
            },
        }
    }

    /// Returns the name of an input.
    #[cold]
    fn name(&self, external: usize) -> String {
        let steps = &self.compiled.steps;
        let node = steps.node(steps.memory.externals[external].node);
        node.input_name()
            .map_or_else(String::new, |name| name.to_string())
    }

    /// Returns the first root that is computed into an output.
    fn root_of(&self, output: usize) -> usize {
        let mut roots = self.compiled.steps.memory.roots.iter();
        roots.position(|root| *root == output).unwrap_or(output)
    }

    /// Returns the values of the recording's slots.
    fn words(&self) -> Result<SmallVec<[u64; 16]>, ScheduleError> {
        let word = |slot: &WordValue| match slot {
            WordValue::Bits(bits) => Ok(*bits),
            WordValue::Scalar(scalar) => Ok(scalar.bits()),
            WordValue::Size(size) => value(&self.lengths, size).map(|value| value as u64),
        };
        let slots = self.compiled.steps.slots.all.iter();
        let mut words = slots
            .map(word)
            .collect::<Result<SmallVec<[u64; 16]>, _>>()?;
        // Of several values of one scalar the last counts.
        for (slot, bits) in &self.scalars {
            words[*slot as usize] = *bits;
        }
        Ok(words)
    }

    /// Returns the memory for temporaries: the arena of this stream, of as many as the device has queues.
    fn arena(&self, stream: &Stream) -> Result<Option<Handle<u8>>, ScheduleError> {
        let shared = &*self.compiled.shared;
        let arena = self.bound.len();
        if !shared.parameters.contains(&arena) {
            return Ok(None);
        }
        let bytes = shared.temporary_bytes.max(1);
        let arenas = || shared.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        let index = stream.id().map_or(0, |id| id.index() as usize);
        let turn = index % arenas().len();
        if let Some(arena) = &arenas()[turn] {
            return Ok(Some(arena.clone()));
        }
        // Allocate without the lock, since this may block, and on a stream of its own, since the run's stream may be
        // withdrawn. If two threads allocate at the same time, both use the first.
        let own = shared.client.new_stream();
        let own = if stream.waits() { own } else { own.nowait() };
        let made = own.empty::<u8>(bytes as usize)?;
        Ok(Some(arenas()[turn].get_or_insert(made).clone()))
    }

    fn results(&self) -> Result<Outputs, ScheduleError> {
        let mut all = SmallVec::new();
        let steps = &self.compiled.steps;
        for (root, external) in steps.roots.iter().zip(&steps.memory.roots) {
            let root = steps.node(*root);
            let lengths = root.shape.iter().map(|length| value(&self.lengths, length));
            let lengths = lengths.map(|length| length.map(|length| length as u64));
            let shape = lengths.collect::<Result<SmallVec<[u64; 4]>, _>>()?;
            let Some(whole) = self.bound[*external].clone() else {
                continue;
            };
            let bytes = shape.iter().product::<u64>() * root.dtype.size() as u64;
            let handle = if whole.size() == bytes {
                whole
            } else {
                first_bytes(&whole, bytes)?
            };
            all.push(Output {
                handle,
                dtype: root.dtype,
                shape,
            });
        }
        Ok(Outputs { all })
    }
}

/// Returns a view of the first bytes of a buffer.
fn first_bytes(handle: &Handle<u8>, bytes: u64) -> Result<Handle<u8>, ScheduleError> {
    let view = handle.slice(..bytes as usize);
    view.map_err(|why| ScheduleError::Device(why.of("run").into()))
}

/// Returns the value of a size with these lengths; of several values of one length the last counts.
fn value(lengths: &[(Symbol, u64)], size: &Size) -> Result<i64, ScheduleError> {
    if let Some(value) = size.known() {
        return Ok(value);
    }
    let given = |symbol: &Symbol| lengths.iter().rev().find(|(known, _)| known == symbol);
    if let Some(missing) = size.symbols().find(|symbol| given(symbol).is_none()) {
        return Err(ScheduleError::unbound("length", missing.name()));
    }
    let value = size.at(&|symbol| given(symbol).map_or(0, |(_, length)| *length));
    value.ok_or_else(|| ScheduleError::TooLarge(size.to_string()))
}

/// Returns the number of bytes of a buffer with these lengths, or the most if a length is missing.
fn bytes(lengths: &[(Symbol, u64)], external: &External) -> Result<u64, ScheduleError> {
    match value(lengths, &external.size) {
        Ok(bytes) => Ok(bytes as u64),
        Err(ScheduleError::Unbound { .. }) => Ok(external.bytes),
        Err(error) => Err(error),
    }
}
