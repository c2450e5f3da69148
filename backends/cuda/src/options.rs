//! What can be chosen of a GPU as a device, and opening it.

use std::path::PathBuf;

use cudarc::driver::sys::{CUcontext, CUstream};
use millstream_protocol::backend::{HostContext, Open};
use millstream_protocol::error::OpenError;
use millstream_protocol::id::MAX_QUEUES;
use millstream_protocol::priority::Priority;

use crate::adopted::{Adopted, Handle};
use crate::device::{CudaDevice, Plan};
use crate::driver::{Context, CuStream, gpus, refused};
use crate::nvrtc::{self, Cache};
use crate::product;

/// Queues where nothing is said: more rarely overlap usefully.
const QUEUES: usize = 4;
/// Queues for streams of high and of low priority, where there are such.
const PRIORITY_QUEUES: usize = 2;

/// A GPU as a device: options, and how it is opened.
///
/// Nothing of CUDA is linked. Where the driver is missing, too old, or sees no GPU, opening says so, and what to do:
///
/// ```
/// use millstream_cuda::Cuda;
///
/// match millstream_cuda::gpus() {
///     Ok(gpus) => println!("{} GPUs, the first is {}", gpus.len(), gpus[0].name),
///     Err(why) => println!("{why}"),
/// }
/// let first = Cuda::ordinal(0).queues(4);
/// # let _ = first;
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cuda {
    ordinal: usize,
    queues: Option<usize>,
    priority_queues: Option<bool>,
    adopted: Option<Adopted>,
    cache: CacheFolder,
    to_ptx: bool,
    library_from: Option<u64>,
}

/// Where compiled kernels are kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum CacheFolder {
    /// Where the system keeps such for this user.
    #[default]
    Users,
    Given(PathBuf),
    None,
}

/// A GPU that this process sees.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GpuInfo {
    /// Its place in the driver's order, for [`Cuda::ordinal`].
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// What tells it from others of its kind, as `nvidia-smi -L` prints it.
    pub uuid: String,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The newest CUDA that the driver serves, major and minor.
    pub driver: (u32, u32),
}

/// The GPUs that this process sees. The driver is loaded if it is there.
///
/// # Errors
/// [`OpenError::Unavailable`]: there is no driver, it is too old, or it sees no GPU; and what to do.
pub fn gpus_seen() -> Result<Vec<GpuInfo>, OpenError> {
    let describe = |gpu: crate::driver::Gpu| GpuInfo {
        ordinal: gpu.ordinal,
        name: gpu.name,
        uuid: gpu.uuid,
        memory_bytes: gpu.memory_bytes,
        driver: (
            gpu.driver_version as u32 / 1000,
            gpu.driver_version as u32 % 1000 / 10,
        ),
    };
    Ok(gpus()?.into_iter().map(describe).collect())
}

/// The version of NVRTC, major and minor, which compiles CUDA C. It is loaded if it is there; it needs no GPU.
///
/// # Errors
/// [`OpenError::Unavailable`]: it is not on this machine; and what to do.
pub fn compiler() -> Result<(u32, u32), OpenError> {
    nvrtc::version().map_err(|why| OpenError::Unavailable {
        backend: "NVRTC",
        why,
    })
}

/// The version of cuBLASLt, as it tells it (130100 is 13.1.0), which does large products. It is loaded if it is there.
///
/// # Errors
/// [`OpenError::Unavailable`]: it is not on this machine; and what to do.
pub fn product_library() -> Result<usize, OpenError> {
    product::version().map_err(|why| OpenError::Unavailable {
        backend: "cuBLASLt",
        why: why.to_owned(),
    })
}

impl Cuda {
    /// The GPU at this place of the driver's order, from 0.
    #[must_use]
    pub fn ordinal(ordinal: usize) -> Self {
        Self {
            ordinal,
            ..Self::default()
        }
    }

    /// The GPU of a context that somebody else has made, an engine's, and in that context. Its primary context is left
    /// alone.
    ///
    /// # Safety
    /// The context lives until the device is closed and all that was made of it (answers, guards, clients) is dropped.
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

    /// The same, with streams that somebody else has made as its queues, one each. Their order is shared: a task comes after
    /// what they were given before, and what they are given then comes after the task. They are not ended with the
    /// device, but waited for.
    ///
    /// # Safety
    /// As [`Cuda::adopt_context`], of the streams, too. None of them is in a capture while the device is open.
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

    /// Compiles CUDA C, and programs of the IR, to PTX, which the driver makes code of: for a GPU that is newer than the compiler,
    /// and for drivers that take no binaries. The default is a binary for the very GPU.
    #[must_use]
    pub fn compile_to_ptx(mut self, to_ptx: bool) -> Self {
        self.to_ptx = to_ptx;
        self
    }

    /// How many queues there are: a stream of the driver each, and a thread that sleeps until it has come on. The
    /// default is 4, and two priority queues ([`Cuda::priority_queues`]); who says a number gets so many and no more.
    #[must_use]
    pub fn queues(mut self, queues: usize) -> Self {
        self.queues = Some(queues);
        self
    }

    /// Whether streams of high and of low [`Priority`] have a queue each of their own, whose kernels the GPU begins
    /// before those of the others, or after them. Without, priorities decide in which order tasks are given to the
    /// GPU, and no more.
    #[must_use]
    pub fn priority_queues(mut self, wanted: bool) -> Self {
        self.priority_queues = Some(wanted);
        self
    }

    /// Keeps kernels that were compiled from CUDA C in this folder, by the content of all that they are made of. The
    /// default is `millstream/cuda` in the user's folder for caches (`XDG_CACHE_HOME`, or `~/.cache`). A folder that cannot be
    /// written costs the compilation each time, and a warning in the log.
    #[must_use]
    pub fn kernel_cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cache = CacheFolder::Given(folder.into());
        self
    }

    /// From how many multiplications on a product of floats (a graph's `matmul`: rows x columns x depth x batch) is done by
    /// cuBLASLt, where that library is on the machine: 0 is all that it can do, `u64::MAX` none. The default is 2^21, about 128
    /// cubed, which was not measured yet. The library adds up in another order than the kernels of this backend do, and the
    /// order may depend on the GPU; `f32` is multiplied as such, not as TF32. It works in 32 MiB of the GPU's memory for each queue that
    /// has such products, which count for no client. A recording with one is replayed task by task.
    #[must_use]
    pub fn library_products_from(mut self, multiplications: u64) -> Self {
        self.library_from = Some(multiplications);
        self
    }

    /// Keeps no compiled kernels.
    #[must_use]
    pub fn no_kernel_cache(mut self) -> Self {
        self.cache = CacheFolder::None;
        self
    }

    /// The priority of each queue, or none, where all are alike; and how many there are.
    fn plan(&self) -> Result<(usize, Vec<Priority>), OpenError> {
        let normal = self.queues.unwrap_or(QUEUES);
        let by_priority = self.priority_queues.unwrap_or(self.queues.is_none());
        let queues = match by_priority {
            true => normal.saturating_add(PRIORITY_QUEUES),
            false => normal,
        };
        if normal == 0 || queues > MAX_QUEUES {
            const { assert!(MAX_QUEUES == 16 && PRIORITY_QUEUES == 2, "the text says so") };
            return Err(OpenError::Option {
                option: "queues",
                given: normal.to_string(),
                must: "from 1 to 16, and to 14 beside priority queues",
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

impl Open for Cuda {
    type Backend = CudaDevice;

    const NAME: &'static str = "cuda";

    fn again(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn open(self, context: HostContext) -> Result<CudaDevice, OpenError> {
        let (queues, priorities) = self.plan()?;
        let cache = Cache::new(match self.cache {
            CacheFolder::Users => Cache::default_folder(),
            CacheFolder::Given(folder) => Some(folder),
            CacheFolder::None => None,
        });
        let mut gpus = gpus()?;
        let (opened, streams) = match &self.adopted {
            // SAFETY: whoever adopts it promises that it lives.
            Some(adopted) => (
                unsafe { Context::adopt(adopted.context.0, gpus) }?,
                adopted.streams.as_slice(),
            ),
            None if self.ordinal < gpus.len() => (
                Context::retain(gpus.swap_remove(self.ordinal))?,
                [].as_slice(),
            ),
            None => {
                return Err(OpenError::Unavailable {
                    backend: "cuda",
                    why: format!(
                        "there is no GPU {}, the driver sees {}: choose one from 0 to {}",
                        self.ordinal,
                        gpus.len(),
                        gpus.len() - 1
                    ),
                });
            }
        };
        let streams = streams.iter().map(|stream| stream.0);
        let streams = streams.map(|stream| {
            // SAFETY: as above.
            let adopted = unsafe { CuStream::adopt(&opened, stream) };
            adopted
                .map_err(|code| refused("cuStreamGetCtx", code))?
                .ok_or_else(|| OpenError::Unavailable {
                    backend: "cuda",
                    why: "a stream that it is to adopt is of another context than the one that it is to adopt"
                        .to_owned(),
                })
        });
        let streams = streams.collect::<Result<Vec<_>, _>>()?;
        let plan = Plan {
            queues,
            priorities,
            streams,
            cache,
            to_ptx: self.to_ptx,
            library_from: self.library_from.unwrap_or(product::FROM),
        };
        CudaDevice::open(&opened, plan, context)
    }
}
