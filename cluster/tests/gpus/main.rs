//! Fleets of CUDA devices on the fake driver and the fake NCCL. Their checkers report every access without order, every
//! wrong call, and every leak.

#![allow(clippy::unwrap_used, reason = "tests")]

mod collectives;
mod copies;
mod failures;
#[path = "../collectives/members.rs"]
mod members;
mod network;
mod programs;

use fake_cuda::Session;
use fake_nccl::Nccl;
use millstream::cuda::Cuda;
use millstream::{Cpu, Device, DeviceOptions, Element, Handle, MemoryOptions};
use millstream_cluster::{Fleet, Group};

use members::{create, interleave, read, refs, zeros};

/// A fleet with a device on each of some GPUs, and the session of the fake driver.
struct Rig {
    fleet: Fleet,
    nccl: Nccl,
    gpu: Session,
}

/// Options with small pages, since the fake fills new memory with a pattern.
fn options() -> DeviceOptions {
    DeviceOptions::default().memory(MemoryOptions::default().page_bytes(256 << 10))
}

fn session(seed: u64, gpus: usize) -> Session {
    let gpu = Session::begin(seed).unwrap_or_else(|error| panic!("{error}"));
    gpu.set_gpu_count(gpus as u32);
    gpu
}

fn open(ordinal: usize) -> Device {
    Device::open_with(Cuda::ordinal(ordinal).queues(2), options()).unwrap()
}

impl Rig {
    fn of(fleet: Fleet, gpu: Session) -> Self {
        let nccl = match Nccl::begin() {
            Ok(nccl) => nccl,
            Err(error) => panic!("the loaded libnccl.so is not the fake: {error}"),
        };
        Self { fleet, nccl, gpu }
    }

    fn new(seed: u64, gpus: usize) -> Self {
        let gpu = session(seed, gpus);
        let fleet = Fleet::new((0..gpus).map(open)).unwrap();
        Self::of(fleet, gpu)
    }

    /// As [`Rig::new`], with a CPU as the last member.
    fn with_cpu(seed: u64, gpus: usize) -> Self {
        let gpu = session(seed, gpus);
        let cpu = Device::open(Cpu::default()).unwrap();
        let fleet = Fleet::new((0..gpus).map(open).chain([cpu])).unwrap();
        Self::of(fleet, gpu)
    }

    fn without_nccl(mut self) -> Self {
        self.fleet = self.fleet.without_nccl();
        self
    }

    /// Returns a group of all devices, and a buffer of this many ones on each.
    fn ones(&self, len: usize) -> (Group, Vec<Handle<u32>>) {
        let group = self.fleet.group();
        let buffers = create(&group, &vec![vec![1; len]; group.len()]);
        (group, buffers)
    }

    /// Drops what the caller has of the devices, closes them, and asserts that the fakes have nothing to report.
    fn close(self, handles: impl Sized) {
        let Self { fleet, nccl, gpu } = self;
        drop(handles);
        drop(fleet);
        nccl.assert_clean();
        gpu.assert_clean();
    }
}

/// Returns the error of each member's buffer as text.
fn texts<T: Element + std::fmt::Debug>(group: &Group, handles: &[Handle<T>]) -> Vec<String> {
    let read = |(member, handle): (usize, &Handle<T>)| group.stream(member).read(handle).wait();
    let errors = handles.iter().enumerate().map(read);
    errors
        .map(|outcome| outcome.unwrap_err().to_string())
        .collect()
}

/// Different values for each member.
fn inputs(members: usize, len: usize) -> Vec<Vec<u32>> {
    let value = |member: usize, index: usize| (member * 1_000_003 + index * 7 + 1) as u32;
    let input = |member| (0..len).map(|index| value(member, index)).collect();
    (0..members).map(input).collect()
}
