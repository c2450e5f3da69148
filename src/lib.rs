//! Lets many threads share one GPU, or the CPU.
//!
//! Threads add tasks to [streams](Stream). A stream keeps the order of its tasks, and tasks of different streams that touch
//! the same bytes are ordered automatically, in the order in which they were submitted. Memory is reused once the last task
//! that uses it has completed, and the failure of a task travels with the data that the task would have written.
//!
//! ```
//! use millstream::prelude::*;
//!
//! #[kernel]
//! fn saxpy(a: f32, x: &[f32], y: &mut [f32]) {
//!     let i = thread(); // the number of this thread
//!     y[i] += a * x[i];
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = open_any()?; // a GPU if there is one, else the CPU
//! let stream = device.new_stream();
//! let (x, mut y) = (stream.create(&[1.0; 1000])?, stream.create(&[2.0; 1000])?);
//! saxpy(3.0, &x, &mut y).launch_each(&stream)?;
//! assert_eq!(stream.read(&y).wait()?, [5.0; 1000]);
//! # Ok(())
//! # }
//! ```
//!
//! # Where to find what
//!
//! What most programs use is at the root; a module has the details of its subject. Each item has one path.
//!
//! | subject | begin with | details |
//! | --- | --- | --- |
//! | opening, closing and driving a device | [`Device`], [`DeviceOptions`] | [`device`] |
//! | clients, streams, answers, recordings, cancellation | [`ComputeClient`], [`Stream`], [`Pending`] | [`stream`] |
//! | buffers, their elements and limits | [`Handle`], [`MemoryOptions`] | [`memory`] |
//! | kernels as Rust functions | [`macro@kernel`], [`prelude`] | the guide's page "Kernels" |
//! | kernels that there are: sums, sorting, .. | [`kernels::sum`] | [`kernels`] |
//! | kernels by hand, launch arguments | [`Kernel`], [`CubeCount`] | [`mod@kernel`], [`tensor_map`] |
//! | errors and failures | [`Error`], [`Failure`] | [`error`](mod@error) |
//! | statistics, profiles, timelines | [`report::Stats`], [`report::Profile`] | [`report`], [`timeline`] |
//! | submission logs and their repetition | [`journal::SubmissionLog`] | [`journal`] |
//!
//! | module | begin with |
//! | --- | --- |
//! | `graph`, with the feature `graph`: tensor expressions, compiled to schedules | `graph::Graph` |
//! | [`mod@tune`]: the fastest of several ways, found once | `tune::Tuner` |
//! | [`sim`]: the simulated device for tests | [`sim::Sim`] |
//! | [`backend`], [`ir`]: for authors of backends and kernels | [`backend::Backend`] |
//!
//! A call that may block says so in the first lines of its documentation. [`Stream::nowait`] gives the same calls without
//! blocking. Sizes are in elements where an item says "elements", and in bytes otherwise.
//!
//! The [guide](https://github.com/millstream/millstream/blob/main/docs/guide/SUMMARY.md) has a page for each subject.

extern crate self as millstream; // the path in what `#[kernel]` writes

mod any;
pub mod backend;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "instances")]
#[doc(hidden)]
pub mod instances;
pub mod kernels;
pub mod metrics;
pub mod prelude;
pub mod timeline;
#[cfg(feature = "vulkan")]
pub use millstream_vulkan as vulkan;

#[cfg(feature = "graph")]
pub use millstream_graph as graph;
pub use millstream_ir as ir;
#[doc(hidden)]
pub use millstream_kernel as __kernel;
#[cfg(feature = "sim")]
pub use millstream_sim as sim;

// Opening a device.
pub use any::open_any;
#[cfg(feature = "cuda")]
pub use cuda::Cuda;
pub use millstream_actors::{Device, Driver};
pub use millstream_cpu::{Cpu, CpuResources};
pub use millstream_sync::facade::SpinPolicy;
#[cfg(feature = "vulkan")]
pub use vulkan::Vulkan;

// Clients and streams.
pub use millstream_client::{
    ClientBuilder, ComputeClient, ExternalTask, LateWrite, Pending, Recorder, Recording,
    ReplayArgs, ResourceGuard, Returned, StagedTask, Stream, StreamPoint,
};

// Buffers.
pub use millstream_client::Recycled;
pub use millstream_client::handle::Handle;
pub use millstream_ir::DType;

// Kernels and their arguments.
pub use millstream_client::arguments::{
    Argument, Bound, CubeCount, LaunchArgs, Read, ScalarParameter, Update, Write, bind, read,
    update, write,
};
pub use millstream_client::{KernelHandle, Tensor, TensorSpec, TypedKernel};
pub use millstream_kernel::kernel;
pub use millstream_kernel::number::{Float, Int, Number};
pub use millstream_protocol::{
    Access, AllocationMode, CancelToken, Cube, CubeShape, DeviceOptions, DeviceProperties, Element,
    Health, Kernel, MemoryOptions, Metadata, NativeArgs, Priority, Source, Stored, Strategy, bf16,
    f16,
};

// Errors and failures.
pub use millstream_protocol::{Error, Failure, FailureRef, OpenError, Reason};

/// Details of a device: its health and loss, its logs, and the threads that an engine starts for it.
pub mod device {
    pub use millstream_protocol::{
        AtLimit, Feature, HealthWatch, LogLevel, Logs, MAX_QUEUES, QueueId, Recovery,
        threads::{Spawner, ThreadBody, ThreadRole},
    };
}

/// Details of streams: sequences of readbacks, memory of the host for staged tasks, the guards of cancellation.
pub mod stream {
    pub use millstream_client::{HostBuffer, ResourceReply, ResourceWork, WEIGHT_MAX};
    pub use millstream_client::{Readback, ReadbackSender, Readbacks, readbacks};
    pub use millstream_protocol::{
        ClientId, ComputeChannel, DropGuard, StreamId, Tally, recording::RecordedWord,
    };
}

/// Details of buffers: their bindings, and views of the memory of a device on the host.
pub mod memory {
    pub use millstream_cpu::{Elements, ElementsMut};
    pub use millstream_protocol::{Binding, SliceId};
}

/// Details of kernels: what a signature declares, and the traits of launch arguments.
pub mod kernel {
    pub use millstream_client::IntoBindings;
    pub use millstream_client::arguments::{
        ArgumentKind, ArgumentType, ArgumentTypes, ArgumentWriter, Arguments,
    };
    pub use millstream_protocol::{AtomicElement, BindingSpec, ScalarSpec, Share, Signature};
}

/// Tensor maps: descriptions of tensors by which CUDA kernels copy tiles.
pub mod tensor_map {
    pub use millstream_protocol::{
        Im2colMap, OutOfBoundsFill, Prefetch, Swizzle, TensorInterleave, TensorMap, TensorMapFormat,
    };
}

/// What an [`Error`] or a [`Failure`] carries.
///
/// A call returns an [`Error`] at once if its input is wrong or there is no room. A task that fails later poisons what it
/// would have written, and every reader of that receives the [`Failure`] with the chain of tasks between.
pub mod error {
    pub use millstream_cpu::ResourceError;
    pub use millstream_protocol::{
        ArgumentError, ArgumentErrorKind, Bytes, Extent, Full, KernelError, MemoryError, Origin,
        PageError, Remote, ReopenError,
    };
}

/// What a device reports: statistics, memory, profiles, the spans of a timeline, and what kernels print.
pub mod report {
    pub use millstream_protocol::{
        ClientMemory, ClockSource, KernelProfile, MemoryReport, MemoryUsage, PRINTED_LINES_MAX,
        Printed, Profile, ProfileDuration, ProfileToken, QueueStats, Report, Stats, TraceSpan,
        TraceWait,
    };
}

/// Submission logs: what a device has taken, and its repetition on any device.
///
/// [`DeviceOptions::log_submissions`](crate::DeviceOptions::log_submissions) enables the log, and
/// [`ComputeClient::resubmit`](crate::ComputeClient::resubmit) submits its tasks again. Requires the feature `journal`.
#[cfg(feature = "journal")]
pub mod journal {
    pub use millstream_client::resubmit::{
        LoggedReadback, RESUBMITTED_TASKS_MAX, ReplayError, Replayed,
    };
    pub use millstream_protocol::journal::*;
}

/// Measures several ways to compute something once for each key, and remembers the fastest. Requires the feature
/// `tune`.
#[cfg(feature = "tune")]
pub mod tune {
    pub use millstream_actors::tuning::{
        Background, FileStore, HostClock, StoredChoices, stored_choices,
    };
    pub use millstream_tune::*;
}

/// Runs the examples of the guide as doc tests, one module for each page.
#[cfg(doctest)]
mod guide {
    macro_rules! pages {
        ($($(#[$when:meta])? $page:ident: $file:literal;)*) => {$(
            $(#[$when])?
            #[doc = include_str!(concat!("../docs/", $file))]
            mod $page {}
        )*};
    }
    pages! {
        readme: "../README.md";
        start: "guide/start.md";
        kernels: "guide/kernels.md";
        kernel_mistakes: "guide/kernel-mistakes.md";
        kernels_by_hand: "guide/kernels-by-hand.md";
        kernels_beside_others: "guide/kernels-beside-others.md";
        sharing: "guide/sharing.md";
        order: "guide/order.md";
        memory: "guide/memory.md";
        errors: "guide/errors.md";
        engines: "guide/engines.md";
        graphs: "guide/graphs.md";
        profiling: "guide/profiling.md";
        #[cfg(feature = "tune")]
        tuning: "guide/tuning.md";
        metrics: "guide/metrics.md";
        #[cfg(feature = "vulkan")]
        vulkan: "vulkan.md";
        graph: "graph.md";
        functions: "functions.md";
    }
}
