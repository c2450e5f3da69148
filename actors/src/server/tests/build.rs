//! Tasks built by hand, as the client builds them.

use std::ops::Range;
use std::sync::Arc;

use millstream_protocol::{
    Access, AllocationMode, Binding, ClientId, CopyOut, DeviceRequest, Error, Kernel, KernelId,
    Landed, Landing, LaunchCount, NewStream, Op, Priority, Reason, RecordingId, Registration,
    Scope, SliceId, SlotRef, StreamId, Task, Terms, Ticket, VecLanding,
    recording::{Parameters, RecordedOp, RecordedTask, order_of},
};
use millstream_sync::credit::Credit;
use millstream_sync::reply::{ReplyReceiver, reply};

use super::rig::Rig;

pub(super) const CLIENT: ClientId = ClientId(0);

/// A stream as a client has it.
pub(super) struct Stream {
    pub(super) hold: SlotRef,
    pub(super) credit: Arc<Credit>,
    pub(super) client: ClientId,
}

/// A slice as a client has it.
pub(super) struct Slice {
    pub(super) hold: SlotRef,
    pub(super) bytes: u64,
}

impl Slice {
    pub(super) fn id(&self) -> SliceId {
        SliceId(self.hold.id())
    }

    pub(super) fn all(&self, access: Access) -> Binding {
        self.part(0..self.bytes, access)
    }

    pub(super) fn part(&self, range: Range<u64>, access: Access) -> Binding {
        Binding::new(self.id(), range.start, range.end - range.start, access)
    }

    pub(super) fn read(&self) -> Binding {
        self.all(Access::Read)
    }

    pub(super) fn write(&self) -> Binding {
        self.all(Access::Write)
    }

    pub(super) fn update(&self) -> Binding {
        self.all(Access::ReadWrite)
    }
}

/// An answer that the test waits for.
pub(super) struct Answer {
    receiver: ReplyReceiver<Result<Ticket, Error>>,
    answer: Option<Result<Ticket, Error>>,
    bytes: Option<Result<Vec<Vec<u8>>, Error>>,
    landings: Vec<Arc<VecLanding<u8>>>,
}

/// A recording as a client has it.
pub(super) struct Recording {
    pub(super) hold: SlotRef,
    pub(super) parameters: Vec<Binding>,
}

impl Answer {
    /// Creates an answer that brings no bytes.
    pub(super) fn of(receiver: ReplyReceiver<Result<Ticket, Error>>) -> Self {
        Self {
            receiver,
            answer: None,
            bytes: None,
            landings: Vec::new(),
        }
    }

    /// Returns the bytes or the error, or `None` if there is no answer yet. Further calls return the same.
    pub(super) fn look(&mut self, rig: &Rig) -> Option<Result<Vec<Vec<u8>>, Error>> {
        if self.answer.is_none() {
            let answer = self.receiver.try_take()?;
            self.answer = Some(answer.unwrap_or(Err(Error::Closed)));
        }
        if self.bytes.is_none() {
            self.bytes = Some(match self.answer.as_ref()? {
                Err(error) => Err(error.clone()),
                Ok(ticket) if ticket.points.iter().all(|point| rig.has_passed(*point)) => {
                    // SAFETY: the points of the copies have passed, and the landings are removed from `self` here.
                    let take = |landing: Arc<VecLanding<u8>>| unsafe { landing.take() };
                    let bytes: Result<_, _> = self.landings.drain(..).map(take).collect();
                    bytes.map_err(Error::Failed)
                }
                Ok(_) => return None,
            });
        }
        self.bytes.clone()
    }

    /// Returns the reason of the first failure, if the answer is one.
    pub(super) fn reason(&mut self, rig: &Rig) -> Option<Reason> {
        match self.look(rig) {
            Some(Err(Error::Failed(failure))) => Some(failure.root().reason.clone()),
            _ => None,
        }
    }

    pub(super) fn is_out_of_memory(&mut self, rig: &Rig) -> bool {
        matches!(self.reason(rig), Some(Reason::OutOfMemory { .. }))
    }
}

impl Stream {
    pub(super) fn id(&self) -> StreamId {
        StreamId(self.hold.id())
    }
}

/// Sends messages, as the methods of `Stream` do.
impl Rig {
    pub(super) fn stream(&mut self) -> Stream {
        self.stream_of(Priority::Normal, 1)
    }

    pub(super) fn stream_of(&mut self, priority: Priority, weight: u32) -> Stream {
        self.registered(CLIENT, priority, weight, None)
    }

    /// Creates a stream of another client with a soft limit.
    pub(super) fn limited_stream(&mut self, soft_limit: u64) -> Stream {
        let client = ClientId(CLIENT.0 + 1);
        self.registered(client, Priority::Normal, 1, Some(soft_limit))
    }

    pub(super) fn streams<const N: usize>(&mut self) -> [Stream; N] {
        [(); N].map(|()| self.stream())
    }

    /// Creates streams, each with a slice of its own.
    pub(super) fn owners<const N: usize>(&mut self, bytes: u64) -> [(Stream, Slice); N] {
        self.streams().map(|stream| {
            let slice = self.slice(&stream, bytes);
            (stream, slice)
        })
    }

    fn registered(
        &mut self,
        client: ClientId,
        priority: Priority,
        weight: u32,
        soft_limit: Option<u64>,
    ) -> Stream {
        let hold = self.table.acquire().unwrap();
        let credit = Arc::new(Credit::new(1 << 20));
        let id = StreamId(hold.id());
        self.register(Registration::Stream(NewStream {
            id,
            client,
            client_name: "tester".into(),
            client_slot: None,
            priority,
            weight,
            soft_limit,
            credit: credit.clone(),
            credit_is_shared: false,
        }));
        self.actor
            .server
            .memory
            .accounts
            .open(client, "tester".into());
        Stream {
            hold,
            credit,
            client,
        }
    }

    /// Creates the kernel of all launches, which may have any number of bindings.
    pub(super) fn register_kernel(&mut self) -> SlotRef {
        let kernel = (0..8).fold(Kernel::new("run"), |kernel, index| {
            kernel.updates::<u8>(format!("binding {index}"))
        });
        let kernel = Arc::new(kernel);
        let hold = self.table.acquire().unwrap();
        let id = KernelId(hold.id());
        self.register(Registration::Kernel {
            id,
            kernel: kernel.clone(),
            code: kernel,
        });
        hold
    }

    pub(super) fn kernel_id(&self) -> KernelId {
        KernelId(self.kernel.as_ref().unwrap().id())
    }

    fn register(&mut self, registration: Registration) {
        self.send(Task::new(None, Op::Register(Box::new(registration))));
    }

    /// Sends a task whose credit is taken from its stream.
    pub(super) fn submit(&mut self, stream: &Stream, op: Op, bindings: &[Binding]) {
        self.submit_under(stream, op, bindings, None);
    }

    /// As `submit`, with a task that a token or a deadline may withdraw.
    pub(super) fn submit_under(
        &mut self,
        stream: &Stream,
        op: Op,
        bindings: &[Binding],
        terms: Option<Terms>,
    ) {
        stream.credit.try_acquire(1).unwrap();
        let mut task = Task::new(Some(stream.id()), op);
        task.set_bindings(bindings);
        if let Some(terms) = terms {
            task.put_under(&Arc::new(terms));
        }
        self.send(task);
    }

    pub(super) fn slice(&mut self, stream: &Stream, bytes: u64) -> Slice {
        self.slice_with(stream, bytes, Some(AllocationMode::Automatic))
    }

    pub(super) fn slices<const N: usize>(&mut self, stream: &Stream, bytes: u64) -> [Slice; N] {
        [(); N].map(|()| self.slice(stream, bytes))
    }

    pub(super) fn slice_with(
        &mut self,
        stream: &Stream,
        bytes: u64,
        mode: Option<AllocationMode>,
    ) -> Slice {
        self.slice_under(stream, bytes, mode, None)
    }

    /// As `slice_with`, with a reservation that a token or a deadline may withdraw.
    pub(super) fn slice_under(
        &mut self,
        stream: &Stream,
        bytes: u64,
        mode: Option<AllocationMode>,
        terms: Option<Terms>,
    ) -> Slice {
        let slice = Slice {
            hold: self.table.acquire().unwrap(),
            bytes,
        };
        let op = Op::Reserve {
            client: stream.client,
            mode,
            position: 0,
        };
        self.submit_under(stream, op, &[slice.write()], terms);
        slice
    }

    pub(super) fn launch(&mut self, stream: &Stream, number: u64, bindings: &[Binding]) {
        self.launch_counted(stream, number, bindings, LaunchCount::Static([1; 3]));
    }

    /// Sends a launch. If its count is dynamic, its last binding is the count.
    pub(super) fn launch_counted(
        &mut self,
        stream: &Stream,
        number: u64,
        bindings: &[Binding],
        count: LaunchCount,
    ) {
        stream.credit.try_acquire(1).unwrap();
        let kernel = self.kernel_id();
        let mut task = Task::new(Some(stream.id()), Op::Launch { kernel, count });
        task.set_bindings(bindings);
        task.set_words(&[number]);
        self.send(task);
    }

    pub(super) fn copy_out(&mut self, stream: &Stream, sources: &[Binding]) -> Answer {
        self.copy_out_under(stream, sources, None)
    }

    pub(super) fn copy_out_under(
        &mut self,
        stream: &Stream,
        sources: &[Binding],
        terms: Option<Terms>,
    ) -> Answer {
        let (sender, receiver) = reply();
        let landings: Vec<_> = sources
            .iter()
            .map(|source| VecLanding::<u8>::new(source.len as usize).unwrap())
            .collect();
        let copy = CopyOut {
            landings: landings
                .iter()
                .map(|landing| landing.clone() as Arc<dyn Landing>)
                .collect(),
            reply: sender,
            tag: None,
        };
        self.submit_under(stream, Op::CopyOut(Box::new(copy)), sources, terms);
        Answer {
            receiver,
            answer: None,
            bytes: None,
            landings,
        }
    }

    pub(super) fn sync(&mut self, stream: &Stream) -> Answer {
        let (sender, receiver) = reply();
        self.submit(stream, Op::Answer(sender), &[]);
        Answer::of(receiver)
    }

    pub(super) fn sync_all(&mut self, scope: Scope) -> Answer {
        let (sender, receiver) = reply();
        let request = DeviceRequest::Sync {
            scope,
            reply: sender,
        };
        self.send(Task::new(None, Op::Device(Box::new(request))));
        Answer::of(receiver)
    }

    pub(super) fn cleanup(&mut self) {
        let request = DeviceRequest::Cleanup(reply().0);
        self.send(Task::new(None, Op::Device(Box::new(request))));
    }

    pub(super) fn point(&mut self, stream: &Stream) -> Slice {
        let point = self.slice_with(stream, 1, None);
        self.submit(stream, Op::Mark, &[point.write()]);
        point
    }

    pub(super) fn wait_for(&mut self, stream: &Stream, point: &Slice) {
        self.submit(stream, Op::Mark, &[point.read()]);
    }

    /// Creates a recording of launches, each a number and bindings.
    pub(super) fn record(&mut self, launches: &[(u64, Vec<Binding>)]) -> Recording {
        let op = RecordedOp::Launch {
            kernel: self.kernel_id(),
            count: LaunchCount::Static([1; 3]),
        };
        let mut parameters = Parameters::default();
        let launches = launches.iter();
        let mut tasks: Vec<RecordedTask> = launches
            .map(|(number, bindings)| RecordedTask {
                op,
                bindings: bindings
                    .iter()
                    .map(|binding| parameters.add(&op, binding, (1, false)))
                    .collect(),
                scalars: [*number].into(),
                slots: Box::default(),
                metadata: Box::default(),
                tensor_maps: Box::default(),
            })
            .collect();
        parameters.place(&mut tasks);
        let tasks: Arc<[RecordedTask]> = tasks.into();
        let hold = self.table.acquire().unwrap();
        let id = RecordingId(hold.id());
        self.register(Registration::Recording {
            id,
            order: order_of(&tasks),
            tasks,
            stale: Box::default(),
        });
        Recording {
            hold,
            parameters: parameters
                .finished()
                .iter()
                .map(|parameter| parameter.binding)
                .collect(),
        }
    }

    pub(super) fn replay(
        &mut self,
        stream: &Stream,
        recording: &Recording,
        parameters: &[Binding],
    ) {
        self.submit(
            stream,
            Op::Replay {
                recording: RecordingId(recording.hold.id()),
                overlap: false,
            },
            parameters,
        );
    }
}
