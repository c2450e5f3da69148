//! Launch options of CUDA kernels.

use millstream_gpu::setters;

/// The launch options of a kernel that only CUDA has: an extension of the kernel
/// ([`Kernel::with`](millstream_protocol::Kernel::with)).
///
/// The entry point takes these parameters, in this order: a pointer for each binding, each scalar by value, a
/// `const __grid_constant__ CUtensorMap` for each tensor map, and a struct of `unsigned` for the metadata words.
///
/// ```
/// use millstream_protocol::Kernel;
/// use millstream_cuda::CudaLaunch;
///
/// let kernel = Kernel::new("reduce")
///     .reads::<f32>("values")
///     .writes::<f32>("sum")
///     .with(CudaLaunch::default().cluster([4, 1, 1]).metadata_words(16))
///     .cuda(r#"
///         struct Metadata { unsigned words[16]; };
///         extern "C" __global__ void reduce(const float* values, float* sum, const __grid_constant__ Metadata
///         metadata) {}
///     "#);
/// # let _ = kernel;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CudaLaunch {
    /// Cubes of a cluster along each axis.
    pub(crate) cluster: Option<[u32; 3]>,
    /// All cubes run at once and may wait for each other.
    pub(crate) cooperative: bool,
    /// The kernel may start before the previous work of its stream has completed.
    pub(crate) programmatic: bool,
    /// Number of tensor maps that the entry point takes.
    pub(crate) tensor_maps: usize,
    /// Number of metadata words that the entry point takes.
    pub(crate) metadata_words: usize,
}

/// Most tensor maps of one launch; the device has a buffer for them.
pub(crate) const TENSOR_MAPS_MAX: usize = 8;
/// Most metadata words of one launch. They take half of the 4 KiB of parameters that every GPU supports.
pub(crate) const METADATA_WORDS_MAX: usize = 512;
/// Most cubes of a cluster that every GPU with clusters supports. Larger clusters need an attribute of the function.
pub(crate) const CLUSTER_PORTABLE: u32 = 8;

impl CudaLaunch {
    /// Lets the kernel start before the previous one of its stream has completed (programmatic dependent launch).
    /// Nothing orders the kernel's code before `cudaGridDependencySynchronize`, so that code must not access memory
    /// that another task writes.
    ///
    /// # Safety
    /// The kernel calls `cudaGridDependencySynchronize` (`griddepcontrol.wait`) before it accesses its bindings.
    #[must_use]
    pub unsafe fn programmatic(mut self) -> Self {
        self.programmatic = true;
        self
    }
}

setters! {
    CudaLaunch:

    /// Sets the number of cubes of a cluster along each axis. The cubes of a cluster run together and can access each
    /// other's shared memory. The cube count of a launch must be a multiple of the cluster. Requires compute capability
    /// 9.0; some GPUs do not support clusters of more than 8 cubes.
    cluster(cubes: [u32; 3]) => cluster = Some(cubes);

    /// Runs all cubes at once, so that they may wait for each other (a grid barrier). A launch of more cubes than fit
    /// on the GPU at once is refused.
    cooperative() => cooperative = true;

    /// Sets the number of tensor maps that the entry point takes after its bindings and scalars, at most 8. Each launch
    /// must pass as many. Requires compute capability 9.0.
    tensor_maps(count: usize) => tensor_maps = count;

    /// Sets the number of metadata words, at most 512. The entry point takes a struct of as many `unsigned` by value as
    /// its last parameter. Shorter metadata is padded with zeros; a launch with longer metadata is refused.
    metadata_words(words: usize) => metadata_words = words;
}

const _: () = assert!(TENSOR_MAPS_MAX == 8, "the documentation says 8");

const _: () = assert!(METADATA_WORDS_MAX == 512, "the documentation says 512");
