//! One schedule of a case: binding, running, reading, comparing.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millstream::graph::{Outputs, Parts, Run, Schedule, ScheduleError, Size, Symbol};
use millstream::{Handle, Stream};

use crate::built::{Built, literal};
use crate::case::{Case, CaseError, Input, bytes, dtype};
use crate::expect::ExpectedArray;
use crate::rig;

/// A case that is ready to run, with any schedule.
pub(crate) struct Trial<'a> {
    pub(crate) case: &'a Case,
    pub(crate) built: Built,
    pub(crate) memory: Vec<Vec<u8>>,
    pub(crate) expected: Vec<ExpectedRun>,
    /// Symbols and scalars that the schedule does not know: none of its values depends on them.
    unknown: Mutex<HashSet<String>>,
    bound: Mutex<Bound>,
}

/// The buffers that a run binds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Bound {
    /// Inputs, of the size for the greatest lengths.
    #[default]
    Inputs,
    /// Inputs and outputs, of the size for the greatest lengths.
    All,
    /// Inputs and outputs, without a byte more than the lengths of the run need.
    Short,
}

/// The expected results of a run.
pub(crate) struct ExpectedRun {
    pub(crate) roots: Vec<ExpectedArray>,
    pub(crate) stored: Vec<(usize, ExpectedArray)>,
}

/// A description of a difference or failure.
pub(crate) type Failure = String;

/// The result of a submitted run: outputs and the bound memory, or a justified refusal.
pub(crate) enum RunResult {
    Done(Outputs, Vec<Handle<u8>>),
    Refused,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(case: &'a Case) -> Result<Self, CaseError> {
        let want = |run: &crate::case::Run| {
            let roots = run
                .roots
                .iter()
                .map(ExpectedArray::of)
                .collect::<Result<_, _>>()?;
            let stored = run.stored.iter();
            let stored = stored.map(|stored| Ok((stored.input, ExpectedArray::of(&stored.value)?)));
            let stored = stored.collect::<Result<_, CaseError>>()?;
            Ok(ExpectedRun { roots, stored })
        };
        Ok(Self {
            case,
            built: Built::of(case)?,
            memory: rig::memory(case)?,
            expected: case
                .runs
                .iter()
                .map(want)
                .collect::<Result<_, CaseError>>()?,
            unknown: Mutex::default(),
            bound: Mutex::default(),
        })
    }

    /// Returns a schedule of the roots.
    pub(crate) fn schedule(&self, parts: Parts) -> Result<Schedule, Failure> {
        let roots: Vec<_> = self.built.roots.iter().collect();
        Schedule::create_split(&roots, parts).map_err(|error| format!("create: {error}"))
    }

    /// Starts another schedule: clears the unknown arguments, and sets the buffers that its runs bind.
    pub(crate) fn start_schedule(&self, bound: Bound) {
        self.unknown().clear();
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner) = bound;
    }

    fn bound(&self) -> Bound {
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self) -> MutexGuard<'_, HashSet<String>> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits the run that `make` returns, with the lengths, scalars and inputs of a run bound.
    pub(crate) fn submit<'r>(
        &self,
        make: impl Fn() -> Run<'r>,
        index: usize,
        handles: Vec<Handle<u8>>,
        stream: &Stream,
    ) -> Result<RunResult, Failure> {
        let spec = &self.case.runs[index];
        // Arguments that the schedule does not know are found by trying: each attempt reports one.
        let unknown = self.built.symbols.len() + self.built.scalars.len() + self.built.roots.len();
        for _ in 0..=unknown {
            let mut run = make();
            for (symbol, length) in self.built.symbols.iter().zip(&spec.lengths) {
                if !self.unknown().contains(symbol.name()) {
                    run = run.length(symbol, *length);
                }
            }
            for (scalar, value) in self.built.scalars.iter().zip(&spec.scalars) {
                if let Some(value) = value
                    && !self.unknown().contains(scalar.name())
                {
                    run = run.scalar(scalar, literal(value).map_err(text_of)?);
                }
            }
            for (place, input) in self.built.inputs.iter().enumerate() {
                if run.takes(input) {
                    let mut range = self.range(&handles, place)?;
                    if self.bound() == Bound::Short {
                        range = range
                            .slice(..self.bytes_in(place, index))
                            .map_err(text_of)?;
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
                        Bound::Short => self.expected[index].roots[place].bytes(),
                        _ => elements.unwrap_or(0) as usize * root.dtype().size(),
                    };
                    let buffer = stream.create(&vec![0x41_u8; bytes]).map_err(text_of)?;
                    run = run.output(place, &buffer);
                }
            }
            match run.submit(stream) {
                Ok(outputs) => return Ok(RunResult::Done(outputs, handles)),
                Err(ScheduleError::UnknownArgument { name, .. }) => {
                    // Another thread may have found it meanwhile; the number of attempts is bounded.
                    self.unknown().insert(name);
                }
                Err(error) if self.may_be_refused() => {
                    let text = error.to_string();
                    if text.contains("fault") || text.contains("bug in the graph compiler") {
                        return Err(text);
                    }
                    return Ok(RunResult::Refused);
                }
                Err(error) => return Err(format!("submit: {error}")),
            }
        }
        Err("submit: too many unknown arguments".to_owned())
    }

    /// Returns the range of a handle that is an input.
    pub(crate) fn range(
        &self,
        handles: &[Handle<u8>],
        place: usize,
    ) -> Result<Handle<u8>, Failure> {
        let input = &self.case.inputs[place];
        let whole = &handles[input.handle];
        let range = input.start..input.start + input.bytes;
        if range.start == 0 && range.end as u64 == whole.size() {
            return Ok(whole.clone());
        }
        whole.slice(range).map_err(text_of)
    }

    /// Returns the number of bytes that a run needs of an input: all of them if the schedule does not know the lengths.
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

    /// Returns `true` if a run stores into an input that overlaps another.
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

    /// Returns the difference of a root of a run.
    pub(crate) fn root(
        &self,
        stream: &Stream,
        outputs: &Outputs,
        run: usize,
        root: usize,
    ) -> Result<Option<Failure>, millstream::Error> {
        let want = &self.expected[run].roots[root];
        let Some(output) = outputs.get(root) else {
            return Ok(Some("the output does not exist".to_owned()));
        };
        if output.dtype() != want.dtype || output.shape() != want.shape {
            let (dtype, shape) = (output.dtype(), output.shape());
            return Ok(Some(format!("has type {dtype} and shape {shape:?}")));
        }
        let bytes = stream.read(output.bytes()).wait()?;
        Ok(want.difference(&bytes))
    }

    /// Compares the roots and the memory of a run with the expected ones.
    pub(crate) fn compare(
        &self,
        stream: &Stream,
        outputs: &Outputs,
        handles: &[Handle<u8>],
        run: usize,
    ) -> Result<(), Failure> {
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

    /// Checks the memory of a handle after a run: stored values, and everything else unchanged.
    fn memory_is(&self, handle: usize, got: &[u8], run: usize) -> Result<(), Failure> {
        let mut is_stored = vec![false; got.len()];
        for (place, want) in &self.expected[run].stored {
            let input = &self.case.inputs[*place];
            if input.handle != handle {
                continue;
            }
            let elements: u64 = want.shape.iter().product();
            let range = input.start..input.start + elements as usize * want.dtype.size();
            let there = got.get(range.clone()).ok_or("the memory is too short")?;
            if let Some(what) = want.difference(there) {
                return Err(format!("input {place} has a wrong stored value: {what}"));
            }
            is_stored[range].fill(true);
        }
        let was = &self.memory[handle];
        let mut changed = (0..got.len()).filter(|at| !is_stored[*at] && got[*at] != was[*at]);
        match changed.next() {
            None => Ok(()),
            Some(at) => Err(format!("byte {at} changed, but no node stores there")),
        }
    }

    /// Returns other bytes than those of an input.
    pub(crate) fn garbage(&self, place: usize) -> Result<Vec<u8>, Failure> {
        let input = &self.case.inputs[place];
        let was = bytes(&self.case.handles[input.handle]).map_err(text_of)?;
        let was = was.get(input.start..input.start + input.bytes);
        let is_bool = dtype(&input.dtype).map_err(text_of)? == millstream::DType::Bool;
        let other = |byte: &u8| if is_bool { 1 - (byte & 1) } else { byte ^ 0x41 };
        Ok(was.unwrap_or_default().iter().map(other).collect())
    }
}

pub(crate) fn text_of(error: impl std::fmt::Display) -> Failure {
    error.to_string()
}
