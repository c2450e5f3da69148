//! One launch: resolves bindings to addresses and passes the values as parameters of the entry point.

use std::ops::Range;

use cudarc::driver::sys::CUtensorMap;
use millstream_protocol::{BoundCount, Launch, QueueId, Refused};

use super::CudaDevice;
use crate::ir;
use crate::kernel::CudaKernel;
use crate::launch::{PARAMETERS_INLINE, Parameters, tensor_map};
use crate::product::Multiply;
use crate::replay::StepSink;

impl CudaDevice {
    /// Submits a launch to the queue's stream, or adds it to the steps of a replay. A launch without cubes does
    /// nothing.
    pub(crate) fn launch_kernel(
        &mut self,
        queue: QueueId,
        launch: &Launch<'_>,
        sink: Option<StepSink<'_>>,
    ) -> Result<(), Refused> {
        let Some(kernel) = launch.kernel.downcast_ref::<CudaKernel>() else {
            return Err(Refused::Task(
                "the kernel was compiled for another device; prepare it on this one".to_owned(),
            ));
        };
        let BoundCount::Static(cubes) = launch.count else {
            return Err(Refused::Task(
                "this device does not support a cube count in device memory; pass it from the host"
                    .to_owned(),
            ));
        };
        let mut parameters = Parameters::new();
        let mut addresses = [0_u64; PARAMETERS_INLINE];
        for (address, binding) in addresses.iter_mut().zip(launch.bindings) {
            *address = self.address(binding)?;
            parameters.push(address)?;
        }
        let scalars: &[u8] = bytemuck::cast_slice(launch.scalars);
        for range in &kernel.scalars {
            let value = scalars.get(Range::clone(range));
            let value = value.ok_or_else(|| {
                Refused::Task(
                    "the launch has fewer scalars than its kernel declares; pass them all"
                        .to_owned(),
                )
            })?;
            parameters.push(value)?;
        }
        if kernel.options.tensor_maps != launch.tensor_maps.len() {
            let (got, expected) = (launch.tensor_maps.len(), kernel.options.tensor_maps);
            return Err(Refused::Task(format!(
                "expected {expected} tensor maps (`CudaLaunch::tensor_maps`), got {got}"
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
            let (expected, got) = (kernel.parameter_bytes.len(), parameters.values().len());
            return Err(Refused::Task(format!(
                "expected {expected} kernel parameters, got {got}; declare the parameters of the source in the signature"
            )));
        }
        let bound = &addresses[..launch.bindings.len()];
        if let Some(product) = &kernel.product
            && let Some(multiply) = self.products.multiply(product, launch.scalars, bound)
        {
            match sink {
                // The kernels that the library launches are not known.
                Some(StepSink { steps, .. }) => {
                    steps.unsupported = true;
                    return Ok(());
                }
                None if self.multiply(queue, launch, multiply, &addresses)? => return Ok(()),
                None => {}
            }
        }
        let shape = kernel.shape(cubes, launch.scalars, bound);
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
                "the cube count {cubes:?} is not a multiple of the cluster {cluster:?}; round it up in each dimension"
            )));
        }
        if let Some(StepSink { steps, task }) = sink {
            // Graphs do not set launch attributes on their nodes.
            steps.unsupported |= !kernel.options.is_plain();
            steps.launch(task, (shape, &parameters, &kernel.parameter_bytes));
            return Ok(());
        }
        let stream = self.stream(queue);
        // SAFETY: the function is loaded; each of its parameters has a value of its size (`check_parameters`), which is
        // only read during the call.
        Ok(unsafe { shape.issue(self.api(), stream, parameters.as_mut_ptr()) }?)
    }

    fn encode(
        &self,
        launch: &Launch<'_>,
        map: &millstream_protocol::TensorMap,
    ) -> Result<CUtensorMap, Refused> {
        let Some(binding) = launch.bindings.get(map.binding) else {
            let place = map.binding;
            return Err(Refused::Task(format!(
                "a tensor map refers to binding {place}, but the launch has {}; bindings count from 0",
                launch.bindings.len()
            )));
        };
        let address = self.address(binding)?;
        tensor_map::encode(self.api(), map, address, binding)
    }

    /// Copies the metadata words of a launch to a buffer of `room` words, padded with zeros.
    fn metadata(&mut self, room: usize, words: &[u32]) -> Result<*const [u32], Refused> {
        let Some((here, rest)) = self
            .metadata
            .get_mut(..room)
            .and_then(|all| all.split_at_mut_checked(words.len()))
        else {
            let got = words.len();
            return Err(Refused::Task(format!(
                "expected at most {room} words of metadata (`CudaLaunch::metadata_words`), got {got}"
            )));
        };
        here.copy_from_slice(words);
        rest.fill(0);
        Ok(&raw const *self.metadata)
    }
}

// One launch of a product by cuBLASLt (see `product`).

impl CudaDevice {
    /// Submits a launch through the library. Returns `false` if nothing was submitted, so that millstream's kernel has
    /// to perform the product.
    pub(crate) fn multiply(
        &mut self,
        queue: QueueId,
        launch: &Launch<'_>,
        multiply: Multiply<'_>,
        addresses: &[u64; PARAMETERS_INLINE],
    ) -> Result<bool, Refused> {
        let (product, plan) = (multiply.product, multiply.plan);
        let (words, bound) = (launch.scalars, &addresses[..launch.bindings.len()]);
        let bytes = plan.workspace_bytes;
        let Some(workspace) = self.products.workspace(queue, bytes, &self.pool) else {
            tracing::debug!(target: "millstream::cuda", bytes, "no memory for the workspace of cuBLASLt; using millstream's kernel");
            return Ok(false);
        };
        let stream = self.stream(queue);
        // SAFETY: the addresses are resolved, the plan is that of these matrices, and the workspace has the size that
        // every plan may use.
        match unsafe { plan.issue(multiply.addresses, workspace, stream) } {
            Ok(()) => {}
            Err(status) if status.is_sticky() => {
                let why = product.blas.text(status);
                return Err(Refused::Lost(format!(
                    "the call `cublasLtMatmul` failed: {why}"
                )));
            }
            // Nothing was submitted, so millstream's kernel can perform the product.
            Err(status) => {
                let why = product.blas.text(status);
                tracing::warn!(target: "millstream::cuda", why, key = ?multiply.key, "cuBLASLt refused a product that it has an algorithm for");
                self.products.refuse(&multiply.key);
                return Ok(false);
            }
        }
        let Some(variants) = &product.epilogue else {
            return Ok(true);
        };
        // The epilogue's first binding is the product; it does not bind the operands.
        let (bound, words) = (&bound[2..], &words[product.matmul.epilogue_words()..]);
        let mut parameters = Parameters::of(bound, words)?;
        let shape = ir::shape(variants, [0; 3], words, bound);
        if shape.cubes.contains(&0) {
            return Ok(true);
        }
        // SAFETY: as for any launch (`launch_kernel`).
        let issued = unsafe { shape.issue(self.api(), stream, parameters.as_mut_ptr()) };
        issued
            .map(|()| true)
            .map_err(|code| self.partial_failure(true, code.into()))
    }
}
