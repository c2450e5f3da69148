//! What tasks bring along from the host: bytes to be copied, and code to be run.

use std::any::Any;
use std::sync::Arc;

use crate::element::Element;
use crate::error::{Error, Refused};

/// The bytes of a copy in.
pub enum HostSource {
    /// In the task's words: this many bytes.
    Words(u32),
    /// Owned elsewhere; handed to the queue, which drops it when it has been copied.
    Owned(Box<dyn HostBytes>),
}

/// Owned bytes of the host that a queue copies from.
pub trait HostBytes: Send + 'static {
    /// The bytes.
    fn bytes(&self) -> &[u8];

    /// Gives back the memory of bytes that are copied, before the copy to the device is over; there are none from here on.
    fn let_go(&mut self) {}

    /// Do they lie in a block of the device's own [`HostMemory`](crate::staging::HostMemory), which stays until this is dropped?
    fn is_of_host_memory(&self) -> bool {
        false
    }
}

impl<T: Element> HostBytes for Vec<T> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }

    fn let_go(&mut self) {
        *self = Vec::new();
    }
}

impl<T: Element> HostBytes for Box<[T]> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }

    fn let_go(&mut self) {
        *self = Box::default();
    }
}

impl<T: Element> HostBytes for Arc<[T]> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }

    fn let_go(&mut self) {
        *self = Arc::default();
    }
}

/// User code that runs off the device thread.
pub struct HostWork {
    /// Its name, for failures and timelines.
    pub name: Arc<str>,
    /// Does it want the backend's resources of its bindings?
    pub resources: bool,
    /// The code. Dropping the [`HostDone`] ends the task, at once or later (a guard).
    pub run: HostFn,
    /// Who is told, on the device thread, of what keeps it from running.
    pub told: Option<FailFn>,
}

/// User code for a host thread: with the resources of its bindings, if it asked for them.
pub type HostFn = Box<dyn FnOnce(HostDone, Option<Box<dyn Any + Send>>) + Send>;

/// Tells why there is no answer: the failure of the data that was asked for, or the loss of the device.
pub type FailFn = Box<dyn FnOnce(Error) + Send>;

/// What is told of the end of a host function: nothing, or its panic's message.
type FinishFn = Box<dyn FnOnce(Result<(), String>) + Send>;

/// The end of a host function: dropping it tells the device that the task is done.
pub struct HostDone {
    finish: Option<FinishFn>,
}

impl HostDone {
    /// Ends that call `finish` once, with the panic's message if there was one.
    pub fn new(finish: impl FnOnce(Result<(), String>) + Send + 'static) -> Self {
        Self {
            finish: Some(Box::new(finish)),
        }
    }

    /// The task failed with this message; what it would have written is poisoned.
    pub fn fail(mut self, message: String) {
        if let Some(finish) = self.finish.take() {
            finish(Err(message));
        }
    }
}

impl Drop for HostDone {
    fn drop(&mut self) {
        if let Some(finish) = self.finish.take() {
            finish(Ok(()));
        }
    }
}

/// User code for a queue. The value is the backend's own resources (`&mut B::Resources`), or the
/// failure of what the task reads. If it refuses, it has not run: the task fails with its reason.
pub type CustomWork = Box<dyn FnOnce(&mut dyn Any) -> Result<(), Refused> + Send>;
