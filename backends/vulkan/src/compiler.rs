//! Compiles kernels: turns sources into compute pipelines. Runs on the thread that prepares the kernel.

use std::ffi::CStr;
use std::sync::Arc;

use millstream_gpu::{Variants, compile_error};
use millstream_ir::lower;
use millstream_ir::ssa::Function;
use millstream_ir::{Blocking, Program};
use millstream_protocol::{BackendKernel, Compiler, DeviceProperties, Kernel, KernelError, Source};
use millstream_spirv::{Buffers, Parameters, Target};

use crate::driver::{Context, Interface, Pipeline, PipelineCache};
use crate::kernel::VulkanLaunch;
use crate::kernel::{Entry, VulkanKernel};
use crate::module_checks::{Expected, check, check_threads};
use crate::parameters::PARAMETERS_MAX;

/// The kinds of sources that the backend compiles.
const SOURCES: &[&str] = match cfg!(feature = "wgsl") {
    true => &["SPIR-V", "WGSL", "IR"],
    false => &["SPIR-V", "IR"],
};

/// The most bytes of the parameter block of a user's module that are push constants: every device has as many.
const PUSHED_MAX: u32 = 128;

/// Prepares kernels for one GPU.
pub(crate) struct VulkanCompiler {
    context: Arc<Context>,
    properties: DeviceProperties,
    target: Target,
    cache: PipelineCache,
}

impl VulkanCompiler {
    pub(crate) fn new(
        context: &Arc<Context>,
        properties: &DeviceProperties,
        descriptors: bool,
        cache: PipelineCache,
    ) -> Self {
        let gpu = &context.gpu;
        let buffers = match descriptors {
            true => Buffers::Descriptors,
            false => Buffers::Addresses,
        };
        Self {
            target: Target {
                buffers,
                parameter_bytes_max: gpu.limits.max_push_constants_size,
                shared_bytes_max: gpu.limits.max_compute_shared_memory_size,
                threads_max: gpu.limits.max_compute_work_group_invocations,
                features: gpu.features.kernels,
            },
            cache,
            context: context.clone(),
            properties: properties.clone(),
        }
    }

    /// Lowers a function and creates its pipeline.
    fn lowered(&self, kernel: &Kernel, function: &Function) -> Result<Entry, KernelError> {
        let failed = |log: String| compile_error(kernel, log);
        let module = millstream_spirv::lower(function, &self.target)
            .map_err(|error| failed(error.to_string()))?;
        check_threads(function.threads, &self.context.gpu.limits).map_err(failed)?;
        let words = function.params.len() + function.scalars.len();
        if module.parameter_bytes as usize > PARAMETERS_MAX * size_of::<u64>() {
            return Err(failed(format!(
                "expected at most {PARAMETERS_MAX} bindings and launch words, got {words}"
            )));
        }
        let has_descriptors = self.target.buffers == Buffers::Descriptors;
        let interface = Interface {
            parameter_bytes: module.parameter_bytes,
            is_spilled: module.parameters == Parameters::Spilled,
            has_grid: module.parameter_bytes as usize > words * size_of::<u64>(),
            is_divisible: true,
            descriptors: has_descriptors.then_some(function.params.len() as u32),
            subgroup_width: module.subgroup_width,
            threads: function.threads,
        };
        // SAFETY: the lowering makes valid modules, for the features of this device.
        unsafe { self.entry(kernel, &module.words, c"main", interface) }
    }

    /// Creates the pipeline of an entry point.
    ///
    /// # Safety
    /// As for [`Pipeline::new`].
    unsafe fn entry(
        &self,
        kernel: &Kernel,
        words: &[u32],
        name: &CStr,
        interface: Interface,
    ) -> Result<Entry, KernelError> {
        let cache = self.cache.for_creation();
        // SAFETY: as the caller guarantees.
        let pipeline =
            unsafe { Pipeline::new(&self.context.device, words, name, interface, cache) };
        let pipeline = pipeline.map_err(|code| match code.is_loss() {
            true => KernelError::Lost {
                kernel: kernel.name().clone(),
            },
            false => compile_error(kernel, code.to_string()),
        })?;
        Ok(Entry::new(&self.context, pipeline, interface))
    }

    /// Creates the pipeline of a user's module.
    fn module(&self, kernel: &Kernel, words: &[u32]) -> Result<VulkanKernel, KernelError> {
        let failed = |log: String| compile_error(kernel, log);
        let options: VulkanLaunch = kernel.extension().copied().unwrap_or_default();
        if options.descriptors && self.context.push_descriptor.is_none() {
            return Err(failed(
                "the device lacks VK_KHR_push_descriptor; use addresses, or another device"
                    .to_owned(),
            ));
        }
        let signature = kernel.signature();
        let parameters = signature.bindings().len() + signature.scalar_words();
        let metadata = options.metadata_words.div_ceil(2);
        let block = parameters.saturating_add(metadata);
        if block > PARAMETERS_MAX {
            return Err(failed(format!(
                "expected at most {PARAMETERS_MAX} words of bindings, scalars and metadata, got {block}"
            )));
        }
        let parameter_bytes = (block * size_of::<u64>()) as u32;
        let buffers = signature.bindings().len() as u32;
        let interface = Interface {
            parameter_bytes,
            is_spilled: parameter_bytes > PUSHED_MAX,
            descriptors: options.descriptors.then_some(buffers),
            threads: kernel.cube().threads,
            ..Interface::default()
        };
        let expected = Expected {
            interface,
            limits: self.context.gpu.limits,
            features: self.context.gpu.features,
        };
        let name = check(words, kernel.name(), &expected).map_err(failed)?;
        // SAFETY: the author of the kernel vouches for the module, as for any code that a device runs.
        let entry = unsafe { self.entry(kernel, words, &name, interface) }?;
        Ok(VulkanKernel {
            entries: Variants::single(entry),
            metadata_words: options.metadata_words,
            immediates: None,
        })
    }

    /// Translates a kernel in WGSL and creates its pipeline.
    #[cfg(feature = "wgsl")]
    fn wgsl(&self, kernel: &Kernel, text: &str) -> Result<VulkanKernel, KernelError> {
        let failed = |log: String| compile_error(kernel, log);
        if self.context.push_descriptor.is_none() {
            let why = "the device lacks VK_KHR_push_descriptor, which kernels in WGSL need; use SPIR-V with addresses";
            return Err(failed(why.to_owned()));
        }
        let translated = crate::wgsl::translate(kernel, text, &self.context.gpu.features);
        let translated = translated.map_err(failed)?;
        if translated.push_bytes > self.target.parameter_bytes_max {
            return Err(failed(format!(
                "expected at most {} bytes of scalars, got {}",
                self.target.parameter_bytes_max, translated.push_bytes
            )));
        }
        let interface = Interface {
            parameter_bytes: translated.push_bytes,
            descriptors: Some(kernel.signature().bindings().len() as u32),
            threads: kernel.cube().threads,
            ..Interface::default()
        };
        // SAFETY: naga has validated the kernel, and `translate` has checked its interface.
        let entry = unsafe { self.entry(kernel, &translated.words, &translated.entry, interface) }?;
        Ok(VulkanKernel {
            entries: Variants::single(entry),
            metadata_words: 0,
            immediates: Some(translated.scalars),
        })
    }

    fn program(
        &self,
        kernel: &Kernel,
        program: &Arc<Program>,
    ) -> Result<VulkanKernel, KernelError> {
        let blocking = kernel.extension().copied().unwrap_or_default();
        let functions = Variants::lower(program, blocking, self.properties.compute_units);
        let functions = functions.map_err(|log| compile_error(kernel, log))?;
        // If one is refused, the drop of those before it destroys their pipelines.
        let entries = functions.try_map(|_, function| self.lowered(kernel, &function));
        Ok(VulkanKernel {
            entries: entries?,
            metadata_words: 0,
            immediates: None,
        })
    }
}

impl Compiler for VulkanCompiler {
    fn compile(&self, kernel: &Arc<Kernel>) -> Result<BackendKernel, KernelError> {
        kernel.check_needs(&self.properties)?;
        for source in kernel.sources() {
            match source {
                Source::Ir(program) => return Ok(Arc::new(self.program(kernel, program)?)),
                Source::SpirV(words) => return Ok(Arc::new(self.module(kernel, words)?)),
                #[cfg(feature = "wgsl")]
                Source::Wgsl(text) => return Ok(Arc::new(self.wgsl(kernel, text)?)),
                _ => {}
            }
        }
        Err(kernel.no_source("vulkan", SOURCES))
    }

    fn blockings(&self, program: &Program) -> Vec<Blocking> {
        lower::blockings(program)
    }
}
