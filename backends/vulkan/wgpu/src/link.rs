//! Buffers that wgpu and millstream share, and the order of their work.
//!
//! # Protocol
//! `acquire` and `release` order work by timeline semaphores, whose values are signalled in the order of submission:
//!
//! ```text
//!  wgpu's queue              acquire                                       stream of millstream
//!  submit A ──────────► submit([]) signals theirs = 1 ───────────────────► task waits for theirs = 1
//!                                                                          tasks
//!  submit B waits for ◄──────────────────────────────────── release ◄───── point of the queue: (semaphore, value)
//!  (semaphore, value)
//! ```
//! Both ends are known before the other side submits: the signal is submitted before the stream's task is added, and
//! `release` returns the point of a batch that was submitted. So no submission ever waits for one that may never come,
//! and both may go to the same queue of Vulkan.
//!
//! A submission could also wait for a value before its signal is submitted, as Vulkan permits for timeline semaphores
//! of different queues. It would hang the engine if the task is never issued, deadlock on a shared queue, and be
//! invalid as soon as a binary semaphore of wgpu depends on it (`VUID-vkQueueSubmit-pWaitSemaphores-03238`). The
//! price: `acquire` makes an empty submission, and `release` waits until the device thread has submitted, a message
//! there and back.
//!
//! wgpu uses whole buffers only, and slices are parts of pages, so a shared buffer is a second one on the memory of
//! its slice. A buffer of wgpu cannot be adopted: it has no device address.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ash::vk;
use millstream::Element;
use millstream::kernel::IntoBindings;
use millstream::vulkan::{Vulkan, VulkanPoint};
use millstream::{Handle, Stream, update};
use wgpu::hal::api::Vulkan as Api;

use crate::WgpuError;

/// Orders the work of a queue of wgpu and of streams of millstream on the same device, and shares slices as buffers.
///
/// Dropping the link submits to the queue, and waits until what wgpu has submitted has completed.
pub struct WgpuLink {
    device: wgpu::Device,
    queue: wgpu::Queue,
    theirs: Arc<Timeline>,
    /// The last value that was submitted to be signalled.
    signalled: Mutex<u64>,
    /// The last point of each of millstream's queues that a submission of wgpu waits for: it keeps the semaphore.
    points: Mutex<BTreeMap<vk::Semaphore, VulkanPoint>>,
}

/// A timeline semaphore that wgpu's queue signals.
struct Timeline {
    raw: vk::Semaphore,
    functions: ash::Device,
    _device: wgpu::Device,
}

impl Drop for Timeline {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once. The link waits for wgpu's submissions before it drops its reference, and
        // each task that waits for the semaphore keeps one until it has completed.
        unsafe { self.functions.destroy_semaphore(self.raw, None) };
    }
}

impl WgpuLink {
    /// Creates a link with the queue of a device that millstream has adopted.
    ///
    /// # Errors
    /// wgpu does not run on Vulkan, or the driver refused a semaphore.
    pub fn new(device: &wgpu::Device, queue: &wgpu::Queue) -> Result<Self, WgpuError> {
        let functions = {
            // SAFETY: the guard only reads the handle.
            let raw = unsafe { device.as_hal::<Api>() }.ok_or(WgpuError::NotVulkan)?;
            raw.raw_device().clone()
        };
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the info is valid, and devices that millstream adopts have timeline semaphores.
        let raw = unsafe { functions.create_semaphore(&info, None) }.map_err(|result| {
            WgpuError::Driver {
                call: "vkCreateSemaphore",
                result,
            }
        })?;
        Ok(Self {
            device: device.clone(),
            queue: queue.clone(),
            theirs: Arc::new(Timeline {
                raw,
                functions,
                _device: device.clone(),
            }),
            signalled: Mutex::default(),
            points: Mutex::default(),
        })
    }

    /// Returns a buffer of wgpu on the memory of `handle`, of `handle.size()` bytes, which holds the slice until wgpu has
    /// dropped the buffer. The slice's contents are what [`WgpuLink::acquire`] and [`WgpuLink::release`] order. wgpu
    /// cannot map the buffer.
    ///
    /// Waits until the stream's tasks before it are issued, not until they have completed.
    ///
    /// # Errors
    /// A usage that has no counterpart; a handle of another device; data that has failed; a device without buffers on
    /// such memory.
    pub fn buffer<T: Element>(
        &self,
        stream: &Stream,
        handle: &Handle<T>,
        usages: wgpu::BufferUsages,
    ) -> Result<wgpu::Buffer, WgpuError> {
        let usage = vulkan_usage(usages)?;
        let asked = stream.ask_resource::<Vulkan, _>(
            "buffer of wgpu",
            update(handle),
            move |resources, reply| match resources.alias(0, usage) {
                Ok(alias) => reply.send(alias),
                Err(why) => reply.refuse(&why),
            },
        );
        let alias = asked.wait()?;
        let raw = alias.buffer();
        let held = handle.clone();
        let release = Box::new(move || drop((alias, held)));
        let descriptor = wgpu::BufferDescriptor {
            label: Some("millstream"),
            size: handle.size(),
            usage: usages,
            mapped_at_creation: false,
        };
        // SAFETY: the buffer is of this device, has these usages and this size, and lives until wgpu calls `release`,
        // which it does when it no longer uses the buffer.
        Ok(unsafe {
            let buffer = wgpu::hal::vulkan::Buffer::from_raw_externally_owned(raw, release);
            self.device
                .create_buffer_from_hal::<Api>(buffer, &descriptor)
        })
    }

    /// Orders all that wgpu has submitted to the queue before later tasks on the bindings, of this and of all other
    /// streams. Submits to the queue; does not wait.
    ///
    /// # Errors
    /// Those of [`Stream::with_resource`].
    pub fn acquire(&self, stream: &Stream, bindings: impl IntoBindings) -> Result<(), WgpuError> {
        let semaphore = self.theirs.raw;
        let value = {
            // Held over the submission, so that values are submitted in order.
            let mut signalled = self
                .signalled
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *signalled += 1;
            // SAFETY: the guard is not used to submit.
            let raw = unsafe { self.queue.as_hal::<Api>() }.ok_or(WgpuError::NotVulkan)?;
            raw.add_signal_semaphore(semaphore, Some(*signalled));
            drop(raw);
            self.queue.submit([]);
            *signalled
        };
        let theirs = self.theirs.clone();
        let wait = move |resources: &millstream::vulkan::VulkanResources| {
            // SAFETY: the signal is submitted already, and the task keeps the semaphore. After a refused call either
            // the wait still precedes the next submission, or there is none, so the order holds without an answer.
            let _ = unsafe { resources.wait_for(theirs.raw, value) };
            resources.keep(theirs);
        };
        let added = stream.with_resource::<Vulkan>("acquire from wgpu", bindings, wait);
        added.map_err(|returned| WgpuError::Task(returned.error))
    }

    /// Orders the stream's tasks so far, and all earlier tasks on the bindings, before what wgpu submits from now on.
    /// Waits until these tasks are submitted, not until they have completed.
    ///
    /// # Errors
    /// [`millstream::Error::Failed`] if the data of a binding has failed, and those of [`Stream::with_resource`].
    pub fn release(&self, stream: &Stream, bindings: impl IntoBindings) -> Result<(), WgpuError> {
        let released =
            stream.ask_resource::<Vulkan, _>("release to wgpu", bindings, |resources, reply| {
                resources.when_submitted(move |point| reply.send(point));
            });
        let point: VulkanPoint = released.wait()?;
        // SAFETY: the guard is not used to submit.
        let raw = unsafe { self.queue.as_hal::<Api>() }.ok_or(WgpuError::NotVulkan)?;
        let (semaphore, value) = (point.semaphore(), point.value());
        raw.add_wait_semaphore(semaphore, Some(value), vk::PipelineStageFlags::ALL_COMMANDS);
        let mut points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        points.insert(semaphore, point);
        Ok(())
    }
}

impl Drop for WgpuLink {
    fn drop(&mut self) {
        // Semaphores must outlive the submissions that wait for them or signal them, a staged wait included.
        self.queue.submit([]);
        // Fails only if the device is lost, and then nothing runs any more.
        let _ = self.device.poll(wgpu::PollType::wait_indefinitely());
    }
}

/// Returns the usages of Vulkan.
fn vulkan_usage(usages: wgpu::BufferUsages) -> Result<vk::BufferUsageFlags, WgpuError> {
    use vk::BufferUsageFlags as To;
    use wgpu::BufferUsages as From;
    let pairs = [
        (From::COPY_SRC, To::TRANSFER_SRC),
        (From::COPY_DST, To::TRANSFER_DST),
        (From::STORAGE, To::STORAGE_BUFFER),
        (From::UNIFORM, To::UNIFORM_BUFFER),
        (From::VERTEX, To::VERTEX_BUFFER),
        (From::INDEX, To::INDEX_BUFFER),
        (From::INDIRECT, To::INDIRECT_BUFFER),
    ];
    let known = pairs
        .iter()
        .fold(From::empty(), |all, (from, _)| all | *from);
    if usages.is_empty() || !known.contains(usages) {
        return Err(WgpuError::Usages(usages));
    }
    let chosen = pairs.iter().filter(|(from, _)| usages.contains(*from));
    Ok(chosen.fold(To::empty(), |all, (_, to)| all | *to))
}
