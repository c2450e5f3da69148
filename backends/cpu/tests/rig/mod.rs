//! A device without a server: slices of one page each, and tasks pushed directly to the backend's queues. The rig
//! orders nothing: each test issues its waits between queues.
#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::collections::HashMap;
use std::sync::Arc;

use millstream_cpu::{Cpu, CpuDevice, CpuResources};
use millstream_ir::Program;
use millstream_protocol::{
    Access, Backend, BackendKernel, BoundCount, BoundSlice, DropSink, FailureRef, HostContext,
    HostData, Kernel, Landed, Launch, Open, OwnedBytes, PageId, Pattern, Point, QueueId, Refused,
    SliceId, SlotRef, Table, Task, TaskPoint, VecLanding,
};
use millstream_sync::facade::SpinPolicy;
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::{Receiver, mailbox};

pub(crate) const Q0: QueueId = QueueId(0);
pub(crate) const Q1: QueueId = QueueId(1);

/// A softmax over rows without the maximum: its exponentials are retained in thread memory between passes.
pub(crate) const SOFTMAX: &str = "
    nest outer 1 inner 1 words 3
    buffer 0 f32 read  buffer 1 f32 write
    access 0 = buffer 0 [w2 1]  access 1 = buffer 1 [w2 1]
    %0 f32 = load 0  %1 f32 = exp %0  %2 f32 = reduce sum %1  %3 f32 = div %1 %2
    store inner 1 %3";

/// A slice in its own page.
#[derive(Clone)]
pub(crate) struct Slice {
    page: PageId,
    hold: SlotRef,
    bytes: u64,
}

impl Slice {
    pub(crate) fn bind(&self, access: Access) -> BoundSlice {
        self.part(0, self.bytes, access)
    }

    pub(crate) fn part(&self, offset: u64, len: u64, access: Access) -> BoundSlice {
        BoundSlice {
            page: Some(self.page),
            offset,
            len,
            access,
            slice: SliceId(self.hold.id()),
            slice_offset: offset,
        }
    }

    pub(crate) fn read(&self) -> BoundSlice {
        self.bind(Access::Read)
    }

    pub(crate) fn write(&self) -> BoundSlice {
        self.bind(Access::Write)
    }

    pub(crate) fn update(&self) -> BoundSlice {
        self.bind(Access::ReadWrite)
    }
}

/// A prepared kernel.
pub(crate) struct Prepared {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) code: BackendKernel,
}

pub(crate) struct Rig {
    pub(crate) device: CpuDevice,
    pub(crate) table: Arc<Table>,
    cursors: HashMap<QueueId, u64>,
    /// Keeps the mailbox open that the table's `DropSink` notifies.
    _mailbox: Receiver<Task>,
}

pub(crate) fn table() -> (Arc<Table>, Receiver<Task>) {
    let (sender, receiver) = mailbox(2, Arc::new(Gate::new()));
    (
        Table::new(1000, DropSink::new(sender.probe(), Arc::default())),
        receiver,
    )
}

impl Rig {
    pub(crate) fn new(options: Cpu) -> Self {
        Self::with(options, false, 0)
    }

    pub(crate) fn driven() -> Self {
        Self::with(Cpu::default().queues(2), true, 0)
    }

    pub(crate) fn with(options: Cpu, driven: bool, trace_capacity: usize) -> Self {
        let (table, receiver) = table();
        let context = HostContext {
            gone: Default::default(),
            driven,
            table: table.clone(),
            trace_capacity,
            spin: SpinPolicy::default(),
            spawner: Default::default(),
        };
        Self {
            device: options.open(context).unwrap(),
            table,
            cursors: HashMap::new(),
            _mailbox: receiver,
        }
    }

    pub(crate) fn slice(&mut self, bytes: u64) -> Slice {
        let page = self.device.allocate(bytes.max(1)).unwrap();
        Slice {
            page,
            hold: self.table.acquire().unwrap(),
            bytes,
        }
    }

    pub(crate) fn slice_of(&mut self, words: &[u32]) -> Slice {
        let slice = self.slice(size_of_val(words) as u64);
        let point = self.copy_in(Q0, &slice.write(), words);
        self.wait(point).unwrap();
        slice
    }

    pub(crate) fn prepare(&self, kernel: Kernel) -> Prepared {
        let kernel = Arc::new(kernel);
        let code = self.device.compiler().compile(&kernel).unwrap();
        Prepared { kernel, code }
    }

    pub(crate) fn nest(&self, text: &str) -> Prepared {
        let nest = millstream_ir_text::nest(text).unwrap();
        self.prepare(Kernel::from_program("nest", Arc::new(Program::Nest(nest))).unwrap())
    }

    pub(crate) fn next(&mut self, queue: QueueId) -> Point {
        let cursor = self.cursors.entry(queue).or_default();
        *cursor += 1;
        Point::new(queue, *cursor)
    }

    pub(crate) fn launch(
        &mut self,
        queue: QueueId,
        kernel: &Prepared,
        cubes: u32,
        bindings: &[BoundSlice],
        scalars: &[u64],
    ) -> Point {
        self.try_launch(
            queue,
            kernel,
            BoundCount::Static([cubes, 1, 1]),
            bindings,
            scalars,
        )
        .unwrap()
    }

    pub(crate) fn try_launch(
        &mut self,
        queue: QueueId,
        kernel: &Prepared,
        count: BoundCount,
        bindings: &[BoundSlice],
        scalars: &[u64],
    ) -> Result<Point, Refused> {
        let point = self.next(queue);
        let launch = Launch {
            name: kernel.kernel.name(),
            kernel: &kernel.code,
            count,
            bindings,
            scalars,
            metadata: &[],
            tensor_maps: &[],
        };
        self.device.launch(queue, point.cursor, &launch)?;
        self.device.flush(queue, point.cursor);
        Ok(point)
    }

    /// Pushes a task to a queue.
    fn push(
        &mut self,
        queue: QueueId,
        name: &str,
        push: impl FnOnce(&mut CpuDevice, TaskPoint<'_>) -> Result<(), Refused>,
    ) -> Point {
        let point = self.next(queue);
        let place = TaskPoint {
            queue,
            cursor: point.cursor,
            name: &name.into(),
        };
        push(&mut self.device, place).unwrap();
        point
    }

    /// Runs a closure on a queue.
    pub(crate) fn custom(
        &mut self,
        queue: QueueId,
        bindings: &[BoundSlice],
        work: impl FnOnce(Result<&CpuResources, FailureRef>) + Send + 'static,
    ) -> Point {
        let work = Box::new(move |value: &dyn std::any::Any| {
            match value.downcast_ref::<FailureRef>() {
                Some(failure) => work(Err(failure.clone())),
                None => work(Ok(value.downcast_ref().unwrap())),
            }
            Ok(())
        });
        self.push(queue, "custom", |device, place| {
            device.custom(place, bindings, work)
        })
    }

    pub(crate) fn copy_in(&mut self, queue: QueueId, target: &BoundSlice, words: &[u32]) -> Point {
        let source = HostData::Owned(OwnedBytes::new(words.to_vec()));
        self.push(queue, "copy in", |device, place| {
            device.copy_in(place, target, None, source)
        })
    }

    pub(crate) fn copy(
        &mut self,
        queue: QueueId,
        source: &BoundSlice,
        target: &BoundSlice,
    ) -> Point {
        self.push(queue, "copy", |device, place| {
            device.copy(place, source, target)
        })
    }

    pub(crate) fn fill(&mut self, queue: QueueId, target: &BoundSlice, value: u32) -> Point {
        self.push(queue, "fill", |device, place| {
            device.fill(place, target, Pattern::of(value))
        })
    }

    /// Copies to the host; take the words after the point has passed.
    pub(crate) fn copy_out(&mut self, queue: QueueId, source: &BoundSlice) -> (Point, Words) {
        let landing = VecLanding::new(source.len as usize / 4).unwrap();
        let point = self.push(queue, "copy out", |device, place| {
            device.copy_out(place, source, None, landing.clone())
        });
        (point, Words(landing))
    }

    /// Reads a slice on its queue, and waits for the result.
    pub(crate) fn read(&mut self, queue: QueueId, slice: &Slice) -> Result<Vec<u32>, FailureRef> {
        let (point, landing) = self.copy_out(queue, &slice.read());
        self.wait(point).unwrap();
        landing.take()
    }

    pub(crate) fn wait(&self, point: Point) -> Result<(), millstream_sync::timeline::Ended> {
        self.device
            .timeline(point.queue)
            .wait(point.cursor, &SpinPolicy::default())
    }

    pub(crate) fn completed(&self, queue: QueueId) -> u64 {
        self.device.timeline(queue).completed()
    }
}

/// The landing of a copy to the host.
pub(crate) struct Words(Arc<VecLanding<u32>>);

impl Words {
    /// Returns the words of a copy that has ended.
    pub(crate) fn take(&self) -> Result<Vec<u32>, FailureRef> {
        // SAFETY: the test has waited for the copy, or dropped the device.
        unsafe { self.0.take() }
    }
}
