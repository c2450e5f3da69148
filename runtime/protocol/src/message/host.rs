//! The parts of tasks that come from the host: bytes to copy, and code to run.

use std::any::Any;
use std::sync::Arc;

use crate::error::{Error, Refused};
use crate::failure::FailureRef;
use crate::landing::Landing;
use crate::message::OwnedBytes;
use crate::process::Process;

/// The source of a copy in.
pub enum HostSource {
    /// This many bytes, in the task's words.
    Words(u32),
    /// Owned bytes. The queue receives them and drops them after the copy.
    Owned(OwnedBytes),
}

/// Code of the host in the order of a stream.
pub struct HostWork {
    /// Its name, for failures and traces.
    pub name: Arc<str>,
    /// What the code needs of its bindings.
    pub needs: HostNeeds,
    /// The code. Dropping its [`HostDone`] ends the task, at once or later (a guard).
    pub run: HostFn,
    /// The thread that runs the code.
    pub place: HostPlace,
    /// Called on the device thread, with the error, if the code cannot run.
    pub on_failure: Option<FailFn>,
}

/// What user code needs of its bindings when it begins.
pub enum HostNeeds {
    /// Nothing: the bindings only order it.
    Nothing,
    /// The backend's resources.
    Resources,
    /// The bytes of its first binding, which its queue copies here as the first part of the task.
    Download(Arc<dyn Landing>),
    /// The device has refused what it needs, with this failure.
    Refused(FailureRef),
}

/// The code of a host function. Its arguments are the end of the task, and the resources if it requested them. Returns
/// the rest of its work, for a thread for user code, if it ran elsewhere and the rest takes long. A panic fails the task.
pub type HostFn = Box<dyn FnOnce(HostDone, Option<Box<dyn Any + Send>>) -> Option<RestFn> + Send>;

/// The rest of the work of a task that began at once, for a thread for user code.
pub type RestFn = Box<dyn FnOnce() + Send>;

/// The thread that runs a host function.
pub enum HostPlace {
    /// A thread for user code.
    UserCode,
    /// For code of this project: the thread that runs the device, its own or that of a caller that steps in, so that no
    /// other thread is woken for it. A driven device runs the code as user code.
    ///
    /// The code does not block, takes a few microseconds, makes no call of a device except that it ends tasks, and takes
    /// no lock that is held during a call of a device: a caller may hold that lock while it steps in.
    ///
    /// The value is dropped in a turn of the device once the task has ended, such as the permit of the call: its drop may
    /// wake users' wakers, which the thread that ends the task must not.
    AtOnce(Box<dyn Any + Send>),
}

/// Receives the error if there is no answer: the failure of the requested data, or the loss of the device.
pub type FailFn = Box<dyn FnOnce(Error) + Send>;

/// How a host function ended.
pub enum HostOutcome {
    /// It has written what it is bound to write.
    Completed,
    /// The bytes for its only binding have arrived. The task goes on as a copy of them, at its place in the stream.
    Arrived(OwnedBytes),
    /// It panicked with this message.
    Panicked(String),
    /// It failed.
    Failed(FailureRef),
}

/// Receives the outcome of a host function.
type FinishFn = Box<dyn FnOnce(HostOutcome) + Send>;

/// The end of a host function. Dropping it reports to the device that the task has completed.
///
/// In a child that was forked since, nothing is reported: a thread of the parent may have held the device's locks.
pub struct HostDone {
    finish: Option<FinishFn>,
    process: Process,
}

impl HostDone {
    /// Creates an end that calls `finish` once.
    pub fn new(finish: impl FnOnce(HostOutcome) + Send + 'static) -> Self {
        Self {
            finish: Some(Box::new(finish)),
            process: Process::current(),
        }
    }

    /// Ends the task. Unless it completed, or its bytes arrived, the ranges that it would have written are poisoned.
    pub fn end(mut self, outcome: HostOutcome) {
        self.report(outcome);
    }

    /// Reports the outcome, unless one was reported.
    fn report(&mut self, outcome: HostOutcome) {
        match self.finish.take() {
            // Leaked: what they own may take those locks when it is dropped.
            Some(finish) if !self.process.is_current() => std::mem::forget((finish, outcome)),
            Some(finish) => finish(outcome),
            None => {}
        }
    }
}

impl Drop for HostDone {
    fn drop(&mut self) {
        self.report(HostOutcome::Completed);
    }
}

/// User code for a queue. The argument is the backend's resources (`&B::Resources`): shared, so that
/// the code cannot exchange them with those of another task. If the code returns an
/// error, it has had no effect, and the task fails with that reason.
pub type CustomWork = Box<dyn FnOnce(&dyn Any) -> Result<(), Refused> + Send>;

#[cfg(all(test, unix, not(any(miri, loom, shuttle))))]
mod tests {
    use super::*;
    use crate::failure::{Failure, Reason};
    use crate::process::tests::in_child;

    /// I5: the end of a task reports nothing in a forked child, where its report might wait for a lock for ever.
    #[test]
    fn forked_child_reports_no_end_i5() {
        let (sender, reported) = std::sync::mpsc::channel();
        let done = || {
            let sender = sender.clone();
            HostDone::new(move |outcome| {
                let completed = matches!(outcome, HostOutcome::Completed);
                sender.send(completed).unwrap();
            })
        };
        let mut ends = Some((done(), done()));
        let failed = || {
            HostOutcome::Failed(Failure::not_run(
                &"task".into(),
                Reason::Refused("planned".into()),
            ))
        };
        let mut end = || {
            let (dropped, ended) = ends.take().unwrap();
            drop(dropped);
            ended.end(failed());
            reported.try_iter().collect::<Vec<_>>()
        };
        assert!(in_child(|| end().is_empty()));
        assert_eq!(end(), [true, false]);
    }
}
