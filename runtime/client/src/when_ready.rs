//! Awaits room for a call. No thread, no timer, and no polling between attempts.
//!
//! # Protocol
//! ```text
//!   attempt the call ──Ok, or another error──► return it
//!      ▲        │ Busy
//!      │        ├─ credit is short: enter its wait list ──► granted: the grant is in `Grants` ──┐
//!      │        └─ mailbox or table is full: enter its wait list ──► woken ─────────────────────┤
//!      └────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//! Credit is granted in the order of the wait list and belongs to the future from then on: the next attempt spends it,
//! and no other caller can take it, so no caller starves. A mailbox slot cannot be held in advance, since messages have
//! one total order: a woken future that finds the slot taken keeps its place in the mailbox's wait list.
//!
//! There is no cycle of waits: the order is memory, then uploads and jobs, then tasks. A future that is short of one of
//! these releases what it was granted of the later ones before it waits. Dropping the future releases every grant and leaves both wait
//! lists.
//!
//! # Example: a full stream
//! ```text
//!  future F                                  thread T                       device thread
//!  attempt: Busy, short of 1 task
//!  enters the credit's wait list
//!                                            fill: others wait, enters
//!                                            the list behind F
//!                                                                           issues a task: grants 1 to F, wakes it
//!  adds the grant to `Grants`
//!  attempt: spends the grant, sends
//! ```
//! The models `credit` (places) and `mailbox` (tasks that wait) of `loom-tests` and the module `when_ready` of
//! the conformance suite check this.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use millstream_protocol::{ComputeChannel, Error, Full};
use millstream_sync::credit::{AcquireError, Credit, QueuedRequest};
use millstream_sync::mailbox::RoomPlace;

use crate::Stream;
use crate::grants::Grants;

/// Polls of the mailbox before the future yields to other tasks of the executor. Other senders may take a free slot
/// first, any number of times.
const POLLS_MAX: u32 = 16;

impl Stream {
    /// Makes a call once there is room for it: the async variant of every call. `attempt` receives the same stream with
    /// calls that never block. If it returns [`Error::Busy`], the future waits until there is room for what was short,
    /// and calls it again. `attempt` should make one call: calls that precede the failed one are repeated.
    ///
    /// ```
    /// # use millstream_client::Stream;
    /// # use millstream_protocol::Error;
    /// # use millstream_client::handle::Handle;
    /// async fn halves(stream: &Stream, request: Vec<f32>) -> Result<Vec<f32>, Error> {
    ///     let mut request = request;
    ///     let upload = |stream: &Stream| {
    ///         let uploaded = stream.create_owned(std::mem::take(&mut request));
    ///         uploaded.map_err(|returned| returned.restore(&mut request))
    ///     };
    ///     let values = stream.when_ready(upload).await?;
    ///     stream.when_ready(|stream| stream.fill(&values, 0.5)).await?;
    ///     stream.when_ready(|stream| stream.read(&values).submitted()).await?.await
    /// }
    /// ```
    ///
    /// Callers that wait for memory, tasks, uploads or jobs of one client are served in the order of their requests, blocking
    /// calls included. Those that wait for the mailbox compete with blocking calls on equal terms. Dropping the future
    /// releases everything. A woken future holds its room until it is polled or dropped, so keep polling it: one that is
    /// forgotten ([`std::mem::forget`]) holds what it was granted, and its place in the order, for good. A driven
    /// device must be pumped by another task or thread.
    ///
    /// The future sets no timer; to give up earlier, drop it, for example with the executor's timeout. If it is polled
    /// after the deadline of the stream while it waits for the client's memory, it returns [`Error::Busy`].
    ///
    /// # Errors
    /// The errors of `attempt`; [`Error::DeviceLost`] or [`Error::Closed`] if the device ends during the wait.
    /// [`Error::Busy`] if waiting cannot help: for a request above the whole limit, for a sequence of readbacks, which
    /// waits for its consumer, and for limits of other streams.
    pub async fn when_ready<T>(
        &self,
        mut attempt: impl FnMut(&Stream) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let grants = Arc::new(Grants::default());
        let stream = self.with_grants(grants.clone());
        let mut waiting = Waiting {
            stream: &stream,
            grants,
            place: None,
            polls: 0,
        };
        loop {
            waiting.grants.take_shortfall();
            match attempt(&stream) {
                Err(busy @ Error::Busy { .. }) => waiting.room_after(busy).await?,
                outcome => return outcome,
            }
        }
    }
}

/// A call that is attempted until it finds room.
struct Waiting<'a> {
    stream: &'a Stream,
    grants: Arc<Grants>,
    /// Its place in the mailbox's wait list, from the first time the mailbox was full.
    place: Option<RoomPlace>,
    polls: u32,
}

impl Waiting<'_> {
    /// Waits for the capacity that the call was short of.
    async fn room_after(&mut self, busy: Error) -> Result<(), Error> {
        match (self.grants.take_shortfall(), &busy) {
            (Some((credit, amount)), _) => match self.credit(&credit, amount).await {
                Some(Ok(())) => {
                    self.grants.add(&credit, amount);
                    Ok(())
                }
                Some(Err(AcquireError::Ended)) => Err(self.stream.device().terminal_error()),
                Some(Err(AcquireError::TooLarge { .. })) | None => Err(busy),
            },
            (
                None,
                Error::Busy {
                    what: Full::Mailbox { .. },
                },
            ) => poll_fn(|context| self.poll_mailbox(context)).await,
            (
                None,
                Error::Busy {
                    what: Full::Handles { .. },
                },
            ) => self.slot().await,
            _ => Err(busy),
        }
    }

    /// Waits in the wait list of a credit. Before that, releases grants that callers ahead in the list may need. Returns
    /// `None` if it waits for memory and a poll finds that the deadline of the stream has passed.
    async fn credit(&self, credit: &Arc<Credit>, amount: u64) -> Option<Result<(), AcquireError>> {
        let tasks = self.stream.credit();
        let lacks_tasks = Arc::ptr_eq(credit, tasks);
        let memory = self
            .stream
            .epoch()
            .limit
            .as_ref()
            .map(|limit| &limit.memory);
        let lacks_memory = memory.is_some_and(|memory| Arc::ptr_eq(credit, memory));
        self.grants.release(|granted| match lacks_tasks {
            true => Arc::ptr_eq(granted, tasks),
            // Memory comes before uploads and jobs in the order of waits.
            false => lacks_memory || memory.is_none_or(|memory| !Arc::ptr_eq(granted, memory)),
        });
        let is_ahead = self.stream.is_ahead_for(credit);
        let mut place = QueuedRequest::new(credit.clone(), amount).ahead_if(is_ahead);
        let deadline = self.stream.deadline().filter(|_| lacks_memory);
        poll_fn(
            |context| match polled(self.channel(), || place.poll(context.waker())) {
                Poll::Pending if deadline.is_some_and(|end| end <= Instant::now()) => {
                    Poll::Ready(None)
                }
                outcome => outcome.map(Some),
            },
        )
        .await
    }

    /// Waits until a slot has returned to the table. May return without a free slot.
    async fn slot(&self) -> Result<(), Error> {
        let device = self.stream.device();
        // Others may wait for these grants, so they are not held during the wait.
        self.grants.release(|_| true);
        let Some(mut slot_wait) = device.slot_returns() else {
            return Ok(());
        };
        let returned =
            poll_fn(|context| polled(self.channel(), || slot_wait.poll(context.waker())));
        returned.await.map_err(|_| device.terminal_error())
    }

    fn poll_mailbox(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.polls += 1;
        if self.polls > POLLS_MAX {
            self.polls = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let device = self.stream.device();
        let channel = device.channel();
        let place = self.place.get_or_insert_default();
        let room = polled(channel, || channel.poll_room(place, context.waker()));
        room.map_err(|refusal| device.refused(refusal))
    }

    fn channel(&self) -> &dyn ComputeChannel {
        self.stream.device().channel()
    }
}

/// Polls in the way answers are polled: informs the channel before a waker may be left, and after it was.
fn polled<T>(channel: &dyn ComputeChannel, poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
    channel.looked();
    channel.leaves_waker();
    let found = poll();
    if found.is_pending() {
        channel.awaited();
    }
    found
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.channel().leave_room(place);
        }
        self.grants.release(|_| true);
    }
}
