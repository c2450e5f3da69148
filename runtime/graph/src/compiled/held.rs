//! Compiled schedules in two parts: values that are computed once from held inputs, and runs that read them.
//!
//! Prepared values are ordinary handles of buffers that only the [`Prepared`] has: several preparations coexist, any
//! number of threads run with each, and the last owner frees it. Nothing is cached implicitly: a new preparation has
//! new values, and runs with an old one keep using its values.
//!
//! ```text
//!  thread 1                                   thread 2
//!  p1 = prepare(w = weights 1).submit()
//!  run(p1)                                    run(p1)
//!  p2 = prepare(w = weights 2).submit()
//!  run(p2): values of weights 2               run(p1): values of weights 1
//!  drop(p1)                                   drop(p1): the last owner; frees the values after its runs (I4)
//! ```

use std::sync::{Arc, PoisonError};

use millstream_client::handle::Handle;
use millstream_client::{ComputeClient, Stream};
use millstream_protocol::element::Element;
use smallvec::SmallVec;

use crate::compiled::run::{Run, check_input, check_length, scalar_bits};
use crate::compiled::{CompiledSchedule, GraphCache};
use crate::elements::check_elements;
use crate::error::ScheduleError;
use crate::lazy::buffer::LazyBuffer;
use crate::lazy::scalar::Scalar;
use crate::literal::Literal;
use crate::memory::{Input, Source};
use crate::schedule::hold::{HeldSchedule, Hold};
use crate::size::Symbol;

/// A schedule in two parts, compiled for one device: [prepare](Self::prepare) it once for the held inputs, and
/// [run](Self::run) it any number of times, from any thread. Cheap to clone.
///
/// ```no_run
/// # use millstream_client::{ComputeClient, Stream};
/// # use millstream_client::handle::Handle;
/// # use millstream_graph::{DType, Graph, Hold, Schedule, ScheduleError};
/// # fn example(client: &ComputeClient, stream: &Stream, weights: Handle<f32>, photos: Vec<Handle<f32>>) -> Result<(), ScheduleError> {
/// let graph = Graph::new();
/// let x = graph.input("x", DType::F32, [8, 64]);
/// let w = graph.input("w", DType::F32, [64, 64]);
/// let y = x.matmul(&w.softmax(-1));
/// let compiled = Schedule::create_holding(&[&y], &Hold::new().inputs([&w]))?.compile(client)?;
///
/// let prepared = compiled.prepare().input(&w, &weights).submit(stream)?; // the softmax runs here,
/// for photo in &photos {
///     compiled.run(&prepared).input(&x, photo).submit(stream)?; // and the product alone here
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CompiledHeld {
    parts: Arc<HeldParts>,
}

struct HeldParts {
    first: CompiledSchedule,
    rest: CompiledSchedule,
    hold: Arc<Hold>,
}

/// The values that a preparation computed from held inputs, and its bindings. Cheap to clone; any thread may use it at
/// any time.
///
/// The values are those of the held inputs at the time of the preparation. A held input that runs read directly is not
/// copied: after a later write to its buffer, runs combine the new content with values of the old. Prepare anew
/// instead.
#[derive(Clone)]
pub struct Prepared {
    /// The schedule that it belongs to.
    parts: Arc<HeldParts>,
    made: Arc<PreparedValues>,
}

struct PreparedValues {
    values: SmallVec<[Handle<u8>; 4]>,
    /// In the order of [`Hold`].
    inputs: SmallVec<[Option<Handle<u8>>; 8]>,
    scalars: SmallVec<[(usize, u64); 4]>,
    lengths: SmallVec<[(Symbol, u64); 2]>,
}

/// A preparation that is not submitted yet. Bind the held inputs, scalars and lengths; then submit it.
#[must_use = "a preparation does nothing until it is submitted"]
pub struct Preparation<'a> {
    parts: &'a Arc<HeldParts>,
    inputs: SmallVec<[Option<Handle<u8>>; 8]>,
    scalars: SmallVec<[(usize, u64); 4]>,
    lengths: SmallVec<[(Symbol, u64); 2]>,
    error: Option<ScheduleError>,
}

impl HeldSchedule {
    /// Compiles both parts for the device of a client. May take long, and may block on a full mailbox.
    ///
    /// # Errors
    /// As [`Schedule::compile`](crate::Schedule::compile).
    pub fn compile(&self, client: &ComputeClient) -> Result<CompiledHeld, ScheduleError> {
        self.compile_with_cache(client, &GraphCache::default())
    }

    /// As [`HeldSchedule::compile`], with a cache.
    ///
    /// # Errors
    /// As [`Schedule::compile`](crate::Schedule::compile).
    pub fn compile_with_cache(
        &self,
        client: &ComputeClient,
        cache: &GraphCache,
    ) -> Result<CompiledHeld, ScheduleError> {
        let first = self.first().compile_with_cache(client, cache)?;
        let rest = self.rest().compile_with_cache(client, cache)?;
        let hold = self.hold.clone();
        let parts = Arc::new(HeldParts { first, rest, hold });
        Ok(CompiledHeld { parts })
    }
}

impl CompiledHeld {
    /// Returns the part that is computed once: its number of tasks, its memory.
    pub fn first(&self) -> &CompiledSchedule {
        &self.parts.first
    }

    /// Returns the part that each run computes.
    pub fn rest(&self) -> &CompiledSchedule {
        &self.parts.rest
    }

    /// Returns a preparation without bindings.
    pub fn prepare(&self) -> Preparation<'_> {
        let inputs = self.parts.hold.inputs.iter();
        let own = |held: &LazyBuffer| self.parts.inputs_of(held).find_map(|it| it.handle.clone());
        Preparation {
            parts: &self.parts,
            inputs: inputs.map(own).collect(),
            scalars: SmallVec::new(),
            lengths: SmallVec::new(),
            error: None,
        }
    }

    /// Returns a run that uses these prepared values.
    pub fn run<'a>(&'a self, prepared: &Prepared) -> Run<'a> {
        let (rest, hold, made) = (&self.parts.rest, &self.parts.hold, &prepared.made);
        let mut run = rest.run();
        if !Arc::ptr_eq(&self.parts, &prepared.parts) {
            return run.refuse(ScheduleError::ForeignPrepared);
        }
        let inputs = rest.names.memory.inputs.iter();
        for (input, bound) in inputs.zip(&mut run.inputs) {
            if let Source::Prepared(index) = input.source {
                *bound = made.values.get(index).cloned();
            }
        }
        for (held, handle) in hold.inputs.iter().zip(&made.inputs) {
            if let Some(index) = rest.names.memory.input(held) {
                run.inputs[index] = handle.clone();
            }
        }
        run.scalars.extend_from_slice(&made.scalars);
        run.lengths.extend(made.lengths.iter().cloned());
        run.held = Some(&**hold);
        run
    }
}

impl HeldParts {
    /// Returns a held input, in each part that has it.
    fn inputs_of(&self, held: &LazyBuffer) -> impl Iterator<Item = &Input> {
        let of = |part: &'_ CompiledSchedule| part.names.memory.input(held);
        let places = [(&self.first, of(&self.first)), (&self.rest, of(&self.rest))];
        let inputs = places.into_iter();
        inputs.filter_map(|(part, place)| part.names.memory.inputs.get(place?))
    }
}

impl Preparation<'_> {
    /// Binds a held input, or replaces a held buffer of the graph.
    pub fn input<T: Element>(mut self, input: &LazyBuffer, handle: &Handle<T>) -> Self {
        if let Err(error) = check_elements::<T>(input.dtype(), || format!("{input:?}")) {
            return self.refuse(error);
        }
        match self.parts.hold.place(input) {
            Some(index) => {
                self.inputs[index] = Some(handle.as_bytes().clone());
                self
            }
            None => self.not_held("input", format!("{input:?}")),
        }
    }

    /// Sets a held scalar.
    pub fn scalar(mut self, scalar: &Scalar, value: impl Into<Literal>) -> Self {
        if !self.parts.hold.has_scalar(scalar) {
            return self.not_held("scalar", scalar.name().to_owned());
        }
        match scalar_bits(scalar, value.into()) {
            Ok(bits) => {
                self.scalars.push((scalar.key(), bits));
                self
            }
            Err(error) => self.refuse(error),
        }
    }

    /// Sets a held length.
    pub fn length(mut self, symbol: &Symbol, length: u64) -> Self {
        if !self.parts.hold.has_length(symbol) {
            return self.not_held("length", symbol.name().to_owned());
        }
        match check_length(symbol, length) {
            Ok(()) => {
                self.lengths.push((symbol.clone(), length));
                self
            }
            Err(error) => self.refuse(error),
        }
    }

    fn not_held(self, what: &'static str, name: String) -> Self {
        self.refuse(ScheduleError::NotHeld { what, name })
    }

    fn refuse(mut self, error: ScheduleError) -> Self {
        self.error.get_or_insert(error);
        self
    }

    /// Submits the preparation: one message, and one for each value. May block on a full mailbox. Runs on any stream
    /// may be submitted at once: hazards order them after it.
    ///
    /// # Errors
    /// A binding that is not held or is missing; [`ScheduleError::Device`]. Later failures are returned to the readers
    /// of the outputs of a run.
    pub fn submit(mut self, stream: &Stream) -> Result<Prepared, ScheduleError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let hold = &*self.parts.hold;
        for (held, bound) in hold.inputs.iter().zip(&self.inputs) {
            for input in self.parts.inputs_of(held) {
                check_input(input, &self.lengths, bound.as_ref())?;
            }
        }
        let is_bound = |symbol: &&Symbol| !self.lengths.iter().any(|(known, _)| known == *symbol);
        if let Some(missing) = hold.lengths.iter().find(is_bound) {
            return Err(ScheduleError::Unbound {
                what: "length",
                name: missing.name().to_owned(),
            });
        }
        let first = &self.parts.first;
        let mut run = first.run();
        for (held, handle) in hold.inputs.iter().zip(&self.inputs) {
            if let Some(index) = first.names.memory.input(held) {
                run.inputs[index] = handle.clone();
            }
        }
        run.scalars.extend_from_slice(&self.scalars);
        run.lengths.extend(self.lengths.iter().cloned());
        run.issue(stream)?;
        first.release_temporaries();
        let made = PreparedValues {
            values: run.outputs.into_iter().flatten().collect(),
            inputs: self.inputs,
            scalars: self.scalars,
            lengths: self.lengths,
        };
        Ok(Prepared {
            parts: self.parts.clone(),
            made: Arc::new(made),
        })
    }
}

impl CompiledSchedule {
    /// Releases the memory of temporaries once its runs have passed. The next run allocates it again: this part runs
    /// rarely.
    fn release_temporaries(&self) {
        let arenas = &self.shared.arenas;
        let mut arenas = arenas.lock().unwrap_or_else(PoisonError::into_inner);
        let released: Vec<_> = arenas.iter_mut().map(Option::take).collect();
        drop(arenas);
        drop(released);
    }
}
