//! The thread of a queue: runs entry after entry, waits for other queues, sleeps when there is nothing.

use std::sync::Arc;

use millstream_protocol::error::OpenError;
use millstream_protocol::id::{Point, QueueId};
use millstream_protocol::marks::mark_runtime_thread;
use millstream_protocol::threads::{Spawner, Thread, ThreadRole};
use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::facade::{SpinPolicy, Spinner};
use millstream_sync::timeline::Timeline;

use crate::entry::{Entry, Op};
use crate::post::{Lane, Post};
use crate::runner::Runner;

/// What the workers of a device share.
pub(crate) struct Crew {
    /// The timelines of all queues, for waits.
    pub(crate) timelines: Box<[Arc<Timeline>]>,
    /// The device goes away: workers end after the task that they are in.
    pub(crate) stop: AtomicBool,
    /// How long workers spin before they park.
    pub(crate) spin: SpinPolicy,
}

impl Crew {
    pub(crate) fn is_stopping(&self) -> bool {
        // Acquire: pairs with `stop`. That a sleeping worker sees it is the gates' matter.
        self.stop.load(Ordering::Acquire)
    }

    /// Tells the workers to end; those that wait for another queue are told by the end of its timeline.
    pub(crate) fn stop(&self) {
        // Release: pairs with `is_stopping`.
        self.stop.store(true, Ordering::Release);
        self.timelines.iter().for_each(|timeline| timeline.end());
    }

    /// Has the point passed? A queue that does not exist has nothing to wait for.
    pub(crate) fn has_passed(&self, point: Point) -> bool {
        match self.timelines.get(point.queue.index()) {
            Some(timeline) => timeline.completed() >= point.cursor,
            None => true,
        }
    }
}

/// Starts the worker of `queue`.
pub(crate) fn start(
    queue: QueueId,
    crew: Arc<Crew>,
    post: Arc<Post>,
    spawner: &Spawner,
) -> Result<Thread<()>, OpenError> {
    let name = format!("ms-cpu-queue-{}", queue.0);
    // Made here, so that its drop speaks for it even if it never gets a thread.
    let worker = Worker { crew, post };
    spawner.spawn(ThreadRole::Queue, &name, move || worker.serve())
}

struct Worker {
    crew: Arc<Crew>,
    post: Arc<Post>,
}

impl Worker {
    fn serve(&self) {
        let _mark = mark_runtime_thread();
        let Self { crew, post } = self;
        post.gate.attach();
        let mut spin = Spinner::new(crew.spin);
        let mut lane = post.door.enter();
        lane.runner.take_thread();
        loop {
            while !crew.is_stopping() && lane.run_next(crew) {}
            lane.runner.pause();
            let again = post.door.leave(lane);
            if crew.is_stopping() {
                return;
            }
            if !again {
                post.door.idle(&post.gate, &mut spin, None, |lane| {
                    lane.inbox.has_next() || crew.is_stopping()
                });
            }
            lane = post.door.enter();
        }
    }
}

impl Drop for Worker {
    /// What has not run says so, and nobody waits for it any more. Here, so that it holds even if
    /// something of ours panics.
    fn drop(&mut self) {
        let mut lane = self.post.door.enter();
        let Lane { inbox, runner } = &mut *lane;
        while inbox.next_with(|entry| runner.abandon(entry)).is_some() {}
        runner.end();
    }
}

/// One entry. A wait that ends without its point means that the device goes away, and so this queue.
pub(crate) fn step(crew: &Crew, runner: &mut Runner, entry: &mut Entry) {
    let Op::Wait(point) = entry.op else {
        return runner.run(entry);
    };
    if crew.has_passed(point) {
        return;
    }
    runner.pause();
    let timeline = &crew.timelines[point.queue.index()];
    if timeline.wait(point.cursor, &crew.spin).is_err() {
        crew.stop();
    }
}
