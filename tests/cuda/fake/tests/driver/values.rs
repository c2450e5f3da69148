//! Words that a stream writes and the host polls.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::raw::Gpu;

const INVALID_VALUE: u32 = 1;
const NOT_SUPPORTED: u32 = 801;
/// `CAN_USE_64_BIT_STREAM_MEM_OPS`
const ATTRIBUTE: u64 = 122;

/// Returns the word at a pinned address, as a host polls it.
fn word(address: u64) -> &'static AtomicU64 {
    // SAFETY: pinned blocks are kept until the session ends, and all accesses to this one are atomic.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }
}

#[test]
fn a_word_is_written_after_earlier_operations() {
    for seed in 0..50 {
        let gpu = Gpu::new(seed);
        let (block, pinned, stream) = (gpu.memory(64, 0), gpu.pinned(72), gpu.stream());
        word(pinned).store(0, Ordering::Relaxed);
        gpu.must("cuMemsetD8Async", &[block, 7, 64, stream]);
        gpu.must("cuMemcpyDtoHAsync_v2", &[pinned + 8, block, 64, stream]);
        gpu.must("cuStreamWriteValue64_v2", &[stream, pinned, 5, 0]);
        while word(pinned).load(Ordering::Acquire) != 5 {
            std::thread::yield_now();
        }
        // SAFETY: the word is written after the copy.
        let copied = unsafe { *((pinned + 8) as *const [u8; 64]) };
        assert_eq!(copied, [7; 64]);
        // The host's clock includes everything before the word.
        gpu.must("cuMemFree_v2", &[block]);
        gpu.must("cuMemFreeHost", &[pinned]);
        assert_eq!(gpu.violations(), [""; 0], "seed {seed}");
    }
}

#[test]
fn a_stepped_session_executes_by_manual_steps_while_the_host_polls() {
    let gpu = Gpu::stepped(1);
    let (pinned, stream) = (gpu.pinned(8), gpu.stream());
    word(pinned).store(0, Ordering::Relaxed);
    gpu.must("cuStreamWriteValue64_v2", &[stream, pinned, 5, 0]);
    assert_eq!(word(pinned).load(Ordering::Acquire), 0);
    assert!(gpu.session.step());
    assert_eq!(word(pinned).load(Ordering::Acquire), 5);
    assert!(!gpu.session.step(), "no operation is left");
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn a_word_does_not_order_other_streams() {
    let gpu = Gpu::new(1);
    let (block, one, other) = (gpu.memory(64, 0), gpu.stream(), gpu.stream());
    gpu.must("cuStreamWriteValue64_v2", &[one, block, 1, 0]);
    gpu.must("cuStreamWriteValue64_v2", &[other, block, 2, 0]);
    gpu.assert_violation(&["race: `cuStreamWriteValue64_v2`"]);
}

#[test]
fn a_word_must_be_aligned_and_within_memory() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(16, 0), gpu.stream());
    let call = |address, flags| gpu.call("cuStreamWriteValue64_v2", &[stream, address, 1, flags]);
    assert_eq!(call(block + 4, 0), INVALID_VALUE);
    assert_eq!(call(block + 16, 0), INVALID_VALUE);
    assert_eq!(call(block, 2), INVALID_VALUE);
    gpu.assert_violations(&[
        "not aligned",
        "out of bounds",
        "flags that are not modelled",
    ]);
}

#[test]
fn a_free_of_pinned_memory_before_its_word_is_written_is_found() {
    let gpu = Gpu::new(1);
    let (pinned, stream) = (gpu.pinned(8), gpu.stream());
    gpu.session.hold(stream, true);
    gpu.must("cuStreamWriteValue64_v2", &[stream, pinned, 1, 0]);
    gpu.must_wait_for(stream, "cuMemFreeHost", &[pinned]);
    let reports = gpu.violations();
    assert!(
        reports[0].starts_with("freed while in use: `cuMemFreeHost`"),
        "{reports:?}"
    );
}

#[test]
fn memory_operations_can_be_disabled() {
    let gpu = Gpu::new(1);
    assert_eq!(gpu.attribute(ATTRIBUTE), 1);
    gpu.session.set_stream_memory_operations(false);
    assert_eq!(gpu.attribute(ATTRIBUTE), 0);
    let (pinned, stream) = (gpu.pinned(8), gpu.stream());
    let answer = gpu.call("cuStreamWriteValue64_v2", &[stream, pinned, 1, 0]);
    assert_eq!(answer, NOT_SUPPORTED);
    gpu.assert_violation(&["invalid word: ", "query its attribute first"]);
}
