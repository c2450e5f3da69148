//! millstream and wgpu on one device of Vulkan, with the validation layer if it is installed. Skipped on machines without
//! a device, unless `MILLSTREAM_VULKAN=required`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ash::vk;
use millstream::Driver;
use millstream::vulkan::VulkanLaunch;
use millstream::{
    ComputeClient, CubeCount, Device, DeviceOptions, Error, Kernel, KernelHandle, Stream, Vulkan,
    read, update, write,
};
use millstream_wgpu::{AdoptWgpu, WgpuError, WgpuLink, WgpuSetup};
use wgpu::hal::api::Vulkan as Api;

const WORDS: usize = 1 << 16;

/// The messages that wgpu logs, among them those of the validation layer.
struct Messages(Mutex<Vec<String>>);

static MESSAGES: Messages = Messages(Mutex::new(Vec::new()));

impl log::Log for Messages {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            let mut messages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            messages.push(format!("{}: {}", record.target(), record.args()));
        }
    }

    fn flush(&self) {}
}

/// Takes the messages so far. All tests of the process share them, so tests run one at a time (`checked`).
fn messages() -> Vec<String> {
    std::mem::take(&mut *MESSAGES.0.lock().unwrap_or_else(PoisonError::into_inner))
}

/// An application on wgpu that shares its device with millstream.
struct Shared {
    setup: WgpuSetup,
    device: wgpu::Device,
    queue: wgpu::Queue,
    add_one: Option<KernelHandle>,
    client: Option<ComputeClient>,
    stream: Option<Stream>,
    ours: Option<(Device, Driver)>,
}

/// Returns an adapter of Vulkan. `None` if the machine has none.
fn adapter() -> Option<wgpu::Adapter> {
    static LOGGED: OnceLock<()> = OnceLock::new();
    LOGGED.get_or_init(|| {
        log::set_logger(&MESSAGES).unwrap();
        log::set_max_level(log::LevelFilter::Warn);
    });
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: wgpu::Backends::VULKAN,
        flags: wgpu::InstanceFlags::VALIDATION,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let options = wgpu::RequestAdapterOptions::default();
    match pollster::block_on(instance.request_adapter(&options)) {
        Ok(adapter) => Some(adapter),
        Err(error) => {
            let is_required =
                std::env::var("MILLSTREAM_VULKAN").is_ok_and(|value| value == "required");
            assert!(!is_required, "{error}");
            println!("skipped: {error}");
            None
        }
    }
}

impl Shared {
    fn open() -> Option<Self> {
        let adapter = adapter()?;
        let setup = WgpuSetup::new();
        let descriptor = wgpu::DeviceDescriptor::default();
        let (device, queue) = setup.request_device(&adapter, &descriptor).unwrap();
        // SAFETY: the tests use the queue and drive the device on their one thread.
        let options = unsafe { Vulkan::adopt_wgpu(&device, &queue, &setup) }.unwrap();
        let options = options.no_pipeline_cache();
        // Tasks behind a closed gate count as in flight: a depth by time may leave no room for the next one.
        let depth = DeviceOptions::default().max_in_flight_time(Duration::MAX);
        let (ours, driver) = Device::open_driven(options, depth).unwrap();
        let client = ours.new_client();
        let words = include_bytes!("../../../../tests/vulkan/kernels/descriptors/add_one.spv");
        let (words, _) = words.as_chunks::<4>();
        let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let kernel = Kernel::new("add_one")
            .updates::<u32>("values")
            .scalar::<u32>("n");
        let add_one = client
            .kernel(
                kernel
                    .spirv(words)
                    .with(VulkanLaunch::default().descriptors(true)),
            )
            .unwrap();
        Some(Self {
            setup,
            device,
            queue,
            add_one: Some(add_one),
            stream: Some(client.new_stream()),
            client: Some(client),
            ours: Some((ours, driver)),
        })
    }

    fn stream(&self) -> &Stream {
        self.stream.as_ref().unwrap()
    }

    fn link(&self) -> WgpuLink {
        WgpuLink::new(&self.device, &self.queue).unwrap()
    }

    fn add_one(&self, values: &millstream::Handle<u32>) {
        let kernel = self.add_one.as_ref().unwrap();
        let arguments = (update(values), values.len() as u32);
        self.stream()
            .launch(kernel, CubeCount::d1(64), arguments)
            .unwrap();
    }

    /// Closes the device of millstream and drops everything of it.
    fn close(&mut self) {
        (self.add_one, self.stream, self.client) = (None, None, None);
        if let Some((device, driver)) = self.ours.take() {
            driver.close();
            drop(device);
        }
    }

    /// Returns a buffer for results of wgpu, of `bytes` bytes.
    fn landing(&self, bytes: u64) -> wgpu::Buffer {
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: bytes,
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        })
    }

    /// Submits a copy.
    fn submit_copy(&self, from: &wgpu::Buffer, to: &wgpu::Buffer) {
        let mut encoder = self
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(from, 0, to, 0, from.size());
        self.queue.submit([encoder.finish()]);
    }

    /// Waits for wgpu and returns the words of a landing.
    fn words(&self, landing: &wgpu::Buffer) -> Vec<u32> {
        landing
            .slice(..)
            .map_async(wgpu::MapMode::Read, Result::unwrap);
        self.device
            .poll(wgpu::PollType::wait_indefinitely())
            .unwrap();
        let bytes = landing.slice(..).get_mapped_range().unwrap();
        let (words, _) = bytes.as_chunks::<4>();
        words.iter().map(|word| u32::from_le_bytes(*word)).collect()
    }
}

/// Runs a test alone, and fails if the validation layer has reported anything.
fn checked(test: impl FnOnce(Shared)) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(shared) = Shared::open() else { return };
    test(shared);
    let messages = messages();
    assert!(messages.is_empty(), "{messages:#?}");
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A pipeline of wgpu that doubles all words of a buffer.
struct Doubling {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
}

impl Doubling {
    fn new(device: &wgpu::Device, buffer: &wgpu::Buffer) -> Self {
        let source = "@group(0) @binding(0) var<storage, read_write> at: array<u32>;
            @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
                if id.x < arrayLength(&at) { at[id.x] *= 2u; }
            }";
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(source.into()),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: None,
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry {
                binding: 0,
                resource: buffer.as_entire_binding(),
            }],
        });
        Self { pipeline, group }
    }

    fn submit(&self, shared: &Shared) {
        let mut encoder = shared
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&self.pipeline);
            pass.set_bind_group(0, &self.group, &[]);
            pass.dispatch_workgroups(WORDS as u32 / 64, 1, 1);
        }
        shared.queue.submit([encoder.finish()]);
    }
}

/// I1: wgpu and a stream change one buffer in turns, and only the last result is waited for.
#[test]
fn wgpu_and_a_stream_take_turns_with_one_buffer() {
    checked(|shared| {
        let (stream, link) = (shared.stream(), shared.link());
        let values = stream.create(&vec![1_u32; WORDS]).unwrap();
        let usages = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
        let buffer = link.buffer(stream, &values, usages).unwrap();
        let doubling = Doubling::new(&shared.device, &buffer);
        let mut expected = 1_u32;
        for _ in 0..20 {
            link.acquire(stream, update(&values)).unwrap();
            shared.add_one(&values);
            link.release(stream, update(&values)).unwrap();
            doubling.submit(&shared);
            expected = (expected + 1).wrapping_mul(2);
        }
        let landing = shared.landing(buffer.size());
        shared.submit_copy(&buffer, &landing);
        assert_eq!(shared.words(&landing), vec![expected; WORDS]);
        link.acquire(stream, update(&values)).unwrap();
        assert_eq!(stream.read(&values).wait().unwrap(), vec![expected; WORDS]);
    });
}

/// I1: `release` orders work that has not started yet; the host does not wait for it.
#[test]
fn wgpu_runs_after_work_that_is_released_before_it_has_run() {
    checked(|shared| {
        let (stream, link) = (shared.stream(), shared.link());
        let values = stream.create(&[5_u32; 256]).unwrap();
        let buffer = link
            .buffer(stream, &values, wgpu::BufferUsages::COPY_SRC)
            .unwrap();
        let gate = Gate::new(&shared.device);
        let raw = gate.raw;
        let wait = move |resources: &millstream::vulkan::VulkanResources| {
            // SAFETY: the gate is a timeline semaphore that outlives the task, and is opened below.
            unsafe { resources.wait_for(raw, 1) }.unwrap();
        };
        stream
            .with_resource::<Vulkan>("gate", update(&values), wait)
            .map_err(|back| back.error)
            .unwrap();
        shared.add_one(&values);
        link.release(stream, read(&values)).unwrap();
        let landing = shared.landing(buffer.size());
        // The only submission of wgpu before the gate opens: wgpu orders its own by binary semaphores, which must not
        // depend on a signal of the host.
        shared.submit_copy(&buffer, &landing);
        let mut answer = stream.read(&values);
        assert!(matches!(
            answer.wait_timeout(Duration::ZERO),
            Err(Error::TimedOut { .. })
        ));
        gate.open(1);
        assert_eq!(answer.wait().unwrap(), [6; 256]);
        assert_eq!(shared.words(&landing), [6; 256]);
    });
}

/// I1: `acquire` orders work that has not started yet; the host does not wait for it.
#[test]
fn stream_runs_after_work_of_wgpu_that_has_not_run() {
    checked(|shared| {
        let (stream, link) = (shared.stream(), shared.link());
        let values = stream.create(&[5_u32; 256]).unwrap();
        let buffer = link
            .buffer(stream, &values, wgpu::BufferUsages::COPY_DST)
            .unwrap();
        link.release(stream, read(&values)).unwrap();
        let gate = Gate::new(&shared.device);
        {
            // SAFETY: the gate outlives the submission, and is opened below.
            let queue = unsafe { shared.queue.as_hal::<Api>() }.unwrap();
            queue.add_wait_semaphore(gate.raw, Some(1), vk::PipelineStageFlags::ALL_COMMANDS);
        }
        shared.queue.write_buffer(&buffer, 0, &bytes(&[100; 256]));
        link.acquire(stream, update(&values)).unwrap();
        shared.add_one(&values);
        let mut answer = stream.read(&values);
        assert!(matches!(
            answer.wait_timeout(Duration::ZERO),
            Err(Error::TimedOut { .. })
        ));
        gate.open(1);
        assert_eq!(answer.wait().unwrap(), [101; 256]);
    });
}

/// A timeline semaphore that the host signals.
struct Gate {
    raw: vk::Semaphore,
    functions: ash::Device,
}

impl Gate {
    fn new(device: &wgpu::Device) -> Self {
        // SAFETY: plain use of Vulkan.
        unsafe {
            let functions = device.as_hal::<Api>().unwrap().raw_device().clone();
            let mut kind =
                vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
            let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
            let raw = functions.create_semaphore(&info, None).unwrap();
            Self { raw, functions }
        }
    }

    fn open(&self, value: u64) {
        let info = vk::SemaphoreSignalInfo::default()
            .semaphore(self.raw)
            .value(value);
        // SAFETY: the semaphore is alive.
        unsafe { self.functions.signal_semaphore(&info) }.unwrap();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // SAFETY: the tests have waited for everything that uses the semaphore.
        unsafe { self.functions.destroy_semaphore(self.raw, None) };
    }
}

/// I8: a buffer keeps its memory after its handle, its client, its device and the link are gone.
#[test]
fn buffer_outlives_everything_of_millstream() {
    checked(|mut shared| {
        let link = shared.link();
        let stream = shared.stream();
        let values = stream.create(&[7_u32; 512]).unwrap();
        let buffer = link
            .buffer(stream, &values, wgpu::BufferUsages::COPY_SRC)
            .unwrap();
        link.release(stream, read(&values)).unwrap();
        drop((values, link));
        stream.sync().wait().unwrap();
        let memory = shared.client.as_ref().unwrap().memory_usage();
        assert_eq!(memory.wait().unwrap().device.live_slices, 1);
        shared.close();
        let landing = shared.landing(buffer.size());
        shared.submit_copy(&buffer, &landing);
        assert_eq!(shared.words(&landing), [7; 512]);
        drop(buffer);
        shared
            .device
            .poll(wgpu::PollType::wait_indefinitely())
            .unwrap();
    });
}

#[test]
fn misuse_is_an_error() {
    checked(|mut shared| {
        let (stream, link) = (shared.stream(), shared.link());
        let values = stream.create(&[7_u32; 512]).unwrap();
        let usages = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let refused = link.buffer(stream, &values, usages);
        assert!(matches!(refused, Err(WgpuError::Usages(given)) if given == usages));
        let usages = wgpu::BufferUsages::COPY_SRC;
        let empty = stream.create::<u32>(&[]).unwrap();
        let refused = link.buffer(stream, &empty, usages).unwrap_err().to_string();
        assert!(refused.contains("binding 0 is empty"), "{refused}");
        let crooked = values.clone().offset_start(4).unwrap();
        let refused = link.buffer(stream, &crooked, wgpu::BufferUsages::STORAGE);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("with these usages"), "{refused}");

        // Data that has failed is not given to wgpu.
        let failed = stream.empty::<u32>(16).unwrap();
        let work = |_: &millstream::vulkan::VulkanResources| panic!("planned");
        stream
            .with_resource::<Vulkan>("planned", write(&failed), work)
            .map_err(|back| back.error)
            .unwrap();
        let released = link.release(stream, read(&failed));
        assert!(
            matches!(released, Err(WgpuError::Task(Error::Failed(_)))),
            "{released:?}"
        );

        let other = WgpuSetup::new();
        // SAFETY: the result is an error.
        let adopted = unsafe { Vulkan::adopt_wgpu(&shared.device, &shared.queue, &other) };
        assert!(matches!(adopted, Err(WgpuError::NotSetUp)));

        if !shared.setup.has_own_queues() {
            // SAFETY: the device does not open.
            let options =
                unsafe { Vulkan::adopt_wgpu(&shared.device, &shared.queue, &shared.setup) };
            let opened = Device::open(options.unwrap()).err().unwrap().to_string();
            assert!(
                opened.contains("open the device with `open_driven`"),
                "{opened}"
            );
        }

        let closed = shared.stream.clone().unwrap();
        shared.close();
        let released = link.release(&closed, read(&values));
        assert!(
            matches!(released, Err(WgpuError::Task(Error::Closed))),
            "{released:?}"
        );
        let bought = link.buffer(&closed, &values, usages);
        assert!(
            matches!(bought, Err(WgpuError::Task(Error::Closed))),
            "{bought:?}"
        );
    });
}

/// I12: frames leave nothing behind.
#[test]
fn five_hundred_frames_allocate_no_more_memory() {
    checked(|shared| {
        let (stream, link) = (shared.stream(), shared.link());
        let values = stream.create(&[0_u32; 64]).unwrap();
        let usages = wgpu::BufferUsages::COPY_SRC;
        let client = shared.client.as_ref().unwrap();
        let memory = || client.memory_usage().wait().unwrap();
        let mut used = None;
        for frame in 0..500_u32 {
            let buffer = link.buffer(stream, &values, usages).unwrap();
            link.acquire(stream, update(&values)).unwrap();
            shared.add_one(&values);
            link.release(stream, read(&values)).unwrap();
            let landing = shared.landing(buffer.size());
            shared.submit_copy(&buffer, &landing);
            assert_eq!(shared.words(&landing), [frame + 1; 64]);
            if frame == 50 {
                used = Some(memory());
            }
        }
        assert_eq!(used, Some(memory()));
    });
}
