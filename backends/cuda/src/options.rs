//! The options of a CUDA device.

use std::path::PathBuf;

use cudarc::driver::sys::{CUcontext, CUstream};
use millstream_gpu::{CacheFolder, setters, unavailable};
use millstream_protocol::{MAX_QUEUES, OpenError, Priority};

use crate::adopted::{Adopted, Handle};
use crate::driver::{GpuInfo, gpus};
use crate::{nvrtc, product};

/// Default number of queues; more rarely overlap usefully.
const QUEUES: usize = 4;
/// Number of additional queues for high and low priority.
const PRIORITY_QUEUES: usize = 2;

/// The options of a GPU as a device.
///
/// No CUDA library is linked. If the driver is missing or too old, or sees no GPU, opening returns an error that says
/// what to do:
///
/// ```
/// use millstream_cuda::Cuda;
///
/// match millstream_cuda::gpus() {
///     Ok(gpus) => println!("{} GPUs, the first is {}", gpus.len(), gpus[0].name),
///     Err(error) => println!("{error}"),
/// }
/// let first = Cuda::ordinal(0).queues(4);
/// # let _ = first;
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cuda {
    pub(crate) ordinal: usize,
    pub(crate) queues: Option<usize>,
    pub(crate) priority_queues: Option<bool>,
    pub(crate) adopted: Option<Adopted>,
    pub(crate) cache: CacheFolder,
    pub(crate) to_ptx: bool,
    pub(crate) multiplications_min: Option<u64>,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) unpooled: bool,
}

/// Lists the GPUs that this process sees. Loads the driver.
///
/// # Errors
/// [`OpenError::Unavailable`]: the driver is missing or too old, or sees no GPU. The message says what to do.
pub fn gpus_seen() -> Result<Vec<GpuInfo>, OpenError> {
    Ok(gpus()?.into_iter().map(|gpu| gpu.info).collect())
}

/// Returns the version of NVRTC, the compiler for CUDA C, as major and minor. Loads NVRTC; needs no GPU.
///
/// # Errors
/// [`OpenError::Unavailable`]: NVRTC is not available. The message says what to do.
pub fn compiler() -> Result<(u32, u32), OpenError> {
    nvrtc::version().map_err(|why| unavailable("NVRTC", why))
}

/// Returns the version of cuBLASLt, the library for large products, in the library's format (130100 is 13.1.0). Loads
/// the library.
///
/// # Errors
/// [`OpenError::Unavailable`]: cuBLASLt is not available. The message says what to do.
pub fn product_library() -> Result<usize, OpenError> {
    product::version().map_err(|why| unavailable("cuBLASLt", why))
}

impl Cuda {
    /// Selects the GPU at this index of the driver's order, from 0.
    #[must_use]
    pub fn ordinal(ordinal: usize) -> Self {
        Self {
            ordinal,
            ..Self::default()
        }
    }

    /// Adopts a context that the application created, with its GPU. The GPU's primary context is not used.
    ///
    /// # Safety
    /// The context must live until the device is closed and all its clients, answers, guards and fleets are dropped.
    #[must_use]
    pub unsafe fn adopt_context(context: CUcontext) -> Self {
        Self {
            adopted: Some(Adopted {
                context: Handle(context),
                streams: Vec::new(),
            }),
            ..Self::ordinal(0)
        }
    }

    /// Adopts a context and streams that the application created; each stream becomes a queue. Work that the
    /// application submits to a stream and the tasks of its queue run in the order of submission. Closing the device
    /// waits for the streams, but does not destroy them.
    ///
    /// # Safety
    /// The same as for [`Cuda::adopt_context`], also for the streams. None of them may be in capture while the device
    /// is open.
    #[must_use]
    pub unsafe fn adopt_streams(context: CUcontext, streams: &[CUstream]) -> Self {
        Self {
            queues: Some(streams.len()),
            adopted: Some(Adopted {
                context: Handle(context),
                streams: streams.iter().copied().map(Handle).collect(),
            }),
            ..Self::ordinal(0)
        }
    }

    /// Returns the number of queues and the priority of each; empty if all are equal.
    pub(crate) fn queue_priorities(&self) -> Result<(usize, Vec<Priority>), OpenError> {
        let normal = self.queues.unwrap_or(QUEUES);
        let by_priority = self.priority_queues.unwrap_or(self.queues.is_none());
        let queues = match by_priority {
            true => normal.saturating_add(PRIORITY_QUEUES),
            false => normal,
        };
        if normal == 0 || queues > MAX_QUEUES {
            const {
                assert!(
                    MAX_QUEUES == 16 && PRIORITY_QUEUES == 2,
                    "the message says 16 and 14"
                );
            };
            return Err(OpenError::Option {
                option: "queues",
                given: normal.to_string(),
                must: "from 1 to 16, or from 1 to 14 with priority queues",
            });
        }
        let mut priorities = Vec::new();
        if by_priority {
            priorities.resize(normal, Priority::Normal);
            priorities.extend([Priority::High, Priority::Low]);
        }
        Ok((queues, priorities))
    }
}

setters! {
    Cuda:

    /// Compiles CUDA C and IR programs to PTX, which the driver compiles further. For GPUs that are newer than the
    /// compiler, and for drivers that accept no binaries. By default kernels are compiled to a binary for the GPU.
    compile_to_ptx(to_ptx: bool) => to_ptx = to_ptx;

    /// Sets the number of queues. Each is a stream of the driver with a thread that sleeps until a batch completes. The
    /// default is 4 queues and two priority queues ([`Cuda::priority_queues`]); setting a number disables the priority
    /// queues unless they are requested.
    queues(queues: usize) => queues = Some(queues);

    /// Sets whether streams of high and low [`Priority`] have a queue of their own, whose kernels the GPU starts before
    /// or after those of the other queues. All others have the GPU's default priority, as streams of other libraries do;
    /// on most GPUs no priority is lower. Without priority queues, priorities only affect the order in which tasks are
    /// submitted to the GPU.
    priority_queues(enabled: bool) => priority_queues = Some(enabled);

    /// Sets the folder of the cache of compiled kernels, which is keyed by the content of all inputs. The default is
    /// `millstream/cuda` in the user's cache folder (`XDG_CACHE_HOME`, or `~/.cache`). If the folder cannot be written,
    /// each kernel is compiled again and a warning is logged.
    kernel_cache(folder: impl Into<PathBuf>) => cache = CacheFolder::Given(folder.into());

    /// Sets the fewest multiplications (rows x columns x depth x batch) of a product of floats that cuBLASLt performs,
    /// if the library is available. 0 selects every product that the library supports, `u64::MAX` none. The default is
    /// 2^21, about 128 cubed, which is not measured yet.
    ///
    /// The library sums in another order than the kernels of this backend, which may depend on the GPU. It multiplies
    /// `f32` as such, not as TF32. Each queue with such products uses a workspace of 32 MiB of GPU memory, which does
    /// not count against any client. A recording with such a product is replayed task by task.
    library_products_from(multiplications: u64) => multiplications_min = Some(multiplications);

    /// Sets the most bytes of device memory that slices may use in total. The default is no limit but that of the GPU. The
    /// workspaces of cuBLASLt ([`Cuda::library_products_from`]) and the code of kernels do not count.
    memory_limit(bytes: u64) => memory_limit = Some(bytes);

    /// Sets whether pages come from a memory pool of the driver, if the GPU has pools. The default is `true`.
    ///
    /// The pool keeps the memory of freed pages for later ones; `memory_cleanup` returns it to the GPU. Other processes
    /// cannot open memory of a pool by its address (`cuIpcGetMemHandle`), as UCX and MPI do. With `false` each page is an
    /// allocation of its own, which they can open. To free one, the driver waits for all kernels of the context, and
    /// so do the tasks behind it: set [`MemoryOptions`](millstream_protocol::MemoryOptions) so that pages are
    /// kept.
    memory_pool(enabled: bool) => unpooled = !enabled;

    /// Disables the cache of compiled kernels.
    no_kernel_cache() => cache = CacheFolder::None;
}
