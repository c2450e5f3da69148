//! Sharing memory and order with an engine on the Vulkan device that it created: buffers of Vulkan on our memory, values of
//! timeline semaphores in both directions, and commands that the engine records in place of a task.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use ash::vk::{self, Handle as _};
use millstream::vulkan::{Vulkan, VulkanAlias, VulkanPoint, VulkanResources};
use millstream::{Handle, update};
use smallvec::SmallVec;

use crate::argument::ms_argument;
use crate::buffer::{buffer_of, ms_buffer};
use crate::custom::{Buffers, run_task};
use crate::handles::{destroy, get, give, objects};
use crate::native::{Function, Owner, ms_drop_fn};
use crate::sized::{sized, text, write_struct};
use crate::status::{ensure, exports, write};
use crate::stream::{ms_stream, stream_of};

/// A `VkBuffer` on the memory of a buffer, for an engine. It keeps the buffer. Any thread may use it.
pub struct ms_vulkan_buffer {
    alias: VulkanAlias,
    /// The buffer of millstream, and where the memory lies in it.
    page: vk::Buffer,
    offset: u64,
    bytes: u64,
    address: u64,
    _buffer: Handle<u8>,
}

/// A point of a queue of millstream: the value that a timeline semaphore reaches. Any thread may use it.
pub struct ms_vulkan_point(VulkanPoint);

objects!(ms_vulkan_buffer: 13, ms_vulkan_point: 14);

/// Where the memory of a buffer lies.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_vulkan_memory {
    /// `sizeof(ms_vulkan_memory)`. Set it before the call.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// The `VkBuffer` that begins with the buffer's first byte, and has the usages that were asked for.
    pub buffer: *mut c_void,
    /// Its size in bytes.
    pub bytes: u64,
    /// The `VkBuffer` of millstream that the memory belongs to: a storage buffer, which copies may use too.
    pub page: *mut c_void,
    /// The first byte in `page`.
    pub page_offset: u64,
    /// The device address of the first byte.
    pub address: u64,
}

/// A buffer of a task that an engine records.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_vulkan_binding {
    /// The `VkBuffer`; NULL if the buffer is empty.
    pub buffer: *mut c_void,
    /// The first byte in it.
    pub offset: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// The device address of the first byte; 0 if the buffer is empty.
    pub address: u64,
}

/// What a function that records a task receives. Valid until it returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ms_vulkan_task {
    /// The size of this struct in the library, which may be greater than in the header that a program was compiled with.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// The `VkCommandBuffer`, which is being recorded.
    pub commands: *mut c_void,
    /// The buffers, in the order of the call.
    pub bindings: *const ms_vulkan_binding,
    /// Their number.
    pub binding_count: usize,
}

/// Records commands of an engine in place of a task. Answers 0, or another number if it failed: then what the task
/// would have written is poisoned.
///
/// It runs once, on the thread of the device or one that calls, before the task is submitted. It must not throw or
/// unwind, wait for the device, end the command buffer, or call functions of this library. Barriers before and after the
/// task cover compute shaders, copies and indirect commands.
pub type ms_vulkan_task_fn =
    Option<unsafe extern "C" fn(task: *const ms_vulkan_task, user: *mut c_void) -> i32>;

sized!(ms_vulkan_memory: 48);

exports! {
    /// Makes a `VkBuffer` with these `VkBufferUsageFlags` on exactly the bytes of a buffer, for use by the engine.
    /// Blocks until the stream's tasks before it were issued, not until they have completed; pumps a driven device
    /// meanwhile.
    ///
    /// The engine uses it after a point of `ms_vulkan_point_create`, and orders later tasks after its use by
    /// `ms_vulkan_wait`.
    ///
    /// Errors: `UNSUPPORTED` if the device is not one of Vulkan; `FAILED` if the engine did not create the device, the
    /// buffer is empty, or the driver has no such buffer on this memory; `WOULD_DEADLOCK` in a callback.
    fn ms_vulkan_buffer_create(
        stream: *const ms_stream, buffer: *const ms_buffer, usage: u32,
        out: *mut *mut ms_vulkan_buffer,
    ) {
        give(out, || {
            let (stream, _buffer) = (stream_of(stream)?, buffer_of(buffer)?);
            let usage = vk::BufferUsageFlags::from_raw(usage);
            ensure!(!usage.is_empty(), "`usage` must have a bit of `VkBufferUsageFlagBits`, got 0");
            let asked = stream.ask_resource::<Vulkan, _>(
                "shared buffer",
                update(&_buffer),
                move |resources, reply| match (resources.alias(0, usage), resources.binding(0)) {
                    (Ok(alias), Some(at)) => {
                        reply.send((alias, at.buffer, [at.offset, at.bytes, at.address]));
                    }
                    (Err(why), _) => reply.refuse(&why),
                    (Ok(_), None) => {}
                },
            );
            let (alias, page, [offset, bytes, address]) = asked.wait()?;
            Ok(ms_vulkan_buffer { alias, page, offset, bytes, address, _buffer })
        })
    }

    /// Reports where the memory of a shared buffer lies. Never blocks.
    fn ms_vulkan_buffer_get_memory(buffer: *const ms_vulkan_buffer, out: *mut ms_vulkan_memory) {
        let ms_vulkan_buffer { alias, page, offset, bytes, address, .. } = get(buffer)?;
        write_struct(out, &ms_vulkan_memory {
            size: 0, reserved: 0, buffer: pointer(alias.buffer()), bytes: *bytes,
            page: pointer(*page), page_offset: *offset, address: *address,
        })
    }

    /// Destroys a shared buffer and its `VkBuffer`, which the engine must not use any more. Never blocks. NULL is fine.
    fn ms_vulkan_buffer_destroy(buffer: *mut ms_vulkan_buffer) {
        destroy(buffer)
    }

    /// Orders what the engine signals before later tasks on the buffers, of this and of all other streams: they wait
    /// until `semaphore`, a timeline `VkSemaphore` of the engine, has reached `value`. The arguments are buffers with
    /// the accesses of the later tasks. Does not wait for the semaphore.
    ///
    /// The value must be reached some time; if the device shares a queue with the engine, its signal was submitted
    /// already. `drop`, if it is not NULL, is called with `user`, once, on any thread, when the semaphore is not needed
    /// any more; after an error of this call it is not called.
    ///
    /// Errors: `UNSUPPORTED` if the device is not one of Vulkan.
    fn ms_vulkan_wait(
        stream: *const ms_stream, buffers: *const ms_argument, count: usize, semaphore: *mut c_void,
        value: u64, drop: ms_drop_fn, user: *mut c_void,
    ) {
        ensure!(!semaphore.is_null(), "the semaphore is NULL");
        let semaphore = vk::Semaphore::from_raw(semaphore.expose_provenance() as u64);
        let owner = Arc::new(Owner::new(user, drop));
        let kept = owner.clone();
        let work = move |resources: &VulkanResources| {
            // The task keeps the owner of the semaphore. After a refused call either the wait still precedes the next
            // submission, or there is none, so the order holds without an answer.
            let _ = resources.wait_for(semaphore, value);
            resources.keep(kept);
        };
        let (stream, buffers) = (stream_of(stream)?, Buffers::read(buffers, count)?);
        buffers.submit::<Vulkan>(&stream, "wait for a semaphore", &owner, work)
    }

    /// Gives a point that is reached once the stream's tasks so far, and all earlier tasks on the buffers, have
    /// completed. The arguments are buffers with the accesses that the engine will make. Blocks until these tasks are
    /// submitted, not until they have completed; pumps a driven device meanwhile.
    ///
    /// Errors: that of the data of a buffer that is read and has failed; `UNSUPPORTED` if the device is not one of
    /// Vulkan; `WOULD_DEADLOCK` in a callback.
    fn ms_vulkan_point_create(
        stream: *const ms_stream, buffers: *const ms_argument, count: usize,
        out: *mut *mut ms_vulkan_point,
    ) {
        give(out, || {
            let asked = stream_of(stream)?.ask_resource::<Vulkan, VulkanPoint>(
                "point for the engine",
                &Buffers::read(buffers, count)?.bindings()[..],
                |resources, reply| resources.when_submitted(move |point| reply.send(point)),
            );
            Ok(ms_vulkan_point(asked.wait()?))
        })
    }

    /// Reports the timeline `VkSemaphore` of a point, which only millstream signals, and the value to wait for. A
    /// submission of the engine that waits for it sees what the tasks wrote. Never blocks.
    fn ms_vulkan_point_get(
        point: *const ms_vulkan_point, semaphore: *mut *mut c_void, value: *mut u64,
    ) {
        let point = &get(point)?.0;
        write(value, point.value())?;
        write(semaphore, pointer(point.semaphore()))
    }

    /// Destroys a point. All submissions that wait for its semaphore must have completed. Never blocks. NULL is fine.
    fn ms_vulkan_point_destroy(point: *mut ms_vulkan_point) {
        destroy(point)
    }

    /// Adds a task whose commands the engine records, with the name `name` in errors: for example a copy between a
    /// buffer of the engine and one of millstream. The arguments are buffers with accesses. `drop`, if it is not NULL,
    /// is called with `user`, once, on any thread, when the task has completed; after an error of this call neither
    /// function is called.
    ///
    /// Errors: `UNSUPPORTED` if the device is not one of Vulkan.
    fn ms_vulkan_record(
        stream: *const ms_stream, name: *const c_char, buffers: *const ms_argument, count: usize,
        function: ms_vulkan_task_fn, drop: ms_drop_fn, user: *mut c_void,
    ) {
        let name = text(name, "name of the task")?;
        let function = Function::new(function, user, drop, "the function of the task")?;
        let owner = function.owner.clone();
        let work = move |resources: &VulkanResources| {
            let bindings = (0..count).filter_map(|index| resources.binding(index));
            let bindings = bindings.map(|at| ms_vulkan_binding {
                buffer: pointer(at.buffer), offset: at.offset, bytes: at.bytes, address: at.address,
            });
            let bindings: SmallVec<[ms_vulkan_binding; 8]> = bindings.collect();
            let commands = resources.commands().unwrap_or_default();
            resources.keep(function.owner.clone());
            run_task(&function, &ms_vulkan_task {
                size: size_of::<ms_vulkan_task>() as u32, reserved: 0, commands: pointer(commands),
                bindings: bindings.as_ptr(), binding_count: bindings.len(),
            });
        };
        Buffers::read(buffers, count)?.submit::<Vulkan>(&stream_of(stream)?, name, &owner, work)
    }
}

fn pointer(handle: impl vk::Handle) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(handle.as_raw() as usize)
}
