//! Many threads, one device.
//!
//! Millstream lets any number of threads share one GPU, or the CPU, safely and fast. A device actor
//! owns the device; threads send it tasks through a mailbox; streams keep their order; whatever
//! touches the same bytes is ordered by itself; and memory is given back when the last task that
//! uses it is done.
//!
// What the README links to is no part of the documentation: there the first definition of a link counts.
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
pub mod metrics;
pub mod timeline;

pub use millstream_actors::{Device, Driver};
pub use millstream_core::access::Access;
pub use millstream_core::argument::{ArgumentKind, ArgumentKinds};
pub use millstream_core::cancel::{CancelToken, DropGuard, Tally};
pub use millstream_core::channel::ComputeChannel;
pub use millstream_core::client::{
    ClientBuilder, ComputeClient, IntoBindings, KernelHandle, Pending, Readback, ReadbackSender,
    Readbacks, Recorder, Recording, Recycled, ReplayArgs, ResourceGuard, ResourceWork, Returned,
    Stream, StreamPoint, Tensor, TensorSpec, TypedKernel, WEIGHT_MAX, readbacks,
};
pub use millstream_core::element::{Element, bf16, f16};
pub use millstream_core::error::{
    Error, Full, KernelError, LaunchError, MemoryError, OpenError, ParameterMisfit, ProfileError,
    ReopenError,
};
pub use millstream_core::failure::{Bytes, Extent, Failure, FailureRef, Origin, Reason};
pub use millstream_core::handle::{Binding, Handle};
pub use millstream_core::health::{Health, HealthWatch, Recovery};
pub use millstream_core::id::{ClientId, MAX_QUEUES, QueueId, SliceId, StreamId};
pub use millstream_core::journal::{self, Digest, LogError, SubmissionLog};
pub use millstream_core::kernel::{
    AtomicElement, BindingSpec, Cube, CubeShape, ExecutionMode, Kernel, NativeArgs, ScalarSpec,
    Share, Signature, Source,
};
pub use millstream_core::launch::{
    Argument, ArgumentError, ArgumentType, ArgumentTypes, ArgumentWriter, Arguments, Bound,
    CubeCount, Im2colMap, Interleave, LaunchArgs, Metadata, OutOfBoundsFill, Prefetch, Read,
    Swizzle, TensorMap, TensorMapFormat, Update, Write, bind, read, update, write,
};
pub use millstream_core::memory::{AllocationMode, MemoryOptions, PageError};
pub use millstream_core::options::{DeviceOptions, LogLevel, Logs, Strategy};
pub use millstream_core::priority::Priority;
pub use millstream_core::profile::{
    ClockSource, KernelProfile, Profile, ProfileDuration, ProfileToken,
};
pub use millstream_core::properties::{DeviceProperties, Feature};
pub use millstream_core::recording::RecordedWord;
pub use millstream_core::report::{
    ClientMemory, MemoryReport, MemoryUsage, QueueStats, Report, Stats, TraceSpan, TraceWait,
};
pub use millstream_core::resubmit::{LoggedReadback, ReplayError, Replayed};
pub use millstream_core::threads::{Spawner, ThreadBody, ThreadRole};
pub use millstream_cpu::{Cpu, CpuResources, ResourceError};
#[cfg(feature = "cuda")]
pub use millstream_cuda::{self as cuda, Cuda};
pub use millstream_graph as graph;
pub use millstream_ir::{self as ir, DType};
pub use millstream_sim as sim;
pub use millstream_sync::facade::SpinPolicy;

/// The fastest of several ways, measured once for a key and remembered. With the feature `tune`, which is on.
#[cfg(feature = "tune")]
pub mod tune {
    pub use millstream_actors::tuning::{
        Background, FileStore, HostClock, KeptChoices, kept_choices,
    };
    pub use millstream_tune::*;
}

/// The examples of the guide are tests as well: a module for each page.
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
