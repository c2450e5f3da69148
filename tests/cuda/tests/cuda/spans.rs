//! Spans of tasks: when they ran, by the GPU's clock.

use millstream_actors::Device;
use millstream_client::arguments::{CubeCount, read, update};
use millstream_cuda::Cuda;

use crate::support::*;

/// I1: every traced task has a span. The spans of one queue do not overlap and are in the order of execution, and their
/// sum is the queue's busy time.
#[test]
fn every_task_has_a_span_in_the_order_of_its_queue_i1() {
    const TASKS: u32 = 40;
    let _gpu = gpu(9);
    let device = Device::open_with(Cuda::ordinal(0).queues(2), options().trace(1000)).unwrap();
    let client = device.new_client();
    let kernel = client.kernel(fill()).unwrap();
    let streams = [client.new_stream(), client.new_stream()];
    let handles = streams
        .each_ref()
        .map(|stream| stream.empty::<u32>(8).unwrap());
    for task in 0..TASKS {
        for (stream, handle) in streams.iter().zip(&handles) {
            launch_fill(stream, &kernel, handle, task);
        }
    }
    for (stream, handle) in streams.iter().zip(&handles) {
        assert_eq!(stream.read(handle).wait().unwrap(), [TASKS - 1; 8]);
    }
    let spans = device.trace().unwrap();
    let launches = spans.iter().filter(|span| &*span.name == "fill").count();
    assert_eq!(launches, 2 * TASKS as usize, "{spans:?}");
    for queue in 0..2 {
        let of_queue: Vec<_> = spans.iter().filter(|span| span.queue == queue).collect();
        assert!(of_queue.iter().all(|span| span.start_ns <= span.end_ns));
        assert!(
            of_queue
                .windows(2)
                .all(|pair| pair[0].end_ns <= pair[1].start_ns),
            "{of_queue:?}"
        );
        let busy: u64 = of_queue
            .iter()
            .map(|span| span.end_ns - span.start_ns)
            .sum();
        let reported = device.stats().unwrap().queues[queue as usize].busy_ns;
        // Each span is truncated to whole nanoseconds.
        assert!(
            reported.abs_diff(busy) <= of_queue.len() as u64,
            "the queue reports {reported} busy ns, its spans add up to {busy}"
        );
    }
    assert!(
        device.trace().unwrap().is_empty(),
        "the second trace repeats spans"
    );
}

/// I7: if a timed event cannot be created or read, a span is missing, but no task fails. Without tracing there are no
/// timed events.
#[test]
fn a_failed_timing_event_loses_a_span_and_no_task_i7() {
    let gpu = gpu(10);
    for traced in [0, 1000] {
        let before = gpu.calls("cuEventElapsedTime");
        let device =
            Device::open_with(Cuda::ordinal(0).queues(1), options().trace(traced)).unwrap();
        let client = device.new_client();
        let (stream, saxpy) = (client.new_stream(), client.kernel(saxpy()).unwrap());
        let (x, y) = (
            stream.create(&[2.0_f32; 4]).unwrap(),
            stream.create(&[1.0_f32; 4]).unwrap(),
        );
        stream.sync().wait().unwrap();
        if traced > 0 {
            gpu.fault(Some("cuEventCreate"), 1, 2);
            gpu.fault(Some("cuEventElapsedTime"), 2, 400);
        }
        for _ in 0..3 {
            let arguments = (read(&x), update(&y), 1.0_f32, 4_u32);
            stream
                .launch(&saxpy, CubeCount::Static(1, 1, 1), arguments)
                .unwrap();
        }
        assert_eq!(stream.read(&y).wait().unwrap(), [7.0; 4]);
        assert_eq!(gpu.calls("cuEventElapsedTime") > before, traced > 0);
        drop((x, y, stream, saxpy, client, device));
    }
}

/// I3: a profile that starts on an open device times the tasks of each queue by themselves. It creates no stream, and no
/// queue waits for anything: so it does not matter what else the GPU, or a capture of the application, is busy with.
#[test]
fn a_profile_creates_no_stream_and_lets_no_queue_wait_i3() {
    let gpu = gpu(11);
    let device = open(2);
    let client = device.new_client();
    let kernel = client.kernel(fill()).unwrap();
    let streams = [client.new_stream(), client.new_stream()];
    let buffers = streams
        .each_ref()
        .map(|stream| stream.create(&[1_u32; 8]).unwrap());
    for stream in &streams {
        stream.sync().wait().unwrap();
    }
    let calls = || ["cuStreamCreateWithPriority", "cuStreamWaitEvent"].map(|name| gpu.calls(name));
    let before = calls();
    let token = device.start_profile().unwrap();
    for (stream, buffer) in streams.iter().zip(&buffers) {
        launch_fill(stream, &kernel, buffer, 3);
        assert_eq!(stream.read(buffer).wait().unwrap(), [3; 8]);
    }
    let profile = streams[0].end_profile(token).wait().unwrap();
    assert_eq!(
        (profile.kernel("fill").unwrap().tasks, profile.untimed),
        (2, 0)
    );
    assert_eq!(calls(), before);
}
