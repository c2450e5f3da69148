//! Lets many threads share one GPU, or the CPU.
//!
//! Any number of threads add tasks to streams, and each stream keeps the order of its tasks. A device actor owns the
//! device and receives the tasks through a mailbox. Tasks that touch the same bytes are ordered automatically, and
//! memory is freed once the last task that uses it has completed.
//!
// The link targets of the README, which are not files in the documentation: the first definition of a link counts.
//! [timeline]: https://raw.githubusercontent.com/millstream/millstream/main/docs/timeline.png
//! [reaction]: https://raw.githubusercontent.com/millstream/millstream/main/docs/graph/reaction.png
//! [graph]: https://github.com/millstream/millstream/blob/main/docs/graph.md
//! [model checks]: https://github.com/millstream/millstream/blob/main/docs/guide/model-checks.md
//! [tuning]: https://github.com/millstream/millstream/blob/main/docs/guide/tuning.md
//! [guide]: https://github.com/millstream/millstream/blob/main/docs/guide/SUMMARY.md
//! [metrics]: https://github.com/millstream/millstream/blob/main/docs/guide/metrics.md
//! [decision 9]: https://github.com/millstream/millstream/blob/main/docs/decisions/0009-a-log-is-what-the-mailbox-saw.md
//! [design]: https://github.com/millstream/millstream/blob/main/docs/design.md
//! [testing]: https://github.com/millstream/millstream/blob/main/docs/testing.md
//! [hardware]: https://github.com/millstream/millstream/blob/main/docs/hardware.md
//! [decisions]: https://github.com/millstream/millstream/tree/main/docs/decisions
//!
#![doc = include_str!("../README.md")]

pub mod backend;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod metrics;
pub mod timeline;

#[cfg(feature = "cuda")]
pub use cuda::Cuda;
pub use millstream_actors::{Device, Driver};
pub use millstream_client::arguments::{
    Argument, ArgumentError, ArgumentType, ArgumentTypes, ArgumentWriter, Arguments, Bound,
    CubeCount, LaunchArgs, Read, Update, Write, bind, read, update, write,
};
pub use millstream_client::handle::Handle;
pub use millstream_client::resubmit::{LoggedReadback, ReplayError, Replayed};
pub use millstream_client::{
    ClientBuilder, ComputeClient, IntoBindings, KernelHandle, Pending, Readback, ReadbackSender,
    Readbacks, Recorder, Recording, Recycled, ReplayArgs, ResourceGuard, ResourceWork, Returned,
    Stream, StreamPoint, Tensor, TensorSpec, TypedKernel, WEIGHT_MAX, readbacks,
};
pub use millstream_cpu::{Cpu, CpuResources, ResourceError};
pub use millstream_graph as graph;
pub use millstream_ir::{self as ir, DType};
pub use millstream_protocol::access::Access;
pub use millstream_protocol::argument::{ArgumentKind, ArgumentKinds};
pub use millstream_protocol::binding::Binding;
pub use millstream_protocol::cancel::{CancelToken, DropGuard, Tally};
pub use millstream_protocol::channel::ComputeChannel;
pub use millstream_protocol::element::{Element, bf16, f16};
pub use millstream_protocol::error::{
    Error, Full, KernelError, LaunchError, MemoryError, OpenError, ParameterMisfit, ProfileError,
    ReopenError,
};
pub use millstream_protocol::failure::{Bytes, Extent, Failure, FailureRef, Origin, Reason};
pub use millstream_protocol::health::{Health, Recovery};
pub use millstream_protocol::id::{ClientId, MAX_QUEUES, QueueId, SliceId, StreamId};
pub use millstream_protocol::journal;
pub use millstream_protocol::journal::{Digest, LogError, SubmissionLog};
pub use millstream_protocol::kernel::{
    AtomicElement, BindingSpec, Cube, CubeShape, ExecutionMode, Kernel, NativeArgs, ScalarSpec,
    Share, Signature, Source,
};
pub use millstream_protocol::launch::{
    Im2colMap, Interleave, Metadata, OutOfBoundsFill, Prefetch, Swizzle, TensorMap, TensorMapFormat,
};
pub use millstream_protocol::memory::{AllocationMode, MemoryOptions, PageError};
pub use millstream_protocol::options::{DeviceOptions, LogLevel, Logs, Strategy};
pub use millstream_protocol::priority::Priority;
pub use millstream_protocol::profile::{
    ClockSource, KernelProfile, Profile, ProfileDuration, ProfileToken,
};
pub use millstream_protocol::properties::{DeviceProperties, Feature};
pub use millstream_protocol::recording::RecordedWord;
pub use millstream_protocol::report::{
    ClientMemory, MemoryReport, MemoryUsage, QueueStats, Report, Stats, TraceSpan, TraceWait,
};
pub use millstream_protocol::threads::{Spawner, ThreadBody, ThreadRole};
pub use millstream_protocol::vitals::HealthWatch;
pub use millstream_sim as sim;
pub use millstream_sync::facade::SpinPolicy;

/// Measures several ways to compute something once for each key, and remembers the fastest. Requires the feature
/// `tune`, which is on by default.
#[cfg(feature = "tune")]
pub mod tune {
    pub use millstream_actors::tuning::{
        Background, FileStore, HostClock, KeptChoices, kept_choices,
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
        graph: "graph.md";
    }
}
