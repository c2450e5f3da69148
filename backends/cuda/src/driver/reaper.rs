//! Releases the resources whose release waits for the GPU, on a thread that nothing waits for.
//!
//! `cuMemFreeHost` and `cuModuleUnload` return once all kernels of the context have ended, also those of other clients
//! and of other libraries. Their owners are dropped on threads that must not wait that long: the threads that complete
//! batches, the thread that drops users' values, the thread of the device.
//!
//! A drop therefore only *retires* the resource. On a device with threads, a thread releases what is retired and ends
//! when nothing is left; it is started on demand, so that an idle device has none (I11). On a driven device, `pump`
//! releases when none of its queues has work. Closing the device releases the rest, after its queues have completed.
//! Before the device is open, and after it is closed, a drop releases at once.

use std::sync::Arc;

use millstream_protocol::threads::{Spawner, Thread, ThreadRole};

use super::context::log_failure;
use super::retired::{Place, Retired};
use super::{Api, Context};

/// The name of the thread.
const THREAD: &str = "ms-cuda-release";

impl Retired {
    /// Releases the resource. The context is current.
    fn release(self, api: &Api) {
        // SAFETY: the owner of the resource gave it up in its drop, so it is released once, and nothing uses it.
        unsafe {
            match self {
                Retired::Pinned(start) => {
                    log_failure("cuMemFreeHost", (api.free_host)(start.as_ptr()));
                }
                Retired::Module(raw) => {
                    log_failure("cuModuleUnload", (api.unload_module)(raw));
                }
            }
        }
    }
}

impl Context {
    /// Lets a thread of this spawner release what is retired from here on, or `pump` if there is no spawner.
    pub(crate) fn begin_retiring(&self, spawner: Option<Spawner>) {
        self.reaper.lock().place = match spawner {
            Some(spawner) => Place::Thread(spawner),
            None => Place::Pump,
        };
    }

    /// Releases everything that is retired, and from here on at once. May wait for the GPU.
    pub(crate) fn end_retiring(&self) {
        let mut state = self.reaper.lock();
        state.place = Place::Drop;
        let thread = state.thread.take();
        drop(state);
        if let Some(thread) = thread
            && !thread.is_current()
        {
            // The thread's code does not panic.
            let _ = thread.join();
        }
        self.release_retired();
    }

    /// Gives up a resource that nothing uses any more. Does not wait for the GPU while the device is open.
    pub(super) fn retire(self: &Arc<Self>, resource: Retired) {
        let mut state = self.reaper.lock();
        let spawner = match &state.place {
            Place::Drop => {
                drop(state);
                self.release_all(&[resource]);
                return;
            }
            Place::Thread(spawner) if !state.is_running => Some(spawner.clone()),
            Place::Thread(_) | Place::Pump => None,
        };
        state.retired.push(resource);
        let Some(spawner) = spawner else { return };
        state.is_running = true;
        let ended = state.thread.take();
        drop(state);
        // It has left its loop.
        drop(ended.map(Thread::join));
        let context = self.clone();
        let started = spawner.spawn(ThreadRole::Collector, THREAD, move || context.reap());
        let mut state = self.reaper.lock();
        match started {
            Ok(thread) => state.thread = Some(thread),
            // The next drop tries again, and closing releases the resource in any case.
            Err(why) => {
                tracing::debug!(target: "millstream::cuda", %why, "resources are released later");
                state.is_running = false;
            }
        }
    }

    /// Releases until nothing is retired. Runs on the thread.
    fn reap(&self) {
        loop {
            let mut state = self.reaper.lock();
            let retired = std::mem::take(&mut state.retired);
            if retired.is_empty() {
                state.is_running = false;
                return;
            }
            drop(state);
            self.release_all(&retired);
        }
    }

    /// Releases what is retired on this thread. May wait for the GPU.
    pub(crate) fn release_retired(&self) {
        let retired = std::mem::take(&mut self.reaper.lock().retired);
        self.release_all(&retired);
    }

    /// Releases these resources on this thread.
    pub(super) fn release_all(&self, retired: &[Retired]) {
        if !retired.is_empty() {
            self.with_current(|api| retired.iter().for_each(|resource| resource.release(api)));
        }
    }
}
