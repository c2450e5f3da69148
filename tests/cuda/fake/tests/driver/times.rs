//! Events that tell times.

use crate::raw::Gpu;

const INVALID_HANDLE: u32 = 400;
const NOT_READY: u32 = 600;

fn elapsed_ms(gpu: &Gpu, name: &str, from: u64, to: u64) -> Result<f32, u32> {
    let mut ms = f32::NAN;
    match gpu.call(name, &[&raw mut ms as u64, from, to]) {
        0 => Ok(ms),
        code => Err(code),
    }
}

/// Milliseconds that a fill of so many bytes takes.
fn fill_ms(gpu: &Gpu, bytes: u64) -> f32 {
    let (block, stream) = (gpu.memory(bytes, 0), gpu.stream());
    let (from, to) = (gpu.timed_event(), gpu.timed_event());
    gpu.must("cuEventRecord", &[from, stream]);
    gpu.must("cuMemsetD8Async", &[block, 1, bytes, stream]);
    gpu.must("cuEventRecord", &[to, stream]);
    gpu.must("cuEventSynchronize", &[to]);
    let ms = elapsed_ms(gpu, "cuEventElapsedTime_v2", from, to).unwrap();
    assert_eq!(
        elapsed_ms(gpu, "cuEventElapsedTime", to, from),
        Ok(-ms),
        "backwards"
    );
    assert_eq!(elapsed_ms(gpu, "cuEventElapsedTime", from, from), Ok(0.0));
    ms
}

#[test]
fn more_work_takes_longer_and_the_same_seed_as_long() {
    let run = |seed| {
        let gpu = Gpu::stepped(seed);
        let times = [64, 8 << 20].map(|bytes| fill_ms(&gpu, bytes));
        assert_eq!(gpu.wrong(), [""; 0]);
        times
    };
    let [short, long] = run(1);
    assert!(0.001 < short && short < 0.01, "{short} ms");
    assert!(8.0 * short < long && long < 1.0, "{long} ms");
    assert_eq!(run(1), [short, long]);
    assert_ne!(run(2), [short, long]);
}

#[test]
fn what_is_not_yet_over_has_no_time_yet() {
    let gpu = Gpu::new(1);
    let (stream, from, to) = (gpu.stream(), gpu.timed_event(), gpu.timed_event());
    gpu.must("cuEventRecord", &[from, stream]);
    gpu.must("cuEventSynchronize", &[from]);
    gpu.session.hold(stream, true);
    gpu.must("cuEventRecord", &[to, stream]);
    for (one, other) in [(from, to), (to, from)] {
        assert_eq!(
            elapsed_ms(&gpu, "cuEventElapsedTime_v2", one, other),
            Err(NOT_READY)
        );
    }
    gpu.session.hold(stream, false);
    gpu.must("cuEventSynchronize", &[to]);
    assert!(elapsed_ms(&gpu, "cuEventElapsedTime_v2", from, to).is_ok());
    assert_eq!(gpu.wrong(), [""; 0]);
}

#[test]
fn events_without_a_time_and_without_a_record_are_told_apart() {
    let gpu = Gpu::new(1);
    let (stream, timed) = (gpu.stream(), gpu.timed_event());
    let (untimed, never) = (gpu.event(), gpu.timed_event());
    for event in [timed, untimed] {
        gpu.must("cuEventRecord", &[event, stream]);
    }
    for other in [untimed, never] {
        let asked = elapsed_ms(&gpu, "cuEventElapsedTime_v2", timed, other);
        assert_eq!(asked, Err(INVALID_HANDLE));
    }
    let reports = gpu.wrong();
    let words = ["was made without a time", "was never recorded"];
    let said = reports
        .iter()
        .zip(words)
        .all(|(report, word)| report.ends_with(word));
    assert!(said && reports.len() == 2, "{reports:?}");
}
