//! Callbacks of answers: [`Pending::on_ready`], in place of waiting.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use millstream_protocol::deferred_drop::Release;
use millstream_protocol::error::Error;
use millstream_sync::facade::{Mutex, lock};

use crate::{Pending, Permit, Requester, Returned};

impl<T: Send + 'static> Pending<T> {
    /// Calls `callback` with the answer on a thread for user code, never on the device's thread. A blocking
    /// call inside the callback returns [`Error::WouldDeadlock`].
    ///
    /// May block while the client has [`max_jobs`](millstream_protocol::options::DeviceOptions::max_jobs) callbacks,
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
            slot: Mutex::new(Some(Waiting {
                pending: self,
                callback,
                release: None,
            })),
        });
        task.step();
    }
}

type CallbackFn<T> = Box<dyn FnOnce(Result<T, Error>) + Send>;

/// An answer with a callback: a task of a minimal executor whose thread is the one for user code.
struct Callback<T> {
    requester: Requester,
    slot: Mutex<Option<Waiting<T>>>,
}

struct Waiting<T> {
    pending: Pending<T>,
    callback: CallbackFn<T>,
    /// Held once the work is issued: from then on the callback will run, and may drop handles, without further
    /// messages. So a reservation that finds no memory waits for it instead of failing.
    release: Option<Release>,
}

impl<T: Send + 'static> Callback<T> {
    /// Polls the answer. If it has arrived, sends the callback to the thread for user code.
    fn step(self: &Arc<Self>) {
        let mut slot = lock(&self.slot);
        let Some(mut waiting) = slot.take() else {
            return;
        };
        let waker = Waker::from(self.clone());
        let begin = || Release::begin(self.requester.device().table());
        let answer = waiting
            .pending
            .poll_answer(&mut Context::from_waker(&waker));
        match answer {
            Poll::Pending => {
                if waiting.pending.is_issued() {
                    waiting.release.get_or_insert_with(begin);
                }
                *slot = Some(waiting);
                drop(slot);
                self.requester.device().channel().awaited();
            }
            Poll::Ready(answer) => {
                // `execute` may run user code on this thread: the function that starts threads, or, after a close, the
                // job.
                drop(slot);
                let channel = self.requester.device().channel();
                let release = waiting.release.unwrap_or_else(begin);
                let callback = waiting.callback;
                channel.execute(Box::new(move || {
                    callback(answer);
                    drop(release);
                }));
            }
        }
    }
}

impl<T: Send + 'static> Wake for Callback<T> {
    fn wake(self: Arc<Self>) {
        // The waker may run on the device thread or inside a queue, so poll on the thread for user code.
        let task = self.clone();
        let channel = self.requester.device().channel();
        // Held until the step has checked whether the work is issued.
        let release = Release::begin(self.requester.device().table());
        channel.execute(Box::new(move || {
            task.step();
            drop(release);
        }));
    }
}
