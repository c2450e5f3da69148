//! Streams: creation and queries.

use crate::raw::Gpu;

const NOT_READY: u32 = 600;
const NOT_SUPPORTED: u32 = 801;

#[test]
fn priorities_are_clamped_to_the_supported_range() {
    let gpu = Gpu::new(1);
    let mut range = [7_i32; 2];
    let [least, greatest] = range.each_mut().map(|place| &raw mut *place as u64);
    gpu.must("cuCtxGetStreamPriorityRange", &[least, greatest]);
    assert_eq!(range, [0, -5]);
    for priority in [0_i32, -5, -9, 3] {
        gpu.make("cuStreamCreateWithPriority", &[1, priority as u32 as u64]);
    }
    assert_eq!(gpu.session.stream_priorities(), [0, -5, -5, 0]);
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn a_stream_that_synchronizes_with_the_default_stream_is_refused() {
    let gpu = Gpu::new(1);
    let mut stream = 0_u64;
    let arguments = [&raw mut stream as u64, 0];
    assert_eq!(gpu.call("cuStreamCreate", &arguments), NOT_SUPPORTED);
    gpu.assert_violation(&["not modelled: a stream that synchronizes"]);
}

#[test]
fn a_stream_query_may_find_it_incomplete_and_orders_the_host() {
    let mut answers = [0; 2];
    for seed in 0..100 {
        let gpu = Gpu::stepped(seed);
        let (block, stream) = (gpu.memory(64, 0), gpu.stream());
        gpu.must("cuStreamQuery", &[stream]);
        gpu.must("cuMemsetD8Async", &[block, 1, 64, stream]);
        let mut queries = 0;
        while gpu.call("cuStreamQuery", &[stream]) == NOT_READY {
            queries += 1;
        }
        answers[usize::from(queries > 0)] += 1;
        // The host knows that the fill is complete.
        gpu.must("cuMemFree_v2", &[block]);
        assert_eq!(gpu.violations(), [""; 0]);
    }
    assert!(answers.iter().all(|times| *times > 5), "{answers:?}");
}
