//! A logical order of tasks that any thread may add to.

use std::sync::Arc;
use std::time::Instant;

use millstream_protocol::cancel::{CancelToken, Tally, Terms};
use millstream_protocol::channel::Slot;
use millstream_protocol::element::Element;
use millstream_protocol::error::{Error, Full};
use millstream_protocol::id::StreamId;
use millstream_protocol::message::{Op, Registration, Task};
use millstream_protocol::table::Hold;
use millstream_sync::credit::Credit;
use millstream_sync::reply::reply;

use crate::handle::Handle;
use crate::purse::Purse;
use crate::room::full_of_jobs;
use crate::{ComputeClient, DeviceShared, Finish, Home, Pending, Returned, Room, Seat};

/// State shared by the clones of a stream.
struct StreamShared {
    client: ComputeClient,
    /// The client's state in the epoch in which the stream was made.
    seat: Arc<Seat>,
    credit: Arc<Credit>,
    /// The stream's slot in the table, or why it has none.
    hold: Result<Hold, Error>,
}

/// What a call does if it finds no room.
#[derive(Clone)]
enum Patience {
    /// It blocks.
    Waits,
    /// It returns [`Error::Busy`].
    Never,
    /// It uses credit that was granted to it before, or returns [`Error::Busy`]: see [`Stream::when_room`].
    Granted(Arc<Purse>),
}

/// A logical order of tasks: tasks take effect in the order in which they were added.
///
/// Cheap to clone and `Send + Sync`; no thread owns it. A call returns as soon as its task is in
/// the mailbox. Tasks of different streams overlap, unless they touch the same bytes, which orders them.
///
/// Calls may block if there is no room for the task. [`Stream::nowait`] returns a stream whose calls return
/// [`Error::Busy`] instead, and [`Stream::when_room`] awaits room. In callbacks and host functions calls block only
/// while the mailbox is full; they exceed the other limits by up to
/// [`callback_headroom`](millstream_protocol::options::DeviceOptions::callback_headroom), and return
/// [`Error::NoRoomHere`] beyond it.
#[derive(Clone)]
pub struct Stream {
    shared: Arc<StreamShared>,
    patience: Patience,
    /// The token and deadline that may withdraw its tasks.
    terms: Option<Arc<Terms>>,
}

impl Stream {
    pub(crate) fn new(client: ComputeClient) -> Self {
        let seat = client.seat();
        let device = &seat.device;
        let own = || Arc::new(Credit::new(device.settings().max_held));
        let credit = seat.tasks.clone().unwrap_or_else(own);
        let credit_is_shared = seat.tasks.is_some();
        let hold = device.slot(true).and_then(|hold| {
            let id = StreamId(hold.id());
            device.register(Registration::Stream {
                id,
                client: client.shared.id,
                client_name: client.shared.name.clone(),
                seat: seat.id(),
                priority: client.shared.priority,
                weight: client.shared.weight,
                soft_limit: client.shared.soft_limit,
                credit: credit.clone(),
                credit_is_shared,
            })?;
            Ok(hold)
        });
        Self {
            shared: Arc::new(StreamShared {
                client,
                seat,
                credit,
                hold,
            }),
            patience: Patience::Waits,
            terms: None,
        }
    }

    /// Returns the same stream with calls that never block: if there is no room they return [`Error::Busy`], and
    /// nothing is submitted. This is the `try_` variant of every call. In callbacks and host functions, where no call
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
            patience: match &self.patience {
                Patience::Waits => Patience::Never,
                never => never.clone(),
            },
            ..self.clone()
        }
    }

    /// Returns the same stream with tasks that `token` can withdraw until they are issued. Tasks that have been
    /// issued run to their end, *detached*; [`Stream::tally`] and the token's tally count them.
    ///
    /// A withdrawn task keeps its place in the order. The data that it would have written is poisoned with
    /// [`Reason::Cancelled`](millstream_protocol::failure::Reason::Cancelled), which tasks and callers that read the
    /// data receive.
    pub fn with_cancel(&self, token: &CancelToken) -> Self {
        token.ring(self.device().table());
        self.under(match self.terms.as_deref() {
            Some(terms) => terms.clone().with_cancel(token),
            None => Terms::of(token),
        })
    }

    /// Returns the same stream with tasks that are withdrawn if they have not been issued at `deadline`. A later
    /// deadline does not replace an earlier one. Otherwise like [`Stream::with_cancel`], with
    /// [`Reason::DeadlinePassed`](millstream_protocol::failure::Reason::DeadlinePassed).
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

    /// Attaches the stream's token and deadline to a task.
    #[inline(always)]
    pub(crate) fn bind_terms(&self, task: &mut Task) {
        if let Some(terms) = &self.terms {
            task.put_under(terms);
        }
    }

    /// Whether calls block if there is no room.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        matches!(self.patience, Patience::Waits)
    }

    /// Returns the same stream with calls that spend the credit granted to `purse`.
    pub(super) fn with_purse(&self, purse: Arc<Purse>) -> Self {
        Self {
            patience: Patience::Granted(purse),
            ..self.clone()
        }
    }

    /// Returns the credit granted to its calls, if they are awaited.
    pub(super) fn purse(&self) -> Option<&Purse> {
        match &self.patience {
            Patience::Granted(purse) => Some(purse),
            Patience::Waits | Patience::Never => None,
        }
    }

    /// Returns the client that made the stream.
    pub fn client(&self) -> &ComputeClient {
        &self.shared.client
    }

    #[inline]
    pub(crate) fn device(&self) -> &Arc<DeviceShared> {
        &self.shared.seat.device
    }

    /// Returns the origin of the stream's answers.
    #[inline]
    pub(crate) fn home(&self) -> Home {
        Home::Client(self.shared.seat.clone())
    }

    /// Returns the client's state in the stream's epoch.
    pub(crate) fn seat(&self) -> &Seat {
        &self.shared.seat
    }

    /// Returns the credit for tasks that are not issued.
    pub(crate) fn credit(&self) -> &Arc<Credit> {
        &self.shared.credit
    }

    /// Returns the client's credit for uploads.
    pub(crate) fn uploads(&self) -> &Arc<Credit> {
        &self.shared.seat.uploads
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
    pub(crate) fn known(&self) -> Result<StreamId, Error> {
        match &self.shared.hold {
            Ok(hold) => Ok(StreamId(hold.id())),
            Err(error) => Err(error.clone()),
        }
    }

    /// Acquires credit for one more task that is not issued.
    #[inline]
    pub(crate) fn pay(&self, wait: bool) -> Result<(), Error> {
        if self.shared.credit.try_acquire(1).is_ok() {
            return Ok(());
        }
        self.pay_slowly(wait)
    }

    #[cold]
    fn pay_slowly(&self, wait: bool) -> Result<(), Error> {
        let credit = &self.shared.credit;
        let full = || Full::Stream {
            held: credit.in_use(),
            limit: credit.limit(),
        };
        let amount = (1, self.callback_headroom());
        let paid = self.device().wait_for_credit(wait, credit, amount, full);
        self.or_granted(paid, credit, 1, || ())
    }

    /// Returns how many tasks or jobs a call on a thread of the runtime may have in flight beyond a limit. Zero for a
    /// call that is retried once there is room.
    pub(super) fn callback_headroom(&self) -> u64 {
        match self.purse() {
            Some(_) => 0,
            None => self.device().settings().callback_headroom,
        }
    }

    /// If acquiring failed with [`Error::Busy`], spends credit granted before and returns `granted()`.
    fn or_granted<T>(
        &self,
        taken: Result<T, Error>,
        credit: &Arc<Credit>,
        amount: u64,
        granted: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        match (taken, self.purse()) {
            (Err(Error::Busy { .. }), Some(purse)) if purse.spend(credit, amount) => Ok(granted()),
            (taken, _) => taken,
        }
    }

    /// Acquires `amount` of a credit of the client until the permit is dropped: see [`DeviceShared::room`].
    pub(super) fn take_room(
        &self,
        wait: bool,
        credit: &Arc<Credit>,
        (amount, headroom): (u64, u64),
        full: impl FnOnce() -> Full,
    ) -> Result<Room, Error> {
        let room = self.device().room(wait, credit, (amount, headroom), full);
        self.or_granted(room, credit, amount, || Room::taken(credit, amount))
    }

    /// Acquires a permit for one more host function, callback or deferred drop.
    pub(super) fn job_room(&self, wait: bool) -> Result<Room, Error> {
        let jobs = &self.shared.seat.jobs;
        let amount = (1, self.callback_headroom());
        self.take_room(wait, jobs, amount, || full_of_jobs(jobs))
    }

    /// Reserves a mailbox slot for a task whose credit has been acquired. On failure releases that credit.
    #[inline(always)]
    pub(crate) fn slot(&self, wait: bool) -> Result<Slot<'_>, Error> {
        // A match and not `map_err`, so that the error, which is large, is copied only on failure.
        match Slot::reserve(self.device().channel(), wait) {
            Ok(slot) => Ok(slot),
            Err(refusal) => Err(self.refund(self.device().refused(refusal))),
        }
    }

    #[cold]
    fn refund(&self, error: Error) -> Error {
        self.shared.credit.release(1);
        error
    }

    /// Submits a task. May block for room if `wait` is set.
    pub(crate) fn submit(
        &self,
        wait: bool,
        op: Op,
        fill: impl FnOnce(&mut Task),
    ) -> Result<(), Error> {
        self.submit_in_turn(wait, op, fill, || ())
    }

    /// As [`Stream::submit`]; calls `turn` after the credit is acquired and before the message is sent.
    pub(super) fn submit_in_turn(
        &self,
        wait: bool,
        op: Op,
        fill: impl FnOnce(&mut Task),
        turn: impl FnOnce(),
    ) -> Result<(), Error> {
        let stream = self.known()?;
        self.pay(wait)?;
        turn();
        let mut message = self.slot(wait)?.begin(Some(stream), op);
        fill(&mut message);
        self.bind_terms(&mut message);
        message.send();
        Ok(())
    }

    /// As [`Stream::submit`], for a task that takes a value of the caller, which is handed back unless the task was
    /// sent.
    pub(crate) fn submit_value<V>(
        &self,
        wait: bool,
        value: V,
        op: impl FnOnce(V) -> Op,
        fill: impl FnOnce(&mut Task),
    ) -> Result<(), Returned<V>> {
        let begun = self.known().and_then(|stream| {
            self.pay(wait)?;
            Ok((stream, self.slot(wait)?))
        });
        let (stream, slot) = match begun {
            Ok(begun) => begun,
            Err(error) => return Err(Returned { value, error }),
        };
        let mut message = slot.begin(Some(stream), op(value));
        fill(&mut message);
        self.bind_terms(&mut message);
        message.send();
        Ok(())
    }

    /// As [`Stream::submit`]; `build` runs once the stream has room, and may panic.
    pub(crate) fn submit_with(
        &self,
        wait: bool,
        build: impl FnOnce(&mut Task),
    ) -> Result<(), Error> {
        let stream = self.known()?;
        self.pay(wait)?;
        let mut task = Task::new(Some(stream), Op::Taken);
        build(&mut task);
        self.bind_terms(&mut task);
        self.slot(wait)?.send(task);
        Ok(())
    }

    /// Returns an error unless the handle is of this device.
    #[inline]
    pub(crate) fn own<T: Element>(&self, handle: &Handle<T>) -> Result<(), Error> {
        if Arc::ptr_eq(handle.hold().table(), self.device().table()) {
            Ok(())
        } else {
            Err(self.device().foreign("handle", handle.hold().table()))
        }
    }

    /// Submits the tasks that the stream holds. A stream flushes automatically when the device is idle; this call only
    /// skips the batching. May block while the mailbox is full.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn flush(&self) -> Result<(), Error> {
        let stream = self.known()?;
        self.device()
            .send(self.waits(), Task::new(Some(stream), Op::Flush))
    }

    /// Waits for all tasks added to the stream so far. A task's failure poisons the data that it would have
    /// written; it is not reported here. May block while the mailbox is full.
    pub fn sync(&self) -> Pending<()> {
        let (sender, receiver) = reply();
        match self.submit(self.waits(), Op::Answer(sender), |_| {}) {
            Ok(()) => Pending::ticket(self.home(), receiver, Finish::Value(())),
            Err(error) => Pending::failed(self.home(), error),
        }
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream({:?} of {:?})", self.id(), self.client())
    }
}
