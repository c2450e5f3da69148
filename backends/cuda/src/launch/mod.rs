//! Launches in the driver's terms: the parameters of an entry point, launch attributes, and tensor maps, which
//! `device::launching` builds; and [`CudaLaunch`], the launch options of a kernel that only CUDA has.

pub(crate) mod tensor_map;

use std::ffi::c_void;

use cudarc::driver::sys::{CUfunction, CUlaunchConfig, CUstream};
use millstream_gpu::setters;
use millstream_protocol::Refused;

use crate::driver::{Api, Code};

/// Most parameters of a launch; they are stored inline.
pub(crate) const PARAMETERS_INLINE: usize = 48;

/// Pointers to the parameters of an entry point, which the driver reads during the call.
pub(crate) struct Parameters {
    places: [*mut c_void; PARAMETERS_INLINE],
    count: usize,
}

impl Parameters {
    pub(crate) fn new() -> Self {
        Self {
            places: [std::ptr::null_mut(); PARAMETERS_INLINE],
            count: 0,
        }
    }

    /// The parameters of an entry point of an IR program: the addresses, then all words as one struct.
    pub(crate) fn of(addresses: &[u64], words: &[u64]) -> Result<Self, Refused> {
        let mut parameters = Self::new();
        for address in addresses {
            parameters.push(address)?;
        }
        if !words.is_empty() {
            parameters.push(words)?;
        }
        Ok(parameters)
    }

    /// Returns the array for the driver.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut *mut c_void {
        self.places.as_mut_ptr()
    }

    /// Returns a pointer to each parameter.
    pub(crate) fn values(&self) -> &[*mut c_void] {
        &self.places[..self.count]
    }

    /// Adds a parameter. The driver only reads it.
    #[inline]
    pub(crate) fn push<T: ?Sized>(&mut self, value: *const T) -> Result<(), Refused> {
        let Some(place) = self.places.get_mut(self.count) else {
            return Err(Refused::Task(format!(
                "expected at most {PARAMETERS_INLINE} kernel parameters, got more; pack scalars into a buffer"
            )));
        };
        *place = value.cast::<c_void>().cast_mut();
        self.count += 1;
        Ok(())
    }
}

/// A launch without its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) function: CUfunction,
    pub(crate) cubes: [u32; 3],
    pub(crate) threads: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) options: CudaLaunch,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            function: std::ptr::null_mut(),
            cubes: [0; 3],
            threads: [1; 3],
            shared_bytes: 0,
            options: CudaLaunch::default(),
        }
    }
}

// SAFETY: contains a function handle, which the driver accepts on any thread.
unsafe impl Send for Shape {}

impl Shape {
    /// Submits the launch to a stream.
    ///
    /// # Safety
    /// The function is alive, and each of its parameters has a value of its size.
    #[inline]
    pub(crate) unsafe fn issue(
        &self,
        api: &Api,
        stream: CUstream,
        parameters: *mut *mut c_void,
    ) -> Result<(), Code> {
        let ([x, y, z], [across, down, deep]) = (self.cubes, self.threads);
        let (function, bytes, none) = (self.function, self.shared_bytes, std::ptr::null_mut());
        if self.options.is_plain() {
            // SAFETY: the caller upholds the contract above.
            return unsafe {
                api.launch(
                    function, x, y, z, across, down, deep, bytes, stream, parameters, none,
                )
            };
        }
        let (mut attributes, count) = self.options.attributes();
        let config = CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: across,
            blockDimY: down,
            blockDimZ: deep,
            sharedMemBytes: bytes,
            hStream: stream,
            attrs: attributes.as_mut_ptr().cast(),
            numAttrs: count,
        };
        // SAFETY: the caller upholds the contract above; configuration and attributes are only read during the call.
        unsafe { api.launch_with(&raw const config, function, parameters, none) }
    }
}

/// `CUlaunchAttribute`: its id and its value of up to 64 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
struct Attribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}

impl Attribute {
    const COOPERATIVE: u32 = 2;
    const CLUSTER: u32 = 4;
    const PROGRAMMATIC: u32 = 6;

    fn new(id: u32, value: [u32; 3]) -> Self {
        let mut attribute = Self {
            id,
            ..Self::default()
        };
        attribute.value[..3].copy_from_slice(&value);
        attribute
    }
}

impl CudaLaunch {
    /// Returns `true` if a launch needs no attributes.
    pub(crate) fn is_plain(&self) -> bool {
        self.cluster.is_none() && !self.cooperative && !self.programmatic
    }

    /// Returns the attributes of a launch and their number.
    fn attributes(&self) -> ([Attribute; 3], u32) {
        let wanted = [
            self.cluster
                .map(|cluster| Attribute::new(Attribute::CLUSTER, cluster)),
            self.cooperative
                .then(|| Attribute::new(Attribute::COOPERATIVE, [1, 0, 0])),
            self.programmatic
                .then(|| Attribute::new(Attribute::PROGRAMMATIC, [1, 0, 0])),
        ];
        let mut attributes = [Attribute::default(); 3];
        let mut count = 0;
        for attribute in wanted.into_iter().flatten() {
            attributes[count as usize] = attribute;
            count += 1;
        }
        (attributes, count)
    }
}

// Launch options of CUDA kernels.

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
