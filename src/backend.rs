//! What a backend is made of: the trait, what it is given, and what it may share with others.
//!
//! A *backend* makes a kind of device: [`Open`] is its options, [`Backend`] the device. It stays thin, for the runtime
//! validates, orders and owns (the trait's documentation says who has which duty). `examples/backend` is a small one that is
//! whole; the guide's page "Writing a backend" walks through it, and says how the suite of the runtime's behaviour
//! (`millstream-conformance`) runs on yours.
//!
//! | | |
//! | --- | --- |
//! | [`Timeline`], [`Cursor`], [`Point`] | how far a queue is; a backend publishes it, and everybody waits on it |
//! | [`settle`], [`Table`] | failures that become known while a task runs, where tasks can fail then |
//! | [`host_memory`] | for devices whose memory is the host's: pages, strided copies, native kernels, resources |
//! | [`HostMemory`], [`HostContext::set_host_memory`] | pinned memory that uploads of clients lie in from the start, where a device has such |
//! | [`Spawner`], [`Thread`], [`mark_runtime_thread`] | threads of the backend's own |
//! | [`Gone`] | how a backend tells of a loss that it notices by itself |

pub use millstream_core::backend::*;
pub use millstream_core::gone::Gone;
pub use millstream_core::handle::Table;
pub use millstream_core::host_memory;
pub use millstream_core::id::{Cursor, MAX_QUEUES, Point, RecordingId};
pub use millstream_core::kernel::{NativeKernel, NativeView};
pub use millstream_core::landing::Landing;
pub use millstream_core::layout::Strided;
pub use millstream_core::marks::mark_runtime_thread;
pub use millstream_core::memory::PageId;
pub use millstream_core::message::{HostBytes, Pattern};
pub use millstream_core::properties::{ALIGNMENT_MAX, ALIGNMENT_MIN};
pub use millstream_core::settle;
pub use millstream_core::staging::{HostBlock, HostMemory};
pub use millstream_core::threads::{Spawner, Thread};
pub use millstream_sync::timeline::Timeline;
