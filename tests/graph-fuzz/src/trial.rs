//! One schedule of a case: binding, running, reading, comparing.

use millstream::graph::{
    CompiledSchedule, GraphCache, Outputs, Parts, Schedule, ScheduleError, Size, Symbol,
};
use millstream::{Handle, Stream};

use crate::built::{Built, literal};
use crate::case::{Case, CaseError, Input, bytes, dtype};
use crate::expect::ExpectedArray;
use crate::rig::{self, Rig};

/// A case that is ready to run, with any schedule.
pub(crate) struct Trial<'a> {
    pub(crate) case: &'a Case,
    pub(crate) built: Built,
    pub(crate) memory: Vec<Vec<u8>>,
    pub(crate) expected: Vec<ExpectedRun>,
}

/// A schedule of a case, compiled for a device.
pub(crate) struct TrialSchedule<'a> {
    pub(crate) trial: &'a Trial<'a>,
    pub(crate) schedule: Schedule,
    compiled: CompiledSchedule,
    bound: Bound,
    /// The lengths and the names of the scalars that the schedule knows: on others none of its values depends.
    lengths: Vec<Symbol>,
    scalars: Vec<String>,
    /// Whether each root is computed into a buffer of its own.
    is_output: Vec<bool>,
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
        })
    }

    /// Schedules the roots and compiles them. `bound`: the buffers that runs bind.
    pub(crate) fn schedule(
        &self,
        rig: &Rig,
        parts: Parts,
        cache: &GraphCache,
        bound: Bound,
    ) -> Result<TrialSchedule<'_>, Failure> {
        let roots: Vec<_> = self.built.roots.iter().collect();
        let schedule = Schedule::create_split(&roots, parts);
        let schedule = schedule.map_err(|error| format!("create: {error}"))?;
        for program in schedule.items().iter().filter_map(|item| item.program()) {
            let checked = program.check();
            checked.map_err(|error| format!("invalid program: {error:?}"))?;
        }
        let compiled = schedule.compile_with_cache(&rig.device.new_client(), cache);
        let scalars = schedule.scalars();
        Ok(TrialSchedule {
            trial: self,
            compiled: compiled.map_err(|error| format!("compile: {error}"))?,
            bound,
            lengths: schedule.lengths(),
            scalars: scalars.iter().map(|it| it.name().to_owned()).collect(),
            is_output: schedule.outputs().map(|it| it.input.is_none()).collect(),
            schedule,
        })
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

    /// Returns `true` if a run stores into an input that overlaps another.
    fn may_be_refused(&self) -> bool {
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

impl TrialSchedule<'_> {
    /// Submits a run, with its lengths, scalars and inputs bound.
    pub(crate) fn submit(
        &self,
        index: usize,
        handles: Vec<Handle<u8>>,
        stream: &Stream,
    ) -> Result<RunResult, Failure> {
        let (trial, mut run) = (self.trial, self.compiled.run());
        let (built, spec) = (&trial.built, &trial.case.runs[index]);
        for (symbol, length) in built.symbols.iter().zip(&spec.lengths) {
            if self.lengths.contains(symbol) {
                run = run.length(symbol, *length);
            }
        }
        for (scalar, value) in built.scalars.iter().zip(&spec.scalars) {
            if let Some(value) = value
                && self.scalars.iter().any(|known| known == scalar.name())
            {
                run = run.scalar(scalar, literal(value).map_err(text_of)?);
            }
        }
        for (place, input) in built.inputs.iter().enumerate() {
            if run.takes(input) {
                let mut range = trial.range(&handles, place)?;
                if self.bound == Bound::Short {
                    let needed = self.bytes_in(place, index);
                    range = range.slice(..needed).map_err(text_of)?;
                }
                run = run.input(input, &range);
            }
        }
        for (place, root) in built.roots.iter().enumerate() {
            if self.bound != Bound::Inputs && self.is_output[place] {
                let elements = root.shape().elements().and_then(|elements| elements.max());
                let bytes = match self.bound {
                    Bound::Short => trial.expected[index].roots[place].bytes(),
                    _ => elements.unwrap_or(0) as usize * root.dtype().size(),
                };
                let buffer = stream.create(&vec![0x41_u8; bytes]).map_err(text_of)?;
                run = run.output(place, &buffer);
            }
        }
        match run.submit(stream) {
            Ok(outputs) => Ok(RunResult::Done(outputs, handles)),
            Err(
                ScheduleError::StoredInputOverlaps { .. } | ScheduleError::OutputOverlaps { .. },
            ) if trial.may_be_refused() => Ok(RunResult::Refused),
            Err(error) => Err(format!("submit: {error}")),
        }
    }

    /// Returns the number of bytes that a run needs of an input: all of them if the schedule does not know the lengths.
    fn bytes_in(&self, place: usize, run: usize) -> usize {
        let (built, lengths) = (&self.trial.built, &self.trial.case.runs[run].lengths);
        let length = |symbol: &Symbol| {
            let at = built.symbols.iter().position(|known| known == symbol);
            at.and_then(|at| lengths.get(at)).copied().unwrap_or(0)
        };
        let (shape, dtype) = (built.inputs[place].shape(), built.inputs[place].dtype());
        let mut of_shape = shape.iter().flat_map(Size::symbols);
        if of_shape.any(|symbol| !self.lengths.contains(symbol)) {
            return self.trial.case.inputs[place].bytes;
        }
        let lengths = shape
            .iter()
            .map(|size| size.at(&length).unwrap_or(0) as usize);
        lengths.product::<usize>() * dtype.size()
    }
}

pub(crate) fn text_of(error: impl std::fmt::Display) -> Failure {
    error.to_string()
}
