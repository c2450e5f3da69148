//! The standard library's figures on the same machine, for comparison.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use crate::measures::answer::{IDLE, IDLE_ASKS, distribution, microseconds};
use crate::measures::{Effort, Figures, timed};
use crate::noop;
use millstream_harness::median;

/// A boxed message, as simple programs send work to a thread.
type Message = Box<u64>;

/// Messages between two reads of the clock.
const BETWEEN_LOOKS: u64 = 64;

/// A thread that receives messages, and answers the message zero.
struct Consumer {
    messages: Sender<Message>,
    answers: Receiver<()>,
}

impl Consumer {
    fn start() -> Self {
        let (messages, inbox) = channel::<Message>();
        let (answer, answers) = channel();
        std::thread::spawn(move || {
            for message in inbox {
                if *message == 0 && answer.send(()).is_err() {
                    return;
                }
            }
        });
        Self { messages, answers }
    }

    fn ask(&self) {
        self.messages
            .send(Box::new(0))
            .expect("the consumer is running");
        self.answers.recv().expect("the consumer answers");
    }
}

/// Measures a boxed message through `std::sync::mpsc`, end to end.
pub(crate) fn message(effort: Effort) -> Figures {
    let consumer = Consumer::start();
    let ns = timed(effort, |count| {
        for value in 1..=count {
            consumer
                .messages
                .send(Box::new(value))
                .expect("the consumer is running");
        }
        consumer.ask();
    });
    vec![("caller_ns", ns), ("both_ns", ns)]
}

/// Measures `THREADS` concurrent senders of boxed messages, in millions of messages a second, all together.
pub(crate) fn many<const THREADS: usize>(effort: Effort) -> Figures {
    let consumer = Consumer::start();
    let rates: Vec<f64> = (0..effort.repeats())
        .map(|_| together(&consumer, THREADS, effort.part() * 4))
        .collect();
    let rate = median(&rates);
    vec![("million_per_s", rate), ("ns", 1e3 / rate)]
}

fn together(consumer: &Consumer, threads: usize, duration: Duration) -> f64 {
    let start = Arc::new(Barrier::new(threads + 1));
    let senders: Vec<_> = (0..threads)
        .map(|_| {
            let (messages, start) = (consumer.messages.clone(), start.clone());
            std::thread::spawn(move || {
                start.wait();
                let begin = Instant::now();
                let mut count = 0;
                while begin.elapsed() < duration {
                    for value in 1..=BETWEEN_LOOKS {
                        messages
                            .send(Box::new(value))
                            .expect("the consumer is running");
                    }
                    count += BETWEEN_LOOKS;
                }
                count
            })
        })
        .collect();
    start.wait();
    let begin = Instant::now();
    let count: u64 = senders
        .into_iter()
        .map(|sender| sender.join().expect("a sender does not panic"))
        .sum();
    consumer.ask();
    count as f64 / begin.elapsed().as_secs_f64() / 1e6
}

/// Measures a request and its answer through `std::sync::mpsc` after both threads have idled: two wakes.
pub(crate) fn round_trip_idle(effort: Effort) -> Figures {
    let consumer = Consumer::start();
    consumer.ask();
    distribution(effort.count(IDLE_ASKS), || {
        std::thread::sleep(IDLE);
        microseconds(|| consumer.ask())
    })
}

/// Measures the time from before an `unpark` to the parked thread's first step: one wake.
pub(crate) fn one_wake(effort: Effort) -> Figures {
    let woken = Arc::new(AtomicBool::new(false));
    let started_ns = Arc::new(AtomicU64::new(0));
    let (seen, stamp) = (woken.clone(), started_ns.clone());
    let sleeper = std::thread::spawn(move || {
        loop {
            // Acquire pairs with the Release store of `woken`; the Release store of the stamp below pairs with the
            // Acquire load of the waiting loop.
            while !seen.swap(false, Ordering::Acquire) {
                std::thread::park();
            }
            stamp.store(noop::now_ns(), Ordering::Release);
        }
    });
    noop::now_ns();
    distribution(effort.count(IDLE_ASKS), || {
        std::thread::sleep(IDLE);
        started_ns.store(0, Ordering::Relaxed);
        let begin = noop::now_ns();
        woken.store(true, Ordering::Release);
        sleeper.thread().unpark();
        loop {
            match started_ns.load(Ordering::Acquire) {
                0 => std::thread::yield_now(),
                started => return started.saturating_sub(begin) as f64 / 1e3,
            }
        }
    })
}
