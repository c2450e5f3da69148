//! The channel of a model: a queue behind one lock and two condition variables, since crossbeam
//! cannot run inside a model. A capacity of zero (rendezvous) becomes one.

use crate::facade::{Arc, Condvar, Mutex, lock};
pub use crossbeam_channel::{RecvError, SendError, TryRecvError, TrySendError};
use std::collections::VecDeque;
use std::fmt;

struct Shared<T> {
    state: Mutex<State<T>>,
    has_room: Condvar,
    has_message: Condvar,
}

struct State<T> {
    queue: VecDeque<T>,
    capacity: usize,
    senders: usize,
    receivers: usize,
}

/// The sending side.
pub struct Sender<T>(Arc<Shared<T>>);

/// The receiving side.
pub struct Receiver<T>(Arc<Shared<T>>);

/// Creates an unbounded channel.
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    bounded(usize::MAX)
}

/// Creates a channel with a capacity of at least one message.
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let queue = VecDeque::new();
    let state = State {
        queue,
        capacity: capacity.max(1),
        senders: 1,
        receivers: 1,
    };
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        has_room: Condvar::new(),
        has_message: Condvar::new(),
    });
    (Sender(shared.clone()), Receiver(shared))
}

impl<T> Sender<T> {
    /// Sends; blocks until there is room.
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        let mut state = lock(&self.0.state);
        while state.receivers != 0 && state.queue.len() >= state.capacity {
            state = self
                .0
                .has_room
                .wait(state)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        if state.receivers == 0 {
            return Err(SendError(message));
        }
        state.queue.push_back(message);
        self.0.has_message.notify_one();
        Ok(())
    }

    /// Sends without waiting.
    pub fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        let mut state = lock(&self.0.state);
        if state.receivers == 0 {
            return Err(TrySendError::Disconnected(message));
        }
        if state.queue.len() >= state.capacity {
            return Err(TrySendError::Full(message));
        }
        state.queue.push_back(message);
        self.0.has_message.notify_one();
        Ok(())
    }

    /// Returns the number of messages waiting.
    pub fn len(&self) -> usize {
        lock(&self.0.state).queue.len()
    }

    /// Returns `true` if no message is waiting.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Receiver<T> {
    /// Returns the next message; blocks until there is one.
    pub fn recv(&self) -> Result<T, RecvError> {
        let mut state = lock(&self.0.state);
        loop {
            if let Some(message) = state.queue.pop_front() {
                self.0.has_room.notify_one();
                return Ok(message);
            }
            if state.senders == 0 {
                return Err(RecvError);
            }
            state = self
                .0
                .has_message
                .wait(state)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Returns the next message, if there is one.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut state = lock(&self.0.state);
        match state.queue.pop_front() {
            Some(message) => {
                self.0.has_room.notify_one();
                Ok(message)
            }
            None if state.senders == 0 => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    /// Returns the number of messages waiting.
    pub fn len(&self) -> usize {
        lock(&self.0.state).queue.len()
    }

    /// Returns `true` if no message is waiting.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        lock(&self.0.state).senders += 1;
        Self(self.0.clone())
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        lock(&self.0.state).receivers += 1;
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.senders -= 1;
        if state.senders == 0 {
            self.0.has_message.notify_all();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.receivers -= 1;
        if state.receivers == 0 {
            let queue = std::mem::take(&mut state.queue);
            self.0.has_room.notify_all();
            drop(state);
            drop(queue);
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}
