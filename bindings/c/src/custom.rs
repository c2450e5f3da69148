//! Functions of the caller that submit work to a GPU in place of a task: what those for CUDA and Vulkan share.

use std::ffi::c_void;

use millstream::backend::{Backend, Open};
use millstream::{Access, Handle, Stream};

use crate::argument::ms_argument;
use crate::buffer::buffer_of;
use crate::native::{Function, Owner};
use crate::sized::read_array;
use crate::status::Answer;
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
            Ok((unsafe { buffer_of(argument.value.buffer)? }, access))
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
}

/// A function that submits the work of a task. It is called once at most.
pub(crate) type TaskFn<T> = unsafe extern "C" fn(*const T, *mut c_void) -> i32;

/// Calls the function of a task. If it answers that it failed, the task fails.
pub(crate) fn run_task<T>(function: &Function<TaskFn<T>>, task: &T) {
    // SAFETY: the caller's function, with the arguments that it was registered for.
    let answer = unsafe { (function.call)(task, function.owner.user()) };
    if answer != 0 {
        // This is how a custom task fails; unlike `panic!` it calls no panic hook.
        let why = format!("the function of the task answered {answer}");
        std::panic::resume_unwind(Box::new(why));
    }
}
