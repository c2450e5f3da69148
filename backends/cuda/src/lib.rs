//! CUDA GPUs as devices of millstream.
//!
//! ```text
//!  device thread                                  driver                  a thread per queue
//!  CudaDevice ── launch, copy ──► CuStream ──► (GPU runs)
//!      └── flush: one event ──────────────────► CuEvent ──► Completer: copies readbacks, publishes the cursor
//! ```
//! This backend has not run on hardware yet. It does not read cube counts from device memory: the driver launches the
//! number of cubes that the host passes.
//!
//! | module | contents |
//! | --- | --- |
//! | `library` | NVIDIA's libraries, which are loaded at run time |
//! | `driver` | safe owners for the driver's handles |
//! | `device` | [`CudaDevice`]: the [`Backend`](millstream_protocol::Backend), on the device thread |
//! | `adopted` | adopting an application's context and streams, and exposing ours to it |
//! | `queue` | a stream of the driver and the events of its batches |
//! | `completer` | progress: the thread that waits for events |
//! | `copies` | copies between host and GPU, and within the GPU |
//! | `consumer` | streams of other libraries that use memory of a guard |
//! | `peer` | copies from one GPU to another, within a custom task |
//! | `lane` | streams outside of the queues, for work on the memory of external tasks |
//! | `pieces` | copies of lanes from and to pinned memory of the host |
//! | `current` | the context of a device on the threads of other libraries |
//! | `trace` | start and end times of tasks, by the GPU's clock |
//! | `pinned` | pinned memory for copies between host and GPU |
//! | `launch` | the parameters and attributes of a launch; tensor maps |
//! | `fill` | fills, as memsets of the driver |
//! | `replay` | replays of recordings as graphs of the driver |
//! | `kernel` | compiles sources to functions and checks them against their signatures |
//! | `ir` | prints programs of millstream's IR as CUDA C |
//! | `product` | large matrix products by cuBLASLt |
//! | `nccl` | collectives of several GPUs by NCCL |
//! | `nvrtc` | compiles CUDA C to binaries, with a cache on disk |

mod adopted;
mod completer;
mod consumer;
mod copies;
mod current;
mod device;
mod driver;
mod fill;
mod ir;
mod kernel;
mod lane;
mod launch;
mod library;
mod nccl;
mod nvrtc;
mod options;
mod peer;
mod pieces;
mod pinned;
mod product;
mod properties;
mod queue;
mod replay;
mod trace;

pub use adopted::CudaRaw;
pub use consumer::ConsumerStream;
pub use current::CurrentContext;
pub use device::{CudaDevice, CudaResources};
pub use driver::{GpuInfo, Pinned as HostPiece};
pub use lane::{Lane, Mark};
pub use launch::CudaLaunch;
pub use millstream_gpu::CacheContents;
pub use nccl::{
    CollectiveOperation, CollectivePart, Communicators, ReductionOperation, collective_library,
    nccl_reduces,
};
pub use nvrtc::{Compiled, KernelCache, cached_kernels, compile_for, cuda_c, ptx_for};
pub use options::{Cuda, compiler, gpus_seen as gpus, product_library};
pub use peer::PeerPlace;
pub use pieces::PieceCopy;
