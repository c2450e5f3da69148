//! A device that adopts a foreign context and foreign streams; here those of another device, which plays the engine.

use millstream_actors::Device;
use millstream_cuda::{Cuda, CudaRaw};

use crate::program;
use crate::support::*;

/// I10: a device uses the adopted context and streams, creates none of its own in their place, and does not destroy
/// them.
#[test]
fn an_adopted_context_is_used_and_not_destroyed_i10() {
    let gpu = gpu(1);
    let engine = open(2);
    let raw = engine.raw::<CudaRaw>().expect("the device is a CUDA GPU");
    assert_eq!((raw.ordinal(), raw.streams().len()), (0, 2));
    let streams: Vec<_> = raw.streams().collect();
    for (adopts_streams, own) in [(false, 3), (true, 1)] {
        let before = gpu.calls("cuStreamCreateWithPriority");
        // SAFETY: the engine, its context and its streams outlive the device; no stream is being captured.
        let adopted = unsafe {
            match adopts_streams {
                true => Cuda::adopt_streams(raw.context(), &streams),
                false => Cuda::adopt_context(raw.context()).queues(2),
            }
        };
        let device = Device::open_with(adopted, options()).unwrap();
        assert_eq!(device.properties().queues, 2);
        // The device's own streams, if any, and the stream of its memory pool.
        assert_eq!(gpu.calls("cuStreamCreateWithPriority") - before, own);
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
    // All kernels are PTX, which the cache of compiled kernels does not store.
    assert_eq!((cache.found, cache.compiled), (0, 0));
    drop((raw, engine));
    assert_eq!(gpu.calls("cuDevicePrimaryCtxRelease_v2"), 1);
}

/// I7: adopting a stream of another GPU's context is refused, and the open leaves nothing behind.
#[test]
fn a_stream_of_another_context_is_refused_i7() {
    let gpu = gpu(2);
    gpu.set_gpu_count(2);
    let [one, other] = [0, 1]
        .map(|ordinal| Device::open_with(Cuda::ordinal(ordinal).queues(1), options()).unwrap());
    let [one_raw, other_raw] = [&one, &other].map(|device| device.raw::<CudaRaw>().unwrap());
    let streams: Vec<_> = other_raw.streams().collect();
    // SAFETY: both devices outlive the device that is opened here.
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
}
