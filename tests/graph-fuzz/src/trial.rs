//! One schedule of a case: bound, run, read and compared.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millstream::graph::{Outputs, Run, ScheduleError, Size, Symbol};
use millstream::{Handle, Stream};

use crate::built::{Built, literal};
use crate::case::{Case, CaseError, Input, bytes, dtype};
use crate::expect::Want;
use crate::rig;

/// A case that is ready to be run, in any schedule.
pub(crate) struct Trial<'a> {
    pub(crate) case: &'a Case,
    pub(crate) built: Built,
    pub(crate) memory: Vec<Vec<u8>>,
    pub(crate) wants: Vec<Wants>,
    /// Symbols and scalars that a schedule does not know: nothing that it computes depends on them.
    unknown: Mutex<HashSet<String>>,
    bound: Mutex<Bound>,
}

/// What runs bind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Bound {
    /// Inputs, with room for the greatest lengths.
    #[default]
    Inputs,
    /// Buffers for what comes out as well, with room for the greatest lengths.
    All,
    /// The same, with no byte more than the lengths of the run need.
    Short,
}

/// What must come out of a run.
pub(crate) struct Wants {
    pub(crate) roots: Vec<Want>,
    pub(crate) stored: Vec<(usize, Want)>,
}

/// What is wrong, as a sentence.
pub(crate) type Wrong = String;

/// How a run ended: with outputs and the memory that was bound, or refused with reason.
pub(crate) enum Ran {
    Done(Outputs, Vec<Handle<u8>>),
    Refused,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(case: &'a Case) -> Result<Self, CaseError> {
        let want = |run: &crate::case::Run| {
            let roots = run.roots.iter().map(Want::of).collect::<Result<_, _>>()?;
            let stored = run.stored.iter();
            let stored = stored.map(|stored| Ok((stored.input, Want::of(&stored.value)?)));
            let stored = stored.collect::<Result<_, CaseError>>()?;
            Ok(Wants { roots, stored })
        };
        Ok(Self {
            case,
            built: Built::of(case)?,
            memory: rig::memory(case)?,
            wants: case
                .runs
                .iter()
                .map(want)
                .collect::<Result<_, CaseError>>()?,
            unknown: Mutex::default(),
            bound: Mutex::default(),
        })
    }

    /// Another schedule follows, with other unknowns, and whose runs bind this.
    pub(crate) fn forget(&self, bound: Bound) {
        self.unknown().clear();
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner) = bound;
    }

    fn bound(&self) -> Bound {
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self) -> MutexGuard<'_, HashSet<String>> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits what `make` makes, with the lengths, scalars and inputs of a run bound, but for those that are held.
    pub(crate) fn submit<'r>(
        &self,
        make: impl Fn() -> Run<'r>,
        index: usize,
        handles: Vec<Handle<u8>>,
        stream: &Stream,
        held: &Held,
    ) -> Result<Ran, Wrong> {
        let said = &self.case.runs[index];
        // What a schedule does not know is found by asking.
        let unknown = self.built.symbols.len() + self.built.scalars.len() + self.built.roots.len();
        for _ in 0..=unknown {
            let mut run = make();
            for (at, (symbol, length)) in self.built.symbols.iter().zip(&said.lengths).enumerate() {
                if !self.unknown().contains(symbol.name()) && !held.lengths.contains(&at) {
                    run = run.length(symbol, *length);
                }
            }
            for (at, (scalar, value)) in self.built.scalars.iter().zip(&said.scalars).enumerate() {
                if let Some(value) = value
                    && !self.unknown().contains(scalar.name())
                    && !held.scalars.contains(&at)
                {
                    run = run.scalar(scalar, literal(value).map_err(told)?);
                }
            }
            for (place, input) in self.built.inputs.iter().enumerate() {
                if run.takes(input) && !held.inputs.contains(&place) {
                    let mut range = self.range(&handles, place)?;
                    if self.bound() == Bound::Short {
                        range = range.slice(..self.bytes_in(place, index)).map_err(told)?;
                    }
                    run = run.input(input, &range);
                }
            }
            for (place, root) in self.built.roots.iter().enumerate() {
                if self.bound() != Bound::Inputs
                    && !self.unknown().contains(&format!("root {place}"))
                {
                    let elements = root.shape().elements().and_then(|elements| elements.max());
                    let bytes = match self.bound() {
                        Bound::Short => self.wants[index].roots[place].bytes(),
                        _ => elements.unwrap_or(0) as usize * root.dtype().size(),
                    };
                    let buffer = stream.create(&vec![0x41_u8; bytes]).map_err(told)?;
                    run = run.output(place, &buffer);
                }
            }
            match run.submit(stream) {
                Ok(outputs) => return Ok(Ran::Done(outputs, handles)),
                Err(ScheduleError::UnknownArgument { name, .. }) => {
                    // Another thread may have found it meanwhile; how often it is asked is bounded.
                    self.unknown().insert(name);
                }
                Err(error) if self.may_be_refused() => {
                    if error.to_string().contains("fault") {
                        return Err(error.to_string());
                    }
                    return Ok(Ran::Refused);
                }
                Err(error) => return Err(format!("submit: {error}")),
            }
        }
        Err("submit: too many unknown arguments".to_owned())
    }

    /// The range of a handle that an input is.
    pub(crate) fn range(&self, handles: &[Handle<u8>], place: usize) -> Result<Handle<u8>, Wrong> {
        let input = &self.case.inputs[place];
        let whole = &handles[input.handle];
        let range = input.start..input.start + input.bytes;
        if range.start == 0 && range.end as u64 == whole.size() {
            return Ok(whole.clone());
        }
        whole.slice(range).map_err(told)
    }

    /// The bytes that a run needs of an input: all of them if it does not know the lengths.
    fn bytes_in(&self, place: usize, run: usize) -> usize {
        let (input, lengths) = (&self.built.inputs[place], &self.case.runs[run].lengths);
        let symbols = &self.built.symbols;
        let length = |symbol: &Symbol| {
            let at = symbols.iter().position(|known| known == symbol);
            at.and_then(|at| lengths.get(at)).copied().unwrap_or(0)
        };
        let shape = input.shape();
        let mut of_shape = shape.iter().flat_map(Size::symbols);
        if of_shape.any(|symbol| self.unknown().contains(symbol.name())) {
            return self.case.inputs[place].bytes;
        }
        let lengths = shape
            .iter()
            .map(|size| size.at(&length).unwrap_or(0) as usize);
        lengths.product::<usize>() * input.dtype().size()
    }

    /// Does a run store into an input that lies over another?
    pub(crate) fn may_be_refused(&self) -> bool {
        let is_stored = |place: usize| {
            let runs = self.case.runs.iter();
            let mut stored = runs.flat_map(|run| run.stored.iter());
            stored.any(|stored| stored.input == place)
        };
        let overlaps = |a: &Input, b: &Input| {
            let (a_end, b_end) = (a.start + a.bytes, b.start + b.bytes);
            a.handle == b.handle && a.start < b_end && b.start < a_end
        };
        let inputs = self.case.inputs.iter().enumerate();
        inputs
            .filter(|(place, _)| is_stored(*place))
            .any(|(place, input)| {
                let mut others = self.case.inputs.iter().enumerate();
                others.any(|(other, it)| other != place && overlaps(input, it))
            })
    }

    /// What is wrong with a root of a run.
    pub(crate) fn root(
        &self,
        stream: &Stream,
        outputs: &Outputs,
        run: usize,
        root: usize,
    ) -> Result<Option<Wrong>, millstream::Error> {
        let want = &self.wants[run].roots[root];
        let Some(output) = outputs.get(root) else {
            return Ok(Some("there is no output".to_owned()));
        };
        if output.dtype() != want.dtype || output.shape() != want.shape {
            let (dtype, shape) = (output.dtype(), output.shape());
            return Ok(Some(format!("is {dtype} {shape:?}")));
        }
        let bytes = stream.read(output.bytes()).wait()?;
        Ok(want.misfit(&bytes))
    }

    /// What is wrong with the memory of an input after a run, beyond what may have been stored into it.
    pub(crate) fn compare(
        &self,
        stream: &Stream,
        outputs: &Outputs,
        handles: &[Handle<u8>],
        run: usize,
    ) -> Result<(), Wrong> {
        for root in 0..self.case.roots.len() {
            match self.root(stream, outputs, run, root) {
                Ok(None) => {}
                Ok(Some(what)) => return Err(format!("run {run} root {root}: {what}")),
                Err(error) => return Err(format!("run {run} root {root}: {error}")),
            }
        }
        for (index, handle) in handles.iter().enumerate() {
            let bytes = stream.read(handle).wait();
            let got = bytes.map_err(|error| format!("run {run} memory {index}: {error}"))?;
            self.memory_is(index, &got, run)
                .map_err(|what| format!("run {run} memory {index}: {what}"))?;
        }
        Ok(())
    }

    /// Stored values, and all else as it was.
    fn memory_is(&self, handle: usize, got: &[u8], run: usize) -> Result<(), Wrong> {
        let mut free = vec![false; got.len()];
        for (place, want) in &self.wants[run].stored {
            let input = &self.case.inputs[*place];
            if input.handle != handle {
                continue;
            }
            let elements: u64 = want.shape.iter().product();
            let range = input.start..input.start + elements as usize * want.dtype.size();
            let there = got.get(range.clone()).ok_or("it is too short")?;
            if let Some(what) = want.misfit(there) {
                return Err(format!(
                    "input {place} was not stored to as it should be: {what}"
                ));
            }
            free[range].fill(true);
        }
        let was = &self.memory[handle];
        let mut changed = (0..got.len()).filter(|at| !free[*at] && got[*at] != was[*at]);
        match changed.next() {
            None => Ok(()),
            Some(at) => Err(format!("byte {at} changed, and nothing stores there")),
        }
    }

    /// Other bytes in the place of an input's.
    pub(crate) fn garbage(&self, place: usize) -> Result<Vec<u8>, Wrong> {
        let input = &self.case.inputs[place];
        let was = bytes(&self.case.handles[input.handle]).map_err(told)?;
        let was = was.get(input.start..input.start + input.bytes);
        let is_bool = dtype(&input.dtype).map_err(told)? == millstream::DType::Bool;
        let other = |byte: &u8| if is_bool { 1 - (byte & 1) } else { byte ^ 0x41 };
        Ok(was.unwrap_or_default().iter().map(other).collect())
    }
}

/// What was bound before a run.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) inputs: Vec<usize>,
    pub(crate) lengths: Vec<usize>,
    pub(crate) scalars: Vec<usize>,
}

pub(crate) fn told(error: impl std::fmt::Display) -> Wrong {
    error.to_string()
}
