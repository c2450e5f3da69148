//! Timed events.

use crate::raw::Gpu;

const INVALID_HANDLE: u32 = 400;
const NOT_READY: u32 = 600;

fn elapsed_ms(gpu: &Gpu, from: u64, to: u64) -> Result<f32, u32> {
    let mut ms = f32::NAN;
    match gpu.call("cuEventElapsedTime", &[&raw mut ms as u64, from, to]) {
        0 => Ok(ms),
        code => Err(code),
    }
}

/// Returns the milliseconds that a fill of `bytes` bytes takes.
fn fill_ms(gpu: &Gpu, bytes: u64) -> f32 {
    let (block, stream) = (gpu.memory(bytes, 0), gpu.stream());
    let (from, to) = (gpu.timed_event(), gpu.timed_event());
    gpu.must("cuEventRecord", &[from, stream]);
    gpu.must("cuMemsetD8Async", &[block, 1, bytes, stream]);
    gpu.must("cuEventRecord", &[to, stream]);
    gpu.must("cuEventSynchronize", &[to]);
    let ms = elapsed_ms(gpu, from, to).unwrap();
    assert_eq!(elapsed_ms(gpu, to, from), Ok(-ms), "backwards");
    assert_eq!(elapsed_ms(gpu, from, from), Ok(0.0));
    ms
}

#[test]
fn more_work_takes_longer_and_the_same_seed_takes_the_same_time() {
    let run = |seed| {
        let gpu = Gpu::stepped(seed);
        let times = [64, 8 << 20].map(|bytes| fill_ms(&gpu, bytes));
        assert_eq!(gpu.violations(), [""; 0]);
        times
    };
    let [short, long] = run(1);
    assert!(0.001 < short && short < 0.01, "{short} ms");
    assert!(8.0 * short < long && long < 1.0, "{long} ms");
    assert_eq!(run(1), [short, long]);
    assert_ne!(run(2), [short, long]);
}

#[test]
fn an_incomplete_event_has_no_time() {
    let gpu = Gpu::new(1);
    let (stream, from, to) = (gpu.stream(), gpu.timed_event(), gpu.timed_event());
    gpu.must("cuEventRecord", &[from, stream]);
    gpu.must("cuEventSynchronize", &[from]);
    gpu.session.hold(stream, true);
    gpu.must("cuEventRecord", &[to, stream]);
    for (one, other) in [(from, to), (to, from)] {
        assert_eq!(elapsed_ms(&gpu, one, other), Err(NOT_READY));
    }
    gpu.session.hold(stream, false);
    gpu.must("cuEventSynchronize", &[to]);
    assert!(elapsed_ms(&gpu, from, to).is_ok());
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn untimed_and_unrecorded_events_have_different_reports() {
    let gpu = Gpu::new(1);
    let (stream, timed) = (gpu.stream(), gpu.timed_event());
    let (untimed, never) = (gpu.event(), gpu.timed_event());
    for event in [timed, untimed] {
        gpu.must("cuEventRecord", &[event, stream]);
    }
    for other in [untimed, never] {
        let answer = elapsed_ms(&gpu, timed, other);
        assert_eq!(answer, Err(INVALID_HANDLE));
    }
    gpu.assert_violations(&["was created without timing", "was never recorded"]);
}
