//! User code in a stream's order: host functions, and access to a backend's own resources.

use std::sync::Arc;

use millstream_sync::reply::reply;

use crate::access::Access;
use crate::backend::{Backend, Open};
use crate::client::{Pending, Stream};
use crate::element::Element;
use crate::error::Error;
use crate::handle::{Binding, Handle, Table};
use crate::launch::Bound;
use crate::message::{Custom, HostDone, HostWork, Op};

mod sealed {
    /// Bindings come from handles alone.
    pub trait Sealed {}
}

/// Bindings of a task that runs user code: a tuple of bound handles, or a list. Sealed.
pub trait IntoBindings: sealed::Sealed {
    /// The bindings, if all are of the device with this table.
    fn bindings(&self, table: &Arc<Table>) -> Option<Vec<Binding>>;
}

impl<T: Element> Bound<'_, T> {
    fn of(&self, table: &Arc<Table>) -> Option<Binding> {
        Arc::ptr_eq(self.handle().hold().table(), table)
            .then(|| self.handle().binding(self.access()))
    }
}

macro_rules! tuple_bindings {
    ($(($($name:ident $index:tt),*))*) => {$(
        impl<$($name: Element),*> sealed::Sealed for ($(Bound<'_, $name>,)*) {}

        impl<$($name: Element),*> IntoBindings for ($(Bound<'_, $name>,)*) {
            fn bindings(&self, _table: &Arc<Table>) -> Option<Vec<Binding>> {
                Some(vec![$(self.$index.of(_table)?),*])
            }
        }
    )*};
}

tuple_bindings! {
    ()
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}

impl<T: Element> sealed::Sealed for &[(&Handle<T>, Access)] {}

impl<T: Element> IntoBindings for &[(&Handle<T>, Access)] {
    fn bindings(&self, table: &Arc<Table>) -> Option<Vec<Binding>> {
        let own = |(handle, access): &(&Handle<T>, Access)| {
            Arc::ptr_eq(handle.hold().table(), table).then(|| handle.binding(*access))
        };
        self.iter().map(own).collect()
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

impl Stream {
    /// Runs `function` on a thread for user code, after everything added to the stream so far, and
    /// before anything that is added later. Other streams go on meanwhile, unless they touch `bindings`.
    /// May wait for room in the mailbox.
    ///
    /// A panic poisons what is bound for writing. A blocking call of this library inside answers
    /// [`Error::WouldDeadlock`].
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Closed`].
    pub fn host(
        &self,
        name: &str,
        bindings: impl IntoBindings,
        function: impl FnOnce() + Send + 'static,
    ) -> Result<(), Error> {
        let run = Box::new(move |_done: HostDone, _resources| function());
        self.submit_host(
            HostWork {
                name: name.into(),
                resources: false,
                run,
            },
            &bindings,
        )
    }

    fn submit_host(&self, work: HostWork, bindings: &impl IntoBindings) -> Result<(), Error> {
        let bindings = bindings
            .bindings(self.device().table())
            .ok_or(Error::Foreign { what: "handle" })?;
        self.submit(self.waits(), Op::Host(Box::new(work)), |task| {
            bindings
                .into_iter()
                .for_each(|binding| task.push_binding(binding));
        })
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
    /// any other. It must end by itself; it stands in the way of what follows on its queue. May wait for
    /// room in the mailbox.
    ///
    /// # Errors
    /// [`Error::WrongBackend`] on another kind of device, [`Error::Foreign`], [`Error::Closed`].
    pub fn with_resource<O: Open>(
        &self,
        bindings: impl IntoBindings,
        work: impl FnOnce(&mut <O::Backend as Backend>::Resources) + Send + 'static,
    ) -> Result<(), Error> {
        self.check_backend::<O>()?;
        let bindings = bindings
            .bindings(self.device().table())
            .ok_or(Error::Foreign { what: "handle" })?;
        let work = Box::new(move |resources: &mut dyn std::any::Any| {
            if let Some(resources) = resources.downcast_mut::<<O::Backend as Backend>::Resources>()
            {
                work(resources);
            }
        });
        self.submit(
            self.waits(),
            Op::Custom(Box::new(Custom {
                name: "with resource".into(),
                work,
            })),
            |task| {
                bindings
                    .into_iter()
                    .for_each(|binding| task.push_binding(binding));
            },
        )
    }

    /// Access to the backend's own resources for `bindings`, once everything before has completed.
    /// The guard holds back what conflicts with it. Asking may wait for room in the mailbox.
    pub fn get_resource<O: Open>(&self, bindings: impl IntoBindings) -> Pending<ResourceGuard<O>> {
        let device = self.device().clone();
        if let Err(error) = self.check_backend::<O>() {
            return Pending::failed(device, error);
        }
        let (sender, receiver) = reply();
        let run = Box::new(
            move |done: HostDone, resources: Option<Box<dyn std::any::Any + Send>>| {
                let resources = resources.and_then(|resources| resources.downcast().ok());
                sender.send(match resources {
                    Some(resources) => Ok(ResourceGuard {
                        resources,
                        _done: done,
                    }),
                    None => Err(Error::Closed),
                });
            },
        );
        match self.submit_host(
            HostWork {
                name: "get resource".into(),
                resources: true,
                run,
            },
            &bindings,
        ) {
            Ok(()) => Pending::value(device, receiver),
            Err(error) => Pending::failed(device, error),
        }
    }
}
