//! Functions of the caller that submit work to a GPU in place of a task: what those for CUDA and Vulkan share.

use std::ffi::c_void;
use std::sync::Arc;

use millstream::backend::{Backend, Open};
use millstream::{Access, Handle, Stream};

use crate::argument::ms_argument;
use crate::handles::get;
use crate::native::{Owner, ms_drop_fn};
use crate::sized::read_array;
use crate::status::{Answer, Fault};
use crate::types::access_of;

/// The buffers of a task that runs a function of the caller.
pub(crate) struct Buffers(Vec<(Handle<u8>, Access)>);

impl Buffers {
    /// Reads arguments that are buffers.
    ///
    /// # Safety
    /// `arguments` is NULL or points to `count` arguments, whose handles the caller keeps.
    pub(crate) unsafe fn read(arguments: *const ms_argument, count: usize) -> Answer<Self> {
        // SAFETY: the caller's promise.
        let given = unsafe { read_array(arguments, count)? };
        let buffer = |argument: &ms_argument| {
            let access = access_of(argument.kind)?;
            // SAFETY: the kind says that the value is a handle, and any bits may be looked up.
            let buffer = unsafe { get(argument.value.buffer)? };
            Ok((buffer.0.clone(), access))
        };
        Ok(Self(given.iter().map(buffer).collect::<Answer<_>>()?))
    }

    /// Returns the buffers as a task takes them.
    pub(crate) fn bindings(&self) -> Vec<(&Handle<u8>, Access)> {
        self.0
            .iter()
            .map(|(buffer, access)| (buffer, *access))
            .collect()
    }

    /// Adds a task that runs `work`, and takes the ownership of what it uses. After an error it is the caller's.
    pub(crate) fn submit<O: Open>(
        &self,
        stream: &Stream,
        name: &str,
        owner: &Owner,
        work: impl FnOnce(&<O::Backend as Backend>::Resources) + Send + 'static,
    ) -> Answer<()> {
        let added = stream.with_resource::<O>(name, &self.bindings()[..], work);
        added.map_err(|returned| returned.error)?;
        owner.take();
        Ok(())
    }

    /// Returns the number of buffers.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}

/// A function of the caller, called once at most.
pub(crate) struct Function<T> {
    call: unsafe extern "C" fn(*const T, *mut c_void) -> i32,
    owner: Arc<Owner>,
}

impl<T> Function<T> {
    pub(crate) fn new(
        call: Option<unsafe extern "C" fn(*const T, *mut c_void) -> i32>,
        user: *mut c_void,
        drop: ms_drop_fn,
    ) -> Answer<Self> {
        match call {
            Some(call) => Ok(Self {
                call,
                owner: Arc::new(Owner::new(user, drop)),
            }),
            None => Err(Fault::argument("the function of the task is NULL")),
        }
    }

    /// Returns what the function uses, which the caller owns until the task was submitted.
    pub(crate) fn owner(&self) -> Arc<Owner> {
        self.owner.clone()
    }

    /// Calls the function. If it answers that it failed, the task fails.
    pub(crate) fn call(&self, task: &T) {
        // SAFETY: the caller's function, with the arguments that it was registered for.
        let answer = unsafe { (self.call)(task, self.owner.user()) };
        if answer != 0 {
            // This is how a custom task fails; unlike `panic!` it calls no panic hook.
            let why = format!("the function of the task answered {answer}");
            std::panic::resume_unwind(Box::new(why));
        }
    }
}
