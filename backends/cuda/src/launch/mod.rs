//! Launches: bindings become addresses, and values become the parameters of an entry point.

mod options;
mod tensor_map;

use std::ffi::c_void;
use std::ops::Range;

use cudarc::driver::sys::{CUfunction, CUlaunchConfig, CUstream, CUtensorMap};
use millstream_protocol::backend::{BoundCount, Launch};
use millstream_protocol::error::Refused;
use millstream_protocol::id::QueueId;
pub use options::CudaLaunch;
pub(crate) use options::{CLUSTER_PORTABLE, METADATA_WORDS_MAX, TENSOR_MAPS_MAX};

use crate::device::CudaDevice;
use crate::driver::{Api, Code};
use crate::kernel::CudaKernel;
use crate::replay::Taking;

/// Parameters of a launch that need no heap.
pub(crate) const PARAMETERS_INLINE: usize = 48;

/// Where the parameters of an entry point lie, as the driver reads them during the call.
pub(crate) struct Parameters {
    places: [*mut c_void; PARAMETERS_INLINE],
    count: usize,
}

impl Parameters {
    fn new() -> Self {
        Self {
            places: [std::ptr::null_mut(); PARAMETERS_INLINE],
            count: 0,
        }
    }

    /// Those of an entry point that takes these addresses and then all words as one. The driver only reads what is there.
    pub(crate) fn of(addresses: &[u64], words: &[u64]) -> Result<Self, Refused> {
        let mut made = Self::new();
        for address in addresses {
            made.push(address)?;
        }
        if !words.is_empty() {
            made.push(words)?;
        }
        Ok(made)
    }

    /// As the driver takes them.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut *mut c_void {
        self.places.as_mut_ptr()
    }

    /// Where each lies.
    pub(crate) fn values(&self) -> &[*mut c_void] {
        &self.places[..self.count]
    }

    /// Adds one. The driver only reads what is there.
    #[inline]
    fn push<T: ?Sized>(&mut self, value: *const T) -> Result<(), Refused> {
        let Some(place) = self.places.get_mut(self.count) else {
            return Err(Refused::Task(format!(
                "it has more than {PARAMETERS_INLINE} parameters"
            )));
        };
        *place = value.cast::<c_void>().cast_mut();
        self.count += 1;
        Ok(())
    }
}

impl CudaDevice {
    /// Gives a launch to the queue's stream, or, of a replay that is taken down, adds it to that. None, if it has no
    /// cubes.
    pub(crate) fn launch_kernel(
        &mut self,
        queue: QueueId,
        launch: &Launch<'_>,
        taking: Option<Taking<'_>>,
    ) -> Result<(), Refused> {
        let Some(kernel) = launch.kernel.downcast_ref::<CudaKernel>() else {
            return Err(Refused::Task(
                "it was compiled for another device".to_owned(),
            ));
        };
        let BoundCount::Static(cubes) = launch.count else {
            return Err(Refused::Task(
                "this device reads no cube count from its memory; give one from the host"
                    .to_owned(),
            ));
        };
        let mut parameters = Parameters::new();
        let mut addresses = [0_u64; PARAMETERS_INLINE];
        for (address, binding) in addresses.iter_mut().zip(launch.bindings) {
            *address = self.pages.resolve(binding)?;
            parameters.push(address)?;
        }
        let scalars: &[u8] = bytemuck::cast_slice(launch.scalars);
        for range in &kernel.scalars {
            let value = scalars.get(Range::clone(range));
            let value = value.ok_or_else(|| Refused::Task("it has too few scalars".to_owned()))?;
            parameters.push(value)?;
        }
        if kernel.options.tensor_maps != launch.tensor_maps.len() {
            let (brought, taken) = (launch.tensor_maps.len(), kernel.options.tensor_maps);
            return Err(Refused::Task(format!(
                "it brings {brought} tensor maps, and its kernel says by `CudaLaunch` that it takes {taken}"
            )));
        }
        for (place, map) in launch.tensor_maps.iter().enumerate() {
            self.tensor_maps[place] = self.encode(launch, map)?;
            parameters.push(&raw const self.tensor_maps[place])?;
        }
        if kernel.options.metadata_words > 0 {
            parameters.push(self.metadata(kernel.options.metadata_words, launch.metadata)?)?;
        }
        if parameters.count != kernel.parameter_bytes.len() {
            let (taken, brought) = (kernel.parameter_bytes.len(), parameters.count);
            return Err(Refused::Task(format!(
                "it brings {brought} parameters, and its kernel takes {taken}"
            )));
        }
        if let Some(multiply) = self.library(launch, kernel, &addresses) {
            match taking {
                // What the library launches is its own business.
                Some(Taking { steps, .. }) => {
                    steps.is_unfit = true;
                    return Ok(());
                }
                None if self.multiply(queue, launch, multiply, &addresses)? => return Ok(()),
                None => {}
            }
        }
        let shape = kernel.shape(cubes, launch.scalars, &addresses[..launch.bindings.len()]);
        let cubes = shape.cubes;
        if cubes.contains(&0) {
            return Ok(());
        }
        if let Some(cluster) = kernel.options.cluster
            && cubes
                .iter()
                .zip(&cluster)
                .any(|(cubes, cluster)| !cubes.is_multiple_of(*cluster))
        {
            return Err(Refused::Task(format!(
                "its cubes, {cubes:?}, are no multiple of its clusters, {cluster:?}"
            )));
        }
        if let Some(Taking { steps, task }) = taking {
            // Attributes of nodes are not set here.
            steps.is_unfit |= !kernel.options.is_plain();
            steps.launch(task, (shape, &parameters, &kernel.parameter_bytes));
            return Ok(());
        }
        let stream = self.stream(queue);
        // SAFETY: the function is loaded; there is a value for each of its parameters, of its size
        // (`check_parameters`), read during the call.
        let issued = unsafe { shape.issue(self.api(), stream, parameters.as_mut_ptr()) };
        issued.map_err(|(call, code)| self.refusal(call, code))
    }

    fn encode(
        &self,
        launch: &Launch<'_>,
        map: &millstream_protocol::launch::TensorMap,
    ) -> Result<CUtensorMap, Refused> {
        let Some(binding) = launch.bindings.get(map.binding) else {
            let place = map.binding;
            return Err(Refused::Task(format!(
                "it has no binding {place}, over which a tensor map is"
            )));
        };
        let address = self.pages.resolve(binding)?;
        tensor_map::encode(self.api(), map, address, binding)
    }

    /// The words of a launch as its entry point takes them: zeros behind the last.
    fn metadata(&mut self, room: usize, words: &[u32]) -> Result<*const [u32], Refused> {
        let Some((here, rest)) = self
            .metadata
            .get_mut(..room)
            .and_then(|all| all.split_at_mut_checked(words.len()))
        else {
            let brought = words.len();
            return Err(Refused::Task(format!(
                "it brings {brought} words of metadata, and its kernel says by `CudaLaunch` that it has room for {room}"
            )));
        };
        here.copy_from_slice(words);
        rest.fill(0);
        Ok(&raw const *self.metadata)
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

// SAFETY: a function's handle, which the driver takes on any thread.
unsafe impl Send for Shape {}

impl Shape {
    /// Gives the launch to a stream, or says which call was refused.
    ///
    /// # Safety
    /// The function lives, and there is a value for each of its parameters, of its size.
    #[inline]
    pub(crate) unsafe fn issue(
        &self,
        api: &Api,
        stream: CUstream,
        parameters: *mut *mut c_void,
    ) -> Result<(), (&'static str, Code)> {
        let ([x, y, z], [threads_x, threads_y, threads_z]) = (self.cubes, self.threads);
        let null = std::ptr::null_mut();
        if self.options.is_plain() {
            // SAFETY: the caller's promise.
            let answer = unsafe {
                (api.launch)(
                    self.function,
                    x,
                    y,
                    z,
                    threads_x,
                    threads_y,
                    threads_z,
                    self.shared_bytes,
                    stream,
                    parameters,
                    null,
                )
            };
            return Code::check(answer).map_err(|code| ("cuLaunchKernel", code));
        }
        let (mut attributes, count) = self.options.attributes();
        let config = CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: threads_x,
            blockDimY: threads_y,
            blockDimZ: threads_z,
            sharedMemBytes: self.shared_bytes,
            hStream: stream,
            attrs: attributes.as_mut_ptr().cast(),
            numAttrs: count,
        };
        // SAFETY: the caller's promise; configuration and attributes are read during the call.
        let answer =
            unsafe { (api.launch_with)(&raw const config, self.function, parameters, null) };
        Code::check(answer).map_err(|code| ("cuLaunchKernelEx", code))
    }
}

/// `CUlaunchAttribute`: which it is, and its value, of up to 64 bytes.
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
        let mut made = Self {
            id,
            ..Self::default()
        };
        made.value[..3].copy_from_slice(&value);
        made
    }
}

impl CudaLaunch {
    /// Does a launch need no attributes?
    pub(crate) fn is_plain(&self) -> bool {
        self.cluster.is_none() && !self.cooperative && !self.programmatic
    }

    /// The attributes of a launch, and how many there are.
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
