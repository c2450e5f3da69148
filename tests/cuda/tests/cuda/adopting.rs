//! A device in a context, and on streams, of somebody else's: here, of another device's.

use millstream_actors::Device;
use millstream_cuda::{Cuda, CudaRaw};

use crate::program;
use crate::support::*;

/// I10: a device works where it was put, makes nothing that it was given, and leaves all of it as it was.
#[test]
fn an_adopted_context_is_used_and_left_i10() {
    let gpu = gpu(1);
    let engine = open(2);
    let raw = engine.raw::<CudaRaw>().expect("it is a GPU by CUDA");
    assert_eq!((raw.ordinal(), raw.streams().len()), (0, 2));
    let streams: Vec<_> = raw.streams().collect();
    for (adopts_streams, own) in [(false, 3), (true, 1)] {
        let made = gpu.calls("cuStreamCreateWithPriority");
        // SAFETY: the engine outlives the device, with its context and its streams; nothing is captured.
        let adopted = unsafe {
            match adopts_streams {
                true => Cuda::adopt_streams(raw.context(), &streams),
                false => Cuda::adopt_context(raw.context()).queues(2),
            }
        };
        let device = Device::open_with(adopted, options()).unwrap();
        assert_eq!(device.properties().queues, 2);
        // Its own, if any, and that of its pool.
        assert_eq!(gpu.calls("cuStreamCreateWithPriority") - made, own);
        assert_eq!(device.raw::<CudaRaw>().unwrap().context(), raw.context());
        std::thread::scope(|scope| {
            scope.spawn(|| program::run(&engine).unwrap());
            program::run(&device).unwrap();
        });
        drop(device);
        program::run(&engine).unwrap();
    }
    assert_eq!(gpu.calls("cuDevicePrimaryCtxRetain"), 1);
    assert!(engine.raw::<String>().is_none());
    let cache = raw.kernel_cache();
    // These are in PTX.
    assert_eq!((cache.found, cache.compiled), (0, 0));
    drop((raw, engine));
    assert_eq!(gpu.calls("cuDevicePrimaryCtxRelease_v2"), 1);
    gpu.assert_clean();
}

/// I7: a stream of another GPU's context is refused, and nothing was begun.
#[test]
fn a_stream_of_another_context_is_refused_i7() {
    let gpu = gpu(2);
    gpu.gpus(2);
    let [one, other] = [0, 1]
        .map(|ordinal| Device::open_with(Cuda::ordinal(ordinal).queues(1), options()).unwrap());
    let [one_raw, other_raw] = [&one, &other].map(|device| device.raw::<CudaRaw>().unwrap());
    let streams: Vec<_> = other_raw.streams().collect();
    // SAFETY: both devices outlive what is opened here.
    let mixed = unsafe { Cuda::adopt_streams(one_raw.context(), &streams) };
    let why = Device::open_with(mixed, options())
        .err()
        .unwrap()
        .to_string();
    assert!(why.contains("to another context"), "{why}");
    // SAFETY: as above.
    let second = unsafe { Cuda::adopt_context(other_raw.context()) };
    let second = Device::open_with(second, options()).unwrap();
    assert_eq!(second.raw::<CudaRaw>().unwrap().ordinal(), 1);
    program::run(&second).unwrap();
    drop((second, one_raw, other_raw, one, other));
    gpu.assert_clean();
}
