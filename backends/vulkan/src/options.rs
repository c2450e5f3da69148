//! The options of a Vulkan device.

use std::path::PathBuf;
use std::sync::Arc;

use millstream_gpu::{CacheFolder, setters};
use millstream_protocol::OpenError;

use crate::adopted::AdoptedDevice;
use crate::driver::{Gpu, Instance, Message, MessageHandler, Validation, version_text};

/// The options of a Vulkan device.
///
/// The loader is opened at run time. If there is no loader, no GPU, or the GPU lacks a feature, opening returns an error
/// that says what to do:
///
/// ```
/// use millstream_vulkan::Vulkan;
///
/// match millstream_vulkan::gpus() {
///     Ok(gpus) => println!("{} GPUs, the first is {}", gpus.len(), gpus[0].name),
///     Err(error) => println!("{error}"),
/// }
/// let first = Vulkan::ordinal(0).queues(2);
/// # let _ = first;
/// ```
#[derive(Clone, Default)]
pub struct Vulkan {
    pub(crate) ordinal: usize,
    pub(crate) queues: Option<usize>,
    pub(crate) validation: Validation,
    pub(crate) handler: Option<MessageHandler>,
    pub(crate) descriptors: bool,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) cache: CacheFolder,
    pub(crate) adopted: Option<AdoptedDevice>,
}

impl std::fmt::Debug for Vulkan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vulkan")
            .field("ordinal", &self.ordinal)
            .field("queues", &self.queues)
            .field("validation", &self.validation)
            .field("descriptors", &self.descriptors)
            .finish_non_exhaustive()
    }
}

/// A GPU that the Vulkan loader sees.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct GpuInfo {
    /// The index in the loader's order, for [`Vulkan::ordinal`].
    pub ordinal: usize,
    /// The name.
    pub name: String,
    /// The name and version of the driver.
    pub driver: String,
    /// The version of Vulkan, such as `1.3`.
    pub version: String,
    /// Bytes of memory that is local to the device.
    pub memory_bytes: u64,
    /// The number of queues that support compute.
    pub queues: usize,
    /// What the device lacks for this backend; empty if it can be opened.
    pub lacks: Vec<&'static str>,
}

/// Lists the GPUs that the Vulkan loader sees.
///
/// # Errors
/// [`OpenError::Unavailable`]: the loader is missing or too old, or sees no GPU. The message says what to do.
pub fn gpus() -> Result<Vec<GpuInfo>, OpenError> {
    let instance = Instance::new(Validation::Off, None)?;
    let describe = |gpu: Gpu| GpuInfo {
        ordinal: gpu.ordinal,
        memory_bytes: gpu.memory_bytes(),
        queues: gpu
            .families
            .iter()
            .map(|family| family.count as usize)
            .sum(),
        version: version_text(gpu.version),
        name: gpu.name,
        driver: gpu.driver,
        lacks: gpu.lacks,
    };
    Ok(Gpu::all(&instance)?.into_iter().map(describe).collect())
}

impl Vulkan {
    /// Selects the GPU at this index of the loader's order, from 0.
    #[must_use]
    pub fn ordinal(ordinal: usize) -> Self {
        Self {
            ordinal,
            ..Self::default()
        }
    }

    /// Adopts a device that the application created. Each queue of the application that is given serves a queue of
    /// millstream; if [`Vulkan::queues`] asks for more, several share one. Closing waits for these queues, and destroys
    /// neither the device nor the instance.
    ///
    /// # Safety
    /// The instance and the device must live until the device of millstream is closed, and all its clients, kernels,
    /// answers and guards are dropped. The required features and those of [`AdoptedFeatures`](crate::AdoptedFeatures)
    /// must be enabled. While the device is open, no other code may use the given queues; if it is driven, the
    /// application may use them on the thread that calls the device.
    #[must_use]
    pub unsafe fn adopt(device: AdoptedDevice) -> Self {
        Self {
            queues: Some(device.queues.len()),
            adopted: Some(device),
            ..Self::default()
        }
    }

    /// Returns `true` if Khronos' validation layer is installed.
    pub fn is_validation_installed() -> bool {
        Instance::has_validation()
    }
}

setters! {
    Vulkan:

    /// Sets the number of queues, from 1 to 16. Each has a timeline semaphore and a thread that sleeps until a batch
    /// completes. They are distributed over the queues of the driver that support compute, dedicated ones first; if the
    /// driver has fewer, several share one. The default is 4.
    queues(queues: usize) => queues = Some(queues);

    /// Sets what Khronos' validation layer checks. The layer must be installed. Its messages are logged, or go to the
    /// function of [`Vulkan::on_message`].
    validation(validation: Validation) => validation = validation;

    /// Sets the function that receives the messages of the validation layer. It may be called on any thread.
    on_message(handler: impl Fn(&Message) + Send + Sync + 'static) => handler = Some(Arc::new(handler));

    /// Sets the most bytes of device memory that slices may use in total. The default is no limit but that of the
    /// device.
    memory_limit(bytes: u64) => memory_limit = Some(bytes);

    /// Sets the folder of the pipeline cache, in which the driver keeps what it has compiled. The default is
    /// `millstream/vulkan` in the user's cache folder (`XDG_CACHE_HOME`, or `~/.cache`). If the folder cannot be
    /// written, a warning is logged.
    pipeline_cache(folder: impl Into<PathBuf>) => cache = CacheFolder::Given(folder.into());

    /// Disables the pipeline cache on disk.
    no_pipeline_cache() => cache = CacheFolder::None;

    /// Sets whether kernels receive their buffers as descriptors instead of addresses. Launches are slower; but
    /// synchronization validation sees only accesses through descriptors. Needs the extension `VK_KHR_push_descriptor`.
    descriptors(enabled: bool) => descriptors = enabled;
}
