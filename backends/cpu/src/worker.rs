//! The thread of a queue: runs entry after entry, waits for other queues, sleeps when there is nothing.

use std::sync::Arc;

use millstream_protocol::error::OpenError;
use millstream_protocol::id::QueueId;
use millstream_protocol::marks::mark_runtime_thread;
use millstream_protocol::threads::{Spawner, Thread, ThreadRole};
use millstream_sync::facade::Spinner;

use crate::crew::Crew;
use crate::post::{Lane, Post};

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
