//! The test's side of the controls. This part of the package is linked into tests. It has no state of the fake, but
//! looks up the control functions of the library that was loaded in place of the driver.

use std::sync::{Condvar, Mutex, PoisonError};

use libloading::Library;

use crate::code::Code;
use crate::control::Controls;
use crate::loaded;
use crate::state::State;
use crate::tensor_map::{self, TensorMap};

/// The error if the library that this process loads as NVIDIA's driver is not the fake.
#[derive(Debug)]
pub struct NotLoaded(String);

impl std::fmt::Display for NotLoaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the loaded libcuda.so is not the fake driver; run the test by `cargo test` or `cargo nextest run`, which put \
            the fake on the library path: {}",
            self.0
        )
    }
}

impl std::error::Error for NotLoaded {}

/// Returns the library of this build and its control functions. Fails if another one is loaded as the driver.
fn find() -> Result<(&'static Library, &'static Controls), NotLoaded> {
    let controls = |library: &'static Library| {
        // SAFETY: only the fake has this name, with this type.
        let find =
            unsafe { library.get::<extern "C" fn() -> *const Controls>("fake_cuda_controls") };
        find.map(|find| find())
    };
    let failed = |error: libloading::Error| NotLoaded(error.to_string());
    let library = loaded::library("cuda").map_err(failed)?;
    let ours = controls(library).map_err(failed)?;
    match loaded::driver().map(controls) {
        // SAFETY: the table of a library that is never unloaded, with the types of this build.
        Some(Ok(loaded)) if loaded == ours => Ok((library, unsafe { &*ours })),
        _ => Err(NotLoaded(
            "an older build is loaded already; delete `target/*/libcuda.so`".to_owned(),
        )),
    }
}

/// A permit for the process's only session, since there is one driver. Not a lock guard, because a session may move to
/// another thread.
struct Permit;

static HELD: Mutex<bool> = Mutex::new(false);
static RELEASED: Condvar = Condvar::new();

impl Permit {
    fn acquire() -> Self {
        let held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = RELEASED
            .wait_while(held, |held| *held)
            .unwrap_or_else(PoisonError::into_inner);
        *held = true;
        Self
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *HELD.lock().unwrap_or_else(PoisonError::into_inner) = false;
        RELEASED.notify_one();
    }
}

/// A session with a fresh GPU, until it is dropped. Other sessions of the process wait for that.
pub struct Session {
    library: &'static Library,
    controls: &'static Controls,
    ended: bool,
    _permit: Permit,
}

impl Session {
    /// Begins a session whose choices depend on a seed. The GPU is a thread, so a run does not depend on the seed
    /// alone.
    ///
    /// # Errors
    /// The loaded driver is not the fake.
    pub fn begin(seed: u64) -> Result<Self, NotLoaded> {
        Self::new(Some((seed, false)))
    }

    /// Begins a session whose GPU executes only in calls that wait or query. With one calling thread and no host
    /// functions, the same seed gives the same run.
    ///
    /// # Errors
    /// The loaded driver is not the fake.
    pub fn begin_stepped(seed: u64) -> Result<Self, NotLoaded> {
        Self::new(Some((seed, true)))
    }

    /// Keeps the fake inert: a driver without a GPU, as other programs see it.
    ///
    /// # Errors
    /// The loaded driver is not the fake.
    pub fn inert() -> Result<Self, NotLoaded> {
        Self::new(None)
    }

    fn new(begin: Option<(u64, bool)>) -> Result<Self, NotLoaded> {
        let permit = Permit::acquire();
        let (library, controls) = find()?;
        match begin {
            Some((seed, stepped)) => (controls.begin)(seed, stepped),
            None => (controls.end)(),
        }
        Ok(Self {
            library,
            controls,
            ended: false,
            _permit: permit,
        })
    }

    /// Calls a function with the state of the loaded library.
    fn with<T>(&self, body: impl FnOnce(&mut State) -> T) -> T {
        let (mut body, mut result) = (Some(body), None);
        (self.controls.with)(&mut |state| result = body.take().map(|body| body(state)));
        result.expect("the library calls the function once")
    }

    /// Calls a function of the driver by its name, with up to sixteen numbers or pointers, which must be valid.
    pub fn call(&self, name: &str, arguments: &[u64]) -> u32 {
        loaded::call(self.library, name, arguments)
    }

    /// Returns the reports so far.
    pub fn reports(&self) -> Vec<String> {
        self.with(|state| state.reports.clone())
    }

    /// Returns the launches in the order of the calls: `blur <<<[8, 1, 1], [256, 1, 1], 0>>> cluster [2, 1, 1] priority
    /// -3`.
    pub fn launched(&self) -> Vec<String> {
        self.with(|state| state.launched.clone())
    }

    /// Returns a description of each instantiated graph: `6 nodes, 5 edges, longest path 4`. The path is
    /// counted in nodes.
    pub fn graphs(&self) -> Vec<String> {
        self.with(|state| state.graphs.descriptions.clone())
    }

    /// Returns the tensor map with this encoding, or `None` if no call of the session encoded it.
    pub fn tensor_map(&self, bytes: &[u8; tensor_map::BYTES]) -> Option<TensorMap> {
        let number = tensor_map::decode(bytes)?;
        self.with(|state| {
            let index = (number as usize).checked_sub(1)?;
            state.tensor_maps.get(index).cloned()
        })
    }

    /// Ends the session: executes the remaining operations, checks for leaks, and returns all reports.
    #[must_use]
    pub fn end(mut self) -> Vec<String> {
        self.stop();
        self.reports()
    }

    /// Ends the session and asserts that there are no reports.
    ///
    /// # Panics
    /// There are reports.
    pub fn assert_clean(self) {
        let reports = self.end();
        assert!(reports.is_empty(), "{}", reports.join("\n"));
    }

    fn stop(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            (self.controls.end)();
        }
    }

    /// Returns the number of calls of a function, by its versioned name in `cuda.h`: `cuMemAlloc_v2`.
    pub fn calls(&self, name: &str) -> u64 {
        self.with(|state| state.calls(name))
    }

    /// Returns the number of calls of all functions.
    pub fn calls_total(&self) -> u64 {
        self.with(|state| state.calls_total)
    }

    /// Returns the number of threads that made calls in this session.
    pub fn callers(&self) -> usize {
        self.with(|state| state.callers.len())
    }

    /// Makes the `nth` call from now, the next being 1, of this function or of any return `code`.
    pub fn fault(&self, name: Option<&str>, nth: u64, code: u32) {
        let name = name.map(str::to_owned);
        self.with(|state| state.plan_fault(name, nth, Code(code)));
    }

    /// Returns the number of injected faults that calls have met.
    pub fn faults_injected(&self) -> u64 {
        self.with(|state| state.faults_injected)
    }

    /// Holds all existing streams: executes none of their operations.
    pub fn hold_all(&self) {
        self.hold_streams(|_| true, true);
    }

    /// Releases all streams.
    pub fn release_all(&self) {
        self.hold_streams(|_| true, false);
    }

    /// Holds or releases a stream, by its handle.
    pub fn hold(&self, stream: u64, held: bool) {
        self.hold_streams(|handle| handle == stream, held);
    }

    fn hold_streams(&self, is_meant: impl Fn(u64) -> bool, held: bool) {
        self.with(|state| {
            let streams = state.streams.live.iter_mut();
            let meant = streams.filter(|(handle, _)| is_meant(**handle));
            meant.for_each(|(_, stream)| stream.held = held);
        });
    }

    /// Holds or releases the kernels of this name. The operations before them in their streams still run.
    pub fn hold_kernel(&self, name: &str, held: bool) {
        self.with(|state| match held {
            true => state.streams.held_kernels.insert(name.to_owned()),
            false => state.streams.held_kernels.remove(name),
        });
    }

    /// Returns the number of streams whose next operation is a kernel of this name.
    pub fn streams_at_kernel(&self, name: &str) -> u64 {
        self.with(|state| state.streams.at_kernel(name) as u64)
    }

    /// Returns the number of runs of kernels of this name.
    pub fn kernels_run(&self, name: &str) -> u64 {
        self.with(|state| state.kernels_run.get(name).copied().unwrap_or(0))
    }

    /// Makes the `nth` operation from now break the GPU with this code.
    pub fn break_at(&self, nth: u64, code: u32) {
        self.with(|state| state.break_at = Some((state.executed + nth.max(1), Code(code))));
    }

    /// Returns the number of executed operations.
    pub fn executed(&self) -> u64 {
        self.with(|state| state.executed)
    }

    /// Sets the memory of each GPU.
    pub fn set_memory_bytes(&self, bytes: u64) {
        self.with(|state| state.memory.bytes = bytes.max(state.memory.used_max()));
    }

    /// Sets the number of GPUs, before the first of them is opened. The default is one.
    pub fn set_gpu_count(&self, count: u32) {
        let count = count.max(1) as usize;
        self.with(|state| state.primaries.resize_with(count, Default::default));
    }

    /// Sets whether GPUs are peers, which is the default.
    pub fn set_peers(&self, are: bool) {
        self.with(|state| state.peers.possible = are);
    }

    /// Sets the version of CUDA that the driver supports, in its format: 12040 is 12.4. The default is 13.0. The driver
    /// refuses PTX of later versions.
    pub fn set_driver_version(&self, version: i32) {
        self.with(|state| state.driver_version = version);
    }

    /// Returns the bytes that were freed to pools and that these keep from other uses.
    pub fn bytes_kept_by_pools(&self) -> u64 {
        self.with(|state| state.memory.kept())
    }

    /// Returns the context that is current on the calling thread, or 0.
    pub fn current_context(&self) -> u64 {
        (self.controls.current)()
    }

    /// Makes a context current on the calling thread, as an engine does; 0 is none.
    pub fn make_current(&self, context: u64) {
        (self.controls.make_current)(context);
    }

    /// Returns the priority of each created stream, in order, within the supported range of 0 to -5.
    pub fn stream_priorities(&self) -> Vec<i32> {
        self.with(|state| state.priorities.clone())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The reports may explain the failure.
            self.reports()
                .iter()
                .for_each(|report| eprintln!("{report}"));
        }
        self.stop();
    }
}
