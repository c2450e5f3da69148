//! Callbacks of answers: [`Pending::on_ready`], in place of waiting.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use millstream_protocol::{Error, Release, Table};
use millstream_sync::handoff_lock::HandoffLock;

use crate::{Pending, Permit, Requester, Returned};

impl<T: Send + 'static> Pending<T> {
    /// Calls `callback` with the answer on a thread for user code, never on the device's thread. A blocking
    /// call inside the callback returns [`Error::WouldDeadlock`].
    ///
    /// May block while the client has [`max_jobs`](millstream_protocol::DeviceOptions::max_jobs) callbacks,
    /// host functions and values to drop in flight; [`Pending::try_on_ready`] does not.
    ///
    /// # Errors
    /// [`Error::NoRoomHere`] if it would block on a thread that the device needs; [`Error::Closed`] if the device is
    /// closed, since no thread for user code exists any more. The error carries the answer and the uncalled callback:
    /// [`Returned`].
    #[expect(
        clippy::result_large_err,
        reason = "the caller had both values on its stack before the call"
    )]
    pub fn on_ready<F: FnOnce(Result<T, Error>) + Send + 'static>(
        self,
        callback: F,
    ) -> Result<(), Returned<(Self, F)>> {
        match self.requester().callback_permit(true) {
            Ok(permit) => self.call_back(Some(permit), callback),
            Err(error) => {
                let value = (self, callback);
                return Err(Returned { value, error });
            }
        }
        Ok(())
    }

    /// As [`Pending::on_ready`], but never blocks. On success the answer moves to the callback; on failure it stays
    /// in `self`.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::NoRoomHere`], [`Error::Closed`]. The error carries the uncalled callback:
    /// [`Returned`].
    pub fn try_on_ready<F: FnOnce(Result<T, Error>) + Send + 'static>(
        &mut self,
        callback: F,
    ) -> Result<(), Returned<F>> {
        match self.requester().callback_permit(false) {
            Ok(permit) => self.take().call_back(Some(permit), callback),
            Err(error) => {
                let value = callback;
                return Err(Returned { value, error });
            }
        }
        Ok(())
    }

    /// Calls `callback` with the answer, and then releases the permit, if any.
    pub(crate) fn call_back(
        self,
        permit: Option<Permit>,
        callback: impl FnOnce(Result<T, Error>) + Send + 'static,
    ) {
        let callback = Box::new(move |answer| {
            // Dropped when the callback has returned or panicked.
            let _permit = permit;
            callback(answer);
        });
        let task = Arc::new(Callback {
            requester: self.requester().clone(),
            slot: HandoffLock::new(Some(Waiting {
                pending: self,
                callback,
                release: None,
            })),
        });
        task.step(Release::begin(task.table()));
    }
}

type CallbackFn<T> = Box<dyn FnOnce(Result<T, Error>) + Send>;

/// An answer with a callback: a task of a minimal executor whose thread is the one for user code.
struct Callback<T> {
    requester: Requester,
    /// A poll runs users' code ([`Landed::take`](millstream_protocol::Landed::take)), so no thread waits for one
    /// that polls: it leaves a further poll to that thread.
    slot: HandoffLock<Option<Waiting<T>>>,
}

struct Waiting<T> {
    pending: Pending<T>,
    callback: CallbackFn<T>,
    /// Held once the work is issued: from then on the callback will run, and may drop handles, without further
    /// messages. So a reservation that finds no memory waits for it instead of failing.
    release: Option<Release>,
}

impl<T: Send + 'static> Callback<T> {
    fn table(&self) -> &Arc<Table> {
        self.requester.device().table()
    }

    /// Polls the answer. If it has arrived, sends the callback to the thread for user code. `release` is held until the
    /// last poll has checked whether the work is issued.
    fn step(self: &Arc<Self>, release: Release) {
        let channel = self.requester.device().channel();
        let waker = Waker::from(self.clone());
        while let Some(mut slot) = self.slot.try_enter() {
            let Some(mut waiting) = slot.take() else {
                return;
            };
            let mut context = Context::from_waker(&waker);
            if let Poll::Ready(answer) = waiting.pending.poll_answer(&mut context) {
                // `execute` may run user code on this thread: the function that starts threads, or, after a close, the
                // job.
                drop(slot);
                let release = waiting.release.unwrap_or(release);
                let callback = waiting.callback;
                channel.execute(Box::new(move || {
                    callback(answer);
                    drop(release);
                }));
                return;
            }
            if waiting.pending.is_issued() && waiting.release.is_none() {
                waiting.release = Some(Release::begin(self.table()));
            }
            *slot = Some(waiting);
            if !self.slot.leave(slot) {
                break;
            }
        }
        channel.awaited();
    }
}

impl<T: Send + 'static> Wake for Callback<T> {
    fn wake(self: Arc<Self>) {
        // The waker may run on the device thread or inside a queue, so poll on the thread for user code.
        let task = self.clone();
        let channel = self.requester.device().channel();
        let release = Release::begin(self.table());
        channel.execute(Box::new(move || task.step(release)));
    }
}
