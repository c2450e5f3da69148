//! User code in a stream's order: host functions, and access to a backend's own resources.

use std::any::{Any, type_name};
use std::sync::Arc;

use millstream_protocol::access::Access;
use millstream_protocol::backend::{Backend, Open};
use millstream_protocol::binding::Binding;
use millstream_protocol::element::Element;
use millstream_protocol::error::Error;
use millstream_protocol::error::Refused;
use millstream_protocol::failure::{Failure, Reason};
use millstream_protocol::message::CustomWork;
use millstream_protocol::message::{Custom, HostDone, HostWork, Op, Task};
use millstream_protocol::table::Table;
use millstream_sync::facade::{Mutex, lock};
use millstream_sync::reply::{ReplySender, reply};

use crate::arguments::{Bound, up_to_eight};
use crate::handle::Handle;
use crate::{Pending, Returned, Room, Stream};

mod sealed {
    /// Bindings come from handles alone.
    pub trait Sealed {}
}

/// Bindings of a task that runs user code: a tuple of bound handles, one alone, or a list. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no list of bindings",
    label = "expected a tuple of bound handles",
    note = "write a tuple of at most 8, as `(read(&x), write(&y))`, `()` for none, or a slice `&[(&x, Access::Read)][..]`"
)]
pub trait IntoBindings: sealed::Sealed {
    /// The bindings, if all are of the device with this table.
    ///
    /// # Errors
    /// The table of the first that is not.
    fn bindings(&self, table: &Arc<Table>) -> Result<Vec<Binding>, Arc<Table>>;
}

impl<T: Element> Bound<'_, T> {
    fn of(&self, table: &Arc<Table>) -> Result<Binding, Arc<Table>> {
        own_binding(self.handle(), self.access(), table)
    }
}

fn own_binding<T: Element>(
    handle: &Handle<T>,
    access: Access,
    table: &Arc<Table>,
) -> Result<Binding, Arc<Table>> {
    let own = handle.hold().table();
    match Arc::ptr_eq(own, table) {
        true => Ok(handle.binding(access)),
        false => Err(own.clone()),
    }
}

macro_rules! tuple_bindings {
    ($(($($name:ident $index:tt),*))*) => {$(
        impl<$($name: Element),*> sealed::Sealed for ($(Bound<'_, $name>,)*) {}

        impl<$($name: Element),*> IntoBindings for ($(Bound<'_, $name>,)*) {
            fn bindings(&self, _table: &Arc<Table>) -> Result<Vec<Binding>, Arc<Table>> {
                Ok(vec![$(self.$index.of(_table)?),*])
            }
        }
    )*};
}

up_to_eight!(tuple_bindings);

impl<T: Element> sealed::Sealed for Bound<'_, T> {}

impl<T: Element> IntoBindings for Bound<'_, T> {
    fn bindings(&self, table: &Arc<Table>) -> Result<Vec<Binding>, Arc<Table>> {
        Ok(vec![self.of(table)?])
    }
}

impl<T: Element> sealed::Sealed for &[(&Handle<T>, Access)] {}

impl<T: Element> IntoBindings for &[(&Handle<T>, Access)] {
    fn bindings(&self, table: &Arc<Table>) -> Result<Vec<Binding>, Arc<Table>> {
        self.iter()
            .map(|(handle, access)| own_binding(handle, *access, table))
            .collect()
    }
}

/// Typed access to slices on one kind of backend, outside its queues. While it lives, tasks that
/// conflict with its bindings are held back; all others go on. Dropping it lets them go.
pub struct ResourceGuard<O: Open> {
    resources: Box<<O::Backend as Backend>::Resources>,
    _done: HostDone,
}

impl<O: Open> std::ops::Deref for ResourceGuard<O> {
    type Target = <O::Backend as Backend>::Resources;

    fn deref(&self) -> &Self::Target {
        &self.resources
    }
}

impl<O: Open> std::ops::DerefMut for ResourceGuard<O> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.resources
    }
}

/// User code on the resources of one kind of backend: what [`Stream::with_resource`] gives back when it is not taken.
/// It is such code itself, so the call can be made again with it.
pub type ResourceWork<O> =
    Box<dyn FnOnce(&mut <<O as Open>::Backend as Backend>::Resources) + Send>;

impl Stream {
    /// Runs `function` on a thread for user code, after everything added to the stream so far, and
    /// before anything that is added later. Other streams go on meanwhile, unless they touch `bindings`.
    ///
    /// May wait for room in the mailbox, or while the client has
    /// [`max_jobs`](millstream_protocol::options::DeviceOptions::max_jobs) host functions, callbacks and values to drop on
    /// their way. A panic poisons what is bound for writing. A blocking call of this library inside answers
    /// [`Error::WouldDeadlock`]. All clients of a device share its threads for user code, at most 16: what blocks for long belongs on a
    /// thread of the caller's.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::NoRoomHere`], [`Error::Closed`]; through [`Stream::nowait`] also [`Error::Busy`]. `function` comes back with
    /// it, uncalled: [`Returned`].
    pub fn host<F: FnOnce() + Send + 'static>(
        &self,
        name: &str,
        bindings: impl IntoBindings,
        function: F,
    ) -> Result<(), Returned<F>> {
        let work = |function: F, room: Room| HostWork {
            name: name.into(),
            resources: false,
            run: Box::new(move |_done, _resources| {
                // Given back when the function has returned, or panicked.
                let _room = room;
                function();
            }),
            told: None,
        };
        self.submit_host(&bindings, function, work)
    }

    /// Sends the host function that `work` makes of `value`, which comes back unless it was sent.
    fn submit_host<V>(
        &self,
        bindings: &impl IntoBindings,
        value: V,
        work: impl FnOnce(V, Room) -> HostWork,
    ) -> Result<(), Returned<V>> {
        let prepared = self
            .own_bindings(bindings)
            .and_then(|bindings| Ok((bindings, self.job_room(self.waits())?)));
        let (bindings, room) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Err(Returned { value, error }),
        };
        let op = |(value, room)| Op::Host(Box::new(work(value, room)));
        let fill = |task: &mut Task| {
            bindings
                .into_iter()
                .for_each(|binding| task.push_binding(binding));
        };
        self.submit_value(self.waits(), (value, room), op, fill)
            .map_err(|returned| returned.map(|(value, _room)| value))?;
        self.device().channel().awaited();
        Ok(())
    }

    fn own_bindings(&self, bindings: &impl IntoBindings) -> Result<Vec<Binding>, Error> {
        bindings
            .bindings(self.device().table())
            .map_err(|table| self.device().foreign("handle", &table))
    }

    fn check_backend<O: Open>(&self) -> Result<(), Error> {
        if self.device().is_backend::<O::Backend>() {
            return Ok(());
        }
        Err(Error::WrongBackend {
            asked: O::NAME,
            actual: self.device().properties().backend,
        })
    }

    /// Runs `work` on the stream's queue with the backend's own resources for `bindings`: a task like
    /// any other, which failures and timelines call `name`. It must end by itself; it stands in the way of
    /// what follows on its queue. May wait for room in the mailbox.
    ///
    /// A panic, or a device that refuses its resources, poisons what is bound for writing.
    ///
    /// # Errors
    /// [`Error::WrongBackend`] on another kind of device, [`Error::Foreign`], [`Error::Closed`]; through
    /// [`Stream::nowait`] also [`Error::Busy`]. `work` comes back with it, boxed and uncalled: [`Returned`].
    pub fn with_resource<O: Open>(
        &self,
        name: &str,
        bindings: impl IntoBindings,
        work: impl FnOnce(&mut <O::Backend as Backend>::Resources) + Send + 'static,
    ) -> Result<(), Returned<ResourceWork<O>>> {
        let known = self.check_backend::<O>();
        let bindings = match known.and_then(|()| self.own_bindings(&bindings)) {
            Ok(bindings) => bindings,
            Err(error) => {
                let value: ResourceWork<O> = Box::new(work);
                return Err(Returned { value, error });
            }
        };
        let op = |work| {
            Op::Custom(Box::new(Custom {
                name: name.into(),
                work: on_resources(work),
            }))
        };
        let fill = |task: &mut Task| {
            bindings
                .into_iter()
                .for_each(|binding| task.push_binding(binding));
        };
        self.submit_value(self.waits(), work, op, fill)
            .map_err(|returned| returned.map(|work| Box::new(work) as ResourceWork<O>))?;
        self.device().channel().awaited();
        Ok(())
    }

    /// Access to the backend's own resources for `bindings`, once everything before has completed.
    /// The guard holds back what conflicts with it. Asking may wait as [`Stream::host`].
    ///
    /// The answer is the failure of what is bound for reading, or of a device that refuses its resources.
    pub fn get_resource<O: Open>(&self, bindings: impl IntoBindings) -> Pending<ResourceGuard<O>> {
        let home = self.home();
        if let Err(error) = self.check_backend::<O>() {
            return Pending::failed(home, error);
        }
        let (sender, receiver) = reply();
        let asked = self.submit_host(&bindings, sender, |sender, room| {
            let answer = Arc::new(Mutex::new(Some(sender)));
            let failed = answer.clone();
            HostWork {
                name: "get resource".into(),
                resources: true,
                run: Box::new(move |done, resources| {
                    let _room = room;
                    give_guard::<O>(&answer, done, resources);
                }),
                told: Some(Box::new(move |error| send_once(&failed, Err(error)))),
            }
        });
        match asked {
            Ok(()) => Pending::value(home, receiver),
            Err(returned) => Pending::failed(home, returned.error),
        }
    }
}

/// User code for a queue, which fails where it is not given the resources that it is for.
fn on_resources<R: Any>(work: impl FnOnce(&mut R) + Send + 'static) -> CustomWork {
    Box::new(move |given| match given.downcast_mut::<R>() {
        Some(resources) => {
            work(resources);
            Ok(())
        }
        None => Err(Refused::Task(foreign_resources::<R>())),
    })
}

#[cold]
fn foreign_resources<R>() -> String {
    format!("its backend did not give it {}", type_name::<R>())
}

/// The answer of a guard's asker, until it is sent.
type GuardReply<O> = Mutex<Option<ReplySender<Result<ResourceGuard<O>, Error>>>>;

fn give_guard<O: Open>(
    answer: &GuardReply<O>,
    done: HostDone,
    resources: Option<Box<dyn Any + Send>>,
) {
    match resources.and_then(|resources| resources.downcast().ok()) {
        Some(resources) => {
            let guard = ResourceGuard {
                resources,
                _done: done,
            };
            send_once(answer, Ok(guard));
        }
        None => {
            let why = foreign_resources::<<O::Backend as Backend>::Resources>();
            let failure = Failure::not_run(&"get resource".into(), Reason::Refused(why.clone()));
            done.fail(why);
            send_once(answer, Err(Error::Failed(failure)));
        }
    }
}

fn send_once<O: Open>(answer: &GuardReply<O>, outcome: Result<ResourceGuard<O>, Error>) {
    let sender = lock(answer).take();
    if let Some(sender) = sender {
        sender.send(outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I6: a closure that is not given its resources does not pass as one that ran.
    #[test]
    fn custom_work_that_is_given_something_else_is_refused_and_does_not_run() {
        let work = on_resources(|_: &mut u32| panic!("it ran"));
        assert_eq!(
            work(&mut "no number"),
            Err(Refused::Task("its backend did not give it u32".into()))
        );
        let work = on_resources(|number: &mut u32| *number += 1);
        let mut number = 1_u32;
        assert_eq!((work(&mut number), number), (Ok(()), 2));
    }
}
