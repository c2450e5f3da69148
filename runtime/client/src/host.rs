//! User code in a stream's order: host functions and custom tasks.

use std::any::{Any, type_name};
use std::sync::Arc;

use millstream_protocol::{
    Access, Backend, Binding, Custom, CustomWork, DeviceStatus, Element, Error, Failure, HostNeeds,
    HostPlace, HostWork, Op, Open, Reason, Refused, Stored, Task,
};
use millstream_sync::reply::{ReplySender, reply};

use crate::arguments::{Bound, up_to_eight};
use crate::handle::Handle;
use crate::{DeviceShared, Pending, Permit, Returned, Stream};

mod sealed {
    /// Bindings are made from handles only.
    pub trait Sealed {}
}

/// The bindings of a task that runs user code: a tuple of bound handles, a single one, or a slice. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of bindings",
    label = "expected a tuple of bound handles",
    note = "write a tuple of at most 8, such as `(read(&x), write(&y))`, `()` for none, or a slice `&[(&x, Access::Read)][..]`"
)]
pub trait IntoBindings: sealed::Sealed {
    /// Returns the bindings.
    ///
    /// # Errors
    /// The first handle that is not of this device.
    fn bindings(&self, device: &DeviceShared) -> Result<Vec<Binding>, Error>;
}

impl DeviceShared {
    /// Returns the binding of a handle of this device.
    fn checked<T: Stored>(&self, handle: &Handle<T>, access: Access) -> Result<Binding, Error> {
        self.check_handle(handle)?;
        Ok(handle.binding(access))
    }
}

macro_rules! tuple_bindings {
    ($(($($name:ident $index:tt),*))*) => {$(
        impl<$($name: Element),*> sealed::Sealed for ($(Bound<'_, $name>,)*) {}

        impl<$($name: Element),*> IntoBindings for ($(Bound<'_, $name>,)*) {
            fn bindings(&self, _device: &DeviceShared) -> Result<Vec<Binding>, Error> {
                Ok(vec![$(_device.checked(self.$index.handle(), self.$index.access())?),*])
            }
        }
    )*};
}

up_to_eight!(tuple_bindings);

impl<T: Stored> sealed::Sealed for Bound<'_, T> {}

impl<T: Stored> IntoBindings for Bound<'_, T> {
    fn bindings(&self, device: &DeviceShared) -> Result<Vec<Binding>, Error> {
        Ok(vec![device.checked(self.handle(), self.access())?])
    }
}

impl<T: Stored> sealed::Sealed for &[(&Handle<T>, Access)] {}

impl<T: Stored> IntoBindings for &[(&Handle<T>, Access)] {
    fn bindings(&self, device: &DeviceShared) -> Result<Vec<Binding>, Error> {
        self.iter()
            .map(|(handle, access)| device.checked(handle, *access))
            .collect()
    }
}

/// User code for the resources of one kind of backend: the value that [`Stream::with_resource`] hands back if it is not
/// sent. It can be passed to another call of `with_resource`.
pub type ResourceWork<O> = Box<dyn FnOnce(&<<O as Open>::Backend as Backend>::Resources) + Send>;

impl Stream {
    /// Runs `function` on a thread for user code, after all tasks added to the stream so far and
    /// before all tasks added later. Other streams go on meanwhile, unless they touch `bindings`.
    ///
    /// May block while the mailbox is full, or while the client has
    /// [`max_jobs`](millstream_protocol::DeviceOptions::max_jobs) host functions, callbacks and values to drop
    /// in flight. A panic poisons what is bound for writing. A blocking call of this library inside `function` returns
    /// [`Error::WouldDeadlock`]. All clients of a device share its threads for user code, at most 16: code that blocks
    /// for long should run on a thread of the application.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::NoRoomHere`], [`Error::Closed`]; through [`Stream::nowait`] also [`Error::Busy`].
    /// The error carries the uncalled `function`: [`Returned`].
    pub fn host<F: FnOnce() + Send + 'static>(
        &self,
        name: &str,
        bindings: impl IntoBindings,
        function: F,
    ) -> Result<(), Returned<F>> {
        let work = |function: F, permit: Permit| HostWork {
            name: name.into(),
            needs: HostNeeds::Nothing,
            run: Box::new(move |_done, _resources| {
                // Dropped when the function has returned or panicked.
                let _permit = permit;
                function();
                None
            }),
            place: HostPlace::UserCode,
            on_failure: None,
        };
        self.submit_host(&bindings, function, work)
    }

    /// Sends the host function that `work` makes of `value`. Hands `value` back if it is not sent.
    pub(crate) fn submit_host<V>(
        &self,
        bindings: &impl IntoBindings,
        value: V,
        work: impl FnOnce(V, Permit) -> HostWork,
    ) -> Result<(), Returned<V>> {
        let bindings = bindings.bindings(self.device());
        let prepared = bindings.and_then(|bindings| Ok((bindings, self.job_permit()?)));
        let (bindings, permit) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Err(Returned { value, error }),
        };
        let op = |(value, permit)| Op::Host(Box::new(work(value, permit)));
        let fill = |task: &mut Task| task.set_bindings(&bindings);
        self.submit_value((value, permit), op, fill)
            .map_err(|returned| returned.map(|(value, _permit)| value))?;
        self.device().channel().awaited();
        Ok(())
    }

    pub(crate) fn check_backend<O: Open>(&self) -> Result<(), Error> {
        if self.device().is_backend::<O::Backend>() {
            return Ok(());
        }
        Err(Error::WrongBackend {
            requested: O::NAME,
            actual: self.device().properties().backend,
        })
    }

    /// Runs `work` on the stream's queue with the backend's own resources for `bindings`, as a task that failures and
    /// timelines name `name`. May block while the mailbox is full.
    ///
    /// **`work` only schedules.** It must not wait for later tasks, since it blocks its queue while it runs. On a GPU it
    /// submits work to the driver in place of the task, and so it runs when the task is issued, on the thread of the device,
    /// which all clients wait for: it must not block, nor take a lock that a thread may hold while it calls this library. A
    /// call of this library that would wait returns [`Error::WouldDeadlock`] there. Code that may block takes the resources of
    /// an [external task](Stream::external) instead.
    ///
    /// A panic poisons what is bound for writing, and so does a device that refuses its resources.
    ///
    /// # Errors
    /// [`Error::WrongBackend`] on another kind of device, [`Error::Foreign`], [`Error::Closed`]; through
    /// [`Stream::nowait`] also [`Error::Busy`]. The error carries the uncalled `work` in a box: [`Returned`].
    pub fn with_resource<O: Open>(
        &self,
        name: &str,
        bindings: impl IntoBindings,
        work: impl FnOnce(&<O::Backend as Backend>::Resources) + Send + 'static,
    ) -> Result<(), Returned<ResourceWork<O>>> {
        let value: ResourceWork<O> = Box::new(work);
        let prepared = self.check_backend::<O>().and_then(|()| {
            self.device().check_process()?;
            bindings.bindings(self.device())
        });
        let bindings = match prepared {
            Ok(bindings) => bindings,
            Err(error) => return Err(Returned { value, error }),
        };
        let op = |work| {
            Op::Custom(Box::new(Custom {
                name: name.into(),
                work: on_resources(work),
            }))
        };
        self.device().channel().sends_code();
        self.submit_value(value, op, |task| task.set_bindings(&bindings))?;
        self.device().channel().awaited();
        Ok(())
    }

    /// Runs `work` as [`Stream::with_resource`] does, and returns what it sends through the [`ResourceReply`], there or
    /// later. The answer arrives once the task is issued, and does not wait for the device.
    ///
    /// The answer is [`Error::Failed`] if the reply is dropped: `work` did not send a value, or did not run.
    pub fn ask_resource<O: Open, T: Send + 'static>(
        &self,
        name: &str,
        bindings: impl IntoBindings,
        work: impl FnOnce(&<O::Backend as Backend>::Resources, ResourceReply<T>) + Send + 'static,
    ) -> Pending<T> {
        let (sender, receiver) = reply();
        let reply = ResourceReply {
            sender: Some(sender),
            task: name.into(),
            gone: self.device().gone.clone(),
        };
        let asked =
            self.with_resource::<O>(name, bindings, move |resources| work(resources, reply));
        match asked {
            Ok(()) => Pending::value(self.requester(), receiver),
            Err(returned) => Pending::failed(self.requester(), returned.error),
        }
    }
}

/// Sends the answer of [`Stream::ask_resource`].
pub struct ResourceReply<T: Send + 'static> {
    /// `None` once the answer is sent.
    sender: Option<ReplySender<Result<T, Error>>>,
    task: Arc<str>,
    gone: Arc<DeviceStatus>,
}

impl<T: Send + 'static> ResourceReply<T> {
    /// Sends the answer.
    pub fn send(self, answer: T) {
        self.answer(Ok(answer));
    }

    /// Sends the refusal of a call of the backend as the answer.
    pub fn refuse(self, why: &Refused) {
        let failure = Failure::not_run(&self.task, Reason::Refused(why.to_string()));
        self.answer(Err(Error::Failed(failure)));
    }

    fn answer(mut self, answer: Result<T, Error>) {
        if let Some(sender) = self.sender.take() {
            sender.send(answer);
        }
    }
}

impl<T: Send + 'static> Drop for ResourceReply<T> {
    fn drop(&mut self) {
        let Some(sender) = self.sender.take() else {
            return;
        };
        if self.gone.lost().is_some() || self.gone.has_no_callbacks() {
            // The dropped sender answers with the end of the device.
            return;
        }
        let why = "it dropped its reply, or did not run because data that it binds has failed";
        let failure = Failure::not_run(&self.task, Reason::Refused(why.to_owned()));
        sender.send(Err(Error::Failed(failure)));
    }
}

/// Wraps user code for a queue. The task fails if the backend passes resources of another type.
fn on_resources<R: Any>(work: impl FnOnce(&R) + Send + 'static) -> CustomWork {
    Box::new(move |given| match given.downcast_ref::<R>() {
        Some(resources) => {
            work(resources);
            Ok(())
        }
        None => Err(Refused::Task(foreign_resources::<R>())),
    })
}

#[cold]
pub(crate) fn foreign_resources<R>() -> String {
    format!(
        "its backend did not provide {}; pass the type of resources of this device's backend",
        type_name::<R>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I6: a closure that did not run because its resources are missing does not count as run.
    #[test]
    fn custom_work_with_resources_of_another_type_is_refused_and_does_not_run() {
        let work = on_resources(|_: &u32| panic!("the closure ran"));
        assert_eq!(
            work(&"no number"),
            Err(Refused::Task(foreign_resources::<u32>()))
        );
        let (sender, receiver) = std::sync::mpsc::channel();
        let work = on_resources(move |number: &u32| sender.send(*number).unwrap());
        assert_eq!((work(&1_u32), receiver.recv()), (Ok(()), Ok(1)));
    }
}
