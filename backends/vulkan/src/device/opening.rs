//! Opens a device.

use std::sync::Arc;

use millstream_gpu::{Completer, Staging, select};
use millstream_protocol::{HostContext, MAX_QUEUES, Open, OpenError, QueueId};
use millstream_sync::credit::Credit;
use millstream_sync::facade::Mutex;

use super::VulkanDevice;
use super::replaying::{RECORDED_BYTES_MAX, Recordings};
use crate::adopted::{AdoptedDevice, AdoptedQueue};
use crate::compiler::VulkanCompiler;
use crate::completer::{Shared, serve};
use crate::driver::{
    ALIGNMENT, Buffer, Context, Gpu, Instance, PipelineCache, Purpose, QueueFamily,
    TimelineSemaphore, unavailable,
};
use crate::options::Vulkan;
use crate::pages::Pages;
use crate::parameters::Block;
use crate::properties::properties;
use crate::queue::Queue;
use crate::trace::Tracer;
use crate::upload::UploadMemory;
use crate::waits::Waits;

/// Default number of queues.
const QUEUES: usize = 4;

impl Open for Vulkan {
    type Backend = VulkanDevice;

    const NAME: &'static str = "vulkan";

    fn again(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn open(mut self, host: HostContext) -> Result<VulkanDevice, OpenError> {
        let queues = self.queues.unwrap_or(QUEUES);
        if !(1..=MAX_QUEUES).contains(&queues) {
            const { assert!(MAX_QUEUES == 16, "the message says 16") };
            return Err(OpenError::Option {
                option: "queues",
                given: queues.to_string(),
                must: "from 1 to 16",
            });
        }
        let (context, raw) = match self.adopted.take() {
            // SAFETY: as the caller of `adopt` guarantees.
            Some(adopted) => unsafe { adopt(adopted, host.driven) }?,
            None => create(&self, queues)?,
        };
        let raw = raw.into_iter().cycle().take(queues).collect();
        VulkanDevice::open(&context, raw, &self, host)
    }
}

/// Creates a logical device with queues of the driver: one for each of `queues`, as long as there are any.
fn create(options: &Vulkan, queues: usize) -> Result<(Arc<Context>, Vec<AdoptedQueue>), OpenError> {
    let instance = Instance::new(options.validation, options.handler.clone())?;
    let gpu = select(Gpu::all(&instance)?, options.ordinal, ("vulkan", "loader"))?;
    let counts = counts(&gpu.families, queues);
    let context = Context::new(instance, gpu, &counts)?;
    let places = counts
        .into_iter()
        .flat_map(|(family, count)| (0..count as u32).map(move |nth| (family, nth)));
    let raw = places.map(|(family, nth)| {
        // SAFETY: the device was created with this queue.
        let raw = unsafe { context.device.get_device_queue(family, nth) };
        AdoptedQueue { family, raw }
    });
    let raw = raw.collect();
    Ok((context, raw))
}

/// Uses the device of an application.
///
/// # Safety
/// As for [`Vulkan::adopt`].
unsafe fn adopt(
    adopted: AdoptedDevice,
    driven: bool,
) -> Result<(Arc<Context>, Vec<AdoptedQueue>), OpenError> {
    if adopted.shares_queues && !driven {
        return Err(unavailable(
            "the application uses its queues, too: open the device with `open_driven`, or give it queues of its own",
        ));
    }
    let instance = Instance::adopt(adopted.instance.clone());
    let gpu = Gpu::adopt(&instance, &adopted)?;
    let mut families = adopted.families;
    families.extend(adopted.queues.iter().map(|queue| queue.family));
    families.sort_unstable();
    families.dedup();
    // SAFETY: as the caller guarantees.
    let context =
        unsafe { Context::adopt(instance, gpu, adopted.device, families, adopted.owner) }?;
    Ok((context, adopted.queues))
}

impl VulkanDevice {
    /// Opens a device on these queues of the driver, one for each queue.
    fn open(
        context: &Arc<Context>,
        raw: Vec<AdoptedQueue>,
        options: &Vulkan,
        host: HostContext,
    ) -> Result<Self, OpenError> {
        if options.descriptors && !context.gpu.features.push_descriptors {
            return Err(unavailable(format!(
                "the device `{}` lacks VK_KHR_push_descriptor; open it without `descriptors`",
                context.gpu.name
            )));
        }
        let queues = raw.len();
        let properties = properties(&context.gpu, queues);
        let shared = Arc::new(Shared {
            timelines: (0..queues).map(|_| Arc::default()).collect(),
            status: host.gone.clone(),
            abandoned: Mutex::default(),
            context: context.clone(),
        });
        host.set_host_memory(UploadMemory::new(&shared));
        let cache = PipelineCache::new(context, options.cache.clone().of("vulkan").as_deref())?;
        let limits = &context.gpu.limits;
        let memory_limit = options.memory_limit.unwrap_or(u64::MAX);
        let depth = properties.max_queue_depth;
        let mut device = Self {
            compiler: Arc::new(VulkanCompiler::new(
                context,
                &properties,
                options.descriptors,
                cache,
            )),
            queues: Vec::with_capacity(queues),
            staging: Staging::default(),
            stored: Staging::default(),
            readbacks: Staging::default(),
            pages: Pages::new(context.gpu.max_allocation_bytes, memory_limit),
            block: Block::new(),
            descriptor_alignment: limits.min_storage_buffer_offset_alignment.max(1),
            nothing: Buffer::new(context, ALIGNMENT * queues as u64, Purpose::Page)?,
            context: context.clone(),
            shared: shared.clone(),
            recordings: Recordings::default(),
            recorded: Arc::new(Credit::new(RECORDED_BYTES_MAX)),
            count_guard: None,
            tracer: None,
            driven: host.driven,
            waits: None,
            order_lost: false,
            properties,
        };
        for (index, raw) in raw.into_iter().enumerate() {
            let id = QueueId(index as u8);
            let semaphore = Arc::new(TimelineSemaphore::new(context)?);
            let awaited = (semaphore.clone(), shared.clone());
            let serve = move |incoming: &_| serve(id, incoming, &awaited.0, &awaited.1);
            // One more for a reminder.
            let name = format!("ms-vulkan-queue-{index}");
            let completer = Completer::start(&name, depth + 1, &host, serve)?;
            let ends = (semaphore, completer);
            device
                .queues
                .push(Queue::new(id, raw, &shared, ends, depth));
        }
        if host.driven {
            let targets = device.queues.iter().map(|queue| queue.target.clone());
            device.waits = Some(Waits::new(&context.gpu, targets));
        }
        device.tracer = tracer(context, &device.queues, host.trace_capacity)?.map(Arc::new);
        device.set_span_recording(0);
        Ok(device)
    }
}

/// Creates the tracer, whose times begin now. `None` if a queue has no timestamps.
fn tracer(
    context: &Arc<Context>,
    queues: &[Queue],
    capacity: usize,
) -> Result<Option<Tracer>, OpenError> {
    let calibration = match context.calibrate() {
        Some(Err(code)) if code.is_loss() => return Err(code.into()),
        read => read.and_then(Result::ok),
    };
    let families = &context.gpu.families;
    let bits = |queue: &Queue| {
        let mut families = families.iter();
        let family = families.find(|family| family.index == queue.family)?;
        Some(family.timestamp_bits).filter(|bits| *bits > 0)
    };
    let bits: Option<Vec<_>> = queues.iter().map(bits).collect();
    Ok(bits.map(|bits| Tracer::new(context, &bits, calibration, capacity)))
}

/// Returns how many queues of each family serve `count` queues: as many if there are.
fn counts(families: &[QueueFamily], count: usize) -> Vec<(u32, usize)> {
    let mut left = count;
    let counts = families.iter().map(|family| {
        let count = left.min(family.count as usize);
        left -= count;
        (family.index, count)
    });
    counts.filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(index: u32, count: u32) -> QueueFamily {
        QueueFamily {
            index,
            count,
            timestamp_bits: 0,
        }
    }

    #[test]
    fn queues_share_a_queue_of_the_driver_only_if_it_has_too_few() {
        let families = [family(2, 2), family(0, 1)];
        assert_eq!(counts(&families, 4), [(2, 2), (0, 1)]);
        assert_eq!(counts(&families, 1), [(2, 1)]);
    }
}
