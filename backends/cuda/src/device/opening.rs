//! Opens a device in a context.

use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::{CUdevice_attribute, CUtensorMap};
use millstream_gpu::{Completer, Pages, Staging};
use millstream_protocol::{HostContext, OpenError, Priority, QueueId};
use millstream_sync::timeline::Timeline;

use super::CudaDevice;
use crate::completer::{Shared, serve};
use crate::driver::{Context, CuStream, PagePool};
use crate::kernel::CudaCompiler;
use crate::launch::{METADATA_WORDS_MAX, TENSOR_MAPS_MAX};
use crate::nvrtc::Cache;
use crate::pinned::PinnedMemory;
use crate::product::Products;
use crate::properties::properties;
use crate::queue::{Queue, QueueConfig};
use crate::replay::Replays;
use crate::trace::{CALLS_TIMED, Tracer};
use crate::word::ProgressWord;

/// The resolved options of a device.
pub(crate) struct DeviceConfig {
    pub(crate) queues: usize,
    /// The priority of each queue, or empty if all are equal.
    pub(crate) priorities: Vec<Priority>,
    /// Adopted streams, for the first queues.
    pub(crate) streams: Vec<CuStream>,
    pub(crate) cache: Cache,
    /// Whether kernels are compiled to PTX.
    pub(crate) to_ptx: bool,
    /// The fewest multiplications of a product that cuBLASLt performs; `u64::MAX` for none.
    pub(crate) multiplications_min: u64,
    /// The most bytes of all pages.
    pub(crate) memory_limit: u64,
    /// Whether pages come from a pool of the driver, if the GPU has pools.
    pub(crate) pooled: bool,
}

impl CudaDevice {
    pub(crate) fn open(
        context: &Arc<Context>,
        config: DeviceConfig,
        host: HostContext,
    ) -> Result<Self, OpenError> {
        let DeviceConfig {
            queues,
            priorities,
            streams,
            cache,
            to_ptx,
            multiplications_min,
            memory_limit,
            pooled,
        } = config;
        let gpu = &context.gpu;
        let levels = context.priorities()?;
        let mut properties = properties(gpu, queues, priorities)?;
        properties.max_allocation_bytes = properties.max_allocation_bytes.min(memory_limit);
        properties.memory_bytes = properties.memory_bytes.map(|all| all.min(memory_limit));
        if host.trace_capacity > 0 {
            properties.max_queue_depth /= CALLS_TIMED;
        }
        let depth = properties.max_queue_depth;
        context.begin_retiring((!host.driven).then(|| host.spawner.clone()), &host.gone);
        host.set_host_memory(PinnedMemory::new(context));
        let pooled = pooled
            && gpu.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0;
        let timelines: Box<[Arc<Timeline>]> = (0..queues).map(|_| Arc::default()).collect();
        let shared = Arc::new(Shared {
            context: context.clone(),
            timelines: timelines.clone(),
            gone: host.gone.clone(),
        });
        let major =
            gpu.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor =
            gpu.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let mut device = Self {
            compiler: Arc::new(CudaCompiler {
                context: context.clone(),
                properties: properties.clone(),
                to_ptx,
                capability: (major, minor),
                target: OnceLock::new(),
                cache,
                use_library: multiplications_min < u64::MAX,
                blas: OnceLock::new(),
            }),
            queues: Vec::with_capacity(queues),
            staging: Staging::default(),
            pages: Pages::new(properties.max_allocation_bytes, memory_limit),
            pool: PagePool::new(context, pooled)?,
            pitch_max: gpu
                .attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_PITCH)?
                .max(0) as u64,
            metadata: Box::new([0; METADATA_WORDS_MAX]),
            tensor_maps: Box::new([CUtensorMap { opaque: [0; 16] }; TENSOR_MAPS_MAX]),
            replays: Replays::default(),
            products: Products::new(multiplications_min, queues),
            properties,
            shared,
            tracer: None,
            span_capacity: host.trace_capacity,
            replay_per_task: false,
            driven: host.driven,
            has_visitor: false,
            order_lost: false,
        };
        let can_write =
            gpu.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)?;
        let mut words = match host.driven && can_write != 0 {
            true => ProgressWord::allocate(context, queues)?,
            false => Vec::new(),
        };
        let mut adopted = streams.into_iter();
        for (index, timeline) in timelines.iter().enumerate() {
            let id = QueueId(index as u8);
            let priority = device.properties.queue_priorities.get(index);
            let level = priority.map_or(0, |priority| levels[*priority as usize]);
            let stream = match adopted.next() {
                Some(stream) => stream,
                None => CuStream::new(context, level)?,
            };
            let completer = match host.driven {
                true => None,
                false => {
                    let (name, shared) = (format!("ms-cuda-queue-{}", id.0), device.shared.clone());
                    let serve = move |incoming: &_| serve(id, incoming, &shared);
                    Some(Completer::start(&name, depth, &host.spawner, serve)?)
                }
            };
            let config = QueueConfig {
                id,
                context: context.clone(),
                timeline: timeline.clone(),
                completer,
                word: words.pop(),
                depth,
            };
            let queue = Queue::new(stream, config);
            device.queues.push(queue);
        }
        if host.trace_capacity > 0 {
            let streams = device.queues.iter().map(|queue| &queue.stream);
            let tracer = Tracer::new(context, streams, host.trace_capacity)?;
            device.tracer = Some(Arc::new(tracer));
        }
        device.set_span_recording(0);
        Ok(device)
    }
}
