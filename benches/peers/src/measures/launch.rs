//! Measures submission: the time of a launch for its caller and for both sides, and concurrent callers.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use super::{Effort, Figures, calibrate};
use crate::contender::Contender;
use millstream_harness::median;

/// Bytes of each buffer that a launch binds.
const BUFFER_BYTES: usize = 1024;

/// The least length of a part, in lengths of the contender's queue.
const QUEUES: u64 = 16;

/// Launches between two reads of the clock.
const BETWEEN_LOOKS: u64 = 64;

/// Measures a launch without arguments.
pub(crate) fn bare<C: Contender>(effort: Effort) -> Figures {
    submitted(effort, |contender: &C, _| contender.launch())
}

/// Measures a launch over three buffers and eight words of scalars.
pub(crate) fn three_and_scalars<C: Contender>(effort: Effort) -> Figures {
    submitted(effort, C::launch_three_and_scalars)
}

/// Returns `caller_ns` until the last launch was accepted, `both_ns` until the last has run, and heap
/// `allocations`, each per launch. A part is many times longer than any queue, so a caller cannot run
/// ahead of the device.
fn submitted<C: Contender>(effort: Effort, launch: impl Fn(&C, &[C::Buffer; 3])) -> Figures {
    let contender = C::open();
    let buffers = [(); 3].map(|()| contender.empty(BUFFER_BYTES));
    let submit = |count| (0..count).for_each(|_: u64| launch(&contender, &buffers));
    let count = calibrate(effort, C::QUEUE * QUEUES, |count| {
        submit(count);
        contender.sync();
    });
    let (mut caller, mut both) = (Vec::with_capacity(16), Vec::with_capacity(16));
    let before = millstream_heap_count::allocations();
    for _ in 0..effort.repeats() {
        contender.sync();
    }
    let of_syncs = millstream_heap_count::allocations() - before;
    let before = millstream_heap_count::allocations();
    for _ in 0..effort.repeats() {
        let begin = Instant::now();
        submit(count);
        caller.push(begin.elapsed().as_nanos() as f64 / count as f64);
        contender.sync();
        both.push(begin.elapsed().as_nanos() as f64 / count as f64);
    }
    let made = millstream_heap_count::allocations() - before;
    let launches = count * effort.repeats() as u64;
    vec![
        ("caller_ns", median(&caller)),
        ("both_ns", median(&both)),
        (
            "allocations",
            made.saturating_sub(of_syncs) as f64 / launches as f64,
        ),
    ]
}

/// Measures `THREADS` concurrent clients that launch without arguments, in millions of launches a second, all together.
pub(crate) fn many<C: Contender, const THREADS: usize>(effort: Effort) -> Figures {
    let contender = C::open();
    let rates: Vec<f64> = (0..effort.repeats())
        .map(|_| together(&contender, THREADS, effort.part() * 4))
        .collect();
    let rate = median(&rates);
    vec![("million_per_s", rate), ("ns", 1e3 / rate)]
}

/// Returns the millions of launches a second of `threads` clients, from the first start to the last sync.
fn together<C: Contender>(contender: &C, threads: usize, duration: Duration) -> f64 {
    let start = Arc::new(Barrier::new(threads));
    let clients: Vec<_> = (0..threads)
        .map(|_| {
            let (client, start) = (contender.for_another_thread(), start.clone());
            std::thread::spawn(move || {
                client.launch();
                client.sync();
                start.wait();
                let begin = Instant::now();
                let mut count = 0;
                while begin.elapsed() < duration {
                    for _ in 0..BETWEEN_LOOKS {
                        client.launch();
                    }
                    count += BETWEEN_LOOKS;
                }
                client.sync();
                (begin, Instant::now(), count)
            })
        })
        .collect();
    let spans: Vec<_> = clients
        .into_iter()
        .map(|client| client.join().expect("a client does not panic"))
        .collect();
    let count: u64 = spans.iter().map(|span| span.2).sum();
    let begin = spans.iter().map(|span| span.0).min();
    let end = spans.iter().map(|span| span.1).max();
    let took = begin
        .zip(end)
        .map_or(Duration::ZERO, |(begin, end)| end - begin);
    count as f64 / took.as_secs_f64() / 1e6
}
