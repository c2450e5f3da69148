//! The compiled module of the Python package `millstream`.
//!
//! The package has two layers. This crate has what touches the runtime: devices, streams, buffers, answers, recordings,
//! and the conversion of memory and errors. The Python files in `bindings/python/millstream` have what is better said in Python:
//! the exceptions, the element types, the tracer of kernels, and the event loops.
//!
//! | module | contents |
//! | --- | --- |
//! | `device`, `options`, `client` | opening and closing a device, its clients, its figures |
//! | `stream`, `submit` | submitting tasks; what a call does if there is no room |
//! | `buffer` | a typed view of device memory |
//! | `kernel`, `arguments` | preparing kernels, and packing the arguments of a launch |
//! | `recording` | recorders, recordings, replays |
//! | `graph` | lazy buffers, schedules, and their runs |
//! | `exchange` | memory that other libraries share with buffers: DLPack, the buffer protocol, the array interface |
//! | `observe` | profiles, timelines, submission logs |
//! | `tuning` | the tuner |
//! | `pending`, `wakeups` | answers: waiting for them, and waking event loops |
//! | `input`, `landing`, `held` | memory of Python that the runtime reads or writes |
//! | `element`, `elements` | element types, shapes and fills |
//! | `errors` | exceptions |
//!
//! # Documentation
//! The comments of classes and of their methods are docstrings, for readers in Python, and begin with typed signatures.
//! `.ci/python-stubs` makes `bindings/python/millstream/_millstream.pyi` of them.
//!
//! # The interpreter lock
//! - A call submits by the client's non-blocking form while the thread is attached to the interpreter. Only if that
//!   returns `Busy` the thread detaches and waits for room: `submit`.
//! - A thread that waits is detached, and attaches now and then to run signal handlers: `pending`.
//! - A thread of the runtime never attaches. Memory of Python that the runtime has finished with is put on a list, which
//!   the next call from Python releases: `held`. An answer wakes an event loop by a pipe: `wakeups`.

mod arguments;
mod buffer;
mod client;
mod device;
mod element;
mod elements;
mod errors;
mod exchange;
mod graph;
mod held;
mod input;
mod kernel;
mod landing;
mod metrics;
mod observe;
mod options;
mod pending;
mod recording;
mod stream;
mod submit;
mod tuning;
mod wakeups;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _millstream {
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }

    #[pymodule_export]
    use super::{
        buffer::{Buffer, mapped::MappedBuffer},
        client::Client,
        device::Device,
        graph::leaves::{GraphArena, GraphScalar},
        graph::length::Length,
        graph::node::LazyNode,
        graph::schedule::{CompiledSteps, ScheduleCache, ScheduleSteps},
        kernel::{Kernel, check_function},
        observe::{log::SubmissionLog, profile::ProfileScope, timeline::Timeline},
        pending::Pending,
        recording::{Recorder, Recording, ScalarParameter},
        stream::{CancelToken, Stream},
        tuning::{CandidateSet, TunerCore},
        wakeups::Wakeups,
    };
}
