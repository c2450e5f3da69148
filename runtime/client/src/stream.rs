//! A logical order of tasks that any thread may add to.

use std::sync::Arc;
use std::time::Instant;

use millstream_protocol::{
    AtLimit, CancelToken, Error, Full, Holding, NewStream, Op, Printed, Registration, Scope, Slot,
    SlotRef, Stored, StreamId, Tally, Task, Terms,
};
use millstream_sync::credit::{Credit, Exceeded};
use millstream_sync::reply::reply;

use crate::backpressure::{Wait, jobs_full};
use crate::grants::Grants;
use crate::handle::Handle;
use crate::{
    ClientEpoch, ComputeClient, DeviceShared, Finish, Pending, Permit, Requester, Returned,
};

/// State shared by the clones of a stream.
struct StreamShared {
    client: ComputeClient,
    /// The client's state in the epoch in which the stream was made.
    epoch: Arc<ClientEpoch>,
    credit: Arc<Credit>,
    /// Its part of the client's memory, if the client waits at its limit.
    holding: Option<Arc<Holding>>,
    /// The stream's slot in the table, or why it has none.
    hold: Result<SlotRef, Error>,
}

/// What a call does if it finds no room.
#[derive(Clone)]
enum OnFull {
    /// It blocks.
    Block,
    /// It returns [`Error::Busy`].
    Fail,
    /// It uses credit that was granted to it before, or returns [`Error::Busy`]: see [`Stream::when_ready`].
    Granted(Arc<Grants>),
}

/// A logical order of tasks: tasks take effect in the order in which they were added.
///
/// Cheap to clone and `Send + Sync`; no thread owns it. A call returns as soon as its task is in
/// the mailbox. Tasks of different streams overlap, unless they touch the same bytes, which orders them.
///
/// Calls may block if there is no room for the task. [`Stream::nowait`] returns a stream whose calls return
/// [`Error::Busy`] instead, and [`Stream::when_ready`] awaits room. In callbacks and host functions calls block only
/// while the mailbox is full; they exceed the other limits by up to
/// [`callback_headroom`](millstream_protocol::DeviceOptions::callback_headroom), and return
/// [`Error::NoRoomHere`] beyond it.
#[derive(Clone)]
pub struct Stream {
    shared: Arc<StreamShared>,
    on_full: OnFull,
    /// The token and deadline that may withdraw its tasks.
    terms: Option<Arc<Terms>>,
}

impl ComputeClient {
    /// Creates a stream. Costs one message and no thread; thousands of streams are fine.
    ///
    /// May block while the mailbox is full, or while no slot is free
    /// ([`max_handles`](millstream_protocol::DeviceOptions::max_handles)). If the device is closed, the
    /// stream's calls return the error.
    pub fn new_stream(&self) -> Stream {
        Stream::new(self.clone())
    }

    /// Submits the tasks that these streams hold. Duplicates have no effect.
    ///
    /// May block while the mailbox is full.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn flush<'a>(&self, streams: impl IntoIterator<Item = &'a Stream>) -> Result<(), Error> {
        let ids = streams.into_iter().filter_map(Stream::id).collect();
        self.device().flush(Scope::Streams(ids))
    }
}

impl Stream {
    pub(crate) fn new(client: ComputeClient) -> Self {
        let epoch = client.client_epoch();
        let device = &epoch.device;
        let own = || Arc::new(Credit::new(device.settings().max_held));
        let credit = epoch.tasks.clone().unwrap_or_else(own);
        let credit_is_shared = epoch.tasks.is_some();
        let limit = epoch.limit.as_ref();
        let holding = limit
            .filter(|limit| limit.at_limit == AtLimit::Wait)
            .map(|_| Arc::default());
        let hold = device.slot(true).and_then(|hold| {
            let id = StreamId(hold.id());
            device.register(Registration::Stream(NewStream {
                id,
                client: client.shared.id,
                client_name: client.shared.name.clone(),
                client_slot: epoch.id(),
                priority: client.shared.priority,
                weight: client.shared.weight,
                soft_limit: client.shared.soft_limit,
                credit: credit.clone(),
                credit_is_shared,
            }))?;
            Ok(hold)
        });
        Self {
            shared: Arc::new(StreamShared {
                client,
                epoch,
                credit,
                holding,
                hold,
            }),
            on_full: OnFull::Block,
            terms: None,
        }
    }

    /// Returns the same stream with calls that never block: if there is no room they return [`Error::Busy`], and
    /// nothing is submitted. In callbacks and host functions, where no call
    /// waits for credit, these calls exceed the limits by the headroom as all calls there do.
    ///
    /// ```
    /// # fn f(stream: &millstream_client::Stream, values: &millstream_client::handle::Handle<u32>) {
    /// if let Err(busy) = stream.nowait().fill(values, 0) {
    ///     println!("not now: {busy}");
    /// }
    /// # }
    /// ```
    pub fn nowait(&self) -> Self {
        Self {
            on_full: match &self.on_full {
                OnFull::Block => OnFull::Fail,
                other => other.clone(),
            },
            ..self.clone()
        }
    }

    /// Returns the same stream with tasks that `token` can withdraw until they begin: on a GPU until they are issued, on
    /// the CPU until their queue takes them up ([`CancelToken`](millstream_protocol::CancelToken)). Tasks that have begun run to their
    /// end, *detached*; [`Stream::tally`] and the token's tally count them.
    ///
    /// A withdrawn task keeps its place in the order. The data that it would have written is poisoned with
    /// [`Reason::Cancelled`](millstream_protocol::Reason::Cancelled), which tasks and callers that read the
    /// data receive.
    pub fn with_cancel(&self, token: &CancelToken) -> Self {
        token.ring(self.device().table());
        self.under(match self.terms.as_deref() {
            Some(terms) => terms.clone().with_cancel(token),
            None => Terms::of(token),
        })
    }

    /// Returns the same stream with tasks that are withdrawn if they have not begun at `deadline`. A later
    /// deadline does not replace an earlier one. Otherwise like [`Stream::with_cancel`], with
    /// [`Reason::DeadlinePassed`](millstream_protocol::Reason::DeadlinePassed).
    pub fn with_deadline(&self, deadline: Instant) -> Self {
        let terms = match self.terms.as_deref() {
            Some(terms) => terms.clone(),
            None => Terms::of(&CancelToken::new()),
        };
        self.under(terms.with_deadline(deadline))
    }

    fn under(&self, terms: Terms) -> Self {
        Self {
            terms: Some(Arc::new(terms)),
            ..self.clone()
        }
    }

    /// Returns counts of the tasks that this stream and its clones submitted under the stream's token or deadline, by
    /// outcome. `None` for a stream without either.
    pub fn tally(&self) -> Option<Tally> {
        self.terms.as_deref().map(Terms::tally)
    }

    /// Returns the stream's part of the client's memory, if the client waits at its limit.
    pub(super) fn holding(&self) -> Option<&Arc<Holding>> {
        self.shared.holding.as_ref()
    }

    /// Returns `true` if requests for this credit wait ahead of others: those for memory of a stream that has some,
    /// since its work may have to go on before that memory returns.
    pub(super) fn is_ahead_for(&self, credit: &Arc<Credit>) -> bool {
        let limit = self.shared.epoch.limit.as_ref();
        let is_memory = limit.is_some_and(|limit| Arc::ptr_eq(&limit.memory, credit));
        is_memory && self.holding().is_some_and(|holding| holding.is_some())
    }

    /// Returns the deadline of the stream.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.terms.as_deref().and_then(Terms::deadline)
    }

    /// Attaches the stream's token and deadline to a task.
    #[inline(always)]
    pub(crate) fn bind_terms(&self, task: &mut Task) {
        if let Some(terms) = &self.terms {
            task.put_under(terms);
        }
    }

    /// Returns `true` if calls block while there is no room, and `false` for [`Stream::nowait`] and in the attempts of
    /// [`Stream::when_ready`].
    #[inline]
    pub fn waits(&self) -> bool {
        matches!(self.on_full, OnFull::Block)
    }

    /// Returns the same stream with calls that spend the credit granted to `grants`.
    pub(super) fn with_grants(&self, grants: Arc<Grants>) -> Self {
        Self {
            on_full: OnFull::Granted(grants),
            ..self.clone()
        }
    }

    /// Returns the credit granted to its calls, if they are awaited.
    pub(super) fn grants(&self) -> Option<&Grants> {
        match &self.on_full {
            OnFull::Granted(grants) => Some(grants),
            OnFull::Block | OnFull::Fail => None,
        }
    }

    /// Returns the client that made the stream.
    pub fn client(&self) -> &ComputeClient {
        &self.shared.client
    }

    #[inline]
    pub(crate) fn device(&self) -> &Arc<DeviceShared> {
        &self.shared.epoch.device
    }

    /// Returns the origin of the stream's answers.
    #[inline]
    pub(crate) fn requester(&self) -> Requester {
        Requester::Client(self.shared.epoch.clone())
    }

    /// Returns the client's state in the stream's epoch.
    pub(crate) fn epoch(&self) -> &ClientEpoch {
        &self.shared.epoch
    }

    /// Returns the credit for tasks that are not issued.
    pub(crate) fn credit(&self) -> &Arc<Credit> {
        &self.shared.credit
    }

    /// Returns the client's credit for uploads.
    pub(crate) fn uploads(&self) -> &Arc<Credit> {
        &self.shared.epoch.uploads
    }

    /// Returns the stream's id: its slot in the device's table. `None` if it could not be registered.
    #[inline]
    pub fn id(&self) -> Option<StreamId> {
        self.shared
            .hold
            .as_ref()
            .ok()
            .map(|hold| StreamId(hold.id()))
    }

    #[inline]
    pub(crate) fn registered_id(&self) -> Result<StreamId, Error> {
        match &self.shared.hold {
            Ok(hold) => Ok(StreamId(hold.id())),
            Err(error) => Err(error.clone()),
        }
    }

    /// Acquires credit for one more task that is not issued.
    #[inline]
    pub(crate) fn acquire_task_credit(&self) -> Result<(), Error> {
        self.acquire_tasks(1)
    }

    /// Acquires credit for `tasks`, together.
    #[inline]
    pub(crate) fn acquire_tasks(&self, tasks: u64) -> Result<(), Error> {
        if self.shared.credit.try_acquire(tasks).is_ok() {
            return Ok(());
        }
        self.acquire_tasks_slow(tasks)
    }

    #[cold]
    fn acquire_tasks_slow(&self, tasks: u64) -> Result<(), Error> {
        let credit = &self.shared.credit;
        let amount = (tasks, self.callback_headroom());
        self.wait_for_credit(None, credit, amount, |seen| Full::Stream {
            held: seen.in_use,
            limit: seen.limit,
        })
    }

    /// Returns how many tasks or jobs a call on a thread of the runtime may have in flight beyond a limit. Zero for a
    /// call that is retried once there is room.
    pub(super) fn callback_headroom(&self) -> u64 {
        match self.grants() {
            Some(_) => 0,
            None => self.device().settings().callback_headroom,
        }
    }

    /// As [`DeviceShared::wait_for_credit`]; an awaited call spends credit that was granted to it before.
    fn wait_for_credit(
        &self,
        deadline: Option<Instant>,
        credit: &Arc<Credit>,
        (amount, headroom): (u64, u64),
        full: impl FnOnce(Exceeded) -> Full,
    ) -> Result<(), Error> {
        let wait = Wait {
            blocks: self.waits(),
            is_ahead: self.is_ahead_for(credit),
            deadline,
        };
        let device = self.device();
        match (
            device.wait_for_credit(wait, credit, (amount, headroom), full),
            self.grants(),
        ) {
            (Err(Error::Busy { .. }), Some(grants)) if grants.spend(credit, amount) => Ok(()),
            (taken, _) => taken,
        }
    }

    /// Acquires `amount` of a credit of the client until the permit is dropped. Blocks at most until `deadline`, and then
    /// returns [`Error::Busy`].
    pub(super) fn permit(
        &self,
        deadline: Option<Instant>,
        credit: &Arc<Credit>,
        (amount, headroom): (u64, u64),
        full: impl FnOnce(Exceeded) -> Full,
    ) -> Result<Permit, Error> {
        match self.device().try_permit(credit, amount) {
            Some(permit) => Ok(permit),
            None => self
                .wait_for_credit(deadline, credit, (amount, headroom), full)
                .map(|()| Permit::new(credit, amount)),
        }
    }

    /// Acquires a permit for one more host function, callback or deferred drop.
    pub(super) fn job_permit(&self) -> Result<Permit, Error> {
        let jobs = &self.shared.epoch.jobs;
        let amount = (1, self.callback_headroom());
        self.permit(None, jobs, amount, jobs_full)
    }

    /// Reserves a mailbox slot for a task whose credit has been acquired. On failure releases that credit.
    #[inline(always)]
    pub(crate) fn slot(&self) -> Result<Slot<'_>, Error> {
        if let Err(forked) = self.device().check_process() {
            return Err(self.release_task_credit(forked));
        }
        // A match and not `map_err`, so that the error, which is large, is copied only on failure.
        match Slot::reserve(self.device().channel(), self.waits()) {
            Ok(slot) => Ok(slot),
            Err(refusal) => Err(self.release_task_credit(self.device().refused(refusal))),
        }
    }

    #[cold]
    fn release_task_credit(&self, error: Error) -> Error {
        self.shared.credit.release(1);
        error
    }

    /// Acquires the credit of a task and a mailbox slot. May block for room, unless the stream does not.
    #[inline]
    pub(crate) fn task_slot(&self) -> Result<(StreamId, Slot<'_>), Error> {
        let stream = self.registered_id()?;
        self.acquire_task_credit()?;
        Ok((stream, self.slot()?))
    }

    /// Sends a task in its slot.
    #[inline]
    pub(crate) fn send(
        &self,
        (stream, slot): (StreamId, Slot<'_>),
        op: Op,
        fill: impl FnOnce(&mut Task),
    ) {
        let mut message = slot.begin(Some(stream), op);
        fill(&mut message);
        self.bind_terms(&mut message);
        message.send();
    }

    /// Submits a task. May block for room, unless the stream does not.
    pub(crate) fn submit(&self, op: Op, fill: impl FnOnce(&mut Task)) -> Result<(), Error> {
        self.send(self.task_slot()?, op, fill);
        Ok(())
    }

    /// As [`Stream::submit`], for a task that takes a value of the caller, which is handed back unless the task was
    /// sent.
    pub(crate) fn submit_value<V>(
        &self,
        value: V,
        op: impl FnOnce(V) -> Op,
        fill: impl FnOnce(&mut Task),
    ) -> Result<(), Returned<V>> {
        match self.task_slot() {
            Ok(slot) => {
                self.send(slot, op(value), fill);
                Ok(())
            }
            Err(error) => Err(Returned { value, error }),
        }
    }

    /// Returns `true` if the handle is of the stream's device, in the same epoch.
    #[inline]
    pub fn owns<T: Stored>(&self, handle: &Handle<T>) -> bool {
        Arc::ptr_eq(handle.hold().table(), self.device().table())
    }

    /// Returns an error unless the handle is of this device.
    #[inline]
    pub(crate) fn check_handle<T: Stored>(&self, handle: &Handle<T>) -> Result<(), Error> {
        self.device().check_handle(handle)
    }

    /// Submits the tasks that the stream holds. A stream flushes automatically when the device is idle; this call only
    /// skips the batching. May block while the mailbox is full.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn flush(&self) -> Result<(), Error> {
        let stream = self.registered_id()?;
        self.device()
            .send(self.waits(), Task::new(Some(stream), Op::Flush))
    }

    /// Returns an answer that is ready once all tasks added to the stream so far have completed. A task's failure
    /// poisons the data that it would have written; it is not reported here. May block while the mailbox is full.
    pub fn sync(&self) -> Pending<()> {
        let (sender, receiver) = reply();
        match self.submit(Op::Answer(sender), |_| {}) {
            Ok(()) => Pending::ticket(self.requester(), receiver, Finish::Value(())),
            Err(error) => Pending::failed(self.requester(), error),
        }
    }

    /// Returns an answer with what the kernels of the tasks added to the stream so far have printed, in order: that of a task
    /// by the numbers of its threads, and each line once. Lines of later tasks that have run by then are behind them.
    /// A task has at most 1,000 lines ([`PRINTED_LINES_MAX`](millstream_protocol::PRINTED_LINES_MAX)), those of its first
    /// threads; a line without a thread says how many more there were. Of lines that no call has returned, the device keeps
    /// the newest 10,000. May block while the mailbox is full.
    ///
    /// The CPU and the simulator print; other devices refuse to prepare a kernel that does.
    pub fn printed(&self) -> Pending<Vec<Printed>> {
        let (sender, receiver) = reply();
        let submitted = self.registered_id().and_then(|id| {
            self.submit(Op::Answer(sender), |_| {})?;
            Ok(id)
        });
        match submitted {
            Ok(id) => {
                let table = self.device().table().clone();
                let take = move || Ok(table.sink().prints.take(id));
                Pending::ticket(self.requester(), receiver, Finish::Made(Box::new(take)))
            }
            Err(error) => Pending::failed(self.requester(), error),
        }
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({:?} of {:?})", self.id(), self.client())
    }
}
