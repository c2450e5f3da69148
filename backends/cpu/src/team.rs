//! The threads that share the cubes of launches: a [`millstream_sync::team`] with one submitter per queue, because a
//! queue runs one launch at a time. That module has the protocol and its models; this one starts the threads.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_protocol::{
    OpenError,
    marks::mark_runtime_thread,
    threads::{Spawner, Thread, ThreadRole},
};
use millstream_sync::facade::SpinPolicy;
use millstream_sync::payload::panic_message;
use millstream_sync::team::{Submitter, Work, team};

millstream_sync::__thread_local! {
    /// The id of the team that the calling thread works for; 0 for none.
    static TEAM: Cell<u64> = Cell::new(0)
}

/// A fixed team of threads. A worker that shares a job counts as one of them.
pub(crate) struct Team {
    id: u64,
    stop: millstream_sync::team::Team,
    threads: Vec<Thread<()>>,
}

/// One queue's access to the team.
pub(crate) struct TeamHandle {
    team: u64,
    submitter: Submitter,
}

impl Team {
    /// Starts a team of `threads` threads, where the queue's worker is one, and returns a handle for each of `queues`
    /// queues.
    pub(crate) fn start(
        threads: usize,
        queues: usize,
        spin: SpinPolicy,
        spawner: &Spawner,
    ) -> Result<(Self, Vec<TeamHandle>), OpenError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        // Relaxed: the ids only have to differ.
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let (stop, members, handles) = team(threads - 1, queues, spin);
        let mut team = Self {
            id,
            stop,
            threads: Vec::with_capacity(threads - 1),
        };
        for (index, member) in members.into_iter().enumerate() {
            let name = format!("ms-cpu-cube-{index}");
            let thread = spawner.spawn(ThreadRole::Cubes, &name, move || {
                let _mark = mark_runtime_thread();
                TEAM.with(|team| team.set(id));
                member.serve();
            })?;
            team.threads.push(thread);
        }
        let submitter = |submitter| TeamHandle {
            team: id,
            submitter,
        };
        Ok((team, handles.into_iter().map(submitter).collect()))
    }

    /// Returns `true` if the calling thread works for this team's device, as a member or as a queue's worker.
    pub(crate) fn has_current_thread(&self) -> bool {
        TEAM.with(Cell::get) == self.id
    }

    /// Lets the members end after their current job, without joining them.
    pub(crate) fn detach(&mut self) {
        self.threads.clear();
    }
}

impl Drop for Team {
    /// Stops the members and joins them. No job may be shared afterwards.
    fn drop(&mut self) {
        self.stop.stop();
        for thread in self.threads.drain(..) {
            // A panic of user code was caught and reported with its task.
            let _ = thread.join();
        }
    }
}

impl TeamHandle {
    /// Assigns the calling thread to this team's device for the rest of its life.
    pub(crate) fn assign_thread(&self) {
        TEAM.with(|team| team.set(self.team));
    }

    /// Assigns the calling thread to this team's device until the guard is dropped.
    pub(crate) fn assign_thread_scoped(&self) -> ThreadAssignment {
        ThreadAssignment(TEAM.with(|team| team.replace(self.team)))
    }

    /// Returns the number of threads that may share a job, including the caller.
    #[inline]
    pub(crate) fn threads(&self) -> usize {
        self.submitter.threads()
    }

    /// Runs the pieces `from..pieces` on the calling thread and its helpers, each piece exactly once, and returns how
    /// many the caller ran itself. Wakes up to `helpers` members; a member that is awake helps as well. After a panic
    /// the remaining pieces are skipped. Blocks until all pieces have ended.
    ///
    /// # Errors
    /// The message of the first panic.
    #[inline]
    pub(crate) fn share(
        &mut self,
        from: u64,
        pieces: u64,
        helpers: usize,
        work: &Work<'_>,
    ) -> Result<u64, String> {
        let shared = self.submitter.share(from, pieces, helpers, work);
        shared.map_err(panic_message)
    }
}

/// Restores the thread's previous team when dropped.
pub(crate) struct ThreadAssignment(u64);

impl Drop for ThreadAssignment {
    fn drop(&mut self) {
        TEAM.with(|team| team.set(self.0));
    }
}

#[cfg(test)]
#[path = "team_tests.rs"]
mod tests;
