//! Opens a device.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use millstream_gpu::{Completer, Staging};
use millstream_protocol::{HostContext, OpenError, QueueId};
use millstream_sync::credit::Credit;
use millstream_sync::timeline::Timeline;

use super::VulkanDevice;
use super::replaying::RECORDED_BYTES_MAX;
use crate::adopted::{AdoptedDevice, AdoptedQueue};
use crate::compiler::VulkanCompiler;
use crate::completer::{Shared, serve};
use crate::driver::{
    ALIGNMENT, Buffer, Code, Context, Gpu, Instance, PipelineCache, Purpose, QueueFamily,
    TimelineSemaphore, unavailable,
};
use crate::pages::Pages;
use crate::parameters::Block;
use crate::properties::properties;
use crate::queue::{Queue, QueueConfig};
use crate::trace::{Axis, Clock, Tracer};
use crate::upload::UploadMemory;
use crate::waits::Waits;

/// The resolved options of a device.
pub(crate) struct DeviceConfig {
    pub(crate) queues: usize,
    pub(crate) descriptors: bool,
    /// The most bytes of all pages.
    pub(crate) memory_limit: u64,
    /// The folder of the pipeline cache; `None` for none.
    pub(crate) cache: Option<PathBuf>,
}

impl VulkanDevice {
    pub(crate) fn open(
        instance: Instance,
        gpu: Gpu,
        config: DeviceConfig,
        host: HostContext,
    ) -> Result<Self, OpenError> {
        let places = distribute(&gpu.families, config.queues);
        let context = Context::new(instance, gpu, &queues_by_family(&places))?;
        let raw = places.into_iter().map(|(family, nth)| {
            // SAFETY: the device was created with this queue.
            let raw = unsafe { context.device.get_device_queue(family, nth) };
            AdoptedQueue { family, raw }
        });
        let raw = raw.collect();
        Self::open_context(&context, raw, config, host)
    }

    /// Opens the device of an application.
    ///
    /// # Safety
    /// As for [`Vulkan::adopt`](crate::Vulkan::adopt).
    pub(crate) unsafe fn adopt(
        adopted: AdoptedDevice,
        config: DeviceConfig,
        host: HostContext,
    ) -> Result<Self, OpenError> {
        if adopted.shares_queues && !host.driven {
            return Err(unavailable(
                "the application uses its queues, too: open the device with `open_driven`, or give it queues of its own"
                    .to_owned(),
            ));
        }
        let instance = Instance::adopt(adopted.instance.clone());
        let gpu = Gpu::adopt(&instance, &adopted)?;
        let queues = adopted.queues.iter().copied();
        let mut families = adopted.families.clone();
        families.extend(queues.clone().map(|queue| queue.family));
        families.sort_unstable();
        families.dedup();
        // SAFETY: as the caller guarantees.
        let context =
            unsafe { Context::adopt(instance, gpu, adopted.device, families, adopted.owner) }?;
        let raw = queues.cycle().take(config.queues).collect();
        Self::open_context(&context, raw, config, host)
    }

    /// Opens a device on these queues of the driver, one for each queue.
    fn open_context(
        context: &Arc<Context>,
        raw: Vec<AdoptedQueue>,
        config: DeviceConfig,
        host: HostContext,
    ) -> Result<Self, OpenError> {
        if config.descriptors && !context.gpu.features.push_descriptors {
            return Err(unavailable(format!(
                "the device `{}` lacks VK_KHR_push_descriptor; open it without `descriptors`",
                context.gpu.name
            )));
        }
        let properties = properties(&context.gpu, config.queues);
        let timelines: Box<[Arc<Timeline>]> = (0..config.queues).map(|_| Arc::default()).collect();
        let shared = Arc::new(Shared {
            timelines: timelines.clone(),
            status: host.gone.clone(),
            abandoned: Mutex::default(),
            context: context.clone(),
        });
        let uploads = UploadMemory::new(&shared);
        host.set_host_memory(Arc::new(uploads.clone()));
        let cache = PipelineCache::new(context, config.cache.as_deref())?;
        let bytes = ALIGNMENT * config.queues as u64;
        let nothing = Buffer::new(context, bytes, Purpose::Page)?;
        let mut device = Self {
            compiler: Arc::new(VulkanCompiler::new(
                context,
                &properties,
                config.descriptors,
                cache,
            )),
            queues: Vec::with_capacity(config.queues),
            staging: Staging::default(),
            readbacks: Staging::default(),
            uploads,
            pages: Pages::new(context, config.memory_limit),
            block: Block::new(),
            descriptor_alignment: context
                .gpu
                .limits
                .min_storage_buffer_offset_alignment
                .max(1),
            nothing,
            context: context.clone(),
            shared: shared.clone(),
            recordings: Arc::default(),
            recorded: Arc::new(Credit::new(RECORDED_BYTES_MAX)),
            count_guard: None,
            tracer: None,
            span_capacity: host.trace_capacity,
            driven: host.driven,
            waits: None,
            order_lost: false,
            properties,
        };
        let depth = device.properties.max_queue_depth;
        for (index, (timeline, queue)) in timelines.iter().zip(raw).enumerate() {
            let id = QueueId(index as u8);
            let semaphore = Arc::new(TimelineSemaphore::new(context)?);
            let completer = match host.driven {
                true => None,
                false => {
                    let name = format!("ms-vulkan-queue-{index}");
                    let (semaphore, shared) = (semaphore.clone(), shared.clone());
                    let serve = move |incoming: &_| serve(id, incoming, &semaphore, &shared);
                    // One more for a reminder.
                    Some(Completer::start(&name, depth + 1, &host.spawner, serve)?)
                }
            };
            device.queues.push(Queue::new(
                context,
                QueueConfig {
                    id,
                    raw: queue.raw,
                    family: queue.family,
                    timeline: timeline.clone(),
                    semaphore,
                    completer,
                    tracer: None,
                    depth,
                },
            ));
        }
        if host.driven {
            let targets = device.queues.iter().map(|queue| queue.target.clone());
            device.waits = Some(Waits::new(&context.gpu, targets));
        }
        device.tracer = tracer(context, &mut device.queues, host.trace_capacity)?.map(Arc::new);
        device.set_span_recording(0);
        Ok(device)
    }
}

/// Creates the tracer, whose times begin now. `None` if a queue has no timestamps.
fn tracer(
    context: &Arc<Context>,
    queues: &mut [Queue],
    capacity: usize,
) -> Result<Option<Tracer>, OpenError> {
    let families = &context.gpu.families;
    let period_ns = f64::from(context.gpu.limits.timestamp_period);
    let calibration = match context.calibrate() {
        Some(Err(code)) if code.is_loss() => return Err(code.into()),
        read => read.and_then(Result::ok),
    };
    let bits = |queue: &Queue| {
        let family = families
            .iter()
            .find(|family| family.index == queue.family)?;
        Some(family.timestamp_bits).filter(|bits| *bits > 0)
    };
    let clocks = queues.iter_mut().map(|queue| {
        let Some(bits) = bits(queue) else {
            return Ok(None);
        };
        let value = match calibration {
            Some(calibration) => calibration.device,
            None => queue.now()?,
        };
        let axis = Axis {
            value,
            ns: 0,
            period_ns,
        };
        Ok(Some(Clock { axis, bits }))
    });
    let clocks = clocks.collect::<Result<Option<_>, Code>>()?;
    Ok(clocks.map(|clocks| Tracer::new(context, clocks, calibration, capacity)))
}

/// Assigns `count` queues to queues of the driver, given by family and index: to different ones as long as there are
/// any.
fn distribute(families: &[QueueFamily], count: usize) -> Vec<(u32, u32)> {
    let all = families
        .iter()
        .flat_map(|family| (0..family.count).map(|nth| (family.index, nth)));
    let all: Vec<_> = all.collect();
    all.into_iter().cycle().take(count).collect()
}

/// Returns the number of queues that are needed of each family.
fn queues_by_family(places: &[(u32, u32)]) -> Vec<(u32, usize)> {
    let mut families: Vec<(u32, usize)> = Vec::new();
    for (family, nth) in places {
        let needed = *nth as usize + 1;
        match families.iter_mut().find(|(known, _)| known == family) {
            Some((_, count)) => *count = needed.max(*count),
            None => families.push((*family, needed)),
        }
    }
    families
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
        let places = distribute(&families, 4);
        assert_eq!(places, [(2, 0), (2, 1), (0, 0), (2, 0)]);
        assert_eq!(queues_by_family(&places), [(2, 2), (0, 1)]);
    }
}
