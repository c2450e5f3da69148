//! CUDA GPUs as devices of millstream.
//!
//! ```text
//!  device thread                                  driver                  a thread per queue
//!  CudaDevice ── launch, copy ──► CuStream ──► (GPU runs)
//!      └── flush: one event ──────────────────► CuEvent ──► Completer: lands what was read back, publishes
//! ```
//! Not run on hardware yet. Cube counts are not read on the device: the driver launches what the host says.
//!
//! | module | what |
//! | --- | --- |
//! | `driver` | the driver behind values of our own; loaded at run time |
//! | `device` | [`CudaDevice`]: the [`Backend`](millstream_protocol::backend::Backend), on the device thread |
//! | `adopted` | contexts and streams of others, and ours for others |
//! | `queue` | a stream and the events of its batches |
//! | `completer`, `word` | progress: the thread that waits for events; the word that a stream writes, on driven devices |
//! | `copies`, `parts` | copies, and the calls of the driver that each is |
//! | `peer` | copies from one GPU to another, within a custom task |
//! | `trace` | when tasks ran, by the GPU's clock |
//! | `staging` | pinned blocks that copies go through |
//! | `pages` | memory, and how bindings resolve to addresses |
//! | `launch` | launches: bindings and values become the parameters of an entry point; tensor maps |
//! | `replay` | recordings, launched as graphs |
//! | `kernel` | sources become functions, checked against their signatures |
//! | `ir` | programs of millstream's IR, as CUDA C |
//! | `product` | large products, by cuBLASLt where it is |
//! | `nvrtc` | CUDA C to binaries, and a cache of them on disk |

mod adopted;
mod completer;
mod copies;
mod device;
mod driver;
mod fill;
mod ir;
mod kernel;
mod launch;
mod nvrtc;
mod options;
mod pages;
mod parts;
mod peer;
mod product;
mod properties;
mod queue;
mod replay;
mod staging;
mod trace;
mod word;

pub use adopted::CudaRaw;
pub use device::{CudaDevice, CudaResources};
pub use launch::CudaLaunch;
pub use nvrtc::{Compiled, KeptKernels, KernelCache, compile_for, cuda_c, kept_kernels, ptx_for};
pub use options::{Cuda, GpuInfo, compiler, gpus_seen as gpus, product_library};
pub use peer::PeerPlace;
