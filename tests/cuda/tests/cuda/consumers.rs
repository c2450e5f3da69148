//! Memory of a guard that the stream of another library uses; here a stream of another device plays the library.

use millstream::cuda::{Cuda, CudaRaw};
use millstream::{Access, Device, read, write};
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
