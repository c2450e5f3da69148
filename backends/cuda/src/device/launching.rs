//! One launch: bindings become addresses, and values become the parameters of an entry point.

use std::ops::Range;

use cudarc::driver::sys::CUtensorMap;
use millstream_protocol::backend::{BoundCount, Launch};
use millstream_protocol::error::Refused;
use millstream_protocol::id::QueueId;

use super::CudaDevice;
use crate::kernel::CudaKernel;
use crate::launch::{PARAMETERS_INLINE, Parameters, tensor_map};
use crate::replay::Taking;

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
        if parameters.values().len() != kernel.parameter_bytes.len() {
            let (taken, brought) = (kernel.parameter_bytes.len(), parameters.values().len());
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
