//! wgpu's side: a batch is an encoder with one pass, submitted to wgpu's only queue.

use wgpu::{BufferUsages, CommandEncoder, PollType, SubmissionIndex};

use crate::WORDS;
use crate::error::BenchError;

const WGSL: &str = "
@group(0) @binding(0) var<storage, read_write> values: array<u32>;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x < arrayLength(&values) { values[id.x] += 1u; }
}";

/// A device with the kernel.
pub(crate) struct Peer {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
}

/// A buffer that the kernel can be launched on.
pub(crate) struct Bound {
    pub(crate) buffer: wgpu::Buffer,
    group: wgpu::BindGroup,
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Peer(error.to_string())
}

impl Peer {
    /// Opens the first Vulkan GPU.
    pub(crate) fn open() -> Result<Self, BenchError> {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::VULKAN;
        descriptor.flags = wgpu::InstanceFlags::empty();
        let instance = wgpu::Instance::new(descriptor);
        let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
        let adapter = adapters.into_iter().next();
        let adapter = adapter.ok_or_else(|| failed("no Vulkan adapter"))?;
        let descriptor = wgpu::DeviceDescriptor {
            required_limits: adapter.limits(),
            ..Default::default()
        };
        let opened = pollster::block_on(adapter.request_device(&descriptor));
        let (device, queue) = opened.map_err(failed)?;
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(WGSL.into()),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        Ok(Self {
            device,
            queue,
            pipeline,
        })
    }

    pub(crate) fn buffer(&self, bytes: usize, usage: BufferUsages) -> wgpu::Buffer {
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: bytes as u64,
            usage,
            mapped_at_creation: false,
        })
    }

    /// Creates a buffer of zeros for the kernel.
    pub(crate) fn bound(&self) -> Bound {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
        let buffer = self.buffer(4 * WORDS, usage);
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry {
                binding: 0,
                resource: buffer.as_entire_binding(),
            }],
        });
        Bound { buffer, group }
    }

    /// Submits a batch of `count` launches, on the buffers in turn.
    pub(crate) fn launch(&self, count: usize, buffers: &[Bound]) -> SubmissionIndex {
        self.dispatch(count, buffers, 1)
    }

    /// As [`Peer::launch`], with dispatches without cubes.
    pub(crate) fn launch_empty(&self, count: usize, buffers: &[Bound]) -> SubmissionIndex {
        self.dispatch(count, buffers, 0)
    }

    fn dispatch(&self, count: usize, buffers: &[Bound], cubes: u32) -> SubmissionIndex {
        let mut encoder = self.encoder();
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&self.pipeline);
        for buffer in buffers.iter().cycle().take(count) {
            pass.set_bind_group(0, &buffer.group, &[]);
            pass.dispatch_workgroups(cubes, 1, 1);
        }
        drop(pass);
        self.submit(encoder)
    }

    pub(crate) fn encoder(&self) -> CommandEncoder {
        let descriptor = wgpu::CommandEncoderDescriptor::default();
        self.device.create_command_encoder(&descriptor)
    }

    pub(crate) fn submit(&self, encoder: CommandEncoder) -> SubmissionIndex {
        self.queue.submit([encoder.finish()])
    }

    /// Waits for a submission, or for everything submitted.
    pub(crate) fn wait(&self, submission_index: Option<SubmissionIndex>) -> Result<(), BenchError> {
        let waited = self.device.poll(PollType::Wait {
            submission_index,
            timeout: None,
        });
        waited.map(drop).map_err(failed)
    }

    /// Copies a buffer to `target`, a buffer that can be mapped, and returns its bytes.
    pub(crate) fn read(
        &self,
        source: &wgpu::Buffer,
        target: &wgpu::Buffer,
    ) -> Result<Vec<u8>, BenchError> {
        let mut encoder = self.encoder();
        encoder.copy_buffer_to_buffer(source, 0, target, 0, source.size());
        let index = self.submit(encoder);
        target.map_async(wgpu::MapMode::Read, .., |_| ());
        self.wait(Some(index))?;
        let view = target.get_mapped_range(..).map_err(failed)?;
        let bytes = view.to_vec();
        drop(view);
        target.unmap();
        Ok(bytes)
    }
}
