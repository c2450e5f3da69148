//! Memory of a guard that the stream of another library uses; here a stream of another device plays the library.

use millstream::backend::Refused;
use millstream::cuda::{Cuda, CudaRaw};
use millstream::{Access, Device, ResourceGuard, read, write};
use rstest::rstest;

use crate::support::*;

/// I2: later tasks are ordered after the work of another library's stream, if the owner of the guard waits for the end
/// of that work before it drops the guard.
#[rstest]
fn tasks_wait_for_the_stream_of_another_library_i2(#[values(1, 2, 3, 4)] seed: u64) {
    let _gpu = gpu(seed);
    let (device, library) = (open(2), open(1));
    let raw = library.raw::<CudaRaw>().unwrap();
    let foreign = raw.streams().next().unwrap();
    let [ours, theirs] = [&device, &library].map(|device| device.new_client().new_stream());
    let target = ours.create(&vec![1_u32; 4096]).unwrap();
    let source = theirs.create(&vec![7_u32; 4096]).unwrap();
    let guard = ours.get_resource::<Cuda>((write(&target),)).wait().unwrap();
    // SAFETY: the library outlives the consumer.
    let consumer = unsafe { guard.consumer(foreign.addr()) }.unwrap();
    let place = guard.peer_place();
    let issued =
        theirs.ask_resource::<Cuda, _>("library", (read(&source),), move |found, reply| {
            // SAFETY: as long as the source, and the guard lives until the stream has copied.
            let copied = unsafe { found.copy_to_peer(&place) };
            reply.send(copied.is_ok());
        });
    assert!(issued.wait().unwrap());
    consumer.end().unwrap().wait().unwrap();
    drop(guard);
    assert_eq!(ours.read(&target).wait().unwrap(), [7; 4096]);
    ours.fill(&target, 2).unwrap();
    assert_eq!(ours.read(&target).wait().unwrap(), [2; 4096]);
}

/// I7: a stream of another GPU is refused, and the guard is usable.
#[test]
fn a_stream_of_another_gpu_is_no_consumer_i7() {
    let gpu = gpu(5);
    gpu.set_gpu_count(2);
    let [device, other] =
        [0, 1].map(|ordinal| Device::open_with(Cuda::ordinal(ordinal), options()).unwrap());
    let foreign = other.raw::<CudaRaw>().unwrap().streams().next().unwrap();
    let stream = device.new_client().new_stream();
    let values = stream.create(&[3_u32; 16]).unwrap();
    let bindings = [(&values, Access::Read)];
    let guard = stream.get_resource::<Cuda>(&bindings[..]).wait().unwrap();
    // SAFETY: the other device outlives the guard.
    let refused = unsafe { guard.consumer(foreign.addr()) }.err().unwrap();
    assert!(
        refused.to_string().contains("belongs to another context"),
        "{refused}"
    );
    drop(guard);
    stream.fill(&values, 4).unwrap();
    assert_eq!(stream.read(&values).wait().unwrap(), [4; 16]);
}

/// Returns driven devices, beside which no thread calls the driver, a guard of one of them, and two streams of another library.
/// The context is current on this thread.
fn quiet(gpu: &Gpu) -> (impl Sized, ResourceGuard<Cuda>, [u64; 2]) {
    let open = || Device::open_driven(Cuda::ordinal(0).queues(2), options()).unwrap();
    let (device, library) = (open(), open());
    let raw = library.0.raw::<CudaRaw>().unwrap();
    gpu.make_current(raw.context().addr() as u64);
    let stream = device.0.new_client().new_stream();
    let values = stream.create(&[3_u32; 16]).unwrap();
    let asked = stream.get_resource::<Cuda>((write(&values),));
    let streams: Vec<_> = raw.streams().map(|stream| stream.addr() as u64).collect();
    let guard = asked.wait().unwrap();
    ((device, library), guard, streams.try_into().unwrap())
}

/// Begins a capture of a stream, for which the driver forbids unsafe calls of all threads.
fn begin_capture(gpu: &Gpu, stream: u64) {
    assert_eq!(gpu.call("cuStreamBeginCapture_v2", &[stream, 0]), 0);
}

/// Ends a capture, which is valid.
fn end_capture(gpu: &Gpu, stream: u64) {
    let mut graph = 0_u64;
    let ended = gpu.call("cuStreamEndCapture", &[stream, &raw mut graph as u64]);
    assert_eq!(ended, 0, "a call has invalidated the capture");
    assert_eq!(gpu.call("cuGraphDestroy", &[graph]), 0);
}

/// I2: the use of a stream that is in a capture does not end, and the capture is left alone.
#[test]
fn the_end_of_a_use_in_a_capture_is_refused_i2() {
    let gpu = gpu(6);
    let (_devices, guard, [stream, _]) = quiet(&gpu);
    // SAFETY: the stream lives until the end of the test.
    let consumer = unsafe { guard.consumer(stream as usize) }.unwrap();
    begin_capture(&gpu, stream);
    let ended = consumer.end();
    end_capture(&gpu, stream);
    let refused = ended.err().unwrap();
    let is_of_task = matches!(&refused, Refused::Task(why) if why.contains("in a capture"));
    assert!(is_of_task, "{refused}");
}

/// The owner of a guard may ask for the end of a use while any thread captures a stream.
#[test]
fn asking_for_the_end_of_a_use_invalidates_no_capture() {
    let gpu = gpu(7);
    let (_devices, guard, [stream, captured]) = quiet(&gpu);
    // SAFETY: the stream lives until the end of the test.
    let consumer = unsafe { guard.consumer(stream as usize) }.unwrap();
    gpu.hold(stream, true);
    let end = consumer.end().unwrap();
    begin_capture(&gpu, captured);
    let early = end.is_complete();
    gpu.hold(stream, false);
    let asked = [early, end.wait().map(|()| true), end.is_complete()];
    end_capture(&gpu, captured);
    assert_eq!(asked.map(Result::unwrap), [false, true, true]);
    // The mode of the thread is what it was: global.
    let mut mode = 2_u32;
    let place = &raw mut mode as u64;
    assert_eq!(gpu.call("cuThreadExchangeStreamCaptureMode", &[place]), 0);
    assert_eq!(mode, 0);
}
