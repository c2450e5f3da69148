//! What leaves the server to be done elsewhere: by the actors, on their threads.

use std::any::Any;
use std::collections::VecDeque;

use millstream_protocol::deferred_drop::Leaving;
use millstream_protocol::id::Point;
use millstream_protocol::message::HostWork;

use crate::points::Points;

/// What the server wants done elsewhere.
pub enum Effect {
    /// Run user code on a thread for such; tell [`Server::host_finished`](super::Server::host_finished) when its end was dropped.
    Host {
        /// The code.
        work: HostWork,
        /// The resources of its bindings, if it asked for them.
        resources: Option<Box<dyn Any + Send>>,
        /// What to hand back.
        token: HostToken,
    },
    /// Drop this value, off the device thread, once the points have passed.
    Collect {
        /// The value.
        value: Leaving,
        /// When.
        after: Points,
    },
    /// Wake the device thread once this point has passed: freed memory waits for it.
    Watch(Point),
}

/// Which host function ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostToken {
    pub(super) stream: u32,
    pub(super) sequence: u64,
}

/// The effects that have not been carried out, in order.
#[derive(Default)]
pub(super) struct Effects {
    queue: VecDeque<Effect>,
    /// Values that left, to be dropped.
    values_handed_over: u64,
}

impl Effects {
    pub(super) fn push(&mut self, effect: Effect) {
        self.queue.push_back(effect);
    }

    /// The next one.
    pub(super) fn take(&mut self) -> Option<Effect> {
        let effect = self.queue.pop_front();
        self.values_handed_over += u64::from(effect.as_ref().is_some_and(is_collect));
        effect
    }

    /// The one that was taken last is the next one still.
    pub(super) fn put_back(&mut self, effect: Effect) {
        self.values_handed_over -= u64::from(is_collect(&effect));
        self.queue.push_front(effect);
    }

    /// All of them, which are not carried out.
    pub(super) fn take_all(&mut self) -> VecDeque<Effect> {
        std::mem::take(&mut self.queue)
    }

    /// No user code runs any more.
    pub(super) fn forget_hosts(&mut self) {
        self.queue
            .retain(|effect| !matches!(effect, Effect::Host { .. }));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Values that wait to be dropped, of which so many were, here or where they were handed to.
    pub(super) fn values_waiting(&self, dropped: u64) -> u64 {
        let here = self
            .queue
            .iter()
            .filter(|effect| is_collect(effect))
            .count();
        self.values_handed_over.saturating_sub(dropped) + here as u64
    }
}

fn is_collect(effect: &Effect) -> bool {
    matches!(effect, Effect::Collect { .. })
}
