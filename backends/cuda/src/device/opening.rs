//! Opens a device in a context.

use std::sync::{Arc, OnceLock};

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::sys::CUtensorMap;
use millstream_gpu::{Completer, Pages, Staging, select, unavailable};
use millstream_protocol::{HostContext, Open, OpenError, Priority, QueueId};

use super::CudaDevice;
use crate::completer::{Shared, serve};
use crate::driver::{Context, CuStream, PagePool, gpus};
use crate::kernel::CudaCompiler;
use crate::launch::{METADATA_WORDS_MAX, TENSOR_MAPS_MAX};
use crate::nvrtc::Cache;
use crate::options::Cuda;
use crate::pinned::PinnedMemory;
use crate::product::{self, Products};
use crate::properties::properties;
use crate::queue::Queue;
use crate::replay::Replays;
use crate::trace::{CALLS_TIMED, Tracer};

impl Open for Cuda {
    type Backend = CudaDevice;

    const NAME: &'static str = "cuda";

    fn again(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn open(self, host: HostContext) -> Result<CudaDevice, OpenError> {
        // An invalid option is reported also where there is no driver.
        let queues = self.queue_priorities()?;
        let gpus = gpus()?;
        let context = match &self.adopted {
            // SAFETY: the caller of `adopt_context` guarantees that the context lives.
            Some(adopted) => unsafe { Context::adopt(adopted.context.0, gpus) }?,
            None => Context::retain(select(gpus, self.ordinal, ("cuda", "driver"))?)?,
        };
        // The calling thread may have another context current, which stays so.
        let _current = context.push_current()?;
        CudaDevice::open(&context, self, queues, host)
    }
}

impl CudaDevice {
    /// Opens a device in a context, which is current.
    fn open(
        context: &Arc<Context>,
        options: Cuda,
        (queues, priorities): (usize, Vec<Priority>),
        host: HostContext,
    ) -> Result<Self, OpenError> {
        let gpu = &context.gpu;
        let memory_limit = options.memory_limit.unwrap_or(u64::MAX);
        let multiplications_min = options.multiplications_min;
        let multiplications_min = multiplications_min.unwrap_or(product::MULTIPLICATIONS_MIN);
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
        let attribute = |attribute| gpu.attribute(attribute);
        let has_pools = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? != 0;
        let shared = Arc::new(Shared {
            context: context.clone(),
            timelines: (0..queues).map(|_| Arc::default()).collect(),
            gone: host.gone.clone(),
        });
        let mut device = Self {
            compiler: Arc::new(CudaCompiler {
                context: context.clone(),
                properties: properties.clone(),
                to_ptx: options.to_ptx,
                capability: (
                    attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                    attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
                ),
                target: OnceLock::new(),
                cache: Cache::new(options.cache.of("cuda")),
                use_library: multiplications_min < u64::MAX,
                blas: OnceLock::new(),
            }),
            queues: Vec::with_capacity(queues),
            staging: Staging::default(),
            pages: Pages::new(properties.max_allocation_bytes, memory_limit),
            pool: PagePool::new(context, has_pools && !options.unpooled)?,
            pitch_max: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_PITCH)?.max(0) as u64,
            metadata: Box::new([0; METADATA_WORDS_MAX]),
            tensor_maps: Box::new([CUtensorMap { opaque: [0; 16] }; TENSOR_MAPS_MAX]),
            replays: Replays::default(),
            products: Products::new(multiplications_min, queues),
            properties,
            shared,
            tracer: Arc::new(Tracer::new(context, queues, host.trace_capacity)),
            is_traced: host.trace_capacity > 0,
            replay_per_task: false,
            driven: host.driven,
            has_visitor: false,
            order_lost: false,
        };
        let adopted = options.adopted.map(|adopted| adopted.streams);
        let mut adopted = adopted.into_iter().flatten();
        for index in 0..queues {
            let id = QueueId(index as u8);
            let priority = device.properties.queue_priorities.get(index);
            let level = priority.map_or(0, |priority| levels[*priority as usize]);
            let stream = match adopted.next() {
                // SAFETY: the caller of `adopt_streams` guarantees that the stream lives.
                Some(stream) => unsafe { CuStream::adopt(context, stream.0) }?.ok_or_else(|| {
                    let why = "an adopted stream belongs to another context than the adopted one; adopt streams of \
                        that context";
                    unavailable("cuda", why)
                })?,
                None => CuStream::new(context, level)?,
            };
            let (name, shared) = (format!("ms-cuda-queue-{index}"), device.shared.clone());
            let serve = move |incoming: &_| serve(id, incoming, &shared);
            let completer = Completer::start(&name, depth, &host, serve)?;
            let queue = Queue::new(id, stream, &device.shared, (completer, depth));
            device.queues.push(queue);
        }
        device.set_span_recording(0);
        Ok(device)
    }
}
