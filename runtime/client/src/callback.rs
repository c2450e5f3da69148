//! Leaving an answer a callback instead of waiting for it.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use millstream_protocol::deferred_drop::Release;
use millstream_protocol::error::Error;
use millstream_sync::facade::{Mutex, lock};

use crate::{Home, Pending, Returned, Room};

impl<T: Send + 'static> Pending<T> {
    /// Calls `callback` with the answer, on a thread for user code: never the device's. A blocking
    /// call in it answers [`Error::WouldDeadlock`].
    ///
    /// May wait while the client has [`max_jobs`](millstream_protocol::options::DeviceOptions::max_jobs) callbacks, host
    /// functions and values to drop on their way; [`Pending::try_on_ready`] does not.
    ///
    /// # Errors
    /// [`Error::NoRoomHere`] where it would wait on a thread that the device needs; [`Error::Closed`] once the device is closed,
    /// as it has no thread for user code any more. The answer and the callback come back with it, the callback uncalled: [`Returned`].
    #[expect(
        clippy::result_large_err,
        reason = "the caller had both on its stack, and has them there again"
    )]
    pub fn on_ready<F: FnOnce(Result<T, Error>) + Send + 'static>(
        self,
        callback: F,
    ) -> Result<(), Returned<(Self, F)>> {
        match self.home().callback_room(true) {
            Ok(room) => self.call_back(Some(room), callback),
            Err(error) => {
                let value = (self, callback);
                return Err(Returned { value, error });
            }
        }
        Ok(())
    }

    /// As [`Pending::on_ready`], but never waits. The answer goes to the callback; without room it stays
    /// here.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::NoRoomHere`], [`Error::Closed`]. The callback comes back with it, uncalled: [`Returned`].
    pub fn try_on_ready<F: FnOnce(Result<T, Error>) + Send + 'static>(
        &mut self,
        callback: F,
    ) -> Result<(), Returned<F>> {
        match self.home().callback_room(false) {
            Ok(room) => self.take().call_back(Some(room), callback),
            Err(error) => {
                let value = callback;
                return Err(Returned { value, error });
            }
        }
        Ok(())
    }

    /// Calls `callback` with the answer; then the room, if it takes any, is free again.
    pub(crate) fn call_back(
        self,
        room: Option<Room>,
        callback: impl FnOnce(Result<T, Error>) + Send + 'static,
    ) {
        let callback = Box::new(move |answer| {
            // Given back when the callback has returned, or panicked.
            let _room = room;
            callback(answer);
        });
        let task = Arc::new(Callback {
            home: self.home().clone(),
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

/// An answer with a callback: a task of a tiny executor whose thread is the one for user code.
struct Callback<T> {
    home: Home,
    slot: Mutex<Option<Waiting<T>>>,
}

struct Waiting<T> {
    pending: Pending<T>,
    callback: CallbackFn<T>,
    /// What the callback owns goes by itself, from the moment at which the work is issued.
    release: Option<Release>,
}

impl<T: Send + 'static> Callback<T> {
    /// Polls; when the answer is there, hands the callback to the thread for user code.
    fn step(self: &Arc<Self>) {
        let mut slot = lock(&self.slot);
        let Some(mut waiting) = slot.take() else {
            return;
        };
        let waker = Waker::from(self.clone());
        let begin = || Release::begin(self.home.device().table());
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
                self.home.device().channel().awaited();
            }
            Poll::Ready(answer) => {
                // Sending user code may run some: the function that starts threads, or, once all is over, it.
                drop(slot);
                let channel = self.home.device().channel();
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
        // The waker may run on the device thread or inside a queue: the polling happens elsewhere.
        let task = self.clone();
        let channel = self.home.device().channel();
        // Until the step has looked whether the work is issued.
        let release = Release::begin(self.home.device().table());
        channel.execute(Box::new(move || {
            task.step();
            drop(release);
        }));
    }
}
