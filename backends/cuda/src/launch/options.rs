//! What a launch of a CUDA kernel has beyond cubes, threads and shared memory.

/// How CUDA launches a kernel, beyond what every device knows of it: an extension of the kernel
/// ([`Kernel::with`](millstream_protocol::kernel::Kernel::with)).
///
/// The entry point takes, in this order: a pointer for each binding, each scalar by value, a
/// `const __grid_constant__ CUtensorMap` for each tensor map, and a structure of `unsigned` for the metadata words.
///
/// ```
/// use millstream_protocol::kernel::Kernel;
/// use millstream_cuda::CudaLaunch;
///
/// let kernel = Kernel::new("reduce")
///     .reads::<f32>("values")
///     .writes::<f32>("sum")
///     .with(CudaLaunch::default().cluster([4, 1, 1]).metadata_words(16))
///     .cuda(r#"
///         struct Metadata { unsigned words[16]; };
///         extern "C" __global__ void reduce(const float* values, float* sum, const __grid_constant__ Metadata metadata) {}
///     "#);
/// # let _ = kernel;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CudaLaunch {
    /// Cubes of a cluster along each axis.
    pub(crate) cluster: Option<[u32; 3]>,
    /// All cubes run at once, and may wait for each other.
    pub(crate) cooperative: bool,
    /// It may begin before what is ahead of it in its stream has ended.
    pub(crate) programmatic: bool,
    /// Tensor maps that the entry point takes.
    pub(crate) tensor_maps: usize,
    /// Words of metadata that the entry point has room for.
    pub(crate) metadata_words: usize,
}

/// Tensor maps of one launch, at most: they are made on the stack.
pub(crate) const TENSOR_MAPS_MAX: usize = 8;
/// Words of metadata of one launch, at most. A launch has 4 KiB of parameters on every GPU, and this leaves half.
pub(crate) const METADATA_WORDS_MAX: usize = 512;
/// Cubes of a cluster that every GPU with clusters has room for. More must be asked for.
pub(crate) const CLUSTER_PORTABLE: u32 = 8;

impl CudaLaunch {
    /// Runs so many cubes along each axis as a cluster: together, within reach of each other's shared memory. The cubes
    /// of a launch must be a multiple of it. For GPUs of compute capability 9.0 and later; more than 8 cubes are more
    /// than some of those have room for.
    #[must_use]
    pub fn cluster(mut self, cubes: [u32; 3]) -> Self {
        self.cluster = Some(cubes);
        self
    }

    /// Runs all cubes at once, so that they may wait for each other (a grid barrier). A launch of more cubes than the
    /// GPU has room for at once is refused.
    #[must_use]
    pub fn cooperative(mut self) -> Self {
        self.cooperative = true;
        self
    }

    /// Lets the kernel begin before the one ahead of it in its stream has ended (programmatic dependent launch). What
    /// it does before `cudaGridDependencySynchronize` must not touch what others write: nothing orders it.
    ///
    /// # Safety
    /// The kernel calls `cudaGridDependencySynchronize` (`griddepcontrol.wait`) before it touches its bindings.
    #[must_use]
    pub unsafe fn programmatic(mut self) -> Self {
        self.programmatic = true;
        self
    }

    /// The entry point takes so many tensor maps, behind bindings and scalars. A launch must bring as many. For GPUs of
    /// compute capability 9.0 and later; at most 8.
    #[must_use]
    pub fn tensor_maps(mut self, count: usize) -> Self {
        const { assert!(TENSOR_MAPS_MAX == 8, "the text says 8") };
        self.tensor_maps = count;
        self
    }

    /// The entry point takes a structure of so many `unsigned` by value, as its last parameter: the launch's metadata,
    /// zeros behind its last word. A launch that brings more words is refused; at most 512.
    #[must_use]
    pub fn metadata_words(mut self, words: usize) -> Self {
        const { assert!(METADATA_WORDS_MAX == 512, "the text says 512") };
        self.metadata_words = words;
        self
    }
}
