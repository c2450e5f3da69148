//! Words that a stream writes, and that the host polls for.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::raw::Gpu;

const INVALID_VALUE: u32 = 1;
const NOT_SUPPORTED: u32 = 801;
/// `CAN_USE_64_BIT_STREAM_MEM_OPS`, `.._V1`, `CAN_USE_STREAM_MEM_OPS_V1`
const ATTRIBUTES: [u64; 3] = [122, 93, 92];

/// The word at a pinned address, as a host polls it.
fn word(address: u64) -> &'static AtomicU64 {
    // SAFETY: pinned blocks are kept until the session ends, and whoever uses this one uses it by atomics.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }
}

#[test]
fn a_word_is_written_after_what_was_asked_before_it() {
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
        // SAFETY: the copy to it is over, as the word says.
        let copied = unsafe { *((pinned + 8) as *const [u8; 64]) };
        assert_eq!(copied, [7; 64]);
        // The host counts as knowing what the word came after.
        gpu.must("cuMemFree_v2", &[block]);
        gpu.must("cuMemFreeHost", &[pinned]);
        assert_eq!(gpu.wrong(), [""; 0], "seed {seed}");
    }
}

#[test]
fn a_session_that_is_stepped_is_stepped_by_hand_for_who_only_polls() {
    let gpu = Gpu::stepped(1);
    let (pinned, stream) = (gpu.pinned(8), gpu.stream());
    word(pinned).store(0, Ordering::Relaxed);
    gpu.must("cuStreamWriteValue64_v2", &[stream, pinned, 5, 0]);
    assert_eq!(word(pinned).load(Ordering::Acquire), 0);
    assert!(gpu.session.step());
    assert_eq!(word(pinned).load(Ordering::Acquire), 5);
    assert!(!gpu.session.step(), "there is nothing more");
    assert_eq!(gpu.wrong(), [""; 0]);
}

#[test]
fn a_word_of_the_gpu_and_half_a_word_are_written_in_order() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(16, 0xFF), gpu.stream());
    gpu.must(
        "cuStreamWriteValue64_v2",
        &[stream, block, 0x0102_0304_0506_0708, 0],
    );
    gpu.must(
        "cuStreamWriteValue32_v2",
        &[stream, block + 4, 0x0A0B_0C0D, 0],
    );
    let mut bytes = [0_u8; 16];
    gpu.must(
        "cuMemcpyDtoHAsync_v2",
        &[bytes.as_mut_ptr() as u64, block, 16, stream],
    );
    assert_eq!(
        u64::from_le_bytes(bytes[..8].try_into().unwrap()),
        0x0A0B_0C0D_0506_0708
    );
    assert_eq!(bytes[8..], [0xFF; 8]);
    assert_eq!(gpu.wrong(), [""; 0]);
}

#[test]
fn a_word_without_a_barrier_tells_the_host_nothing() {
    let gpu = Gpu::new(1);
    let (block, pinned, stream) = (gpu.memory(64, 0), gpu.pinned(8), gpu.stream());
    word(pinned).store(0, Ordering::Relaxed);
    gpu.must("cuMemsetD8Async", &[block, 7, 64, stream]);
    gpu.must("cuStreamWriteValue64_v2", &[stream, pinned, 5, 1]);
    while word(pinned).load(Ordering::Acquire) != 5 {
        std::thread::yield_now();
    }
    gpu.must("cuMemFree_v2", &[block]);
    gpu.assert_wrong(&["race: `cuMemFree_v2`", "`cuMemsetD8Async`"]);
}

#[test]
fn a_word_orders_no_other_stream() {
    let gpu = Gpu::new(1);
    let (block, one, other) = (gpu.memory(64, 0), gpu.stream(), gpu.stream());
    gpu.must("cuStreamWriteValue64_v2", &[one, block, 1, 0]);
    gpu.must("cuStreamWriteValue64_v2", &[other, block, 2, 0]);
    gpu.assert_wrong(&["race: `cuStreamWriteValue64_v2`"]);
}

#[test]
fn a_word_is_aligned_and_there() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(16, 0), gpu.stream());
    let call = |address, flags| gpu.call("cuStreamWriteValue64_v2", &[stream, address, 1, flags]);
    assert_eq!(call(block + 4, 0), INVALID_VALUE);
    assert_eq!(call(block + 16, 0), INVALID_VALUE);
    assert_eq!(call(block, 2), INVALID_VALUE);
    let reports = gpu.wrong();
    let words = ["not aligned", "out of bounds", "flags that there are not"];
    let said = reports
        .iter()
        .zip(words)
        .all(|(report, word)| report.contains(word));
    assert!(said && reports.len() == 3, "{reports:?}");
}

#[test]
fn pinned_memory_is_not_freed_before_its_word_is_written() {
    let gpu = Gpu::new(1);
    let (pinned, stream) = (gpu.pinned(8), gpu.stream());
    gpu.session.hold(stream, true);
    gpu.must("cuStreamWriteValue64_v2", &[stream, pinned, 1, 0]);
    gpu.must("cuMemFreeHost", &[pinned]);
    gpu.session.hold(stream, false);
    let reports = gpu.wrong();
    assert!(
        reports[0].starts_with("freed while in use: `cuMemFreeHost`"),
        "{reports:?}"
    );
}

#[test]
fn a_gpu_may_have_no_memory_operations() {
    let gpu = Gpu::new(1);
    assert_eq!(ATTRIBUTES.map(|number| gpu.attribute(number)), [1; 3]);
    gpu.session.writes_values(false);
    assert_eq!(ATTRIBUTES.map(|number| gpu.attribute(number)), [0; 3]);
    let (pinned, stream) = (gpu.pinned(8), gpu.stream());
    let asked = gpu.call("cuStreamWriteValue64_v2", &[stream, pinned, 1, 0]);
    assert_eq!(asked, NOT_SUPPORTED);
    gpu.assert_wrong(&["wrong word: ", "ask its attribute first"]);
}

#[test]
fn to_wait_for_a_word_is_refused() {
    let gpu = Gpu::new(1);
    let (pinned, stream) = (gpu.pinned(8), gpu.stream());
    let asked = gpu.call("cuStreamWaitValue64_v2", &[stream, pinned, 1, 0]);
    assert_eq!(asked, NOT_SUPPORTED);
    gpu.assert_wrong(&["wrong wait: ", "wait for an event"]);
}
