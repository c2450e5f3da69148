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
use millstream_protocol::access::Access;
use millstream_protocol::error::Error;
use millstream_protocol::kernel::Kernel;
use millstream_protocol::options::DeviceOptions;
use millstream_server::server::Effect;
use millstream_sync::timeline::Timeline;

use super::*;
use crate::Device;
use crate::actor::EffectSink;
use crate::epoch::{build_parts, client_state};
use crate::mailbox::EpochEnd;

/// Far longer than any test here takes, so that a hang becomes a failure.
const PATIENCE: Duration = Duration::from_secs(60);

fn open() -> (Device, Driver) {
    Device::open_driven(Cpu::default().queues(2), DeviceOptions::default()).unwrap()
}

/// Blocks until `threads` threads sleep because there is nothing to drive.
fn until_asleep(device: &Device, threads: usize) {
    let driven = device.driven.as_ref().unwrap().current();
    let idle = driven.idle();
    let start = Instant::now();
    while idle.bell.sleepers() != threads {
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

/// An effect sink that has no room.
struct Full;

impl EffectSink for Full {
    fn carry_out(&mut self, effect: Effect) -> Result<(), Effect> {
        Err(effect)
    }
}

/// A device whose actor the test turns, and a stream of it.
fn open_without_thread(options: DeviceOptions) -> (DirectChannel<CpuDevice>, Stream) {
    let end = EpochEnd::default();
    let parts = build_parts(
        Cpu::default().queues(1),
        &options,
        true,
        end.gone.clone(),
        None,
    )
    .unwrap();
    let channel = DirectChannel::new(
        parts.actor,
        parts.sender,
        parts.device,
        parts.gc,
        end.gone.clone(),
        parts.edges,
    );
    let face = Box::new(channel.clone());
    let shared = channel.with_actor(|actor| {
        client_state(actor, face, parts.table, options, end.gone.clone(), None)
    });
    let epochs = DeviceEpochs::new(shared, Arc::default());
    let stream = epochs.client_builder().build().new_stream();
    (channel, stream)
}

/// Spins for longer than one step of a waiting thread.
fn spin_for_long() {
    let start = Instant::now();
    while start.elapsed() <= DRIVE_BUDGET {
        std::hint::spin_loop();
    }
}
