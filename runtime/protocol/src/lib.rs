//! The messages that cross the mailbox of a device, and the trait that a backend implements.
//!
//! A backend depends on this crate, on `millstream-ir` and on `millstream-sync` alone. Clients and the server share
//! only these messages; neither depends on the other.
//!
//! Every name has one path: it stands at the root, or in one of the modules that are a subject of their own.
//!
//! | file or module | contents |
//! | --- | --- |
//! | `id`, `element`, `layout`, `priority` | the basic types |
//! | `properties`, `feature`, `options` | properties and options of a device |
//! | `error`, `failure`, `health`, `health_state` | errors of calls, failures of tasks, the health of a device |
//! | `kernel`, `launch` | kernels, their signatures, and the parts of a launch |
//! | `backend`, [`settle`], `landing`, `memory`, [`staging`] | the duties of a backend, and helpers for them |
//! | [`hazard`] | the hazard relation and the access log |
//! | [`threads`], [`marks`], [`block`] | the source of the runtime's threads; the role of the calling thread; blocking |
//! | `message`, `binding`, [`recording`], `cancel` | what is sent to a device |
//! | `channel`, `table` | the mailbox as clients see it; the slots that clients and the device share |
//! | `charge`, `releases`, `deferred_drop` | accounting of memory that returns later |
//! | `device_status` | the end of an epoch, as both sides observe it |
//! | `report`, [`metrics`], `profile`, [`journal`] | what a device reports |
//! | `lines`, `printed` | what the threads of a launch print, and what the launches of a device have printed |
//!
//! Users depend on `millstream`, which re-exports the user-facing types. More is public here because several crates
//! build on this one.

mod backend;
mod binding;
pub mod block;
mod cancel;
mod channel;
mod charge;
mod deferred_drop;
mod device_status;
mod element;
mod error;
mod failure;
mod feature;
pub mod hazard;
mod health;
mod health_state;
mod id;
#[cfg_attr(not(feature = "journal"), path = "no_journal.rs")]
pub mod journal;
mod kernel;
mod landing;
mod launch;
mod layout;
mod lines;
pub mod marks;
mod memory;
mod message;
pub mod metrics;
mod options;
mod printed;
mod priority;
mod process;
mod profile;
mod properties;
pub mod recording;
mod releases;
mod report;
pub mod settle;
pub mod staging;
mod table;
pub mod threads;

pub use backend::{
    Backend, BoundCount, BoundPlan, BoundSlice, Call, Compiler, CompletionWait, Held, HostContext,
    HostData, Large, Launch, Open, Plan, Prepared, Replay, Span, StartOutcome, Step, TaskPoint,
    Verdict,
};
pub use binding::{Access, Binding};
#[doc(hidden)]
pub use bytemuck; // for what `#[kernel]` writes
pub use cancel::{CancelToken, DropGuard, Ring, Tally, Terms, Withdrawal, Withdrawals};
pub use channel::{ComputeChannel, Job, Message, Refusal, Slot, StepIn};
pub use charge::{Charge, Holding, Limit};
pub use deferred_drop::{DeferredDrop, Release};
pub use device_status::DeviceStatus;
pub use element::{Element, Stored, bf16, f16};
pub use error::{
    ArgumentError, ArgumentErrorKind, Error, Full, KernelError, MemoryError, OpenError, Refused,
    ReopenError,
};
pub use failure::{Bytes, Extent, Failure, FailureRef, Origin, Reason, Remote};
pub use feature::Feature;
pub use health::{Health, Recovery};
pub use health_state::{HealthState, HealthWatch, Remains};
pub use id::{
    ClientId, ClientSlotId, Cursor, KernelId, MAX_QUEUES, Point, QueueId, RecordingId, SliceId,
    StreamId,
};
pub use kernel::{
    AnyCubes, AtomicElement, BackendKernel, BindingSpec, Cube, CubeShape, Kernel, NativeArgs,
    NativeKernel, NativeView, ScalarSpec, Share, Signature, Source,
};
pub use landing::{Landed, Landing, VecLanding};
pub use launch::{
    INLINE_BINDINGS, INLINE_WORDS, Im2colMap, Inline, LaunchCount, Metadata, OutOfBoundsFill,
    Pattern, Prefetch, Swizzle, TensorInterleave, TensorMap, TensorMapFormat,
};
pub use layout::{Axes, Misfit, Strided, check_layout, for_each_run};
pub use lines::{Lines, PRINTED_LINES_MAX};
pub use memory::{AllocationMode, MemoryOptions, PageError, PageId};
pub use message::{
    CopyOut, Custom, CustomWork, DeviceRequest, Extra, FailFn, HostBytes, HostDone, HostFn,
    HostNeeds, HostOutcome, HostPlace, HostSource, HostUpload, HostWork, NewStream, Op, OwnedBytes,
    Registration, ReleaseToken, Reply, RestFn, Scope, Spans, SyncParts, Task, TaskExtras, Ticket,
};
pub use options::{AtLimit, DeviceOptions, LogLevel, Logs, Settings, Strategy};
pub use printed::{Printed, Prints};
pub use priority::Priority;
pub use process::Process;
pub use profile::{ClockSource, KernelProfile, Profile, ProfileDuration, ProfileToken};
pub use properties::{ALIGNMENT_MAX, ALIGNMENT_MIN, DeviceProperties};
pub use releases::Releases;
pub use report::{
    ClientMemory, MemoryReport, MemoryUsage, QueueStats, Report, Stats, TraceSpan, TraceWait,
};
pub use table::{DropSink, Shared, SlotRef, Table};
