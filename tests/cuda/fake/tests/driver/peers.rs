//! Two GPUs: contexts, peer access and copies.

use crate::kernels::{Kernels, launch};
use crate::raw::Gpu;

const BYTES: u64 = 64;
const INVALID_VALUE: u32 = 1;
const INVALID_CONTEXT: u32 = 201;
const INVALID_HANDLE: u32 = 400;
const ILLEGAL_ADDRESS: u32 = 700;

/// `CUmemAccessDesc`: grants read and write access to this GPU.
fn access(gpu: u32) -> [u32; 3] {
    [1, gpu, 3]
}

#[test]
fn each_gpu_has_its_own_context_and_memory() {
    let (gpu, [first, second]) = Gpu::two(1);
    let mut count = 0_u32;
    gpu.must("cuDeviceGetCount", &[&raw mut count as u64]);
    assert_eq!((count, first != second), (2, true));
    gpu.memory(BYTES, 0);
    let free = || {
        let (mut free, mut all) = (0_u64, 0_u64);
        gpu.must(
            "cuMemGetInfo_v2",
            &[&raw mut free as u64, &raw mut all as u64],
        );
        all - free
    };
    assert_eq!(free(), BYTES);
    gpu.must("cuCtxSetCurrent", &[second]);
    let mut device = 7_u32;
    gpu.must("cuCtxGetDevice", &[&raw mut device as u64]);
    assert_eq!((device, free()), (1, 0));
    let mut answer = 0_u32;
    let place = &raw mut answer as u64;
    assert_eq!(gpu.call("cuDeviceGet", &[place, 2]), 101);
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn objects_of_two_contexts_cannot_be_mixed() {
    let (gpu, [_, second]) = Gpu::two(1);
    let kernels = Kernels::load(&gpu);
    let (block, stream, event) = (gpu.memory(BYTES, 0), gpu.stream(), gpu.timed_event());
    gpu.must("cuEventRecord", &[event, stream]);
    gpu.must("cuCtxSetCurrent", &[second]);
    let (other, other_event) = (gpu.stream(), gpu.timed_event());
    gpu.must("cuEventRecord", &[other_event, other]);
    assert_eq!(gpu.call("cuEventRecord", &[event, other]), INVALID_HANDLE);
    for stream in [other, stream] {
        let launched = launch(&gpu, kernels.set, stream, &[block, 1]);
        assert_eq!(launched, INVALID_HANDLE);
    }
    let mut ms = 0_f32;
    let events = [&raw mut ms as u64, event, other_event];
    assert_eq!(gpu.call("cuEventElapsedTime", &events), INVALID_HANDLE);
    // Waits and queries across contexts are valid.
    gpu.must("cuStreamWaitEvent", &[other, event, 0]);
    gpu.must("cuEventSynchronize", &[event]);
    gpu.assert_violations(&["invalid context: "; 4]);
}

#[test]
fn a_kernel_does_not_access_memory_of_another_gpu() {
    let (gpu, [_, second]) = Gpu::two(1);
    let block = gpu.memory(BYTES, 0);
    gpu.must("cuCtxSetCurrent", &[second]);
    let (kernels, stream) = (Kernels::load(&gpu), gpu.stream());
    assert_eq!(launch(&gpu, kernels.set, stream, &[block, 1]), 0);
    let answer = gpu.call("cuStreamSynchronize", &[stream]);
    assert_eq!(answer, ILLEGAL_ADDRESS);
    gpu.assert_violation(&["no peer access: kernel `set`"]);
}

#[test]
fn gpus_are_peers_of_each_other_unless_a_session_says_otherwise() {
    let (gpu, _) = Gpu::two(1);
    let can = |peer| gpu.make("cuDeviceCanAccessPeer", &[0, peer]);
    assert_eq!([can(1), can(0)], [1, 0]);
    gpu.session.set_peers(false);
    assert_eq!(can(1), 0);
    for other in [1, 2] {
        let description = access(other);
        let list = [gpu.pool(0), description.as_ptr() as u64, 1];
        assert_eq!(gpu.call("cuMemPoolSetAccess", &list), 101);
    }
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn memory_of_a_pool_is_accessible_only_if_the_pool_grants_it() {
    for allowed in [true, false] {
        let (gpu, [_, second]) = Gpu::two(1);
        let (pool, stream) = (gpu.pool(0), gpu.stream());
        let block = gpu.make("cuMemAllocFromPoolAsync", &[BYTES, pool, stream]);
        gpu.must("cuStreamSynchronize", &[stream]);
        gpu.must("cuCtxSetCurrent", &[second]);
        let descriptions = [access(0), access(1)].concat();
        let count = if allowed { 2 } else { 1 };
        let list = [pool, descriptions.as_ptr() as u64, count];
        gpu.must("cuMemPoolSetAccess", &list);
        let (kernels, other) = (Kernels::load(&gpu), gpu.stream());
        assert_eq!(launch(&gpu, kernels.set, other, &[block, 1]), 0);
        let answer = gpu.call("cuStreamSynchronize", &[other]);
        assert_eq!(answer == 0, allowed, "{answer}");
        assert_eq!(gpu.violations().is_empty(), allowed);
    }
}

#[test]
fn peer_copies_need_no_access_but_the_right_contexts() {
    let (gpu, [first, second]) = Gpu::two(1);
    let (from, stream) = (gpu.memory(BYTES, 5), gpu.stream());
    gpu.must("cuCtxSetCurrent", &[second]);
    let to = gpu.memory(BYTES, 0);
    let copy = |[to_context, from_context]: [u64; 2]| {
        let arguments = [to, to_context, from, from_context, BYTES, stream];
        gpu.call("cuMemcpyPeerAsync", &arguments)
    };
    assert_eq!(copy([second, first]), 0);
    assert_eq!(gpu.byte(to, stream), 5);
    assert_eq!(copy([first, second]), INVALID_VALUE);
    gpu.assert_violation(&["invalid context: `cuMemcpyPeerAsync`"]);
}

#[test]
fn memory_of_a_pool_is_copied_only_if_the_context_of_the_stream_is_current() {
    let (gpu, [_, second]) = Gpu::two(1);
    let (pool, stream) = (gpu.pool(0), gpu.stream());
    let block = gpu.make("cuMemAllocFromPoolAsync", &[BYTES, pool, stream]);
    let bytes = [1_u8; BYTES as usize];
    let copy = || {
        gpu.call(
            "cuMemcpyHtoDAsync_v2",
            &[block, bytes.as_ptr() as u64, BYTES, stream],
        )
    };
    assert_eq!(copy(), 0);
    gpu.must("cuCtxSetCurrent", &[second]);
    assert_eq!(copy(), INVALID_CONTEXT);
    gpu.assert_violation(&["copies memory of a pool in a stream of another context"]);
}
