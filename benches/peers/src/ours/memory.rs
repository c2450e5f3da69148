//! Measures the runtime's heap bytes per live object.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use millstream_actors::Device;
use millstream_client::Stream;
use millstream_client::arguments::CubeCount;

use super::Ours;
use super::null::Null;
use crate::contender::Contender;
use crate::measures::Figures;

/// The number of streams, and of tasks, whose heap bytes are measured: just below a power of two, as for buffers.
const WEIGHED: usize = 16_000;

fn runtime_bytes(ours: &Ours) -> i64 {
    // First, because the answer comes after all earlier messages.
    let device = ours.device_bytes() as i64;
    millstream_heap_count::live_bytes() - device
}

/// Measures the heap bytes per live stream that has run a task, including the caller's side.
pub(crate) fn bytes_per_stream() -> Figures {
    let ours = Ours::open();
    ours.sync();
    let before = runtime_bytes(&ours);
    let mut live: Vec<Stream> = Vec::with_capacity(WEIGHED);
    for _ in 0..WEIGHED {
        let stream = ours.client.new_stream();
        stream
            .launch(&ours.kernels.bare, CubeCount::single(), ())
            .expect("the device is open");
        live.push(stream);
    }
    ours.client.sync().wait().expect("the device is open");
    let after = runtime_bytes(&ours);
    drop(live);
    vec![("bytes", (after - before) as f64 / WEIGHED as f64)]
}

/// Measures the heap bytes per launch over one buffer that a stream holds because its queue is full.
pub(crate) fn bytes_per_task() -> Figures {
    let withheld = Arc::new(AtomicBool::new(true));
    let device = Device::open(Null { withheld }).expect("the null device opens");
    let ours = Ours::on(device);
    let buffer = ours.empty(64);
    let launch = || {
        for _ in 0..WEIGHED {
            ours.launch_one(&buffer);
        }
        // The device itself answers, so it has taken all earlier messages.
        ours.client.stats().wait().expect("the device is open")
    };
    let before = runtime_bytes(&ours);
    // The queue takes as many as its depth by measured time.
    let held = launch().tasks_held;
    let after = runtime_bytes(&ours);
    // The device never drains; the process ends without it.
    std::mem::forget((ours, buffer));
    vec![("bytes", (after - before) as f64 / held as f64)]
}
