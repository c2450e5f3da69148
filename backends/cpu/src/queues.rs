//! The device's side of all queues: what goes into which, and which workers have still to be woken for it.
//!
//! Between [`Queues::hold_back`] and [`Queues::let_go`] an entry wakes no worker, and its queue owes that wake: the
//! calling thread runs the small entries itself, and wakes the worker for the others; or it leaves the device first and
//! then runs those, too ([`Queues::held`]).

use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::backend::{Held, Large, LetGo};
use millstream_protocol::error::Refused;
use millstream_protocol::id::{Cursor, QueueId};

use crate::crew::Crew;
use crate::entry::Entry;
use crate::post::Post;
use crate::queue::Feed;
use crate::trace::SpanLog;

/// The device's side of one queue.
pub(crate) struct Queue {
    pub(crate) feed: Feed,
    pub(crate) spans: Arc<SpanLog>,
    /// Its worker's place, if it has one.
    post: Option<Arc<Post>>,
    /// An entry was pushed for which the worker has not been woken.
    owes: bool,
}

/// The places of all workers, for tasks that are held.
struct Posts {
    crew: Arc<Crew>,
    all: Vec<Arc<Post>>,
}

impl Held for Posts {
    fn run(&self, budget: Duration) {
        self.all
            .iter()
            .for_each(|post| post.run_held(&self.crew, budget));
    }
}

/// The device's side of all queues.
pub(crate) struct Queues {
    crew: Arc<Crew>,
    all: Vec<Queue>,
    holds_back: bool,
}

impl Queue {
    pub(crate) fn new(feed: Feed, spans: Arc<SpanLog>, post: Option<Arc<Post>>) -> Self {
        Self {
            feed,
            spans,
            post,
            owes: false,
        }
    }
}

impl Queues {
    /// None yet.
    pub(crate) fn new(crew: Arc<Crew>) -> Self {
        Self {
            crew,
            all: Vec::new(),
            holds_back: false,
        }
    }

    pub(crate) fn add(&mut self, queue: Queue) {
        self.all.push(queue);
    }

    pub(crate) fn all(&self) -> &[Queue] {
        &self.all
    }

    /// Appends what `build` makes of an empty entry to a queue, in place. If it refuses, what is left in the
    /// queue does nothing.
    #[inline]
    pub(crate) fn push(
        &mut self,
        queue: QueueId,
        cursor: Cursor,
        mut build: impl FnMut(&mut Entry) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        match self.all.get_mut(queue.index()) {
            Some(place) if !self.crew.timelines[queue.index()].has_ended() => {
                let mut outcome = Ok(());
                place.owes |= self.holds_back;
                place.feed.push(cursor, self.holds_back, |entry| {
                    if let Err(refused) = build(entry) {
                        entry.cancel();
                        outcome = Err(refused);
                    }
                });
                outcome
            }
            _ => Err(Refused::Lost(format!("the worker of {queue} is gone"))),
        }
    }

    /// From here on entries wake no worker: [`Queues::let_go`] does.
    pub(crate) fn hold_back(&mut self) {
        self.holds_back = true;
    }

    /// Runs the small entries of what was held back. Wakes the workers for the others, or leaves them to [`Queues::held`].
    pub(crate) fn let_go(&mut self, large: Large) -> LetGo {
        self.holds_back = false;
        let mut done = LetGo::default();
        for (index, queue) in self.all.iter_mut().enumerate() {
            if std::mem::take(&mut queue.owes)
                && let Some(post) = &queue.post
            {
                done.queues |= 1 << index;
                done.ran |= post.settle(&self.crew, large);
            }
        }
        done
    }

    /// What runs the tasks that are left to it: of the queues that there are now.
    pub(crate) fn held(&self) -> Arc<dyn Held> {
        let posts = self.all.iter().filter_map(|queue| queue.post.clone());
        Arc::new(Posts {
            crew: self.crew.clone(),
            all: posts.collect(),
        })
    }
}
