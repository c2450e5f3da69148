//! What can be chosen of a GPU as a device, and opening it.

use millstream_core::backend::{HostContext, Open};
use millstream_core::error::OpenError;
use millstream_core::id::MAX_QUEUES;
use millstream_core::stream::Priority;

use crate::device::CudaDevice;
use crate::driver::gpus;
use crate::nvrtc;

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

impl Cuda {
    /// The GPU at this place of the driver's order, from 0.
    #[must_use]
    pub fn ordinal(ordinal: usize) -> Self {
        Self {
            ordinal,
            queues: None,
            priority_queues: None,
        }
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
        let mut gpus = gpus()?;
        if self.ordinal >= gpus.len() {
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
        CudaDevice::open(gpus.swap_remove(self.ordinal), queues, priorities, context)
    }
}
