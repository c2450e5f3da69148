//! A device that the application created.

use std::sync::Arc;
use std::time::Duration;

use ash::vk;
use millstream::vulkan::{
    AdoptedDevice, AdoptedFeatures, AdoptedQueue, Vulkan, VulkanLaunch, calibration_extension,
};
use millstream::{CubeCount, Device, DeviceOptions, Kernel, update};
use millstream_vulkan_conformance::Application;

use crate::clock::assert_spans_on_the_axis_of_the_host;
use crate::subject::{module, unavailable};

/// An application with a device and one queue.
struct Adopted {
    application: Application,
    features: AdoptedFeatures,
}

impl Adopted {
    /// Returns `None`, and prints why, if this machine has no device to test.
    fn new() -> Option<Self> {
        if let Some(why) = unavailable() {
            eprintln!("SKIPPED: {why}");
            return None;
        }
        let mut features = AdoptedFeatures::default();
        features.push_descriptor = true;
        let application = Application::new(1, |entry, instance, physical| {
            // SAFETY: the GPU belongs to the instance, which the loader has created.
            let clocks = unsafe { calibration_extension(entry, instance, physical) };
            // Mesa's driver has it.
            let is_required = std::env::var_os("MILLSTREAM_VULKAN").is_some();
            assert!(clocks.is_some() || !is_required);
            features.calibrated_timestamps = clocks.is_some();
            clocks
                .into_iter()
                .chain([ash::khr::push_descriptor::NAME])
                .collect()
        });
        Some(Self {
            application: application.unwrap(),
            features,
        })
    }

    fn described(&self) -> AdoptedDevice {
        let (instance, device) = (self.instance.clone(), self.device.clone());
        let (family, raw) = (self.family, self.queues[0]);
        let queue = AdoptedQueue { family, raw };
        AdoptedDevice::new(instance, self.physical, device, [queue])
    }

    /// Returns options that adopt the device.
    fn adopted(&self) -> Vulkan {
        let adopted = self.described();
        // SAFETY: the tests close the device before they drop the application.
        unsafe { Vulkan::adopt(adopted.features(self.features)) }.no_pipeline_cache()
    }
}

impl std::ops::Deref for Adopted {
    type Target = Application;

    fn deref(&self) -> &Application {
        &self.application
    }
}

/// Runs a kernel on a device.
fn run(device: &Device) {
    let client = device.new_client();
    let (module, descriptors) = module("add_one").unwrap();
    let kernel = Kernel::new("add_one")
        .updates::<u32>("values")
        .scalar::<u32>("n");
    let options = VulkanLaunch::default().descriptors(descriptors);
    let kernel = client.kernel(kernel.spirv(module).with(options)).unwrap();
    let streams = [client.new_stream(), client.new_stream()];
    let values = streams[0].create(&[1_u32, 2, 3]).unwrap();
    for stream in &streams {
        stream
            .launch(&kernel, CubeCount::d1(1), (update(&values), 3_u32))
            .unwrap();
    }
    assert_eq!(streams[0].read(&values).wait().unwrap(), [3, 4, 5]);
}

#[test]
fn adopted_device_runs_tasks_and_outlives_its_closing() {
    let Some(app) = Adopted::new() else { return };
    for queues in [1, 3] {
        let device = Device::open(app.adopted().queues(queues)).unwrap();
        run(&device);
        device.close(Duration::from_secs(60));
        drop(device);
    }
}

#[test]
fn spans_of_an_adopted_device_stand_on_the_time_axis_of_the_host() {
    let Some(app) = Adopted::new() else { return };
    if !app.features.calibrated_timestamps {
        return eprintln!("SKIPPED: the GPU has no calibrated timestamps");
    }
    assert_spans_on_the_axis_of_the_host(app.adopted().queues(2));
}

#[test]
fn application_submits_to_its_queue_between_turns_of_a_driven_device() {
    let Some(app) = Adopted::new() else { return };
    let opened = Device::open_driven(app.adopted(), DeviceOptions::default());
    let (device, driver) = opened.unwrap();
    for _ in 0..3 {
        run(&device);
        // SAFETY: a driven device uses the queue only inside calls to it, on this thread.
        unsafe {
            let queue = app.queues[0];
            let empty = [vk::SubmitInfo::default()];
            app.device
                .queue_submit(queue, &empty, vk::Fence::null())
                .unwrap();
            app.device.queue_wait_idle(queue).unwrap();
        }
    }
    drop(driver);
    device.close(Duration::from_secs(60));
    drop(device);
}

#[test]
fn kernel_that_needs_a_feature_that_the_application_did_not_enable_is_refused() {
    let Some(app) = Adopted::new() else { return };
    let device = Device::open(app.adopted()).unwrap();
    let text = "kernel double threads 64 1 1\n  update x: f64\n{\n  %0: i64 = thread x\n  %1: f64 = load x[%0]\n  %2: f64 = add %1 %1\n  store x[%0] = %2\n}";
    let function = millstream::ir::ssa::parse(text).unwrap();
    let program = Arc::new(millstream::ir::Program::Ssa(function));
    let kernel = Kernel::from_program("double", program).unwrap();
    let client = device.new_client();
    let error = client.kernel(kernel).map(drop).unwrap_err().to_string();
    assert!(error.contains("shaderFloat64"), "{error}");
    drop(client);
    device.close(Duration::from_secs(60));
    drop(device);
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("planned: the thread of the queue goes on");
    }
}

/// I1, on a device with threads: a task waits for a semaphore of the application, and the application for a task.
#[test]
fn application_and_tasks_wait_for_each_others_semaphores_i1() {
    let Some(app) = Adopted::new() else { return };
    let raw = app.device.clone();
    let mut kind =
        vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
    let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
    // SAFETY: the device is alive; the semaphore is destroyed below.
    let gate = unsafe { raw.create_semaphore(&info, None) }.unwrap();
    let device = Device::open(app.adopted()).unwrap();
    let stream = device.new_client().new_stream();
    let values = stream.create(&[5_u32; 64]).unwrap();

    let kept = Arc::new(());
    let keep = kept.clone();
    let point =
        stream.ask_resource::<Vulkan, _>("gated", update(&values), move |resources, reply| {
            // SAFETY: the gate is a timeline semaphore that outlives the device, and is opened below.
            unsafe { resources.wait_for(gate, 1) }.unwrap();
            resources.keep(keep);
            resources.keep(PanicsWhenDropped);
            resources.when_submitted(|point| reply.send(point));
            resources.when_submitted(|_| panic!("planned: the device goes on"));
            let (commands, bound) = (resources.commands().unwrap(), resources.binding(0).unwrap());
            let fill = resources.device().fp_v1_0().cmd_fill_buffer;
            // SAFETY: the binding is a range of the buffer, and is declared as written.
            unsafe { fill(commands, bound.buffer, bound.offset, bound.bytes, 6) };
        });
    let point = point.wait().unwrap();
    let (semaphores, values_of) = ([point.semaphore()], [point.value()]);
    let info = vk::SemaphoreWaitInfo::default()
        .semaphores(&semaphores)
        .values(&values_of);
    // SAFETY: the point keeps its semaphore.
    let reached = |nanoseconds| unsafe { raw.wait_semaphores(&info, nanoseconds) };
    assert_eq!(reached(0), Err(vk::Result::TIMEOUT));
    assert_eq!(
        Arc::strong_count(&kept),
        2,
        "kept while the task is in flight"
    );
    let signal = vk::SemaphoreSignalInfo::default().semaphore(gate).value(1);
    // SAFETY: the gate is alive.
    unsafe { raw.signal_semaphore(&signal) }.unwrap();
    assert_eq!(reached(u64::MAX), Ok(()));
    assert_eq!(stream.read(&values).wait().unwrap(), [6; 64]);
    assert_eq!(
        Arc::strong_count(&kept),
        1,
        "dropped once the task has completed"
    );

    drop((stream, values));
    device.close(Duration::from_secs(60));
    drop(device);
    drop(point);
    // SAFETY: nothing uses the gate any more.
    unsafe { raw.destroy_semaphore(gate, None) };
}

/// What custom tasks share with an application is refused, or does nothing, where it makes no sense.
#[test]
fn sharing_outside_of_a_task_or_of_an_application_is_refused() {
    if let Some(why) = unavailable() {
        return eprintln!("SKIPPED: {why}");
    }
    let usage = vk::BufferUsageFlags::TRANSFER_SRC;
    let device = Device::open(Vulkan::ordinal(0).queues(1).no_pipeline_cache()).unwrap();
    let stream = device.new_client().new_stream();
    let values = stream.create(&[5_u32; 64]).unwrap();
    let alias =
        stream.ask_resource::<Vulkan, _>("alias", update(&values), move |resources, reply| {
            reply.send(resources.alias(0, usage).map(drop));
        });
    let refused = alias.wait().unwrap().unwrap_err().to_string();
    assert!(
        refused.contains("the device is not of an application"),
        "{refused}"
    );
    let unanswered = stream.ask_resource::<Vulkan, ()>("silent", update(&values), |_, _| {});
    let refused = unanswered.wait().unwrap_err().to_string();
    assert!(refused.contains("it dropped its reply"), "{refused}");
    let guard = stream
        .get_resource::<Vulkan>(update(&values))
        .wait()
        .unwrap();
    let (called, calls) = std::sync::mpsc::channel();
    guard.when_submitted(move |_| called.send(()).unwrap());
    assert!(calls.recv().is_err(), "a guard has no submission");
    drop((guard, stream, values));
    device.close(Duration::from_secs(60));

    let Some(app) = Adopted::new() else { return };
    let adopted = app.described();
    // SAFETY: the device does not open.
    let shared = unsafe { Vulkan::adopt(adopted.share_queues()) };
    let refused = Device::open(shared).err().unwrap().to_string();
    assert!(
        refused.contains("open the device with `open_driven`"),
        "{refused}"
    );
}
