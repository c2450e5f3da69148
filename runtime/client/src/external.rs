//! External tasks: work in a stream's order that code outside of the device carries out, and guards, which are external
//! tasks whose end is a drop.
//!
//! ```text
//!  Stream::external ──► held in its stream ──► its dependencies have completed: `begin` receives the ExternalTask
//!                              │                               │ any thread, any time later
//!                              │ withdrawn, poisoned, lost     ▼
//!                              ▼                        complete / fail ──► later tasks of the stream, and those that
//!                  `begin` receives the error                               conflict with its bindings, go on
//! ```

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use millstream_protocol::{
    Backend, Error, Extent, FailFn, Failure, FailureRef, HostDone, HostNeeds, HostOutcome,
    HostPlace, HostWork, Job, Open, Reason,
};
use millstream_sync::facade::{Mutex, lock};
use millstream_sync::payload;
use millstream_sync::reply::reply;

use crate::helpers::Helper;
use crate::host::foreign_resources;
use crate::of_process::OfProcess;
use crate::task_end::TaskEnd;
use crate::{IntoBindings, Pending, Permit, Returned, Stream};

/// An external task that has begun: see [`Stream::external`]. Until it ends, tasks that conflict with its bindings are
/// held, and so are the later tasks of its stream; all others go on.
///
/// A drop without [`ExternalTask::complete`] fails the task.
#[must_use = "a drop fails the task"]
pub struct ExternalTask {
    /// Dropped before the end is reported: a checker sees the end of the access before the device does.
    resources: OfProcess<Option<Box<dyn Any + Send>>>,
    end: TaskEnd,
}

impl ExternalTask {
    fn new((done, resources, name): Begun, permit: Option<Permit>) -> Self {
        let end = TaskEnd::begun(name, Extent::MaybePartial, done, permit);
        let resources = OfProcess::new(resources);
        Self { resources, end }
    }

    /// Returns the backend's own resources for the bindings. `None` if the device has another backend than `O`. They are
    /// borrowed from the task, which therefore cannot end meanwhile:
    ///
    /// ```compile_fail,E0505
    /// # use millstream_client::ExternalTask;
    /// # use millstream_protocol::Open;
    /// fn complete<O: Open>(task: ExternalTask) {
    ///     let resources = task.resources::<O>();
    ///     task.complete();
    ///     drop(resources);
    /// }
    /// ```
    pub fn resources<O: Open>(&self) -> Option<&<O::Backend as Backend>::Resources> {
        self.resources.as_ref()?.downcast_ref()
    }

    /// Gives the resources back.
    fn into_end(self) -> TaskEnd {
        self.end
    }

    /// Ends the task: what it is bound to write holds defined data.
    pub fn complete(self) {
        self.into_end().report(HostOutcome::Completed);
    }

    /// Fails the task: the ranges that it was bound to write are poisoned, and may be partly written.
    pub fn fail(self, reason: Reason) {
        self.into_end().fail(reason);
    }

    /// Fails the task because of another failure, such as that of a task on another device: the ranges that it was
    /// bound to write are poisoned, with `cause` as their origin.
    pub fn fail_by(self, cause: FailureRef) {
        self.into_end().fail_by(cause);
    }
}

impl std::fmt::Debug for ExternalTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExternalTask({})", self.end.name)
    }
}

impl Stream {
    /// Adds a task that code outside of the device carries out, such as a transfer between devices. Once the data of
    /// `bindings` is ready, `begin` receives the task, which may be moved to another thread and ended there. May block
    /// as [`Stream::host`].
    ///
    /// If the task cannot begin, `begin` receives the reason: the failure of its data, its withdrawal, or the end of
    /// the device. `begin` must not block: it runs on a thread for user code. It is dropped uncalled if the device is closed
    /// before.
    ///
    /// # Errors
    /// Same as [`Stream::host`]. The error carries the uncalled `begin`: [`Returned`].
    pub fn external<F>(
        &self,
        name: &str,
        bindings: impl IntoBindings,
        begin: F,
    ) -> Result<(), Returned<F>>
    where
        F: FnOnce(Result<ExternalTask, Error>) + Send + 'static,
    {
        let name: Arc<str> = name.into();
        self.submit_host(&bindings, begin, |begin, permit| {
            let work = external_work(name, HostNeeds::Resources, move |begun| {
                begin(begun.map(|begun| ExternalTask::new(begun, Some(permit))));
            });
            self.fails_off_the_turn(work)
        })
    }

    /// Makes the code that receives the error of `work` run on a thread for user code. The server passes the error during
    /// a turn, also on a caller that steps in, and such code may take a lock that the caller holds.
    pub(crate) fn fails_off_the_turn(&self, mut work: HostWork) -> HostWork {
        let device = Arc::downgrade(self.device());
        work.on_failure = work.on_failure.map(|fails| -> FailFn {
            Box::new(move |error| {
                // The code of a closed device is dropped uncalled, with the task. A device without handles is closed.
                if !matches!(error, Error::Closed)
                    && let Some(device) = device.upgrade()
                {
                    device.channel().execute(Box::new(move || fails(error)));
                }
            })
        });
        work
    }

    /// Whether its device is driven: it has no thread.
    #[doc(hidden)]
    pub fn is_driven(&self) -> bool {
        self.device().channel().is_driven()
    }

    /// As [`Stream::external`], for code of this project that begins the task at once: `begin` runs on the thread that
    /// runs the device, so that no other thread is woken for it. It returns the rest of its work, which a thread for
    /// user code runs, if it would take more than a few microseconds.
    ///
    /// `begin` keeps the contract of [`HostPlace::AtOnce`]: it does not block or panic,
    /// makes no call of a device except that it ends tasks, and takes no lock that is held during a call of a device.
    /// Neither is the task ended under a lock that `begin` takes: the end may run the device, where `begin` of the next
    /// task runs.
    ///
    /// # Errors
    /// Same as [`Stream::external`].
    #[doc(hidden)]
    pub fn external_at_once<F>(
        &self,
        name: &str,
        bindings: impl IntoBindings,
        begin: F,
    ) -> Result<(), Returned<F>>
    where
        F: FnOnce(Result<ExternalTask, Error>) -> Option<Job> + Send + 'static,
    {
        let name: Arc<str> = name.into();
        self.submit_host(&bindings, begin, |begin, permit| {
            let (begins, on_failure) = once(begin);
            let task = name.clone();
            HostWork {
                name,
                needs: HostNeeds::Resources,
                run: Box::new(move |done, resources| {
                    begins(ExternalTask::new((done, resources, task), None)).flatten()
                }),
                place: HostPlace::AtOnce(Box::new(permit)),
                on_failure: Some(on_failure),
            }
        })
    }
}

impl Stream {
    /// Adds a function that goes on with what external tasks of the device wait for. As long as it lives, threads that wait
    /// for the device call it, until the function that they pass returns `true`. It may return early, and must not block.
    /// Returns `false` if threads that wait for this device do not help: a driven one.
    #[doc(hidden)]
    pub fn set_helper(&self, helper: Weak<Helper>) -> bool {
        let helps = !self.is_driven();
        if helps {
            self.device().helpers.add(helper);
        }
        helps
    }
}

/// The parts of an external task that has begun: its end, its resources, its name.
pub(crate) type Begun = (HostDone, Option<Box<dyn Any + Send>>, Arc<str>);

/// Makes a host function that calls `begin` once: when it begins, or with the error because of which it cannot.
pub(crate) fn external_work(
    name: Arc<str>,
    needs: HostNeeds,
    begin: impl FnOnce(Result<Begun, Error>) + Send + 'static,
) -> HostWork {
    let (begins, on_failure) = once(begin);
    let task = name.clone();
    HostWork {
        name,
        needs,
        run: Box::new(move |done, resources| {
            begins((done, resources, task));
            None
        }),
        place: HostPlace::UserCode,
        on_failure: Some(on_failure),
    }
}

/// Divides a function that is called once: the first result calls it with a value, the second with the error.
fn once<T, R>(
    begin: impl FnOnce(Result<T, Error>) -> R + Send + 'static,
) -> (impl FnOnce(T) -> Option<R> + Send, FailFn) {
    let begin = Arc::new(Mutex::new(Some(begin)));
    let failed = begin.clone();
    let begins = move |value| {
        let begin = lock(&begin).take();
        begin.map(|begin| begin(Ok(value)))
    };
    let fails = move |error| {
        let begin = lock(&failed).take();
        if let Some(begin) = begin {
            // On the device's thread, unless it is code of the user (`fails_off_the_turn`).
            let outcome = catch_unwind(AssertUnwindSafe(|| drop(begin(Err(error)))));
            if let Err(panic) = outcome {
                payload::end(panic);
            }
        }
    };
    (begins, Box::new(fails))
}

/// Typed access to slices on one kind of backend, outside its queues. While the guard exists, tasks that
/// conflict with its bindings are held; all others go on. Dropping the guard releases them.
///
/// The resources are only ever borrowed from their guard, and shared: what is borrowed cannot outlive the task, and cannot
/// change places with the resources of another task.
///
/// ```
/// # use millstream_client::ResourceGuard;
/// # use millstream_protocol::{Backend, Open};
/// fn resources<O: Open>(guard: &ResourceGuard<O>) -> &<O::Backend as Backend>::Resources {
///     guard
/// }
/// ```
///
/// ```compile_fail,E0596
/// # use millstream_client::ResourceGuard;
/// # use millstream_protocol::Open;
/// fn exchange<O: Open>(first: &mut ResourceGuard<O>, second: &mut ResourceGuard<O>) {
///     std::mem::swap(&mut **first, &mut **second);
/// }
/// ```
pub struct ResourceGuard<O: Open> {
    resources: OfProcess<Box<<O::Backend as Backend>::Resources>>,
    _done: HostDone,
}

impl<O: Open> std::ops::Deref for ResourceGuard<O> {
    type Target = <O::Backend as Backend>::Resources;

    fn deref(&self) -> &Self::Target {
        &self.resources
    }
}

impl Stream {
    /// Requests access to the backend's own resources for `bindings`, after all tasks added to the stream so far. The
    /// guard holds conflicting later tasks back. May block as [`Stream::host`].
    ///
    /// The answer is the failure of data that is bound for reading, or the error of a device that refuses its
    /// resources.
    pub fn get_resource<O: Open>(&self, bindings: impl IntoBindings) -> Pending<ResourceGuard<O>> {
        let requester = self.requester();
        if let Err(error) = self.check_backend::<O>() {
            return Pending::failed(requester, error);
        }
        let (sender, receiver) = reply();
        let sent = self.submit_host(&bindings, sender, |sender, permit| {
            external_work("get resource".into(), HostNeeds::Resources, move |begun| {
                let _permit = permit;
                sender.send(begun.and_then(guard::<O>));
            })
        });
        match sent {
            Ok(()) => Pending::value(requester, receiver),
            Err(returned) => Pending::failed(requester, returned.error),
        }
    }
}

/// Makes the guard of a task that has begun. The task fails if the device provides resources of another type.
fn guard<O: Open>((done, resources, name): Begun) -> Result<ResourceGuard<O>, Error> {
    match resources.and_then(|resources| resources.downcast().ok()) {
        Some(resources) => Ok(ResourceGuard {
            resources: OfProcess::new(resources),
            _done: done,
        }),
        None => {
            let why = foreign_resources::<<O::Backend as Backend>::Resources>();
            let failure = Failure::not_run(&name, Reason::Refused(why));
            done.end(HostOutcome::Failed(failure.clone()));
            Err(Error::Failed(failure))
        }
    }
}
