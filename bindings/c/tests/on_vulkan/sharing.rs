//! Memory, semaphores and commands that an application and millstream share.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use ash::vk;
use millstream_capi::buffer::ms_read;
use millstream_capi::pending::{MS_FOREVER, ms_pending_destroy, ms_pending_wait};
use millstream_capi::status::ms_status;
use millstream_capi::stream::{ms_stream_create, ms_stream_destroy};
use millstream_capi::types::ms_access;
use millstream_capi::vulkan::ms_vulkan_device;
use millstream_capi::vulkan_sharing::{
    ms_vulkan_buffer_create, ms_vulkan_buffer_destroy, ms_vulkan_buffer_get_memory,
    ms_vulkan_memory, ms_vulkan_point_create, ms_vulkan_point_destroy, ms_vulkan_point_get,
    ms_vulkan_record, ms_vulkan_task, ms_vulkan_wait,
};

use crate::common::{User, given as made, last_error, ok, zeroed};
use crate::{Application, adopt, application, count, given, pointer, queue_of};

/// What the application uses: a buffer of four numbers that the host can access, a timeline semaphore, a command buffer.
struct Engine<'a> {
    application: &'a Application,
    queue: vk::Queue,
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    mapped: *mut [u32; 4],
    semaphore: vk::Semaphore,
    pool: vk::CommandPool,
}

impl<'a> Engine<'a> {
    fn new(application: &'a Application) -> Self {
        let device = &application.device;
        // SAFETY: plain use of Vulkan; everything that the infos point to lives until the calls return.
        unsafe {
            let queue = device.get_device_queue(application.family, 0);
            let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
            let info = vk::BufferCreateInfo::default().size(16).usage(usage);
            let buffer = device.create_buffer(&info, None).unwrap();
            let needs = device.get_buffer_memory_requirements(buffer);
            let kinds = application
                .instance
                .get_physical_device_memory_properties(application.physical);
            let wanted =
                vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
            let fits = |(index, kind): &(usize, &vk::MemoryType)| {
                needs.memory_type_bits & 1 << index != 0 && kind.property_flags.contains(wanted)
            };
            let kind = kinds.memory_types_as_slice().iter().enumerate().find(fits);
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(kind.unwrap().0 as u32);
            let memory = device.allocate_memory(&info, None).unwrap();
            device.bind_buffer_memory(buffer, memory, 0).unwrap();
            let flags = vk::MemoryMapFlags::empty();
            let mapped = device.map_memory(memory, 0, 16, flags).unwrap().cast();
            let mut kind =
                vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
            let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
            let semaphore = device.create_semaphore(&info, None).unwrap();
            let info = vk::CommandPoolCreateInfo::default().queue_family_index(application.family);
            let pool = device.create_command_pool(&info, None).unwrap();
            Self {
                application,
                queue,
                buffer,
                memory,
                mapped,
                semaphore,
                pool,
            }
        }
    }

    /// Copies the shared buffer to the own one, and fills the shared one with 7: after `(semaphore, value)`. Then the own
    /// semaphore has the value 1.
    fn copy_and_fill(&self, shared: vk::Buffer, (semaphore, value): (vk::Semaphore, u64)) {
        let device = &self.application.device;
        // SAFETY: plain use of Vulkan; the objects live until the submission has completed.
        unsafe {
            let info = vk::CommandBufferAllocateInfo::default()
                .command_pool(self.pool)
                .command_buffer_count(1);
            let commands = device.allocate_command_buffers(&info).unwrap()[0];
            let begin = vk::CommandBufferBeginInfo::default();
            device.begin_command_buffer(commands, &begin).unwrap();
            let region = [vk::BufferCopy::default().size(16)];
            device.cmd_copy_buffer(commands, shared, self.buffer, &region);
            let barrier = [vk::MemoryBarrier::default()
                .src_access_mask(vk::AccessFlags::TRANSFER_READ)
                .dst_access_mask(vk::AccessFlags::TRANSFER_WRITE)];
            device.cmd_pipeline_barrier(
                commands,
                vk::PipelineStageFlags::TRANSFER,
                vk::PipelineStageFlags::TRANSFER,
                vk::DependencyFlags::empty(),
                &barrier,
                &[],
                &[],
            );
            device.cmd_fill_buffer(commands, shared, 0, 16, 7);
            device.end_command_buffer(commands).unwrap();
            let (waits, signals) = ([value], [1]);
            let mut values = vk::TimelineSemaphoreSubmitInfo::default()
                .wait_semaphore_values(&waits)
                .signal_semaphore_values(&signals);
            let (wait, signal, all) = ([semaphore], [self.semaphore], [commands]);
            let submission = vk::SubmitInfo::default()
                .wait_semaphores(&wait)
                .wait_dst_stage_mask(&[vk::PipelineStageFlags::ALL_COMMANDS])
                .signal_semaphores(&signal)
                .command_buffers(&all)
                .push_next(&mut values);
            let fence = vk::Fence::null();
            device
                .queue_submit(self.queue, &[submission], fence)
                .unwrap();
        }
    }

    fn numbers(&self) -> [u32; 4] {
        // SAFETY: the memory is mapped, and the test has waited for what writes it.
        unsafe { self.mapped.read_volatile() }
    }
}

impl Drop for Engine<'_> {
    fn drop(&mut self) {
        let device = &self.application.device;
        // SAFETY: nothing uses the objects any more.
        unsafe {
            device.device_wait_idle().unwrap();
            device.destroy_command_pool(self.pool, None);
            device.destroy_semaphore(self.semaphore, None);
            device.destroy_buffer(self.buffer, None);
            device.free_memory(self.memory, None);
        }
    }
}

/// Records a copy of the engine's buffer to the first binding.
unsafe extern "C" fn copy_from_engine(task: *const ms_vulkan_task, user: *mut c_void) -> i32 {
    // SAFETY: the test passes an engine that outlives the task, and the task is valid; so are its handles.
    unsafe {
        let (task, engine) = (&*task, &*user.cast::<Engine<'_>>());
        assert!(task.size as usize >= size_of::<ms_vulkan_task>() && task.binding_count == 1);
        let binding = &*task.bindings;
        assert!(binding.bytes == 16 && binding.address != 0);
        let region = [vk::BufferCopy::default()
            .size(16)
            .dst_offset(binding.offset)];
        let commands: vk::CommandBuffer = handle(task.commands);
        let device = &engine.application.device;
        device.cmd_copy_buffer(commands, engine.buffer, handle(binding.buffer), &region);
    }
    0
}

unsafe extern "C" fn refuse(_: *const ms_vulkan_task, _: *mut c_void) -> i32 {
    33
}

fn handle<H: vk::Handle>(pointer: *mut c_void) -> H {
    H::from_raw(pointer.expose_provenance() as u64)
}

/// The shared buffer, the point and the wait: the application sees what tasks wrote, and tasks what it wrote.
#[test]
fn memory_goes_to_the_application_and_back() {
    let Some(application) = application() else {
        return eprintln!("SKIPPED: no Vulkan driver");
    };
    let (dropped, released, queue) = (AtomicU32::new(0), AtomicU32::new(0), queue_of(&application));
    let engine = Engine::new(&application);
    let given = ms_vulkan_device {
        share_queues: 1,
        ..given(&application, &queue, &dropped)
    };
    let opened = adopt(&given, true).unwrap();
    let user = User::of(opened.device, &[1, 2, 3, 4]);
    let (stream, buffer) = (user.stream, user.buffer);
    let mut memory = zeroed::<ms_vulkan_memory>();
    let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
    let (mut semaphore, mut value) = (null_mut(), 0);
    let argument = user.argument(ms_access::Update);
    // SAFETY: all pointers are valid, the handles live, and the semaphore outlives the device.
    unsafe {
        let usage = usage.as_raw();
        let shared = made(|out| ms_vulkan_buffer_create(stream, buffer, usage, out));
        ok(ms_vulkan_buffer_get_memory(shared, &raw mut memory));
        assert!(memory.bytes == 16 && memory.address != 0 && !memory.page.is_null());
        assert!(!memory.buffer.is_null() && memory.buffer != memory.page);
        user.fill(5);
        let point = made(|out| ms_vulkan_point_create(stream, &raw const argument, 1, out));
        ok(ms_vulkan_point_get(
            point,
            &raw mut semaphore,
            &raw mut value,
        ));
        engine.copy_and_fill(handle(memory.buffer), (handle(semaphore), value));
        ok(ms_vulkan_wait(
            stream,
            &raw const argument,
            1,
            pointer(engine.semaphore),
            1,
            Some(count),
            (&raw const released).cast_mut().cast(),
        ));
        assert_eq!(user.read(), Ok(vec![7; 4]));
        assert_eq!(engine.numbers(), [5; 4]);

        // Commands of the application in place of a task, and what they answer if they fail.
        user.fill(1);
        let engine: *mut c_void = (&raw const engine).cast_mut().cast();
        let name = c"copy from the engine".as_ptr();
        let record = |function| {
            let function = Some(function);
            ms_vulkan_record(stream, name, &raw const argument, 1, function, None, engine)
        };
        ok(record(copy_from_engine));
        assert_eq!(user.read(), Ok(vec![5; 4]));
        ok(record(refuse));
        assert_eq!(user.read(), Err(ms_status::Failed));
        let text = last_error();
        assert!(
            text.contains("copy from the engine") && text.contains("33"),
            "{text}"
        );
        ok(ms_vulkan_point_destroy(point));
        // The shared buffer keeps the memory.
        drop((user, opened));
        assert_eq!(released.load(Ordering::Relaxed), 1);
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
        ok(ms_vulkan_buffer_destroy(shared));
    }
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

/// A task waits until the host has signalled the application's semaphore, and other streams wait behind it.
#[test]
fn tasks_wait_for_a_semaphore_of_the_application() {
    let Some(application) = application() else {
        return eprintln!("SKIPPED: no Vulkan driver");
    };
    let (dropped, released, queue) = (AtomicU32::new(0), AtomicU32::new(0), queue_of(&application));
    let engine = Engine::new(&application);
    let opened = adopt(&given(&application, &queue, &dropped), false).unwrap();
    let user = User::of(opened.device, &[1, 2, 3, 4]);
    let argument = user.argument(ms_access::Write);
    // SAFETY: all pointers are valid, the handles live, and the semaphore outlives the device.
    unsafe {
        ok(ms_vulkan_wait(
            user.stream,
            &raw const argument,
            1,
            pointer(engine.semaphore),
            3,
            Some(count),
            (&raw const released).cast_mut().cast(),
        ));
        user.fill(9);
        let other = made(|out| ms_stream_create(user.client, out));
        let read = made(|out| ms_read(other, user.buffer, out));
        let waited = ms_pending_wait(read, 20_000_000);
        assert_eq!(waited, ms_status::TimedOut, "the semaphore is at 0");
        assert_eq!(released.load(Ordering::Relaxed), 0);
        let info = vk::SemaphoreSignalInfo::default()
            .semaphore(engine.semaphore)
            .value(3);
        application.device.signal_semaphore(&info).unwrap();
        ok(ms_pending_wait(read, MS_FOREVER));
        assert_eq!(user.read(), Ok(vec![9; 4]));
        ok(ms_pending_destroy(read));
        ok(ms_stream_destroy(other));
    }
    drop((user, opened));
    assert_eq!(released.load(Ordering::Relaxed), 1);
}
