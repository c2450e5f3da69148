//! Schedules in two, compiled: values that are made once of what is held, and runs that read them.
//!
//! What is prepared are ordinary handles, of buffers that nobody else has: several preparations live side by side, any number of
//! threads run with each of them, and the last one to let go frees it. Nothing is remembered behind anybody's back: who prepares
//! anew has new values, and runs with the old ones go on with those.

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

/// A schedule in two for one device: [prepared](Self::prepare) once of what is held, and [run](Self::run) any number of times, from any
/// thread. Cheap to clone.
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
    parts: Arc<Parts>,
}

struct Parts {
    first: CompiledSchedule,
    rest: CompiledSchedule,
    hold: Arc<Hold>,
}

/// What was made of what is held: values that runs read, and what else was bound. It keeps all of it; cheap to clone, to be used by any
/// thread at any time.
///
/// The values are those of the held inputs when it was made. A held input that runs read directly is not copied: who writes to
/// its buffer later has runs that read the new contents beside values that were made of the old. Prepare anew instead.
#[derive(Clone)]
pub struct Prepared {
    /// Of which schedule.
    parts: Arc<Parts>,
    made: Arc<Made>,
}

struct Made {
    values: SmallVec<[Handle<u8>; 4]>,
    /// In the order in which they are held.
    inputs: SmallVec<[Option<Handle<u8>>; 8]>,
    scalars: SmallVec<[(usize, u64); 4]>,
    lengths: SmallVec<[(Symbol, u64); 2]>,
}

/// A preparation that is being put together: what is held is bound, and then it is submitted.
#[must_use = "a preparation does nothing until it is submitted"]
pub struct Preparation<'a> {
    parts: &'a Arc<Parts>,
    inputs: SmallVec<[Option<Handle<u8>>; 8]>,
    scalars: SmallVec<[(usize, u64); 4]>,
    lengths: SmallVec<[(Symbol, u64); 2]>,
    error: Option<ScheduleError>,
}

impl HeldSchedule {
    /// Compiles both parts for the device of a client. May take long, and may wait for room in the mailbox.
    ///
    /// # Errors
    /// As [`Schedule::compile`](crate::Schedule::compile).
    pub fn compile(&self, client: &ComputeClient) -> Result<CompiledHeld, ScheduleError> {
        self.compile_with_cache(client, &GraphCache::default())
    }

    /// As [`HeldSchedule::compile`], with what was compiled before.
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
        let parts = Arc::new(Parts { first, rest, hold });
        Ok(CompiledHeld { parts })
    }
}

impl CompiledHeld {
    /// What is made once, as a schedule: how many tasks it is, what memory it takes.
    pub fn first(&self) -> &CompiledSchedule {
        &self.parts.first
    }

    /// What each run makes, as a schedule.
    pub fn rest(&self) -> &CompiledSchedule {
        &self.parts.rest
    }

    /// A preparation, to be bound and submitted.
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

    /// A run with what was prepared, to be bound and submitted.
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

impl Parts {
    /// A held input as the parts have it.
    fn inputs_of(&self, held: &LazyBuffer) -> impl Iterator<Item = &Input> {
        let of = |part: &'_ CompiledSchedule| part.names.memory.input(held);
        let places = [(&self.first, of(&self.first)), (&self.rest, of(&self.rest))];
        let inputs = places.into_iter();
        inputs.filter_map(|(part, place)| part.names.memory.inputs.get(place?))
    }
}

impl Preparation<'_> {
    /// Binds a held input, or another buffer than the one that the graph was made with.
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

    /// Gives a held scalar another value than its own.
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

    /// Says how long a held length is.
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

    /// Submits the preparation: one message, and one more for each value. May wait for room in the mailbox. Runs may be submitted
    /// at once, to any stream: they come after it.
    ///
    /// # Errors
    /// What was bound and is not held, or is missing; [`ScheduleError::Device`]. What goes wrong later reaches whoever reads the
    /// outputs of a run.
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
        first.let_go_of_temporaries();
        let made = Made {
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
    /// Its temporaries are freed once its runs have passed, and made again by the next one: it does not run often.
    fn let_go_of_temporaries(&self) {
        let arenas = &self.shared.arenas;
        let mut arenas = arenas.lock().unwrap_or_else(PoisonError::into_inner);
        let let_go: Vec<_> = arenas.iter_mut().map(Option::take).collect();
        drop(arenas);
        drop(let_go);
    }
}
