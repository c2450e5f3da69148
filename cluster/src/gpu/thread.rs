//! The thread of a group: submits the work of its calls, and ends their parts.
//!
//! It sleeps while no call is in flight. Otherwise it polls marks, since a thread that waited for the mark of one GPU would
//! not notice that another has failed, for which the first waits.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use millstream::Reason;

use super::Arrived;
use super::flight::Flight;
use super::lanes::Lanes;
use crate::lock;

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

/// The way of calls to the thread of a group.
#[derive(Default)]
pub(super) enum Inbox {
    /// No call has come.
    #[default]
    Idle,
    Running(Sender<Arrived>),
    /// No further call is accepted.
    Ended,
}

impl Inbox {
    /// Hands over a call. The first one starts the thread.
    ///
    /// # Errors
    /// The call, and why it fails.
    pub(super) fn send(
        &mut self,
        call: Arrived,
        threads: &Threads,
    ) -> Result<(), (Arrived, Reason)> {
        if matches!(self, Self::Idle) {
            let (sender, calls) = channel();
            let builder = std::thread::Builder::new().name("millstream-gpus".to_owned());
            match builder.spawn(move || run(&calls)) {
                Ok(thread) => threads.add(thread),
                Err(error) => {
                    let why = format!("the thread of its group cannot be started: {error}");
                    return Err((call, Reason::Refused(why)));
                }
            }
            *self = Self::Running(sender);
        }
        match self {
            // A thread that has panicked receives none.
            Self::Running(sender) => sender.send(call).map_err(|left| (left.0, Reason::Closed)),
            Self::Idle | Self::Ended => Err((call, Reason::Closed)),
        }
    }
}

/// Runs until there can be no further call, and all have ended. If it panics, the parts of its calls are dropped, and fail.
fn run(calls: &Receiver<Arrived>) {
    let mut lanes = Lanes::default();
    let mut flights: Vec<Flight> = Vec::new();
    loop {
        let pause = flights.iter().map(Flight::pause).min();
        let call = match pause {
            None => calls.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(Duration::ZERO) => {
                std::thread::yield_now();
                calls.try_recv().map_err(|_| RecvTimeoutError::Timeout)
            }
            Some(pause) => calls.recv_timeout(pause),
        };
        match call {
            Ok(call) => flights.push(lanes.launch(call)),
            Err(RecvTimeoutError::Disconnected) if flights.is_empty() => return,
            // Without a sender there is no pause.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(pause.unwrap_or_default()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        flights.extend(calls.try_iter().map(|call| lanes.launch(call)));
        flights.retain_mut(|flight| !flight.poll(&mut lanes.communicators));
    }
}
