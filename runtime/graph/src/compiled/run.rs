//! One run of a compiled schedule: binds arguments, checks them, and submits the run.
//!
//! A [`Run`] is a builder. The first wrong binding is kept as an error, and later ones are ignored; `submit` returns
//! it. `submit` performs these steps, and each may fail before anything is replayed:
//!
//! 1. the value of each slot: scalars and sizes, from the bound lengths;
//! 2. outputs: a bound buffer must be large enough, any other is allocated (a message each);
//! 3. inputs: each is bound and large enough;
//! 4. overlaps: a stored buffer shares no byte with another one of the run ([`Run::check_overlaps`]);
//! 5. the arena of the stream, allocated at its first use;
//! 6. the replay: one message. From here on failures travel with the data (I7).

mod overlaps;

use std::sync::PoisonError;

use millstream_client::Stream;
use millstream_client::handle::Handle;
use millstream_protocol::{Element, Error};
use smallvec::SmallVec;

use crate::compiled::outputs::{Output, Outputs};
use crate::compiled::{CompiledSchedule, Slot};
use crate::elements::check_elements;
use crate::error::ScheduleError;
use crate::lazy::buffer::LazyBuffer;
#[cfg(feature = "tune")]
use crate::lazy::node::NodeId;
use crate::lazy::scalar::Scalar;
use crate::literal::Literal;
use crate::memory::{Extent, ParameterRole};
use crate::size::{Size, Symbol};

/// A run that is not submitted yet. Bind inputs, scalars, lengths and, optionally, outputs; then submit it.
#[must_use = "a run does nothing until it is submitted"]
pub struct Run<'a> {
    compiled: &'a CompiledSchedule,
    pub(super) inputs: SmallVec<[Option<Handle<u8>>; 8]>,
    pub(super) outputs: SmallVec<[Option<Handle<u8>>; 4]>,
    /// The places of the outputs that the run has allocated itself.
    allocated: SmallVec<[usize; 4]>,
    /// The slots of scalars, and their bits.
    scalars: SmallVec<[(u32, u64); 4]>,
    pub(super) lengths: SmallVec<[(Symbol, u64); 2]>,
    error: Option<ScheduleError>,
}

/// Views of the inputs that a run stores into and that have more bytes than its lengths need, with the indices of the
/// inputs, sorted by these.
type StoredParts = SmallVec<[(usize, Handle<u8>); 2]>;

impl CompiledSchedule {
    /// Returns a run without bindings.
    pub fn run(&self) -> Run<'_> {
        let memory = &self.names.memory;
        let inputs = memory.inputs.iter().map(|input| input.handle.clone());
        Run {
            compiled: self,
            inputs: inputs.collect(),
            outputs: memory.outputs.iter().map(|_| None).collect(),
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
        self.compiled.names.memory.input(input).is_some()
    }

    /// Binds an input, or replaces a buffer of the graph. The handle has elements of the input's type or bytes, and is
    /// large enough for the lengths of the run; the run does not access bytes beyond.
    pub fn input<T: Element>(mut self, input: &LazyBuffer, handle: &Handle<T>) -> Self {
        let name = || format!("{input:?}");
        if let Err(error) = check_elements::<T>(input.dtype(), name) {
            return self.refuse(error);
        }
        match self.compiled.names.memory.input(input) {
            Some(index) => {
                self.inputs[index] = Some(handle.as_bytes().clone());
                self
            }
            None => self.refuse(ScheduleError::unknown("input", name())),
        }
    }

    /// Sets a scalar for this run.
    pub fn scalar(mut self, scalar: &Scalar, value: impl Into<Literal>) -> Self {
        let slots = &self.compiled.names.slots;
        let Some(slot) = slots.of_scalars.get(&scalar.key()) else {
            return self.refuse(ScheduleError::unknown("scalar", scalar.name()));
        };
        let value = value.into();
        match value.bits(scalar.dtype()) {
            Some(bits) => {
                self.scalars.push((*slot, bits));
                self
            }
            None => self.refuse(ScheduleError::Scalar {
                name: scalar.name().to_owned(),
                expected: scalar.dtype(),
                given: value.to_string(),
            }),
        }
    }

    /// Sets a length for this run.
    pub fn length(mut self, symbol: &Symbol, length: u64) -> Self {
        if !self.compiled.names.symbols().any(|known| known == symbol) {
            return self.refuse(ScheduleError::unknown("length", symbol.name()));
        }
        if length > symbol.max() {
            return self.refuse(ScheduleError::Length {
                name: symbol.name().to_owned(),
                max: symbol.max(),
                given: length,
            });
        }
        self.lengths.push((symbol.clone(), length));
        self
    }

    /// Binds the buffer that a root is computed into, instead of allocating one. The handle has elements of the root's
    /// type or bytes, and is large enough for the lengths of the run. A root that is a new version of an input is in
    /// the buffer of that input and cannot be bound.
    pub fn output<T: Element>(mut self, root: usize, handle: &Handle<T>) -> Self {
        let found = self.compiled.names.memory.roots.get(root);
        match found.map(|root| (root.place, root.dtype)) {
            Some((ParameterRole::Output(index), dtype)) => {
                if let Err(error) = check_elements::<T>(dtype, || format!("root {root}")) {
                    return self.refuse(error);
                }
                self.outputs[index] = Some(handle.as_bytes().clone());
                self
            }
            _ => self.refuse(ScheduleError::unknown("output", format!("root {root}"))),
        }
    }

    /// Sets every length to its maximum.
    #[cfg(feature = "tune")]
    pub(crate) fn at_greatest(mut self) -> Self {
        let symbols = self.compiled.names.symbols();
        self.lengths = symbols
            .map(|symbol| (symbol.clone(), symbol.max()))
            .collect();
        self
    }

    /// Binds each input, and each buffer of the graph, to the buffer of its node.
    #[cfg(feature = "tune")]
    pub(crate) fn with_inputs(mut self, buffer: impl Fn(NodeId) -> Option<Handle<u8>>) -> Self {
        let inputs = self.compiled.names.memory.inputs.iter();
        self.inputs = inputs.map(|input| buffer(input.node)).collect();
        self
    }

    pub(super) fn refuse(mut self, error: ScheduleError) -> Self {
        self.error.get_or_insert(error);
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
            self.outputs[index] = None;
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
    pub(super) fn issue(&mut self, stream: &Stream) -> Result<(), ScheduleError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let span = tracing::trace_span!("run");
        let _entered = span.enter();
        let (shared, names) = (&*self.compiled.shared, &*self.compiled.names);
        let words = self.words()?;
        let outputs = names.memory.outputs.iter().zip(&mut self.outputs);
        for (index, (output, bound)) in outputs.enumerate() {
            let expected = bytes(&self.lengths, output)?;
            match bound {
                Some(handle) if handle.size() < expected => {
                    return Err(ScheduleError::OutputBytes {
                        root: self.compiled.root_of(index),
                        expected,
                        given: handle.size(),
                    });
                }
                Some(_) => {}
                None => {
                    *bound = Some(stream.empty::<u8>(expected as usize)?);
                    self.allocated.push(index);
                }
            }
        }
        let mut stored = StoredParts::new();
        let inputs = names.memory.inputs.iter().zip(&self.inputs);
        for (index, (input, bound)) in inputs.enumerate() {
            let expected = bytes(&self.lengths, &input.extent)?;
            match bound {
                Some(handle) if handle.size() >= expected => {
                    // The bytes behind those that the run stores into keep their content and its failures (I7).
                    let is_symbolic = input.extent.size.known().is_none();
                    if input.is_stored && is_symbolic && handle.size() > expected {
                        stored.push((index, first_bytes(handle, expected)?));
                    }
                }
                Some(handle) => {
                    return Err(ScheduleError::InputBytes {
                        name: input.name.to_string(),
                        expected,
                        given: handle.size(),
                    });
                }
                None => return Err(ScheduleError::unbound("input", &input.name)),
            }
        }
        self.check_overlaps()?;
        let arena = self.arena(stream)?;
        let mut bound: SmallVec<[(usize, &Handle<u8>); 8]> = SmallVec::new();
        for (index, place) in shared.parameters.iter().enumerate() {
            let handle = match place {
                ParameterRole::Input(input) => {
                    let part = stored.binary_search_by_key(input, |(index, _)| *index);
                    let whole = self.inputs[*input].as_ref();
                    part.map_or(whole, |part| Some(&stored[part].1))
                }
                ParameterRole::Output(output) => self.outputs[*output].as_ref(),
                ParameterRole::Arena => arena.as_ref(),
            };
            bound.extend(handle.map(|handle| (index, handle)));
        }
        if !shared.recording.is_empty() {
            shared.recording.replay_args(stream, &bound, &words)?;
        }
        Ok(())
    }

    /// Returns the values of the recording's slots.
    fn words(&self) -> Result<SmallVec<[u64; 16]>, ScheduleError> {
        let slots = &self.compiled.names.slots;
        let word = |slot: &Slot| match slot {
            Slot::Scalar(scalar) => Ok(scalar.bits()),
            Slot::Size(size) => self.value(size).map(|value| value as u64),
        };
        let words: Result<SmallVec<[u64; 16]>, _> = slots.all.iter().map(word).collect();
        let mut words = words?;
        // Of several values of one scalar the last counts.
        for (slot, bits) in &self.scalars {
            words[*slot as usize] = *bits;
        }
        Ok(words)
    }

    /// Returns the value of a size in this run.
    fn value(&self, size: &Size) -> Result<i64, ScheduleError> {
        value(&self.lengths, size)
    }

    /// Returns the memory for temporaries: the arena of this stream, of as many as the device has queues.
    fn arena(&self, stream: &Stream) -> Result<Option<Handle<u8>>, ScheduleError> {
        let shared = &*self.compiled.shared;
        if !shared.parameters.contains(&ParameterRole::Arena) {
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
        for root in &self.compiled.names.memory.roots {
            let lengths = root.shape.iter().map(|length| self.value(length));
            let lengths = lengths.map(|length| length.map(|length| length as u64));
            let shape = lengths.collect::<Result<SmallVec<[u64; 4]>, _>>()?;
            let handle = match root.place {
                ParameterRole::Input(index) => self.inputs[index].clone(),
                ParameterRole::Output(index) => self.outputs[index].clone(),
                ParameterRole::Arena => None,
            };
            let Some(whole) = handle else {
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
fn bytes(lengths: &[(Symbol, u64)], extent: &Extent) -> Result<u64, ScheduleError> {
    match value(lengths, &extent.size) {
        Ok(bytes) => Ok(bytes as u64),
        Err(ScheduleError::Unbound { .. }) => Ok(extent.bytes),
        Err(error) => Err(error),
    }
}
