//! What a test says to the fake. This is the part of the package that is linked into tests; it holds no state of
//! the fake, but looks up the controls of the library that the loader found in the driver's place.

use std::ffi::{CString, c_char};
use std::sync::{Condvar, Mutex, PoisonError};

use libloading::Library;

/// The library that programs of this process find as NVIDIA's driver is not the fake.
#[derive(Debug)]
pub struct NotLoaded(String);

impl std::fmt::Display for NotLoaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the fake CUDA driver is not what is found as libcuda.so; run the test by `cargo test` or \
             `cargo nextest run`, which put it on the library path: {}",
            self.0
        )
    }
}

impl std::error::Error for NotLoaded {}

/// Writes a text where there is room, and answers how much it needs.
type Says = unsafe extern "C" fn(*mut u8, usize) -> usize;

/// The controls, as `control` has them.
struct Controls {
    begin: unsafe extern "C" fn(u64, u32),
    end: unsafe extern "C" fn(),
    report: Says,
    launched: Says,
    graphs: Says,
    calls: unsafe extern "C" fn(*const c_char) -> u64,
    fault: unsafe extern "C" fn(*const c_char, u64, u32),
    faults_met: unsafe extern "C" fn() -> u64,
    hold: unsafe extern "C" fn(u64, u32),
    hold_kernel: unsafe extern "C" fn(*const c_char, u32),
    kernel: unsafe extern "C" fn(*const c_char, *mut u64, *mut u64),
    break_at: unsafe extern "C" fn(u64, u32),
    step: unsafe extern "C" fn() -> u32,
    executed: unsafe extern "C" fn() -> u64,
    memory: unsafe extern "C" fn(u64),
    gpus: unsafe extern "C" fn(u32),
    are_peers: unsafe extern "C" fn(u32),
    writes_values: unsafe extern "C" fn(u32),
    priorities: unsafe extern "C" fn(*mut i32, usize) -> usize,
}

impl Controls {
    fn find() -> Result<Self, NotLoaded> {
        let told = |error: libloading::Error| NotLoaded(error.to_string());
        // SAFETY: initializers of the fake do nothing, and those of a driver are what its users run.
        let library =
            unsafe { Library::new(libloading::library_filename("cuda")) }.map_err(told)?;
        // The backend never unloads it either.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the names are the fake's alone, and these are their types.
        unsafe {
            Ok(Self {
                begin: *library.get("fake_cuda_begin").map_err(told)?,
                end: *library.get("fake_cuda_end").map_err(told)?,
                report: *library.get("fake_cuda_report").map_err(told)?,
                launched: *library.get("fake_cuda_launched").map_err(told)?,
                graphs: *library.get("fake_cuda_graphs").map_err(told)?,
                calls: *library.get("fake_cuda_calls").map_err(told)?,
                fault: *library.get("fake_cuda_fault").map_err(told)?,
                faults_met: *library.get("fake_cuda_faults_met").map_err(told)?,
                hold: *library.get("fake_cuda_hold").map_err(told)?,
                hold_kernel: *library.get("fake_cuda_hold_kernel").map_err(told)?,
                kernel: *library.get("fake_cuda_kernel").map_err(told)?,
                break_at: *library.get("fake_cuda_break").map_err(told)?,
                step: *library.get("fake_cuda_step").map_err(told)?,
                executed: *library.get("fake_cuda_executed").map_err(told)?,
                memory: *library.get("fake_cuda_memory").map_err(told)?,
                gpus: *library.get("fake_cuda_gpus").map_err(told)?,
                are_peers: *library.get("fake_cuda_are_peers").map_err(told)?,
                writes_values: *library.get("fake_cuda_writes_values").map_err(told)?,
                priorities: *library.get("fake_cuda_priorities").map_err(told)?,
            })
        }
    }
}

/// One session at a time in a process: there is one driver. No guard of a lock, which could not leave its thread.
struct Turn;

static TAKEN: Mutex<bool> = Mutex::new(false);
static GIVEN_BACK: Condvar = Condvar::new();

impl Turn {
    fn take() -> Self {
        let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = GIVEN_BACK
            .wait_while(taken, |taken| *taken)
            .unwrap_or_else(PoisonError::into_inner);
        *taken = true;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = false;
        GIVEN_BACK.notify_one();
    }
}

/// A GPU of the fake's, as new, until this is dropped. Others in this process wait for that.
pub struct Session {
    controls: Controls,
    ended: bool,
    _turn: Turn,
}

impl Session {
    /// A GPU whose choices are those of a seed. It is a thread, so that a run depends on more than the seed.
    ///
    /// # Errors
    /// The fake is not what is loaded as the driver.
    pub fn begin(seed: u64) -> Result<Self, NotLoaded> {
        Self::new(Some((seed, false)))
    }

    /// A GPU that does something only in calls that wait or ask: with one thread that calls, and no functions of the host's,
    /// the same seed is the same run.
    ///
    /// # Errors
    /// The fake is not what is loaded as the driver.
    pub fn begin_stepped(seed: u64) -> Result<Self, NotLoaded> {
        Self::new(Some((seed, true)))
    }

    /// No GPU: the fake as those find it who know nothing of it.
    ///
    /// # Errors
    /// The fake is not what is loaded as the driver.
    pub fn inert() -> Result<Self, NotLoaded> {
        Self::new(None)
    }

    fn new(begin: Option<(u64, bool)>) -> Result<Self, NotLoaded> {
        let turn = Turn::take();
        let controls = Controls::find()?;
        match begin {
            // SAFETY: it may be called at any time.
            Some((seed, stepped)) => unsafe { (controls.begin)(seed, u32::from(stepped)) },
            // SAFETY: as above.
            None => unsafe { (controls.end)() },
        }
        Ok(Self {
            controls,
            ended: false,
            _turn: turn,
        })
    }

    /// What is wrong so far, a sentence each.
    pub fn reports(&self) -> Vec<String> {
        lines(self.controls.report)
    }

    /// What was launched, in the order of the calls: `blur <<<[8, 1, 1], [256, 1, 1], 0>>> cluster [2, 1, 1] priority -3`.
    pub fn launched(&self) -> Vec<String> {
        lines(self.controls.launched)
    }

    /// What each executable graph was as it was made: `6 nodes, 5 edges, longest way 4`.
    pub fn graphs(&self) -> Vec<String> {
        lines(self.controls.graphs)
    }

    /// Ends the session: executes the rest, looks for leaks, and says everything that is wrong.
    #[must_use]
    pub fn end(mut self) -> Vec<String> {
        self.stop();
        self.reports()
    }

    /// Ends the session, in which nothing may be wrong.
    ///
    /// # Panics
    /// Something is.
    pub fn assert_clean(self) {
        let reports = self.end();
        assert!(reports.is_empty(), "{}", reports.join("\n"));
    }

    fn stop(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            // SAFETY: it may be called at any time.
            unsafe { (self.controls.end)() };
        }
    }

    /// How often a function was called, as `cuda.h` names it with its version: `cuMemAlloc_v2`.
    pub fn calls(&self, name: &str) -> u64 {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the text ends with 0.
        unsafe { (self.controls.calls)(name.as_ptr()) }
    }

    /// How often any was called.
    pub fn calls_total(&self) -> u64 {
        // SAFETY: no name is all.
        unsafe { (self.controls.calls)(std::ptr::null()) }
    }

    /// Refuses the `nth` call from now, the next being 1, of this function or of any.
    pub fn fault(&self, name: Option<&str>, nth: u64, code: u32) {
        let name = name.map(|name| CString::new(name).unwrap_or_default());
        let text = name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
        // SAFETY: the text ends with 0, or is none.
        unsafe { (self.controls.fault)(text, nth, code) };
    }

    /// How many planned faults were met.
    pub fn faults_met(&self) -> u64 {
        // SAFETY: it only tells.
        unsafe { (self.controls.faults_met)() }
    }

    /// Executes nothing more of the streams that there are.
    pub fn hold_all(&self) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.hold)(0, 1) };
    }

    /// Goes on with everything.
    pub fn release_all(&self) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.hold)(0, 0) };
    }

    /// Executes nothing more of a stream, or goes on with it, by the driver's handle.
    pub fn hold(&self, stream: u64, held: bool) {
        // SAFETY: handles are only compared.
        unsafe { (self.controls.hold)(stream, u32::from(held)) };
    }

    /// Begins no kernel of this name, or goes on with them. What comes before them in their streams goes on.
    pub fn hold_kernel(&self, name: &str, held: bool) {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the text ends with 0.
        unsafe { (self.controls.hold_kernel)(name.as_ptr(), u32::from(held)) };
    }

    fn kernel(&self, name: &str) -> (u64, u64) {
        let name = CString::new(name).unwrap_or_default();
        let (mut come, mut run) = (0, 0);
        // SAFETY: the text ends with 0, the places for the answers are ours.
        unsafe { (self.controls.kernel)(name.as_ptr(), &raw mut come, &raw mut run) };
        (come, run)
    }

    /// How many streams have come to a kernel of this name: it is their next.
    pub fn streams_at_kernel(&self, name: &str) -> u64 {
        self.kernel(name).0
    }

    /// How often kernels of this name were run.
    pub fn kernels_run(&self, name: &str) -> u64 {
        self.kernel(name).1
    }

    /// The `nth` operation from now breaks the GPU, with this code.
    pub fn break_at(&self, nth: u64, code: u32) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.break_at)(nth, code) };
    }

    /// Executes an operation, if there is one that may be, and says whether. A session that is stepped needs it where the
    /// host polls for a word and calls nothing.
    pub fn step(&self) -> bool {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.step)() != 0 }
    }

    /// How many operations were executed.
    pub fn executed(&self) -> u64 {
        // SAFETY: it only tells.
        unsafe { (self.controls.executed)() }
    }

    /// Gives the GPU so much memory.
    pub fn memory_bytes(&self, bytes: u64) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.memory)(bytes) };
    }

    /// There are so many GPUs, instead of one. To be said before the first of them is opened.
    pub fn gpus(&self, count: u32) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.gpus)(count) };
    }

    /// May GPUs use each other's memory? They may, unless this says otherwise; each must still be allowed to.
    pub fn are_peers(&self, are: bool) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.are_peers)(u32::from(are)) };
    }

    /// Are there memory operations of streams (`cuStreamWriteValue64`)? There are, unless this says otherwise.
    pub fn writes_values(&self, there: bool) {
        // SAFETY: it may be called at any time.
        unsafe { (self.controls.writes_values)(u32::from(there)) };
    }

    /// The priority of each stream that was made, in order: within what there is, which is 0 to -5.
    pub fn stream_priorities(&self) -> Vec<i32> {
        // SAFETY: without room it only tells how much it needs; then there is room for what it says.
        unsafe {
            let mut all = vec![0; (self.controls.priorities)(std::ptr::null_mut(), 0)];
            let count = (self.controls.priorities)(all.as_mut_ptr(), all.len());
            all.truncate(count);
            all
        }
    }
}

/// The lines of a text that a control writes.
fn lines(says: Says) -> Vec<String> {
    // SAFETY: without room it only tells how much it needs; then there is room for what is said.
    let text = unsafe {
        let mut text = vec![0; says(std::ptr::null_mut(), 0)];
        let bytes = says(text.as_mut_ptr(), text.len());
        text.truncate(bytes);
        text
    };
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::to_owned).collect()
}

impl Drop for Session {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What is wrong may explain the failure.
            self.reports()
                .iter()
                .for_each(|report| eprintln!("{report}"));
        }
        self.stop();
    }
}
