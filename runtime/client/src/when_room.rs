//! Awaiting room: a call is tried, and tried again as it is granted what it lacked. No thread, no timer, no polling in
//! between.
//!
//! ```text
//!   try the call ──ok──► its answer
//!      ▲     └──Busy──► what lacks: credit (noted in the purse)      or room in the mailbox, or a slot
//!      │                 a place in that credit's queue               a place among those that wait for it
//!      └── granted: the purse holds it, so the call finds it ◄─┘  └─► woken: tried again, in its old place
//! ```
//!
//! Credit is granted in the order of asking and is the purse's from then on: other callers cannot take it first, so no
//! caller starves. Room in the mailbox cannot be held for a task, since messages are in one order; a task that finds it
//! gone keeps its place.
//!
//! No circle of waits: uploads and jobs are granted before tasks, as calls take them, and who lacks one of the former
//! gives its tasks back first. Dropping the future gives everything back, and leaves both queues.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use millstream_protocol::channel::ComputeChannel;
use millstream_protocol::error::{Error, Full};
use millstream_sync::credit::{AcquireError, Credit, Place};
use millstream_sync::mailbox::RoomPlace;

use crate::Stream;
use crate::purse::Purse;

/// Looks at the mailbox in one poll before other tasks of the executor are let in: room may be found and lost as often
/// as other senders are faster.
const LOOKS_MAX: u32 = 16;

impl Stream {
    /// Makes a call once there is room for it: the async twin of every call. `attempt` is given the same stream, with
    /// calls that never wait; where it answers [`Error::Busy`], this waits until there is room for what was lacking, and
    /// calls it again. It should make one call: whatever comes before the one that finds no room is made again.
    ///
    /// ```
    /// # use millstream_client::Stream;
    /// # use millstream_protocol::error::Error;
    /// # use millstream_client::handle::Handle;
    /// async fn halves(stream: &Stream, request: Vec<f32>) -> Result<Vec<f32>, Error> {
    ///     let mut request = request;
    ///     let upload = |stream: &Stream| {
    ///         let uploaded = stream.create_owned(std::mem::take(&mut request));
    ///         uploaded.map_err(|returned| returned.restore(&mut request))
    ///     };
    ///     let values = stream.when_room(upload).await?;
    ///     stream.when_room(|stream| stream.fill(&values, 0.5)).await?;
    ///     stream.when_room(|stream| stream.read(&values).asked()).await?.await
    /// }
    /// ```
    ///
    /// Those who wait for tasks, uploads or jobs of one client are served in the order in which they asked, calls that
    /// block among them; who waits for the mailbox has as good a chance as they. Dropping the future leaves nothing
    /// behind. A future that was woken holds its room until it is polled or dropped, so keep polling it. On a driven
    /// device somebody else must pump.
    ///
    /// It waits as long as that takes; for less, drop it: by your executor's timeout, for instance.
    ///
    /// # Errors
    /// What `attempt` answers; [`Error::DeviceLost`] or [`Error::Closed`] where that ends the wait. [`Error::Busy`] where
    /// waiting does not help: for more than the whole limit, for a sequence of readbacks, which waits for its consumer,
    /// and for other streams' limits.
    pub async fn when_room<T>(
        &self,
        mut attempt: impl FnMut(&Stream) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let purse = Arc::new(Purse::default());
        let stream = self.with_purse(purse.clone());
        let mut waiting = Waiting {
            stream: &stream,
            purse,
            place: None,
            looks: 0,
        };
        loop {
            waiting.purse.take_lack();
            match attempt(&stream) {
                Err(busy @ Error::Busy { .. }) => waiting.room_after(busy).await?,
                outcome => return outcome,
            }
        }
    }
}

/// A call that is tried until it finds room.
struct Waiting<'a> {
    stream: &'a Stream,
    purse: Arc<Purse>,
    /// Its place among those that wait for the mailbox, once it has found that full.
    place: Option<RoomPlace>,
    looks: u32,
}

impl Waiting<'_> {
    /// Waits for what the call lacked.
    async fn room_after(&mut self, busy: Error) -> Result<(), Error> {
        match (self.purse.take_lack(), &busy) {
            (Some((credit, amount)), _) => match self.credit(&credit, amount).await {
                Ok(()) => {
                    self.purse.put(&credit, amount);
                    Ok(())
                }
                Err(AcquireError::Ended) => Err(self.stream.device().gone()),
                Err(AcquireError::TooLarge { .. }) => Err(busy),
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

    /// Waits in the queue of a credit, with nothing in hand that those in front may wait for.
    async fn credit(&self, credit: &Arc<Credit>, amount: u64) -> Result<(), AcquireError> {
        let tasks = self.stream.credit();
        let lacks_tasks = Arc::ptr_eq(credit, tasks);
        self.purse
            .give_back(|granted| !lacks_tasks || Arc::ptr_eq(granted, tasks));
        let mut place = Place::new(credit.clone(), amount);
        poll_fn(|context| polled(self.channel(), || place.poll(context.waker()))).await
    }

    /// Waits until a slot has returned, or there may be one.
    async fn slot(&self) -> Result<(), Error> {
        let device = self.stream.device();
        // What others wait for is not kept meanwhile.
        self.purse.give_back(|_| true);
        let Some(mut returning) = device.slot_returns() else {
            return Ok(());
        };
        let returned =
            poll_fn(|context| polled(self.channel(), || returning.poll(context.waker())));
        returned.await.map_err(|_| device.gone())
    }

    fn poll_mailbox(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.looks += 1;
        if self.looks > LOOKS_MAX {
            self.looks = 0;
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

/// Polls as an answer is polled: the device is told that a waker may be left with it.
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
        self.purse.give_back(|_| true);
    }
}
