//! Measures our behaviour where the figure is not a time: held completion, order between streams, a panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use millstream_actors::Device;
use millstream_client::arguments::{CubeCount, update, write};
use millstream_cpu::Cpu;
use millstream_protocol::error::Error;
use millstream_protocol::kernel::Kernel;

use super::Ours;
use super::null::Null;
use crate::contender::Contender;
use crate::measures::{Figures, HOLD_LIMIT, STALE_TRIALS, settled};
use crate::noop::PANIC_MESSAGE;

/// The time limit of an answer from a stream that waits for nothing.
const UNAFFECTED: Duration = Duration::from_secs(1);

/// Counts the cross-stream launches that are accepted while their dependency does not complete. Checks
/// that a stream without that dependency answers meanwhile.
pub(crate) fn accepted_while_held() -> Figures {
    let withheld = Arc::new(AtomicBool::new(true));
    let device = Device::open(Null { withheld }).expect("the null device opens");
    // The first stream is assigned to the first queue, which does not complete; the next ones to others.
    let producer = Ours::on(device);
    let (consumer, other) = (producer.client.new_stream(), producer.client.new_stream());
    let buffer = producer.empty(64);
    producer.launch_one(&buffer);
    let accepted = Arc::new(AtomicU64::new(0));
    let counter = accepted.clone();
    let kernels = producer.kernels.clone();
    std::thread::spawn(move || {
        for _ in 0..HOLD_LIMIT {
            consumer
                .launch(&kernels.one, CubeCount::single(), (update(&buffer),))
                .expect("the device is open");
            // Relaxed: a count.
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let count = settled(|| accepted.load(Ordering::Relaxed));
    other
        .launch(&producer.kernels.bare, CubeCount::single(), ())
        .expect("the device is open");
    let answered = other.sync().wait_timeout(UNAFFECTED).is_ok();
    assert!(answered, "a stream without a dependency must answer");
    let held = producer.stream.sync().wait_timeout(Duration::ZERO);
    assert!(
        held.is_err(),
        "the dependency must not complete, or the row shows nothing"
    );
    // The device never drains; the process ends without it.
    std::mem::forget(producer);
    vec![("launches", count as f64)]
}

/// Counts stale reads: stream B writes a buffer of stream A in place, then A reads it and sees the value
/// from before B's write. Runs on the CPU device, whose queues overlap.
pub(crate) fn stale_reads() -> Figures {
    let device = Device::open(Cpu::default()).expect("the CPU opens");
    let client = device.new_client();
    let store = Kernel::new("store")
        .writes::<u64>("target")
        .scalar::<u64>("value")
        .native(|_, arguments| {
            let value = arguments.scalar(0);
            arguments.chunk::<u64>(0).fill(value);
        });
    let store = client.kernel(store).expect("the kernel is native");
    let mut stale = 0;
    for trial in 1..=STALE_TRIALS {
        let (a, b) = (client.new_stream(), client.new_stream());
        let buffer = a.create(&[0_u64]).expect("memory does not run out");
        b.launch(&store, CubeCount::single(), (write(&buffer), trial))
            .expect("the launch fits");
        let value = a.read(&buffer).wait().expect("the device is open");
        stale += u64::from(value != [trial]);
    }
    vec![("reads", stale as f64)]
}

/// Counts which of flush, sync and a read of the buffer report a panic in a kernel. Our error belongs to
/// the data, so only the read reports it; it must contain the kernel's message.
pub(crate) fn panic_reports() -> Figures {
    std::panic::set_hook(Box::new(|_| {}));
    let device = Device::open(Cpu::default()).expect("the CPU opens");
    let client = device.new_client();
    let kernel = Kernel::new("panics")
        .writes::<u8>("target")
        .native(|_, _| panic!("{PANIC_MESSAGE}"));
    let kernel = client.kernel(kernel).expect("the kernel is native");
    let stream = client.new_stream();
    let buffer = stream.empty::<u8>(16).expect("memory does not run out");
    stream
        .launch(&kernel, CubeCount::single(), (write(&buffer),))
        .expect("the launch fits");
    let told = |error: &Error| error.to_string().contains(PANIC_MESSAGE);
    let reports = [
        stream.flush().is_err_and(|error| told(&error)),
        stream.sync().wait().is_err_and(|error| told(&error)),
        stream.read(&buffer).wait().is_err_and(|error| told(&error)),
    ];
    let count = reports.iter().filter(|&&reported| reported).count();
    vec![("reports", count as f64)]
}
