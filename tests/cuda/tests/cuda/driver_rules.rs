//! Rules of NVIDIA's driver that a program without a GPU cannot meet otherwise: calls that wait for all work of a
//! context, the context that is current on a thread, versions of PTX, priorities, and what a pool keeps.

use std::time::Duration;

use millstream_actors::Device;
use millstream_client::arguments::{CubeCount, read, update};
use millstream_cuda::{Cuda, CudaRaw};
use millstream_protocol::{Error, KernelError};
use rstest::rstest;

use crate::program;
use crate::support::*;

/// A context that an engine made current stays current, whatever a device does on the thread: opening, pumping,
/// waiting, closing.
#[rstest]
fn the_context_of_the_calling_thread_stays_current(
    #[values(false, true)] driven: bool,
    #[values(false, true)] has_engine: bool,
    #[values(false, true)] adopts: bool,
) {
    let gpu = match driven {
        true => stepped(1),
        false => gpu(1),
    };
    gpu.set_gpu_count(2);
    let engine = std::thread::scope(|scope| {
        let open = || Device::open_with(Cuda::ordinal(1).queues(1), options()).unwrap();
        scope.spawn(open).join().unwrap()
    });
    let raw = engine.raw::<CudaRaw>().unwrap();
    let current = match has_engine {
        true => raw.context() as u64,
        false => 0,
    };
    gpu.make_current(current);
    let kind = match adopts {
        // SAFETY: the engine outlives the device.
        true => unsafe { Cuda::adopt_context(raw.context()) }.queues(1),
        false => Cuda::ordinal(0).queues(1),
    };
    let (device, mut driver) = match driven {
        true => {
            let (device, driver) = Device::open_driven(kind, options()).unwrap();
            (device, Some(driver))
        }
        false => (Device::open_with(kind, options()).unwrap(), None),
    };
    assert_eq!(gpu.current_context(), current, "after opening");
    let client = device.new_client();
    let (stream, fill) = (client.new_stream(), client.kernel(fill()).unwrap());
    assert_eq!(gpu.current_context(), current, "after preparing a kernel");
    let to = stream.empty::<u32>(300).unwrap();
    launch_fill(&stream, &fill, &to, 9);
    let mut read = stream.read(&to);
    if let Some(driver) = &mut driver {
        let got = loop {
            match read.try_take() {
                Some(got) => break got.unwrap(),
                None => _ = driver.pump(Duration::ZERO),
            }
            assert_eq!(gpu.current_context(), current, "after a pump");
        };
        assert_eq!(got, [9; 300]);
        drop(read);
    } else {
        assert_eq!(read.wait().unwrap(), [9; 300]);
        // Often enough for the caller to step in.
        for round in 0..8 {
            launch_fill(&stream, &fill, &to, round);
            let got = stream.read(&to).wait().unwrap();
            assert_eq!(got, [round; 300]);
            assert_eq!(gpu.current_context(), current, "after a wait");
        }
    }
    drop((to, fill, stream, client, driver, device));
    assert_eq!(gpu.current_context(), current, "after closing");
    gpu.make_current(0);
}

/// I8: the driver frees pinned memory once all kernels of the context have ended. The thread that completes uploads does
/// not wait for that, and publishes them.
#[test]
fn surplus_pinned_memory_is_freed_on_a_thread_that_nothing_waits_for_i8() {
    let gpu = gpu(1);
    let options = options().staging_bytes(64 << 10);
    let device = Device::open_with(Cuda::ordinal(0).queues(2), options).unwrap();
    let client = device.new_client();
    let (other, stream) = (client.new_stream(), client.new_stream());
    let fill = client.kernel(fill()).unwrap();
    let to = other.empty::<u32>(32).unwrap();
    gpu.hold_kernel("fill", true);
    launch_fill(&other, &fill, &to, 1);
    other.flush().unwrap();
    wait_until_at(&gpu, ["fill"]);
    // Two blocks of pinned memory are in flight, of which one is kept.
    let bytes = [1_u8, 2].map(|byte| vec![byte; 64 << 10]);
    let uploads = bytes.each_ref().map(|bytes| stream.create(bytes).unwrap());
    for (upload, bytes) in uploads.iter().zip(&bytes) {
        assert_eq!(stream.read(upload).wait().unwrap(), *bytes);
    }
    gpu.hold_kernel("fill", false);
    assert_eq!(other.read(&to).wait().unwrap(), [1; 32]);
}

/// I8: the driver unloads a module once all kernels of the context have ended. The thread that drops users' values does
/// not wait for that.
#[test]
fn module_is_unloaded_on_a_thread_that_nothing_waits_for_i8() {
    let gpu = gpu(2);
    let device = open(2);
    let client = device.new_client();
    let (first, second) = (client.new_stream(), client.new_stream());
    let [fill, saxpy, sum] = [fill(), saxpy(), sum()].map(|kernel| client.kernel(kernel).unwrap());
    let to = first.empty::<u32>(32).unwrap();
    let from = second.create(&[1_u32; 32]).unwrap();
    let total = second.create(&[0_u32]).unwrap();
    for name in ["fill", "sum"] {
        gpu.hold_kernel(name, true);
    }
    launch_fill(&first, &fill, &to, 1);
    // Its code is unloaded once the tasks that were issued before have completed, here that of `fill`.
    drop(saxpy);
    // A sync processes the drop, before the launch of `sum`.
    second.sync().wait().unwrap();
    let arguments = (read(&from), update(&total), 32_u32);
    second.launch(&sum, CubeCount::single(), arguments).unwrap();
    first.flush().unwrap();
    second.flush().unwrap();
    wait_until_at(&gpu, ["fill", "sum"]);
    gpu.hold_kernel("fill", false);
    assert_eq!(first.read(&to).wait().unwrap(), [1; 32]);
    let deadline = std::time::Instant::now() + PATIENCE;
    while gpu.calls("cuModuleUnload") == 0 {
        assert!(std::time::Instant::now() < deadline, "nothing is unloaded");
        // The device thread looks for values to drop when it has received something.
        device.stats().unwrap();
        std::thread::yield_now();
    }
    gpu.hold_kernel("sum", false);
    assert_eq!(second.read(&total).wait().unwrap(), [32]);
}

/// I7: PTX of a later version than the driver's is refused with the text of the driver's compiler, and a later source is
/// used if there is one.
#[test]
fn ptx_that_is_newer_than_the_driver_is_refused_with_its_text_i7() {
    let gpu = gpu(3);
    gpu.set_driver_version(12_040);
    let device = open(1);
    let client = device.new_client();
    let old = include_str!("../kernels/fill.ptx");
    let new = old.replace(".version 8.0", ".version 9.0");
    let kernel = || {
        millstream_protocol::Kernel::new("fill")
            .writes::<u32>("to")
            .scalar::<u32>("value")
            .scalar::<u32>("n")
            .source(ptx(&new))
    };
    match client.kernel(kernel()) {
        Err(Error::Kernel(KernelError::Compile { log, .. })) => {
            assert!(
                log.contains("CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)")
                    && log.contains("Unsupported .version 9.0; current version is '8.4'"),
                "{log}"
            );
        }
        other => panic!("{other:?}"),
    }
    let fill = client.kernel(kernel().source(ptx(old))).unwrap();
    let stream = client.new_stream();
    let to = stream.empty::<u32>(32).unwrap();
    launch_fill(&stream, &fill, &to, 9);
    assert_eq!(stream.read(&to).wait().unwrap(), [9; 32]);
}

/// Queues of normal priority do not outrank the streams of other libraries, whose priority is 0.
#[test]
fn normal_queues_have_the_default_priority() {
    let gpu = gpu(4);
    let device = Device::open_with(Cuda::ordinal(0), options()).unwrap();
    program::run(&device).unwrap();
    drop(device);
    let mut priorities = gpu.stream_priorities();
    priorities.sort_unstable();
    priorities.dedup();
    assert_eq!(priorities, [-5, 0]);
}

/// `memory_cleanup` returns what the driver's pool keeps to the GPU.
#[test]
fn memory_cleanup_trims_the_pool_of_the_driver() {
    let gpu = gpu(5);
    let (_device, client, stream) = opened(1);
    let large = stream.empty::<u8>(16 << 20).unwrap();
    stream.fill(&large, 1).unwrap();
    stream.sync().wait().unwrap();
    drop(large);
    stream.sync().wait().unwrap();
    client.memory_cleanup().wait().unwrap();
    assert_eq!(gpu.bytes_kept_by_pools(), 0);
    assert!(gpu.calls("cuMemFreeAsync") > 0);
}

/// Memory of a pool cannot be opened by other processes by its address. Without a pool, pages are allocations of their
/// own.
#[test]
fn without_a_pool_each_page_is_an_allocation_of_its_own_i10() {
    let gpu = gpu(6);
    let device =
        Device::open_with(Cuda::ordinal(0).queues(2).memory_pool(false), options()).unwrap();
    program::run(&device).unwrap();
    assert!(gpu.calls("cuMemAlloc_v2") > 0);
    assert_eq!(
        ["cuMemPoolCreate", "cuMemAllocFromPoolAsync"].map(|name| gpu.calls(name)),
        [0; 2]
    );
    device.new_client().memory_cleanup().wait().unwrap();
}

/// I12: slices beyond the limit fail, although the GPU has memory; within the limit they succeed again.
#[test]
fn memory_limit_bounds_the_bytes_of_all_slices_i12() {
    let _gpu = gpu(7);
    let kind = Cuda::ordinal(0).queues(2).memory_limit(8 << 20);
    let device = Device::open_with(kind, options()).unwrap();
    assert_eq!(device.properties().memory_bytes, Some(8 << 20));
    let client = device.new_client();
    let stream = client.new_stream();
    let first = stream.empty::<u8>(6 << 20).unwrap();
    stream.fill(&first, 1).unwrap();
    let second = stream.empty::<u8>(6 << 20).unwrap();
    stream.fill(&second, 2).unwrap();
    let answer = stream.read(&second).wait_timeout(PATIENCE);
    assert!(
        matches!(&answer, Err(Error::Failed(_) | Error::Memory(_))),
        "{answer:?}"
    );
    drop((first, second));
    let third = stream.empty::<u8>(6 << 20).unwrap();
    stream.fill(&third, 3).unwrap();
    assert_eq!(stream.read(&third).wait().unwrap(), vec![3; 6 << 20]);
}

/// I8, I10: a close waits for no kernel of another device of the context. What its device leaves is released later, on a
/// thread that the report counts.
#[test]
fn close_waits_for_no_other_device_of_the_context_i8_i10() {
    let gpu = gpu(4);
    let [closed, other] = [open(1), open(1)];
    let stream = other.new_client().new_stream();
    let sum = other.new_client().kernel(sum()).unwrap();
    let from = stream.create(&[1_u32; 32]).unwrap();
    let total = stream.create(&[0_u32]).unwrap();
    // Pinned memory, and code that is still loaded when the device closes.
    let client = closed.new_client();
    let kernel = client.kernel(fill()).unwrap();
    let uploads = client.new_stream();
    let uploaded = uploads.create(&[1_u8; 100]).unwrap();
    assert_eq!(uploads.read(&uploaded).wait().unwrap(), [1; 100]);
    gpu.hold_kernel("sum", true);
    let arguments = (read(&from), update(&total), 32_u32);
    stream.launch(&sum, CubeCount::single(), arguments).unwrap();
    stream.flush().unwrap();
    wait_until_at(&gpu, ["sum"]);
    let (sender, is_closed) = std::sync::mpsc::channel();
    let closing = std::thread::spawn(move || {
        // The thread that releases does not end while the kernel is held; all others end in this time on a busy machine, too.
        let report = closed.close(Duration::from_secs(1));
        sender.send(()).unwrap();
        report
    });
    let in_time = is_closed.recv_timeout(PATIENCE);
    gpu.hold_kernel("sum", false);
    let report = closing.join().unwrap();
    assert!(in_time.is_ok(), "the close waits for the other device");
    assert_eq!(
        (report.drained, report.bytes_left, report.threads_left),
        (true, 0, 1),
        "{report:?}"
    );
    assert_eq!(stream.read(&total).wait().unwrap(), [32]);
    drop((kernel, uploaded, uploads, client));
    drop((from, total, sum, stream, other));
    // Each device gives up the primary context last.
    while gpu.calls("cuDevicePrimaryCtxRelease_v2") < 2 {
        std::thread::yield_now();
    }
}

/// I12: tasks that each wait for another queue, and for which another queue waits, are several operations of the driver.
/// Those of all tasks in flight do not fill a stream, which would block the device thread; the fake reports that.
#[rstest]
fn tasks_that_wait_for_other_queues_do_not_fill_a_stream_i12(#[values(false, true)] traced: bool) {
    const TASKS: u32 = 500;
    let gpu = gpu(1);
    let device = open(2);
    let client = device.new_client();
    let streams = [0; 2].map(|_| client.new_stream());
    let x = streams[0].create(&[0_u32; 16]).unwrap();
    streams[0].sync().wait().unwrap();
    // The device's turn does not wait for the beginning of a profile either.
    let profile = traced.then(|| client.start_profile().unwrap());
    gpu.hold_all();
    for value in 1..=TASKS {
        for stream in &streams {
            stream.fill(&x, value).unwrap();
        }
    }
    // The device thread answers once it has issued what it can.
    client.memory_usage().wait().unwrap();
    gpu.release_all();
    assert_eq!(streams[1].read(&x).wait().unwrap(), [TASKS; 16]);
    if let Some(profile) = profile {
        client.end_profile(profile).wait().unwrap();
    }
}
