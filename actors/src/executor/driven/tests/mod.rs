//! Tests of driven devices on the CPU.

#![allow(clippy::unwrap_used, reason = "tests")]

mod closing;
mod sleeping;
mod turns;
mod user_code;

use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::task::Waker;

use millstream_client::arguments::CubeCount;
use millstream_client::{DeviceEpochs, Stream};
use millstream_cpu::{Cpu, CpuDevice};
use millstream_protocol::{Access, DeviceOptions, Error, Kernel};
use millstream_sync::facade::Mutex;
use millstream_sync::timeline::Timeline;

use super::*;
use crate::{Device, Driver};

/// Far longer than any test here takes, so that a hang becomes a failure.
const PATIENCE: Duration = Duration::from_secs(60);

fn open() -> (Device, Driver) {
    Device::open_driven(Cpu::default().queues(2), DeviceOptions::default()).unwrap()
}

/// Blocks until `threads` threads sleep because there is nothing to drive.
fn until_asleep(device: &Device, threads: usize) {
    let executor = lock(&device.running).driven.clone().unwrap();
    let start = Instant::now();
    while executor.sleepers() != threads {
        assert!(start.elapsed() < PATIENCE, "the threads do not sleep");
        std::thread::yield_now();
    }
}

/// Launches a kernel on memory of its own that ends when a message is sent.
fn launch_a_valve(device: &Device, stream: &Stream) -> (mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (open, opened) = mpsc::channel();
    let (start, started) = mpsc::channel();
    let opened = Mutex::new(opened);
    let valve = Kernel::new("valve").native(move |_, _| {
        start.send(()).unwrap();
        lock(&opened).recv_timeout(PATIENCE).unwrap();
    });
    let valve = device.new_client().kernel(valve).unwrap();
    stream.launch(&valve, CubeCount::single(), ()).unwrap();
    (open, started)
}

/// A device that the test turns, and a stream of it.
fn open_for_test(options: &DeviceOptions) -> (Arc<Executor<CpuDevice>>, Stream) {
    let cpu = Cpu::default().queues(1);
    let (executor, opened, _) = crate::epoch::open_for_test(cpu, options, true).unwrap();
    let epochs = DeviceEpochs::new(opened.shared, Arc::default());
    let stream = epochs.client_builder().build().new_stream();
    (executor, stream)
}

/// Spins for longer than one step of a waiting thread.
fn spin_for_long() {
    let start = Instant::now();
    while start.elapsed() <= DRIVE_BUDGET {
        std::hint::spin_loop();
    }
}
