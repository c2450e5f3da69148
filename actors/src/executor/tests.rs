//! A device whose thread is played by a test: it sleeps at the gate, and each wake of it is counted.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};

use millstream_client::{ComputeClient, DeviceEpochs, Stream};
use millstream_cpu::{Cpu, CpuDevice};
use millstream_protocol::{Backend, DeviceOptions, Open};

use super::Executor;
use super::device_thread::Rest;
use crate::epoch::{Opened, open_for_test};

pub(crate) struct Rig<B: Backend = CpuDevice> {
    pub(crate) executor: Arc<Executor<B>>,
    pub(crate) opened: Opened,
    pub(crate) client: ComputeClient,
    pub(crate) stream: Stream,
    wakes: Arc<Wakes>,
}

/// Counts the wakes of the device thread.
#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Rig {
    pub(crate) fn open() -> Self {
        Self::open_as(Cpu::default().queues(1).threads(1))
    }
}

impl<B: Backend> Rig<B> {
    pub(crate) fn open_as(kind: impl Open<Backend = B>) -> Self {
        let (executor, opened, _) = open_for_test(kind, &DeviceOptions::default(), false).unwrap();
        let epochs = DeviceEpochs::new(opened.shared.clone(), Arc::default());
        let client = epochs.client_builder().build();
        let rig = Self {
            stream: client.new_stream(),
            executor,
            opened,
            client,
            wakes: Arc::default(),
        };
        rig.sleep();
        rig
    }

    /// Takes the device thread's turns until there is no work, and arms its gate.
    pub(crate) fn sleep(&self) {
        while matches!(self.executor.look_around(|| None), Rest::Busy) {}
        self.arm();
    }

    pub(crate) fn arm(&self) {
        self.executor.gate.arm(&Waker::from(self.wakes.clone()));
    }

    /// Returns the number of wakes of the device thread.
    pub(crate) fn wakes(&self) -> u32 {
        self.wakes.0.load(Ordering::SeqCst)
    }

    /// Sends two messages before each wait, a few times, so that such a wait is expected.
    pub(crate) fn get_used_to_waits(&self) {
        let data = self.stream.create(&[1_u32; 4]).unwrap();
        for _ in 0..3 {
            self.stream.fill(&data, 7_u32).unwrap();
            self.stream.sync().wait().unwrap();
        }
        self.sleep();
    }
}
