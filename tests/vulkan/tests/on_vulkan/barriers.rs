//! Which tasks of a queue are separated by barriers. The validation layer sees the accesses through descriptors, and
//! reports each conflict without a barrier.

use std::sync::mpsc;

use millstream::ir::ssa::{Builder, Function};
use millstream::ir::{DType, ssa};
use millstream::vulkan::Vulkan;
use millstream::{CubeCount, Handle, KernelHandle, Stream, read, write};

use crate::gpu::{Buffers, Gpu};

pub(crate) const LEN: usize = 64;

/// A function that copies and adds 1.
pub(crate) fn next() -> Function {
    let k: ssa::Builder = Builder::new("next", [32, 1, 1]);
    let (from, to) = (k.read("from", DType::I32), k.write("to", DType::I32));
    let n = k.scalar("n", DType::I64);
    k.range(k.index(), n, k.count(), |i| {
        to.set(i, from.get(i) + k.constant(1).cast(DType::I32));
    });
    k.build().unwrap()
}

pub(crate) struct Rig {
    pub(crate) gpu: Gpu,
    pub(crate) next: KernelHandle,
    pub(crate) buffers: Vec<Handle<i32>>,
}

impl Rig {
    pub(crate) fn open(queues: usize) -> Option<Self> {
        let gpu = Gpu::open_with_queues(Buffers::Descriptors, queues)?;
        let contents = [0_i32; LEN];
        let buffers = (0..8).map(|_| gpu.stream.create(&contents).unwrap());
        Some(Self {
            buffers: buffers.collect(),
            next: gpu.kernel(next()),
            gpu,
        })
    }

    fn run(&self, stream: &Stream, from: &Handle<i32>, to: &Handle<i32>) {
        let arguments = (read(from), write(to), from.len() as i64);
        let count = CubeCount::d1(2);
        stream.launch(&self.next, count, arguments).unwrap();
    }

    /// Returns the number of barriers of the stream's queue so far.
    fn barriers(&self) -> u64 {
        let (sender, receiver) = mpsc::channel();
        let count = move |resources: &millstream::vulkan::VulkanResources| {
            sender.send(resources.barriers()).unwrap();
        };
        let stream = &self.gpu.stream;
        let nothing: [(&Handle<u8>, millstream::Access); 0] = [];
        stream
            .with_resource::<Vulkan>("count", nothing.as_slice(), count)
            .unwrap();
        stream.sync().wait().unwrap();
        receiver.recv().unwrap()
    }

    pub(crate) fn barriers_of(&self, tasks: impl FnOnce()) -> u64 {
        let before = self.barriers();
        tasks();
        self.barriers() - before
    }
}

#[test]
fn only_conflicting_tasks_of_a_queue_are_separated_by_a_barrier_i1() {
    let Some(rig) = Rig::open(1) else { return };
    let stream = &rig.gpu.stream;
    let b = &rig.buffers;
    let barriers =
        |from: &Handle<i32>, to: &Handle<i32>| rig.barriers_of(|| rig.run(stream, from, to));
    // Separates the following tasks from the uploads.
    rig.run(stream, &b[0], &b[1]);
    rig.run(stream, &b[1], &b[2]);
    assert_eq!(barriers(&b[3], &b[4]), 0, "independent");
    assert_eq!(barriers(&b[3], &b[5]), 0, "two reads of a buffer");
    assert_eq!(barriers(&b[4], &b[6]), 1, "read after write");
    assert_eq!(
        barriers(&b[5], &b[7]),
        0,
        "a barrier covers all tasks before it"
    );
    assert_eq!(barriers(&b[0], &b[5]), 1, "write after read");
    assert_eq!(barriers(&b[0], &b[5]), 1, "write after write");
    let [low, high] = [0..LEN / 2, LEN / 2..LEN].map(|half| b[6].slice(half).unwrap());
    let [source, _] = [0..LEN / 2, LEN / 2..LEN].map(|half| b[3].slice(half).unwrap());
    assert_eq!(barriers(&source, &low), 0, "independent");
    assert_eq!(barriers(&source, &high), 0, "the other half of a buffer");
    assert_eq!(barriers(&low, &high), 1, "a half that was written");
    assert_eq!(rig.barriers_of(|| stream.fill(&b[1], 5_i32).unwrap()), 0);
    assert_eq!(rig.barriers_of(|| stream.copy(&b[1], &b[2]).unwrap()), 1);
    let first = |buffer: &Handle<i32>| stream.read(buffer).wait().unwrap()[0];
    let expected = [0, 5, 5, 0, 1, 1, 1, 2];
    assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(|at| first(&b[at])), expected);
    assert_eq!(stream.read(&high).wait().unwrap(), [2; LEN / 2]);
}
