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
//! | [`Block`], [`for_each_run`], [`host_memory`] | for devices whose memory is the host's: pages, strided copies, native kernels and resources |
//! | [`HostMemory`], [`HostContext::set_host_memory`] | pinned memory that uploads of clients lie in from the start, where a device has such |
//! | [`Spawner`], [`Thread`], [`mark_runtime_thread`] | threads of the backend's own |
//! | [`Gone`] | how a backend tells of a loss that it notices by itself |

pub use millstream_host as host_memory;
pub use millstream_protocol::backend::*;
pub use millstream_protocol::device_status::Gone;
pub use millstream_protocol::error::Refused;
pub use millstream_protocol::id::{Cursor, MAX_QUEUES, Point, RecordingId};
pub use millstream_protocol::kernel::{BackendKernel, NativeKernel, NativeView};
pub use millstream_protocol::landing::Landing;
pub use millstream_protocol::launch::Pattern;
pub use millstream_protocol::layout::{Strided, check_layout, for_each_run};
pub use millstream_protocol::marks::mark_runtime_thread;
pub use millstream_protocol::memory::PageId;
pub use millstream_protocol::message::{CustomWork, HostBytes};
pub use millstream_protocol::properties::{ALIGNMENT_MAX, ALIGNMENT_MIN};
pub use millstream_protocol::settle;
pub use millstream_protocol::staging::{Block, HostBlock, HostMemory};
pub use millstream_protocol::table::Table;
pub use millstream_protocol::threads::{Spawner, Thread};
pub use millstream_sync::payload::panic_message;
pub use millstream_sync::timeline::Timeline;
