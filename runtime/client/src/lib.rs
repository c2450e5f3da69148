//! The client side of a device: clients, streams, kernels, answers and recordings.
//!
//! All code here runs on the user's threads. It checks arguments, builds messages and waits for answers. It makes no
//! scheduling decision: those are the server's.

pub mod arguments;
mod backpressure;
mod callback;
mod compute;
mod copies;
mod create;
mod device;
mod epochs;
mod external;
mod foreign_memory;
mod grants;
pub mod handle;
mod helpers;
mod host;
mod kernel;
mod launch;
mod of_process;
mod pending;
mod points;
mod prepare;
mod prepared;
mod profiles;
mod queries;
mod readbacks;
mod record;
mod recycled;
mod replay;
mod reserve;
#[cfg(feature = "journal")]
pub mod resubmit;
mod returned;
mod room;
mod scalar_values;
mod staged;
mod stream;
mod task_end;
mod tensors;
mod typed_kernel;
mod when_ready;

pub(crate) use crate::epochs::{ClientEpoch, ClientLimits};
pub(crate) use backpressure::{Permit, Requester};
pub use compute::{ClientBuilder, ComputeClient, WEIGHT_MAX};
pub use device::DeviceShared;
pub use epochs::DeviceEpochs;
pub use external::{ExternalTask, ResourceGuard};
pub use helpers::Helper;
pub use host::{IntoBindings, ResourceReply, ResourceWork};
pub use kernel::KernelHandle;
pub(crate) use pending::Finish;
pub use pending::Pending;
pub use points::StreamPoint;
pub use readbacks::{Readback, ReadbackSender, Readbacks, readbacks};
pub use record::Recorder;
pub use recycled::Recycled;
pub use replay::{Recording, ReplayArgs, any_overlap};
pub use returned::Returned;
pub use staged::{HostBuffer, LateWrite, StagedTask};
pub use stream::Stream;
pub use tensors::{Tensor, TensorSpec};
pub use typed_kernel::TypedKernel;
