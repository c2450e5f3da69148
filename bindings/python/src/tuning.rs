//! The tuner: measures several ways to do the same work, and remembers the fastest for each key.
//!
//! Candidates are functions of Python. A tuning calls them on the thread of the caller, which is detached while the tuner
//! measures and waits. A key is the text of a JSON value: its set's name and the caller's key.
//!
//! Each call brings the functions. The set of the runtime has only their names: a cycle of objects through it would be
//! invisible to Python's collector.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream::tune::{
    Effort, FileStore, Identity, Loaded, Policy, StreamClock, Tunable, TunableSet,
};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyTuple};

use crate::device::Device;
use crate::errors::{argument_error, named};
use crate::metrics::dict;
use crate::options::{given, named_option};
use crate::stream::Stream;

/// What candidates receive.
type Inputs = Arc<Call>;

struct Call {
    stream: Py<Stream>,
    /// The caller's key.
    key: Py<PyAny>,
    /// The arguments, or why there are none.
    arguments: Result<Py<PyTuple>, String>,
    tuning: Arc<Tuning>,
}

/// What the calls of one tuning share.
struct Tuning {
    /// The function that makes the arguments of trials.
    inputs: Py<PyAny>,
    candidates: Vec<Py<PyAny>>,
    /// The exception of the last candidate that failed; or one that ends the tuning, such as `KeyboardInterrupt`.
    raised: Mutex<Option<(PyErr, bool)>>,
}

impl Tuning {
    fn locked(&self) -> MutexGuard<'_, Option<(PyErr, bool)>> {
        // A panic cannot leave the value in a bad state.
        self.raised.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an exception, and returns it as text.
    fn keep(&self, py: Python<'_>, error: PyErr) -> String {
        let text = error.to_string();
        let is_fatal = !error.is_instance_of::<PyException>(py);
        let mut kept = self.locked();
        let before = match is_fatal || !matches!(*kept, Some((_, true))) {
            true => kept.replace((error, is_fatal)),
            false => Some((error, is_fatal)),
        };
        // The lock first: dropping an exception may run code of Python, which may come here again.
        drop(kept);
        drop(before);
        text
    }

    fn has_fatal(&self) -> bool {
        matches!(*self.locked(), Some((_, true)))
    }
}

impl Call {
    /// Makes the inputs of trials: as `self`, with other arguments.
    fn for_trials(&self) -> Inputs {
        Python::attach(|py| {
            let made = self.tuning.inputs.call1(py, (&self.stream, &self.key));
            let made = made.and_then(|made| Ok(made.extract::<Py<PyTuple>>(py)?));
            let failed = |error| format!("its inputs: {}", self.tuning.keep(py, error));
            Arc::new(Self {
                stream: self.stream.clone_ref(py),
                key: self.key.clone_ref(py),
                arguments: made.map_err(failed),
                tuning: self.tuning.clone(),
            })
        })
    }

    /// Calls a candidate.
    fn run(&self, candidate: usize) -> Result<Py<PyAny>, String> {
        if self.tuning.has_fatal() {
            return Err("the tuning was interrupted".to_owned());
        }
        Python::attach(|py| {
            let arguments = self.arguments.as_ref().map_err(Clone::clone)?;
            let stream = self.stream.bind(py).clone().into_any();
            let all = std::iter::once(stream).chain(arguments.bind(py).iter());
            let called = PyTuple::new(py, all.collect::<Vec<_>>())
                .and_then(|arguments| self.tuning.candidates[candidate].call1(py, arguments));
            called.map_err(|error| self.tuning.keep(py, error))
        })
    }
}

/// See `millstream.TunableSet`.
///
/// ```text
/// def __new__(cls, name: str, version: int, candidates: Sequence[str]) -> Self
/// ```
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct CandidateSet(TunableSet<String, Inputs, Py<PyAny>>);

#[pymethods]
impl CandidateSet {
    #[new]
    fn new(name: String, version: u32, candidates: Vec<String>) -> Self {
        let make = |_: &String, call: &Inputs| call.for_trials();
        let set = TunableSet::new(name, make).version(version);
        let add = |set: TunableSet<_, _, _>, (index, name)| {
            set.with(Tunable::new(name, move |call: Inputs| call.run(index)))
        };
        Self(candidates.into_iter().enumerate().fold(set, add))
    }
}

/// See `millstream.Tuner`.
///
/// ```text
/// def __new__(cls, device: Device, folder: str | PathLike[str] | None, samples: int | None, seconds: float | None,
/// tolerance: float | None, confidence: float | None) -> Self
/// ```
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct TunerCore {
    tuner: millstream::tune::Tuner<String>,
    loaded: Loaded,
}

#[pymethods]
impl TunerCore {
    #[new]
    #[pyo3(signature = (device, folder, samples, seconds, tolerance, confidence))]
    fn new(
        py: Python<'_>,
        device: &Bound<'_, Device>,
        folder: Option<PathBuf>,
        samples: Option<u32>,
        seconds: Option<f64>,
        tolerance: Option<f64>,
        confidence: Option<f64>,
    ) -> PyResult<Self> {
        let budget = seconds.map(|seconds| {
            let refused = |_| argument_error(format!("`seconds` must not be {seconds}"));
            Duration::try_from_secs_f64(seconds).map_err(refused)
        });
        let budget = budget.transpose()?;
        let effort = given!(Effort::default(); samples budget tolerance confidence);
        let Some(folder) = folder else {
            return Ok(Self {
                tuner: millstream::tune::Tuner::with_effort(effort),
                loaded: Loaded::default(),
            });
        };
        let properties = device.as_super().get().client.properties();
        let identity = Identity {
            device: format!("{} {}", properties.backend, properties.name),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let opened = py.detach(|| {
            let store = FileStore::new(folder, &identity.device, &identity.version);
            millstream::tune::Tuner::with_store(store, identity, effort)
        });
        let (tuner, loaded) = opened.map_err(|error| named("TuneError", error.to_string()))?;
        Ok(Self { tuner, loaded })
    }

    /// `(set: tuple[CandidateSet, Callable[..., Any], Sequence[Callable[..., Any]]], stream: Stream, key: tuple[str,
    /// object], arguments: tuple[Any, ...], policy: str, runs: bool) -> Any`
    ///
    /// Tunes a key if it is not known, detached. The set comes with the function that makes the arguments of trials, and
    /// its candidates. Runs the candidate to use, and returns what it returns; or only returns its index. An exception
    /// that ends programs comes first; that of a candidate is the cause of the tuner's.
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn run(
        &self,
        py: Python<'_>,
        set: (Bound<'_, CandidateSet>, Py<PyAny>, Vec<Py<PyAny>>),
        stream: &Bound<'_, Stream>,
        key: (String, Bound<'_, PyAny>),
        arguments: &Bound<'_, PyTuple>,
        policy: &str,
        runs: bool,
    ) -> PyResult<Py<PyAny>> {
        let policy = named_option("policy", policy, &POLICIES)?;
        let ((set, inputs, candidates), (text, key)) = (set, key);
        let tuning = Arc::new(Tuning {
            inputs,
            candidates,
            raised: Mutex::default(),
        });
        let call = Arc::new(Call {
            stream: stream.clone().unbind(),
            key: key.unbind(),
            arguments: Ok(arguments.clone().unbind()),
            tuning: tuning.clone(),
        });
        let (set, stream) = (&set.get().0, stream.get().submitter.stream().clone());
        let tuned = py.detach(|| {
            let (tuner, mut clock) = (&self.tuner, StreamClock::new(&stream));
            if runs {
                return tuner.execute(set, &text, call, &mut clock, policy);
            }
            let chosen = tuner.choose(set, &text, &call, &mut clock, policy)?;
            Ok(Python::attach(|py| {
                PyInt::new(py, chosen.index).into_any().unbind()
            }))
        });
        let kept = tuning.locked().take();
        if let Some((fatal, true)) = kept {
            return Err(fatal);
        }
        tuned.map_err(|error| {
            let failed = named("TuneError", error.to_string());
            failed.set_cause(py, kept.map(|(last, _)| last));
            failed
        })
    }

    /// `(key: str) -> dict[str, Any] | None`
    ///
    /// Returns what is known of a key: the name of the winner, the clock, the confidence, and each candidate.
    fn outcome<'py>(&self, py: Python<'py>, key: String) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(outcome) = self.tuner.outcome(&key) else {
            return Ok(None);
        };
        let candidates = outcome.candidates.iter().map(|candidate| {
            let (summary, failure) = (
                candidate.result.as_ref().ok(),
                candidate.result.as_ref().err(),
            );
            Ok(dict!(py;
                name: &*candidate.name, samples: summary.map_or(0, |summary| summary.samples),
                median_ns: summary.map(|summary| summary.median),
                mean_ns: summary.map(|summary| summary.mean),
                min_ns: summary.map(|summary| summary.min),
                max_ns: summary.map(|summary| summary.max),
                failure: failure.map(ToString::to_string),
            ))
        });
        Ok(Some(dict!(py;
            winner: outcome.best().map(|best| best.name.to_string()), clock: &outcome.clock,
            confidence: outcome.confidence, candidates: candidates.collect::<PyResult<Vec<_>>>()?,
        )))
    }

    /// `(key: str) -> None`
    fn forget(&self, key: String) {
        self.tuner.forget(&key);
    }

    /// `() -> None`
    fn save(&self, py: Python<'_>) -> PyResult<()> {
        let saved = py.detach(|| self.tuner.save());
        saved.map_err(|error| named("TuneError", error.to_string()))
    }

    /// `-> tuple[int, int]`
    ///
    /// The number of choices that were loaded, and of damaged lines.
    #[getter]
    fn loaded(&self) -> (usize, usize) {
        (self.loaded.choices, self.loaded.damaged)
    }
}

/// The policies by their names.
const POLICIES: [(&str, Policy); 4] = [
    ("wait", Policy::Wait),
    ("default", Policy::UseDefault),
    ("frozen", Policy::Frozen),
    ("frozen_default", Policy::FrozenDefault),
];
