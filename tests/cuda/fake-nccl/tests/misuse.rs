//! Each mistake that the fake reports, made on purpose.

#![allow(clippy::unwrap_used, reason = "tests")]

use fake_cuda::Session;
use nccl::Nccl;

const FLOAT: u64 = 7;
const SUM: u64 = 0;

/// Two GPUs, each with a context, a stream and memory, and their communicators.
struct Rig {
    contexts: [u64; 2],
    streams: [u64; 2],
    memory: [u64; 2],
    communicators: [u64; 2],
    nccl: Nccl,
    gpu: Session,
}

impl Rig {
    fn new(seed: u64) -> Self {
        let gpu = Session::begin(seed).unwrap_or_else(|error| panic!("{error}"));
        gpu.set_gpu_count(2);
        let mut rig = Self {
            contexts: [0; 2],
            streams: [0; 2],
            memory: [0; 2],
            communicators: [0; 2],
            nccl: Nccl::begin().unwrap(),
            gpu,
        };
        rig.drive("cuInit", &[0]);
        rig.contexts = [0, 1].map(|gpu| rig.make("cuDevicePrimaryCtxRetain", &[gpu]));
        rig.renew();
        rig
    }

    /// Creates streams, memory and communicators.
    fn renew(&mut self) {
        for at in 0..2 {
            self.enter(at);
            self.streams[at] = self.make("cuStreamCreateWithPriority", &[1, 0]);
            self.memory[at] = self.make("cuMemAlloc_v2", &[64]);
        }
        let (out, devices) = (&raw mut self.communicators as u64, [0_i32, 1]);
        let created = self.call("ncclCommInitAll", &[out, 2, devices.as_ptr() as u64]);
        assert_eq!(created, 0);
    }

    /// Calls a function of the driver whose first argument is an out pointer, and returns the value.
    fn make(&self, name: &str, arguments: &[u64]) -> u64 {
        let mut made = 0_u64;
        let out = [&raw mut made as u64];
        self.drive(name, &[&out, arguments].concat());
        made
    }

    fn drive(&self, name: &str, arguments: &[u64]) {
        assert_eq!(self.gpu.call(name, arguments), 0, "{name}");
    }

    fn enter(&self, at: usize) {
        self.drive("cuCtxSetCurrent", &[self.contexts[at]]);
    }

    fn call(&self, name: &str, arguments: &[u64]) -> u32 {
        self.nccl.call(name, arguments)
    }

    /// Adds the part of a member with memory and a stream of these members.
    fn reduce(&self, member: usize, (memory, stream): (usize, usize), count: u64) -> u32 {
        let (memory, stream) = (self.memory[memory], self.streams[stream]);
        let communicator = self.communicators[member];
        self.call(
            "ncclAllReduce",
            &[memory, memory, count, FLOAT, SUM, communicator, stream],
        )
    }

    /// Calls both members in a group, with these counts.
    fn reduce_both(&self, counts: [u64; 2]) -> u32 {
        assert_eq!(self.call("ncclGroupStart", &[]), 0);
        for (member, count) in counts.into_iter().enumerate() {
            assert_eq!(self.reduce(member, (member, member), count), 0);
        }
        self.call("ncclGroupEnd", &[])
    }

    /// Releases everything, and returns the reports of both fakes.
    fn end(mut self) -> Vec<String> {
        for communicator in std::mem::take(&mut self.communicators) {
            if communicator != 0 {
                self.call("ncclCommDestroy", &[communicator]);
            }
        }
        for at in 0..2 {
            self.enter(at);
            self.gpu.call("cuStreamSynchronize", &[self.streams[at]]);
            self.drive("cuStreamDestroy_v2", &[self.streams[at]]);
            self.drive("cuMemFree_v2", &[self.memory[at]]);
            self.drive("cuCtxSetCurrent", &[0]);
            self.drive("cuDevicePrimaryCtxRelease_v2", &[at as u64]);
        }
        let mut reports = self.nccl.reports();
        reports.extend(self.gpu.end());
        reports
    }
}

fn only(reports: &[String], text: &str) {
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(
        reports[0].contains(text),
        "expected {text:?} in {reports:?}"
    );
}

#[test]
fn right_calls_report_nothing() {
    let rig = Rig::new(1);
    assert_eq!(rig.reduce_both([16, 16]), 0);
    assert_eq!(rig.reduce_both([0, 0]), 0);
    assert_eq!(rig.end(), Vec::<String>::new());
}

#[test]
fn a_call_outside_of_a_group_is_reported() {
    let rig = Rig::new(2);
    assert_eq!(rig.reduce(0, (0, 0), 16), 5);
    only(&rig.end(), "ncclAllReduce outside of a group");
}

#[test]
fn streams_and_memory_of_another_gpu_are_reported() {
    for (places, text) in [
        ((1, 0), "ncclAllReduce of GPU 0 receives memory of GPU 1"),
        ((0, 1), "ncclAllReduce of GPU 0 receives a stream of GPU 1"),
    ] {
        let rig = Rig::new(3);
        assert_eq!(rig.call("ncclGroupStart", &[]), 0);
        assert_eq!(rig.reduce(0, places, 16), 4);
        assert_eq!(rig.reduce(1, (1, 1), 16), 0);
        assert_eq!(rig.call("ncclGroupEnd", &[]), 4);
        only(&rig.end(), text);
    }
}

#[test]
fn members_that_differ_or_are_missing_are_reported() {
    let rig = Rig::new(4);
    assert_eq!(rig.reduce_both([16, 8]), 5);
    only(&rig.end(), "members of a collective differ");
    for members in [&[1][..], &[0, 0], &[0, 1, 1]] {
        let rig = Rig::new(5);
        assert_eq!(rig.call("ncclGroupStart", &[]), 0);
        for member in members {
            assert_eq!(rig.reduce(*member, (*member, *member), 16), 0);
        }
        assert_eq!(rig.call("ncclGroupEnd", &[]), 5);
        only(&rig.end(), "expected each of 2 once");
    }
}

#[test]
fn groups_that_do_not_match_are_reported() {
    let rig = Rig::new(6);
    assert_eq!(rig.call("ncclGroupEnd", &[]), 5);
    only(&rig.end(), "ncclGroupEnd without ncclGroupStart");

    let mut rig = Rig::new(7);
    assert_eq!(rig.call("ncclGroupStart", &[]), 0);
    let communicator = std::mem::take(&mut rig.communicators[1]);
    assert_eq!(rig.call("ncclCommDestroy", &[communicator]), 0);
    let left = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rig.nccl.assert_clean()));
    assert!(left.is_err(), "the group is open");
    assert_eq!(rig.call("ncclGroupEnd", &[]), 0);
    only(&rig.end(), "ncclCommDestroy is called within a group");
}

#[test]
fn destroyed_and_repeated_communicators_are_reported() {
    let mut rig = Rig::new(8);
    let gone = rig.communicators[1];
    assert_eq!(rig.call("ncclCommDestroy", &[gone]), 0);
    assert_eq!(rig.call("ncclGroupStart", &[]), 0);
    assert_eq!(rig.reduce(1, (1, 1), 16), 4);
    assert_eq!(rig.call("ncclGroupEnd", &[]), 4);
    rig.communicators[1] = 0;
    only(&rig.end(), "receives a communicator that was destroyed");

    let rig = Rig::new(9);
    let mut made = [0_u64; 2];
    let (out, devices) = (&raw mut made as u64, [1_i32, 1]);
    let created = rig.call("ncclCommInitAll", &[out, 2, devices.as_ptr() as u64]);
    assert_eq!(created, 5);
    only(&rig.end(), "a GPU has two communicators of one group");
}

/// Collectives of two cliques on a GPU must be ordered by their streams, as they may deadlock otherwise.
#[test]
fn collectives_without_an_order_are_a_race() {
    let mut rig = Rig::new(10);
    assert_eq!(rig.reduce_both([16, 16]), 0);
    let (streams, memory, first) = (rig.streams, rig.memory, rig.communicators);
    rig.renew();
    assert_eq!(rig.reduce_both([16, 16]), 0);
    for at in 0..2 {
        rig.enter(at);
        rig.drive("cuStreamSynchronize", &[streams[at]]);
        rig.call("ncclCommDestroy", &[first[at]]);
        rig.drive("cuStreamDestroy_v2", &[streams[at]]);
        rig.drive("cuMemFree_v2", &[memory[at]]);
    }
    let reports = rig.end();
    let races = reports
        .iter()
        .filter(|report| report.starts_with("race: `ncclAllReduce`"));
    assert_eq!(races.count(), 2, "{reports:?}");
    assert_eq!(reports.len(), 2, "{reports:?}");
}

#[test]
fn a_collective_that_stands_still_ends_with_an_abort() {
    let mut rig = Rig::new(11);
    rig.nccl.hang();
    assert_eq!(rig.nccl.fail_hanging(6), 0);
    assert_eq!(rig.reduce_both([16, 16]), 0);
    assert_eq!(rig.nccl.fail_hanging(6), 2);
    let mut error = 0_u32;
    let out = &raw mut error as u64;
    assert_eq!(
        rig.call("ncclCommGetAsyncError", &[rig.communicators[0], out]),
        0
    );
    assert_eq!(error, 6);
    rig.enter(0);
    assert_eq!(rig.gpu.call("cuStreamQuery", &[rig.streams[0]]), 600);
    for communicator in std::mem::take(&mut rig.communicators) {
        assert_eq!(rig.call("ncclCommAbort", &[communicator]), 0);
    }
    rig.enter(0);
    rig.drive("cuStreamQuery", &[rig.streams[0]]);
    assert_eq!(rig.nccl.living(), 0);
    assert_eq!(rig.end(), Vec::<String>::new());
}
