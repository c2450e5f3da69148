//! A stream: a logical order of tasks that any thread may add to.

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

/// What clones of a stream share.
struct StreamShared {
    client: ComputeClient,
    /// Its epoch.
    seat: Arc<Seat>,
    credit: Arc<Credit>,
    /// Its place in the table, or why it has none.
    hold: Result<Hold, Error>,
}

/// What calls do that find no room.
#[derive(Clone)]
enum Patience {
    /// They wait for it.
    Waits,
    /// They answer [`Error::Busy`].
    Never,
    /// The same, after they have looked for what was granted to them: see [`Stream::when_room`].
    Granted(Arc<Purse>),
}

/// A logical order of tasks: what is added first runs first, as far as anybody can tell.
///
/// Cheap to clone, `Send + Sync`; it belongs to no thread. Calls return as soon as the task is in
/// the mailbox. They may wait for room there ([`Stream::nowait`] has twins that answer [`Error::Busy`] instead, and
/// [`Stream::when_room`] awaits it). In callbacks and host functions they wait for room in the mailbox alone, go beyond the other bounds by
/// [`callback_headroom`](millstream_protocol::options::DeviceOptions::callback_headroom), and answer [`Error::NoRoomHere`] where that is used up.
/// Tasks on different streams overlap unless they touch the same bytes, which orders them.
#[derive(Clone)]
pub struct Stream {
    shared: Arc<StreamShared>,
    patience: Patience,
    /// What may withdraw its tasks.
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

    /// The same stream, with calls that never wait: where there is no room they answer
    /// [`Error::Busy`], and nothing was submitted. This is the `try_` twin of every call. In a callback, where no call waits for
    /// the stream's room, they go as far beyond it as others do there.
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

    /// The same stream, with tasks that `token` withdraws while they have not been issued. What has been
    /// issued runs to its end, *detached*; [`Stream::tally`] and the token's tell how many that are.
    ///
    /// A withdrawn task keeps its place in the order. What it would have written is poisoned by
    /// [`Reason::Cancelled`](millstream_protocol::failure::Reason::Cancelled), which is what its readers are told.
    pub fn with_cancel(&self, token: &CancelToken) -> Self {
        token.ring(self.device().table());
        self.under(match self.terms.as_deref() {
            Some(terms) => terms.clone().with_cancel(token),
            None => Terms::of(token),
        })
    }

    /// The same stream, with tasks that are withdrawn if they have not been issued at `deadline`; a later
    /// deadline does not replace an earlier one. Otherwise as [`Stream::with_cancel`], with
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

    /// What has become of the tasks that were submitted with the stream's token, or with its deadline: this
    /// stream's and its clones'. Nothing for a stream without either.
    pub fn tally(&self) -> Option<Tally> {
        self.terms.as_deref().map(Terms::tally)
    }

    /// Puts a task under the stream's terms.
    #[inline(always)]
    pub(crate) fn bind_terms(&self, task: &mut Task) {
        if let Some(terms) = &self.terms {
            task.put_under(terms);
        }
    }

    /// Do calls wait for room?
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        matches!(self.patience, Patience::Waits)
    }

    /// The same stream, for calls that are tried again as `purse` is granted what they lack.
    pub(super) fn with_purse(&self, purse: Arc<Purse>) -> Self {
        Self {
            patience: Patience::Granted(purse),
            ..self.clone()
        }
    }

    /// What its calls were granted, if they are awaited.
    pub(super) fn purse(&self) -> Option<&Purse> {
        match &self.patience {
            Patience::Granted(purse) => Some(purse),
            Patience::Waits | Patience::Never => None,
        }
    }

    /// The client that made it.
    pub fn client(&self) -> &ComputeClient {
        &self.shared.client
    }

    #[inline]
    pub(crate) fn device(&self) -> &Arc<DeviceShared> {
        &self.shared.seat.device
    }

    /// Whose answers its answers are.
    #[inline]
    pub(crate) fn home(&self) -> Home {
        Home::Client(self.shared.seat.clone())
    }

    /// Its client in this epoch.
    pub(crate) fn seat(&self) -> &Seat {
        &self.shared.seat
    }

    /// Its credit for tasks that are not issued.
    pub(crate) fn credit(&self) -> &Arc<Credit> {
        &self.shared.credit
    }

    /// Its client's credit for uploads.
    pub(crate) fn uploads(&self) -> &Arc<Credit> {
        &self.shared.seat.uploads
    }

    /// Its place in the device's table, if it has one.
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

    /// Takes credit for one more task that is not issued.
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

    /// How many tasks or jobs beyond a limit a thread of the runtime may have on their way, by a call of this stream. None where it is
    /// tried again once there is room.
    pub(super) fn callback_headroom(&self) -> u64 {
        match self.purse() {
            Some(_) => 0,
            None => self.device().settings().callback_headroom,
        }
    }

    /// Where there is no room, what was granted for it is `taken`.
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

    /// Takes `amount` of a credit of its client until the room is dropped: see [`DeviceShared::room`].
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

    /// Room for one more host function, callback or value that is to be dropped.
    pub(super) fn job_room(&self, wait: bool) -> Result<Room, Error> {
        let jobs = &self.shared.seat.jobs;
        let amount = (1, self.callback_headroom());
        self.take_room(wait, jobs, amount, || full_of_jobs(jobs))
    }

    /// Reserves a slot for a task of this stream, which has paid for it: else credit is given back.
    #[inline(always)]
    pub(crate) fn slot(&self, wait: bool) -> Result<Slot<'_>, Error> {
        // Written out, so that an error's size is copied only where there is one.
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

    /// Sends a task of this stream. May wait for room.
    pub(crate) fn submit(
        &self,
        wait: bool,
        op: Op,
        fill: impl FnOnce(&mut Task),
    ) -> Result<(), Error> {
        self.submit_in_turn(wait, op, fill, || ())
    }

    /// As [`Stream::submit`], with a `turn` that is taken between the wait for the stream's room and the sending.
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

    /// As [`Stream::submit`], for a task that takes a value of the caller along, which comes back unless the task was
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

    /// As [`Stream::submit`], for what is built when the stream has room for it, by a closure that may panic.
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

    /// Is the handle of this device?
    #[inline]
    pub(crate) fn own<T: Element>(&self, handle: &Handle<T>) -> Result<(), Error> {
        if Arc::ptr_eq(handle.hold().table(), self.device().table()) {
            Ok(())
        } else {
            Err(self.device().foreign("handle", handle.hold().table()))
        }
    }

    /// Submits what the stream holds. A stream flushes by itself when the device has nothing better
    /// to do; this only says not to wait for more. May wait for room in the mailbox.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn flush(&self) -> Result<(), Error> {
        let stream = self.known()?;
        self.device()
            .send(self.waits(), Task::new(Some(stream), Op::Flush))
    }

    /// When everything added to the stream so far has completed. Failures of tasks travel with the
    /// data that they would have written, not with this answer. Asking may wait for room in the mailbox.
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
