//! The test's side of the controls. This part of the package is linked into tests. It has no state of the fake, but
//! looks up the control functions of the library that was loaded in place of the driver.

use std::ffi::{CString, c_char};
use std::sync::{Condvar, Mutex, PoisonError};

use libloading::Library;

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
type WriteString = unsafe extern "C" fn(*mut u8, usize) -> usize;

/// The control functions, as in `control`.
struct Controls {
    begin: unsafe extern "C" fn(u64, u32),
    end: unsafe extern "C" fn(),
    report: WriteString,
    launched: WriteString,
    graphs: WriteString,
    calls: unsafe extern "C" fn(*const c_char) -> u64,
    callers: unsafe extern "C" fn() -> usize,
    fault: unsafe extern "C" fn(*const c_char, u64, u32),
    faults_injected: unsafe extern "C" fn() -> u64,
    hold: unsafe extern "C" fn(u64, u32),
    hold_kernel: unsafe extern "C" fn(*const c_char, u32),
    kernel: unsafe extern "C" fn(*const c_char, *mut u64, *mut u64),
    break_at: unsafe extern "C" fn(u64, u32),
    step: unsafe extern "C" fn() -> u32,
    executed: unsafe extern "C" fn() -> u64,
    memory: unsafe extern "C" fn(u64),
    gpus: unsafe extern "C" fn(u32),
    set_peers: unsafe extern "C" fn(u32),
    driver_version: unsafe extern "C" fn(i32),
    kept: unsafe extern "C" fn() -> u64,
    current: unsafe extern "C" fn() -> u64,
    make_current: unsafe extern "C" fn(u64),
    writes_values: unsafe extern "C" fn(u32),
    priorities: unsafe extern "C" fn(*mut i32, usize) -> usize,
}

impl Controls {
    fn find() -> Result<Self, NotLoaded> {
        let not_loaded = |error: libloading::Error| NotLoaded(error.to_string());
        // SAFETY: the fake's initializers do nothing, and those of a driver run in each of its users.
        let library =
            unsafe { Library::new(libloading::library_filename("cuda")) }.map_err(not_loaded)?;
        // Never unloaded, like in the backend.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: only the fake has these names, with these types.
        unsafe {
            Ok(Self {
                begin: *library.get("fake_cuda_begin").map_err(not_loaded)?,
                end: *library.get("fake_cuda_end").map_err(not_loaded)?,
                report: *library.get("fake_cuda_report").map_err(not_loaded)?,
                launched: *library.get("fake_cuda_launched").map_err(not_loaded)?,
                graphs: *library.get("fake_cuda_graphs").map_err(not_loaded)?,
                calls: *library.get("fake_cuda_calls").map_err(not_loaded)?,
                callers: *library.get("fake_cuda_callers").map_err(not_loaded)?,
                fault: *library.get("fake_cuda_fault").map_err(not_loaded)?,
                faults_injected: *library
                    .get("fake_cuda_faults_injected")
                    .map_err(not_loaded)?,
                hold: *library.get("fake_cuda_hold").map_err(not_loaded)?,
                hold_kernel: *library.get("fake_cuda_hold_kernel").map_err(not_loaded)?,
                kernel: *library.get("fake_cuda_kernel").map_err(not_loaded)?,
                break_at: *library.get("fake_cuda_break").map_err(not_loaded)?,
                step: *library.get("fake_cuda_step").map_err(not_loaded)?,
                executed: *library.get("fake_cuda_executed").map_err(not_loaded)?,
                memory: *library.get("fake_cuda_memory").map_err(not_loaded)?,
                gpus: *library.get("fake_cuda_gpus").map_err(not_loaded)?,
                set_peers: *library.get("fake_cuda_set_peers").map_err(not_loaded)?,
                driver_version: *library
                    .get("fake_cuda_driver_version")
                    .map_err(not_loaded)?,
                kept: *library.get("fake_cuda_kept").map_err(not_loaded)?,
                current: *library.get("fake_cuda_current").map_err(not_loaded)?,
                make_current: *library.get("fake_cuda_make_current").map_err(not_loaded)?,
                writes_values: *library.get("fake_cuda_writes_values").map_err(not_loaded)?,
                priorities: *library.get("fake_cuda_priorities").map_err(not_loaded)?,
            })
        }
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
    controls: Controls,
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
        let controls = Controls::find()?;
        match begin {
            // SAFETY: may be called at any time.
            Some((seed, stepped)) => unsafe { (controls.begin)(seed, u32::from(stepped)) },
            // SAFETY: as above.
            None => unsafe { (controls.end)() },
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
            // SAFETY: may be called at any time.
            unsafe { (self.controls.end)() };
        }
    }

    /// Returns the number of calls of a function, by its versioned name in `cuda.h`: `cuMemAlloc_v2`.
    pub fn calls(&self, name: &str) -> u64 {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the string ends with a zero byte.
        unsafe { (self.controls.calls)(name.as_ptr()) }
    }

    /// Returns the number of calls of all functions.
    pub fn calls_total(&self) -> u64 {
        // SAFETY: null means all functions.
        unsafe { (self.controls.calls)(std::ptr::null()) }
    }

    /// Returns the number of threads that made calls in this session.
    pub fn callers(&self) -> usize {
        // SAFETY: may be called at any time.
        unsafe { (self.controls.callers)() }
    }

    /// Makes the `nth` call from now, the next being 1, of this function or of any return `code`.
    pub fn fault(&self, name: Option<&str>, nth: u64, code: u32) {
        let name = name.map(|name| CString::new(name).unwrap_or_default());
        let text = name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
        // SAFETY: the string ends with a zero byte, or is null.
        unsafe { (self.controls.fault)(text, nth, code) };
    }

    /// Returns the number of injected faults that calls have met.
    pub fn faults_injected(&self) -> u64 {
        // SAFETY: only reads.
        unsafe { (self.controls.faults_injected)() }
    }

    /// Holds all existing streams: executes none of their operations.
    pub fn hold_all(&self) {
        // SAFETY: may be called at any time.
        unsafe { (self.controls.hold)(0, 1) };
    }

    /// Releases all streams.
    pub fn release_all(&self) {
        // SAFETY: may be called at any time.
        unsafe { (self.controls.hold)(0, 0) };
    }

    /// Holds or releases a stream, by its handle.
    pub fn hold(&self, stream: u64, held: bool) {
        // SAFETY: handles are only compared.
        unsafe { (self.controls.hold)(stream, u32::from(held)) };
    }

    /// Holds or releases the kernels of this name. The operations before them in their streams still run.
    pub fn hold_kernel(&self, name: &str, held: bool) {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the string ends with a zero byte.
        unsafe { (self.controls.hold_kernel)(name.as_ptr(), u32::from(held)) };
    }

    fn kernel(&self, name: &str) -> (u64, u64) {
        let name = CString::new(name).unwrap_or_default();
        let (mut waiting, mut runs) = (0, 0);
        // SAFETY: the string ends with a zero byte, and the out pointers are valid.
        unsafe { (self.controls.kernel)(name.as_ptr(), &raw mut waiting, &raw mut runs) };
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
        // SAFETY: may be called at any time.
        unsafe { (self.controls.break_at)(nth, code) };
    }

    /// Executes one operation, if one may run, and returns whether it did. A stepped session needs this if the host
    /// polls a word and calls nothing.
    pub fn step(&self) -> bool {
        // SAFETY: may be called at any time.
        unsafe { (self.controls.step)() != 0 }
    }

    /// Returns the number of executed operations.
    pub fn executed(&self) -> u64 {
        // SAFETY: only reads.
        unsafe { (self.controls.executed)() }
    }

    /// Sets the memory of each GPU.
    pub fn set_memory_bytes(&self, bytes: u64) {
        // SAFETY: may be called at any time.
        unsafe { (self.controls.memory)(bytes) };
    }

    /// Sets the number of GPUs, before the first of them is opened. The default is one.
    pub fn set_gpu_count(&self, count: u32) {
        // SAFETY: may be called at any time.
        unsafe { (self.controls.gpus)(count) };
    }

    /// Sets whether GPUs are peers, which is the default. Peers still have to enable access to each other's memory.
    pub fn set_peers(&self, are: bool) {
        // SAFETY: may be called at any time.
        unsafe { (self.controls.set_peers)(u32::from(are)) };
    }

    /// Sets the version of CUDA that the driver supports, in its format: 12040 is 12.4. The default is 13.0. The driver
    /// refuses PTX of later versions.
    pub fn set_driver_version(&self, version: i32) {
        // SAFETY: may be called at any time.
        unsafe { (self.controls.driver_version)(version) };
    }

    /// Returns the bytes that were freed to pools and that these keep from other uses.
    pub fn bytes_kept_by_pools(&self) -> u64 {
        // SAFETY: only reads.
        unsafe { (self.controls.kept)() }
    }

    /// Returns the context that is current on the calling thread, or 0.
    pub fn current_context(&self) -> u64 {
        // SAFETY: only reads.
        unsafe { (self.controls.current)() }
    }

    /// Makes a context current on the calling thread, as an engine does; 0 is none.
    pub fn make_current(&self, context: u64) {
        // SAFETY: handles are only compared.
        unsafe { (self.controls.make_current)(context) };
    }

    /// Sets whether streams support memory operations (`cuStreamWriteValue64`), which is the default.
    pub fn set_stream_memory_operations(&self, there: bool) {
        // SAFETY: may be called at any time.
        unsafe { (self.controls.writes_values)(u32::from(there)) };
    }

    /// Returns the priority of each created stream, in order, within the supported range of 0 to -5.
    pub fn stream_priorities(&self) -> Vec<i32> {
        // SAFETY: with a null buffer it only returns the number; then the buffer has as many elements.
        unsafe {
            let mut all = vec![0; (self.controls.priorities)(std::ptr::null_mut(), 0)];
            let count = (self.controls.priorities)(all.as_mut_ptr(), all.len());
            all.truncate(count);
            all
        }
    }
}

/// Returns the lines of a string that a control function writes.
fn lines(write: WriteString) -> Vec<String> {
    // SAFETY: with a null buffer it only returns the length; then the buffer has this length.
    let text = unsafe {
        let mut text = vec![0; write(std::ptr::null_mut(), 0)];
        let bytes = write(text.as_mut_ptr(), text.len());
        text.truncate(bytes);
        text
    };
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
