//! Releases the resources whose release waits for the GPU, on a thread that nothing waits for.
//!
//! `cuMemFreeHost` and `cuModuleUnload` return once all kernels of the context have ended, also those of other clients
//! and of other libraries. Their owners are dropped on threads that must not wait that long: the threads that complete
//! batches, the thread that drops users' values, the thread of the device.
//!
//! A drop therefore only *retires* the resource. On a device with threads, a thread releases what is retired and ends
//! when nothing is left; it is started on demand, so that an idle device has none (I11). It holds the context, so it may
//! outlive the device: the close of a device waits for it until the deadline of the close, and then leaves it running. If
//! no thread can be started, the last owner of the context releases. From the close on, a drop on a thread of the
//! application releases at once.
//!
//! On a driven device, `pump` releases when none of its queues has work. Closing the device releases the rest, after its
//! queues have completed, and from then on a drop releases at once, as one does before a device is open.
//!
//! What a lost device retires stays until the context ends: its GPU may still use it.

use std::sync::Arc;

use millstream_protocol::{
    DeviceStatus,
    marks::is_runtime_thread,
    threads::{Spawner, ThreadRole},
};
use millstream_sync::facade::lock;

use super::context::log_failure;
use super::retired::{Place, Retired};
use super::{Api, Context};

/// The name of the thread.
const THREAD: &str = "ms-cuda-release";

impl Retired {
    /// Releases the resource. The context is current.
    fn release(&self, api: &Api) {
        // SAFETY: the owner of the resource gave it up in its drop, so it is released once, and nothing uses it.
        log_failure(unsafe {
            match *self {
                Retired::Pinned(start) => api.free_host(start.as_ptr()),
                Retired::Module(raw) => api.unload_module(raw),
            }
        });
    }
}

impl Context {
    /// Lets a thread of this spawner release what is retired from here on, until the device is lost, or `pump` if there
    /// is no spawner.
    pub(crate) fn begin_retiring(&self, spawner: Option<Spawner>, device: &Arc<DeviceStatus>) {
        lock(&self.reaper).place = match spawner {
            Some(spawner) => Place::Thread(spawner, device.clone()),
            None => Place::Pump,
        };
    }

    /// On a driven device, releases everything that is retired, and from here on at once. May wait for the GPU.
    pub(crate) fn end_retiring(&self) {
        let mut state = lock(&self.reaper);
        if let Place::Pump = state.place {
            state.place = Place::Drop;
            drop(state);
            self.release_retired();
        }
    }

    /// Gives up a resource that nothing uses any more. Does not wait for the GPU, except for a closed device on a thread of
    /// the application.
    pub(super) fn retire(self: &Arc<Self>, resource: Retired) {
        let mut state = lock(&self.reaper);
        let spawner = match &state.place {
            Place::Thread(spawner, device) if !device.has_no_callbacks() || is_runtime_thread() => {
                let starts = !state.is_running && device.lost().is_none();
                starts.then(|| spawner.clone())
            }
            Place::Pump => None,
            Place::Drop | Place::Thread(..) => {
                drop(state);
                return self.release_all(&[resource]);
            }
        };
        state.retired.push(resource);
        state.is_running |= spawner.is_some();
        drop(state);
        let Some(spawner) = spawner else { return };
        let context = self.clone();
        // The thread is detached: the close of the device waits until the spawner counts none.
        let started = spawner.spawn(ThreadRole::Collector, THREAD, move || context.reap());
        if let Err(why) = started {
            // The next drop tries again, and the end of the context releases the resource in any case.
            lock(&self.reaper).is_running = false;
            tracing::debug!(target: "millstream::cuda", %why, "resources are released later");
        }
    }

    /// Releases until nothing is retired. Runs on the thread.
    fn reap(&self) {
        loop {
            let mut state = lock(&self.reaper);
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
        let retired = std::mem::take(&mut lock(&self.reaper).retired);
        self.release_all(&retired);
    }

    /// Releases these resources on this thread.
    pub(super) fn release_all(&self, retired: &[Retired]) {
        if retired.is_empty() || matches!(self.push_current(), Err(code) if code.is_sticky()) {
            // After such an error the context is destroyed, and everything in it: an address may be another's by now.
            return;
        }
        self.with_current(|api| retired.iter().for_each(|resource| resource.release(api)));
    }
}
