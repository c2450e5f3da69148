//! Lets many threads share one GPU, or the CPU.
//!
//! Threads add tasks to [streams](Stream). A stream keeps the order of its tasks, and tasks of different streams that touch
//! the same bytes are ordered automatically, in the order in which they were submitted. Memory is reused once the last task
//! that uses it has completed, and the failure of a task travels with the data that the task would have written.
//!
//! ```
//! use millstream::{Cpu, CubeCount, Device, Kernel, read, write};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let device = Device::open(Cpu::default())?;
//! let client = device.new_client();
//! let negate = client.kernel(Kernel::new("negate").reads::<i32>("src").writes::<i32>("dst").native(|_cube, args| {
//!     let (src, start) = (args.read::<i32>(0), args.chunk_start(1));
//!     args.chunk::<i32>(1).iter_mut().zip(&src[start..]).for_each(|(dst, src)| *dst = -src);
//! }))?;
//!
//! let stream = client.new_stream();
//! let src = stream.create(&[1, 2, 3, 4])?;
//! let dst = stream.empty::<i32>(src.len())?;
//! stream.launch(&negate, CubeCount::cover(src.len(), 2), (read(&src), write(&dst)))?;
//! assert_eq!(stream.read(&dst).wait()?, [-1, -2, -3, -4]);
//! # Ok(())
//! # }
//! ```
//!
//! # Where to find what
//!
//! Each item is in a module by its subject, and those of all subjects but the last four rows are at the root, too.
//!
//! | module | begin with |
//! | --- | --- |
//! | [`device`]: opening, closing, driving and watching a device | [`Device`], [`DeviceOptions`] |
//! | [`stream`]: clients, streams, answers, recordings, cancellation | [`ComputeClient`], [`Stream`], [`Pending`] |
//! | [`memory`]: buffers, elements, limits and accounts | [`Handle`], [`MemoryOptions`] |
//! | [`kernel`]: kernels, signatures and launch arguments | [`Kernel`], [`CubeCount`] |
//! | [`error`](mod@error): errors, failures and what they carry | [`Error`], [`Failure`] |
//! | [`report`]: statistics, profiles, timelines | [`Profile`], [`Stats`] |
//! | [`journal`]: submission logs and their repetition | [`SubmissionLog`] |
//! | `graph`, with the feature `graph`: tensor expressions, compiled to schedules | `graph::Graph` |
//! | [`mod@tune`]: the fastest of several ways, found once | `tune::Tuner` |
//! | [`sim`]: the simulated device for tests | [`sim::Sim`] |
//! | [`backend`], [`ir`]: for authors of backends and kernels | [`backend::Backend`] |
//!
//! A call that may block says so in the first lines of its documentation. [`Stream::nowait`] gives the same calls without
//! blocking. Sizes are in elements where an item says "elements", and in bytes otherwise.
//!
//! The [guide](https://github.com/millstream/millstream/blob/main/docs/guide/SUMMARY.md) has a page for each subject.

pub mod backend;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "instances")]
#[doc(hidden)]
pub mod instances;
pub mod metrics;
pub mod timeline;
#[cfg(feature = "vulkan")]
pub use millstream_vulkan as vulkan;

#[cfg(feature = "graph")]
pub use millstream_graph as graph;
pub use millstream_ir as ir;
#[cfg(feature = "sim")]
pub use millstream_sim as sim;

#[doc(no_inline)]
pub use device::*;
#[doc(no_inline)]
pub use error::*;
#[doc(no_inline)]
pub use journal::{Digest, LogError, LoggedReadback, ReplayError, Replayed, SubmissionLog};
#[doc(no_inline)]
pub use kernel::*;
#[doc(no_inline)]
pub use memory::*;
#[doc(no_inline)]
pub use report::*;
#[doc(no_inline)]
pub use stream::*;

/// Opening, closing, driving and watching a device.
///
/// [`Device::open`] takes a backend and starts the threads of the device; [`Device::open_with`] also takes
/// [`DeviceOptions`].
/// [`Device::open_driven`] starts none: the [`Driver`] runs the device on the threads that call it.
pub mod device {
    #[cfg(feature = "cuda")]
    pub use crate::cuda::Cuda;
    #[cfg(feature = "vulkan")]
    pub use crate::vulkan::Vulkan;
    pub use millstream_actors::{Device, Driver};
    pub use millstream_cpu::Cpu;
    pub use millstream_protocol::health::{Health, Recovery};
    pub use millstream_protocol::health_state::HealthWatch;
    pub use millstream_protocol::id::{MAX_QUEUES, QueueId};
    pub use millstream_protocol::options::{AtLimit, DeviceOptions, LogLevel, Logs, Strategy};
    pub use millstream_protocol::properties::{DeviceProperties, Feature};
    pub use millstream_protocol::threads::{Spawner, ThreadBody, ThreadRole};
    pub use millstream_sync::facade::SpinPolicy;
}

/// Clients and streams: submitting tasks, waiting for answers, recordings, cancellation.
///
/// A [`ComputeClient`] is cheap to clone and makes [`Stream`]s. A task is submitted to a stream; what it returns to the host
/// is a [`Pending`].
pub mod stream {
    pub use millstream_client::{
        ClientBuilder, ComputeClient, ExternalTask, HostBuffer, LateWrite, Pending, Readback,
        ReadbackSender, Readbacks, Recorder, Recording, ReplayArgs, ResourceGuard, ResourceReply,
        ResourceWork, Returned, StagedTask, Stream, StreamPoint, WEIGHT_MAX, readbacks,
    };
    pub use millstream_protocol::cancel::{CancelToken, DropGuard, Tally};
    pub use millstream_protocol::channel::ComputeChannel;
    pub use millstream_protocol::id::{ClientId, StreamId};
    pub use millstream_protocol::priority::Priority;
    pub use millstream_protocol::recording::RecordedWord;
}

/// Buffers of a device, their elements, and the limits and accounts of memory.
///
/// A [`Handle`] is a typed, counted reference to a slice of device memory. The slice is freed once its last handle is dropped
/// and the last task that uses it has completed.
pub mod memory {
    pub use millstream_client::handle::Handle;
    pub use millstream_client::{Recycled, Tensor, TensorSpec};
    pub use millstream_cpu::{CpuResources, Elements, ElementsMut};
    pub use millstream_ir::DType;
    pub use millstream_protocol::access::Access;
    pub use millstream_protocol::binding::Binding;
    pub use millstream_protocol::element::{Element, bf16, f16};
    pub use millstream_protocol::id::SliceId;
    pub use millstream_protocol::memory::{AllocationMode, MemoryOptions};
    pub use millstream_protocol::report::{ClientMemory, MemoryReport, MemoryUsage};
}

/// Kernels: their signatures and sources, and the arguments of a launch.
///
/// A [`Kernel`] has a name, a signature and at least one source. [`ComputeClient::kernel`] compiles it for the device. The
/// arguments of a launch follow the signature: [`read`], [`write()`] and [`update`] bind buffers, numbers are scalars.
///
/// [`ComputeClient::kernel`]: crate::ComputeClient::kernel
pub mod kernel {
    pub use millstream_client::arguments::{
        Argument, ArgumentError, ArgumentType, ArgumentTypes, ArgumentWriter, Arguments, Bound,
        CubeCount, LaunchArgs, Read, ScalarParameter, Update, Write, bind, read, update, write,
    };
    pub use millstream_client::{IntoBindings, KernelHandle, TypedKernel};
    pub use millstream_protocol::argument::{ArgumentKind, ArgumentKinds};
    pub use millstream_protocol::kernel::{
        AtomicElement, BindingSpec, Cube, CubeShape, ExecutionMode, Kernel, NativeArgs, ScalarSpec,
        Share, Signature, Source,
    };
    pub use millstream_protocol::launch::{
        Im2colMap, Interleave, Metadata, OutOfBoundsFill, Prefetch, Swizzle, TensorMap,
        TensorMapFormat,
    };
}

/// Errors of calls, and failures of tasks.
///
/// A call returns an [`Error`] at once if its input is wrong or there is no room. A task that fails later poisons what it
/// would have written, and every reader of that receives the [`Failure`] with the chain of tasks between.
pub mod error {
    pub use millstream_cpu::ResourceError;
    pub use millstream_protocol::error::{
        Error, Full, KernelError, LaunchError, MemoryError, OpenError, ParameterMismatch,
        ProfileError, ReopenError, ScalarMismatch,
    };
    pub use millstream_protocol::failure::{
        Bytes, Extent, Failure, FailureRef, Origin, Reason, Remote,
    };
    pub use millstream_protocol::memory::PageError;
}

/// What a device reports: statistics, profiles and the spans of a timeline.
pub mod report {
    pub use millstream_protocol::profile::{
        ClockSource, KernelProfile, Profile, ProfileDuration, ProfileToken,
    };
    pub use millstream_protocol::report::{QueueStats, Report, Stats, TraceSpan, TraceWait};
}

/// Submission logs: what a device has taken, and its repetition on any device.
///
/// [`DeviceOptions::log_submissions`](crate::DeviceOptions::log_submissions) enables the log, and
/// [`ComputeClient::resubmit`](crate::ComputeClient::resubmit) submits its tasks again.
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
    }
}
