//! The test's side of the controls. This part of the package is linked into tests. It has no state of the fake, but
//! looks up the control functions of the library that was loaded in place of the driver.

use std::ffi::CString;
use std::sync::{Condvar, Mutex, PoisonError};

use libloading::Library;

use crate::control::{Controls, Text};

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

/// Writes a string to a buffer as far as it fits, and returns the length of the string.
type WriteString = extern "C" fn(*mut u8, usize) -> usize;

/// Returns the control functions of the library that is loaded as the driver.
fn controls() -> Result<&'static Controls, NotLoaded> {
    let not_loaded = |error: libloading::Error| NotLoaded(error.to_string());
    // SAFETY: the fake's initializers do nothing, and those of a driver run in each of its users.
    let library =
        unsafe { Library::new(libloading::library_filename("cuda")) }.map_err(not_loaded)?;
    // Never unloaded, like in the backend.
    let library: &'static Library = Box::leak(Box::new(library));
    // SAFETY: only the fake has this name, with this type.
    let find = unsafe { library.get::<extern "C" fn() -> &'static Controls>("fake_cuda_controls") };
    find.map(|find| find()).map_err(not_loaded)
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
        let controls = controls()?;
        match begin {
            Some((seed, stepped)) => (controls.begin)(seed, u32::from(stepped)),
            None => (controls.end)(),
        }
        Ok(Self {
            controls,
            ended: false,
            _permit: permit,
        })
    }

    /// Returns the reports so far.
    pub fn reports(&self) -> Vec<String> {
        lines(self.controls.report)
    }

    /// Returns the launches in the order of the calls: `blur <<<[8, 1, 1], [256, 1, 1], 0>>> cluster [2, 1, 1] priority
    /// -3`.
    pub fn launched(&self) -> Vec<String> {
        lines(self.controls.launched)
    }

    /// Returns a description of each instantiated graph: `6 nodes, 5 edges, longest path 4`. The path is
    /// counted in nodes.
    pub fn graphs(&self) -> Vec<String> {
        lines(self.controls.graphs)
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
        (self.controls.calls)(Text::of(Some(&c_string(name))))
    }

    /// Returns the number of calls of all functions.
    pub fn calls_total(&self) -> u64 {
        (self.controls.calls)(Text::of(None))
    }

    /// Returns the number of threads that made calls in this session.
    pub fn callers(&self) -> usize {
        (self.controls.callers)()
    }

    /// Makes the `nth` call from now, the next being 1, of this function or of any return `code`.
    pub fn fault(&self, name: Option<&str>, nth: u64, code: u32) {
        let name = name.map(c_string);
        (self.controls.fault)(Text::of(name.as_deref()), nth, code);
    }

    /// Returns the number of injected faults that calls have met.
    pub fn faults_injected(&self) -> u64 {
        (self.controls.faults_injected)()
    }

    /// Holds all existing streams: executes none of their operations.
    pub fn hold_all(&self) {
        (self.controls.hold)(0, 1);
    }

    /// Releases all streams.
    pub fn release_all(&self) {
        (self.controls.hold)(0, 0);
    }

    /// Holds or releases a stream, by its handle.
    pub fn hold(&self, stream: u64, held: bool) {
        (self.controls.hold)(stream, u32::from(held));
    }

    /// Holds or releases the kernels of this name. The operations before them in their streams still run.
    pub fn hold_kernel(&self, name: &str, held: bool) {
        (self.controls.hold_kernel)(Text::of(Some(&c_string(name))), u32::from(held));
    }

    fn kernel(&self, name: &str) -> (u64, u64) {
        let (mut waiting, mut runs) = (0, 0);
        let name = c_string(name);
        (self.controls.kernel)(Text::of(Some(&name)), &raw mut waiting, &raw mut runs);
        (waiting, runs)
    }

    /// Returns the number of streams whose next operation is a kernel of this name.
    pub fn streams_at_kernel(&self, name: &str) -> u64 {
        self.kernel(name).0
    }

    /// Returns the number of runs of kernels of this name.
    pub fn kernels_run(&self, name: &str) -> u64 {
        self.kernel(name).1
    }

    /// Makes the `nth` operation from now break the GPU with this code.
    pub fn break_at(&self, nth: u64, code: u32) {
        (self.controls.break_at)(nth, code);
    }

    /// Executes one operation, if one may run, and returns whether it did. A stepped session needs this if the host
    /// polls a word and calls nothing.
    pub fn step(&self) -> bool {
        (self.controls.step)() != 0
    }

    /// Returns the number of executed operations.
    pub fn executed(&self) -> u64 {
        (self.controls.executed)()
    }

    /// Sets the memory of each GPU.
    pub fn set_memory_bytes(&self, bytes: u64) {
        (self.controls.memory)(bytes);
    }

    /// Sets the number of GPUs, before the first of them is opened. The default is one.
    pub fn set_gpu_count(&self, count: u32) {
        (self.controls.gpus)(count);
    }

    /// Sets whether GPUs are peers, which is the default.
    pub fn set_peers(&self, are: bool) {
        (self.controls.set_peers)(u32::from(are));
    }

    /// Sets the version of CUDA that the driver supports, in its format: 12040 is 12.4. The default is 13.0. The driver
    /// refuses PTX of later versions.
    pub fn set_driver_version(&self, version: i32) {
        (self.controls.driver_version)(version);
    }

    /// Returns the bytes that were freed to pools and that these keep from other uses.
    pub fn bytes_kept_by_pools(&self) -> u64 {
        (self.controls.kept)()
    }

    /// Returns the context that is current on the calling thread, or 0.
    pub fn current_context(&self) -> u64 {
        (self.controls.current)()
    }

    /// Makes a context current on the calling thread, as an engine does; 0 is none.
    pub fn make_current(&self, context: u64) {
        (self.controls.make_current)(context);
    }

    /// Sets whether streams support memory operations (`cuStreamWriteValue64`), which is the default.
    pub fn set_stream_memory_operations(&self, there: bool) {
        (self.controls.writes_values)(u32::from(there));
    }

    /// Returns the priority of each created stream, in order, within the supported range of 0 to -5.
    pub fn stream_priorities(&self) -> Vec<i32> {
        let priorities = self.controls.priorities;
        // With a null buffer it only returns the number.
        let mut all = vec![0; priorities(std::ptr::null_mut(), 0)];
        let count = priorities(all.as_mut_ptr(), all.len());
        all.truncate(count);
        all
    }
}

fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// Returns the lines of a string that a control function writes.
fn lines(write: WriteString) -> Vec<String> {
    // With a null buffer it only returns the length.
    let mut text = vec![0; write(std::ptr::null_mut(), 0)];
    let bytes = write(text.as_mut_ptr(), text.len());
    text.truncate(bytes);
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::to_owned).collect()
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
