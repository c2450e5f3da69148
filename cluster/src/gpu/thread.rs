//! The thread of a group: submits the work of its calls, and ends their parts.
//!
//! It sleeps while no call is in flight. Otherwise it polls marks, since a thread that waited for the mark of one GPU would
//! not notice that another has failed, for which the first waits.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use millstream::Reason;

use super::Arrived;
use super::flight::Flight;
use super::lanes::Lanes;

/// The threads of a fleet's groups. A dropped fleet waits for them, so that its GPUs are unused afterwards.
#[derive(Default)]
pub(crate) struct Threads(Mutex<Vec<JoinHandle<()>>>);

impl Threads {
    fn add(&self, thread: JoinHandle<()>) {
        let mut threads = lock(&self.0);
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }

    /// Waits until all have ended.
    pub(crate) fn join(&self) {
        let threads = std::mem::take(&mut *lock(&self.0));
        for thread in threads {
            // A fleet that is dropped on one of them, by a waker, does not wait for that one.
            if thread.thread().id() != std::thread::current().id() {
                // The parts of a thread that panicked have failed.
                let _ = thread.join();
            }
        }
    }
}

/// The thread of a group, and the calls on their way to it.
#[derive(Default)]
pub(super) struct GroupThread {
    inbox: Mutex<Inbox>,
    bell: Condvar,
}

#[derive(Default)]
struct Inbox {
    calls: Vec<Arrived>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// No call has come.
    #[default]
    Idle,
    Running,
    /// No further call is accepted.
    Ended,
}

impl GroupThread {
    /// Hands over a call. The first one starts the thread.
    pub(super) fn begin(self: &Arc<Self>, call: Arrived, threads: &Threads) {
        let mut inbox = lock(&self.inbox);
        if inbox.state == State::Ended {
            drop(inbox);
            return call.fail(Reason::Closed);
        }
        if inbox.state == State::Idle {
            let this = self.clone();
            let builder = std::thread::Builder::new().name("millstream-gpus".to_owned());
            match builder.spawn(move || this.run()) {
                Ok(thread) => threads.add(thread),
                Err(error) => {
                    drop(inbox);
                    let why = format!("the thread of its group cannot be started: {error}");
                    return call.fail(Reason::Refused(why));
                }
            }
            inbox.state = State::Running;
        }
        inbox.calls.push(call);
        drop(inbox);
        self.bell.notify_one();
    }

    /// Lets the thread end once its calls have.
    pub(super) fn end(&self) {
        lock(&self.inbox).state = State::Ended;
        self.bell.notify_one();
    }

    fn run(&self) {
        let _exit = Exit(self);
        let mut lanes = Lanes::default();
        let mut flights: Vec<Flight> = Vec::new();
        loop {
            let pause = flights.iter().map(Flight::pause).min();
            let Some(calls) = self.next(pause) else {
                return;
            };
            flights.extend(calls.into_iter().map(|call| lanes.launch(call)));
            flights.retain_mut(|flight| !flight.poll(&mut lanes.communicators));
        }
    }

    /// Waits for calls: for `pause` at most, or without a limit. Returns `None` once there can be none.
    fn next(&self, pause: Option<Duration>) -> Option<Vec<Arrived>> {
        let inbox = lock(&self.inbox);
        let is_idle = |inbox: &mut Inbox| inbox.calls.is_empty() && inbox.state != State::Ended;
        let waiting = |inbox: &mut Inbox| inbox.calls.is_empty();
        let mut inbox = match pause {
            None => {
                let waited = self.bell.wait_while(inbox, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
            Some(Duration::ZERO) => {
                drop(inbox);
                std::thread::yield_now();
                lock(&self.inbox)
            }
            Some(pause) => {
                let waited = self.bell.wait_timeout_while(inbox, pause, waiting);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        let is_over = pause.is_none() && inbox.calls.is_empty();
        (!is_over).then(|| std::mem::take(&mut inbox.calls))
    }
}

/// Fails the calls that the thread leaves, also if it panics.
struct Exit<'a>(&'a GroupThread);

impl Drop for Exit<'_> {
    fn drop(&mut self) {
        let mut inbox = lock(&self.0.inbox);
        inbox.state = State::Ended;
        let calls = std::mem::take(&mut inbox.calls);
        drop(inbox);
        calls.into_iter().for_each(|call| call.fail(Reason::Closed));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
