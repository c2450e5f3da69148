//! The tuner: measures several ways to do the same work, and remembers the fastest for each key.
//!
//! Candidates are functions of Python. A tuning calls them on the thread of the caller, which is detached while the tuner
//! measures and waits. A key is the text of a JSON value: its set's name and the caller's key.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream::tune::{
    Effort, FileStore, Identity, Loaded, Policy, StreamClock, Tunable, TunableSet,
};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::device::Device;
use crate::errors::{argument_error, named};
use crate::stream::Stream;

/// What candidates receive.
type Inputs = Arc<Call>;

struct Call {
    stream: Py<Stream>,
    /// The caller's key.
    key: Py<PyAny>,
    /// The arguments, or why there are none.
    arguments: Result<Py<PyTuple>, String>,
    /// Shared by the calls of one tuning.
    raised: Arc<Raised>,
}

/// What candidates have raised.
#[derive(Default)]
struct Raised {
    /// The exception of the last candidate that failed.
    last: Mutex<Option<PyErr>>,
    /// An exception that ends the tuning, such as `KeyboardInterrupt`.
    fatal: Mutex<Option<PyErr>>,
}

fn set(place: &Mutex<Option<PyErr>>, error: PyErr) {
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    let before = place.replace(error);
    // The lock first: dropping an exception may run code of Python, which may come here again.
    drop(place);
    drop(before);
}

fn take(place: &Mutex<Option<PyErr>>) -> Option<PyErr> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Raised {
    /// Keeps an exception, and returns it as text.
    fn keep(&self, py: Python<'_>, error: PyErr) -> String {
        let text = error.to_string();
        match error.is_instance_of::<PyException>(py) {
            true => set(&self.last, error),
            false => set(&self.fatal, error),
        }
        text
    }

    fn has_fatal(&self) -> bool {
        let fatal = self.fatal.lock();
        fatal.unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl Call {
    /// Makes the inputs of trials: as `self`, with arguments that `make` returns.
    fn for_trials(&self, make: &Py<PyAny>) -> Inputs {
        Python::attach(|py| {
            let made = make.call1(py, (&self.stream, &self.key));
            let made = made.and_then(|made| Ok(made.extract::<Py<PyTuple>>(py)?));
            let failed = |error| format!("its inputs: {}", self.raised.keep(py, error));
            Arc::new(Self {
                stream: self.stream.clone_ref(py),
                key: self.key.clone_ref(py),
                arguments: made.map_err(failed),
                raised: self.raised.clone(),
            })
        })
    }

    /// Calls a candidate.
    fn run(&self, candidate: &Py<PyAny>) -> Result<Py<PyAny>, String> {
        if self.raised.has_fatal() {
            return Err("the tuning was interrupted".to_owned());
        }
        Python::attach(|py| {
            let arguments = self.arguments.as_ref().map_err(Clone::clone)?;
            let stream = self.stream.bind(py).clone().into_any();
            let all = std::iter::once(stream).chain(arguments.bind(py).iter());
            let called = PyTuple::new(py, all.collect::<Vec<_>>())
                .and_then(|arguments| candidate.call1(py, arguments));
            called.map_err(|error| self.raised.keep(py, error))
        })
    }
}

type Candidates = TunableSet<String, Inputs, Py<PyAny>>;

/// See `millstream.TunableSet`.
///
/// ```text
/// def __new__(cls, name: str, version: int, inputs: Callable[[Stream, Any], tuple[Any, ...]],
/// candidates: Sequence[tuple[str, Callable[..., Any]]]) -> Self
/// ```
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct CandidateSet(Candidates);

#[pymethods]
impl CandidateSet {
    #[new]
    fn new(
        name: String,
        version: u32,
        inputs: Py<PyAny>,
        candidates: Vec<(String, Py<PyAny>)>,
    ) -> Self {
        let make = move |_: &String, call: &Inputs| call.for_trials(&inputs);
        let mut set = TunableSet::new(name, make).version(version);
        for (name, candidate) in candidates {
            let run = move |call: Inputs| call.run(&candidate);
            set = set.with(Tunable::new(name, run));
        }
        Self(set)
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
        let mut effort = Effort::default();
        if let Some(samples) = samples {
            effort = effort.samples(samples);
        }
        if let Some(seconds) = seconds {
            let budget = Duration::try_from_secs_f64(seconds);
            let refused = |_| argument_error(format!("`seconds` must not be {seconds}"));
            effort = effort.budget(budget.map_err(refused)?);
        }
        if let Some(tolerance) = tolerance {
            effort = effort.tolerance(tolerance);
        }
        if let Some(confidence) = confidence {
            effort = effort.confidence(confidence);
        }
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

    /// `(set: CandidateSet, stream: Stream, key: tuple[str, object], arguments: tuple[Any, ...], policy: str,
    /// runs: bool) -> Any`
    ///
    /// Tunes a key if it is not known, detached. Runs the candidate to use, and returns what it returns; or only returns
    /// its index. An exception that ends programs comes first; that of a candidate is the cause of the tuner's.
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn run(
        &self,
        py: Python<'_>,
        set: &Bound<'_, CandidateSet>,
        stream: &Bound<'_, Stream>,
        key: (String, Bound<'_, PyAny>),
        arguments: &Bound<'_, PyTuple>,
        policy: &str,
        runs: bool,
    ) -> PyResult<Py<PyAny>> {
        let (policy, (text, key)) = (policy_of(policy)?, key);
        let raised = Arc::<Raised>::default();
        let call = Arc::new(Call {
            stream: stream.clone().unbind(),
            key: key.unbind(),
            arguments: Ok(arguments.clone().unbind()),
            raised: raised.clone(),
        });
        let (set, stream) = (&set.get().0, stream.get().submitter.stream().clone());
        let tuned = py.detach(|| {
            let (tuner, mut clock) = (&self.tuner, StreamClock::new(&stream));
            match runs {
                true => {
                    let returned = tuner.execute(set, &text, call, &mut clock, policy);
                    returned.map(Tuned::Returned)
                }
                false => {
                    let chosen = tuner.choose(set, &text, &call, &mut clock, policy);
                    chosen.map(|choice| Tuned::Chosen(choice.index))
                }
            }
        });
        if let Some(fatal) = take(&raised.fatal) {
            return Err(fatal);
        }
        match tuned {
            Ok(Tuned::Returned(object)) => Ok(object),
            Ok(Tuned::Chosen(index)) => Ok(index.into_pyobject(py)?.into_any().unbind()),
            Err(error) => {
                let failed = named("TuneError", error.to_string());
                failed.set_cause(py, take(&raised.last));
                Err(failed)
            }
        }
    }

    /// `(key: str) -> dict[str, Any] | None`
    ///
    /// Returns what is known of a key: the name of the winner, the clock, the confidence, and each candidate.
    fn outcome<'py>(&self, py: Python<'py>, key: String) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(outcome) = self.tuner.outcome(&key) else {
            return Ok(None);
        };
        let candidates = outcome.candidates.iter().map(|candidate| {
            let fields = PyDict::new(py);
            fields.set_item("name", &*candidate.name)?;
            let summary = candidate.result.as_ref().ok();
            fields.set_item("samples", summary.map_or(0, |summary| summary.samples))?;
            fields.set_item("median_ns", summary.map(|summary| summary.median))?;
            fields.set_item("mean_ns", summary.map(|summary| summary.mean))?;
            fields.set_item("min_ns", summary.map(|summary| summary.min))?;
            fields.set_item("max_ns", summary.map(|summary| summary.max))?;
            let failure = candidate.result.as_ref().err();
            fields.set_item("failure", failure.map(ToString::to_string))?;
            Ok(fields)
        });
        let all = PyDict::new(py);
        all.set_item("winner", outcome.best().map(|best| best.name.to_string()))?;
        all.set_item("clock", &outcome.clock)?;
        all.set_item("confidence", outcome.confidence)?;
        all.set_item("candidates", candidates.collect::<PyResult<Vec<_>>>()?)?;
        Ok(Some(all))
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

/// The result of a tuning.
enum Tuned {
    Returned(Py<PyAny>),
    /// The index of the candidate.
    Chosen(usize),
}

fn policy_of(policy: &str) -> PyResult<Policy> {
    Ok(match policy {
        "wait" => Policy::Wait,
        "default" => Policy::UseDefault,
        "frozen" => Policy::Frozen,
        "frozen_default" => Policy::FrozenDefault,
        other => {
            let message = format!(
                "policy must be \"wait\", \"default\", \"frozen\" or \"frozen_default\", got {other:?}"
            );
            return Err(argument_error(message));
        }
    })
}
