//! The GPU of a test: that of the fake driver, which checks every call, or the hardware, if NVIDIA's driver is loaded.
//!
//! Under Cargo the library path has the fake driver first. Outside of Cargo the same binary loads the machine's driver;
//! then there is no session, and only the assertions of the tests check anything.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use fake_cuda::Session;
use libloading::Library;
use millstream::Access;
use millstream_conformance::{Checks, Gate};
use millstream_cuda::CudaResources;

/// The GPU that all devices of a test share. Dropped after the last of them has closed.
pub(crate) struct Gpu {
    /// The session of the fake driver; `None` on hardware.
    session: Option<Session>,
    valves: Mutex<Valves>,
    expects_leaks: AtomicBool,
}

/// Host memory that kernels read, and the context in which it was allocated.
#[derive(Default)]
struct Valves {
    context: Option<u64>,
    words: Vec<u64>,
}

thread_local! {
    /// The GPU of the test that runs on this thread.
    static CURRENT: RefCell<Weak<Gpu>> = const { RefCell::new(Weak::new()) };
}

impl Gpu {
    /// Returns the GPU of this test. Other tests of the process wait until it is dropped. If `stepped`, the fake GPU
    /// works only in calls that wait or query.
    pub(crate) fn of_this_test(seed: u64, stepped: bool) -> Arc<Self> {
        if let Some(gpu) = CURRENT.with_borrow(Weak::upgrade) {
            return gpu;
        }
        let session = match stepped {
            true => Session::begin_stepped(seed),
            false => Session::begin(seed),
        };
        let gpu = Arc::new(Self {
            session: session.ok(),
            valves: Mutex::default(),
            expects_leaks: AtomicBool::new(false),
        });
        CURRENT.set(Arc::downgrade(&gpu));
        gpu
    }

    pub(crate) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Allocates two words of host memory that kernels can access, both 0. They live as long as the GPU.
    fn allocate_words(&self) -> u64 {
        let mut valves = self.valves.lock().unwrap();
        let context = *valves.context.get_or_insert_with(|| {
            let (mut device, mut context) = (0_i32, 0_u64);
            call("cuInit", &[0]);
            call("cuDeviceGet", &[&raw mut device as u64, 0]);
            call(
                "cuDevicePrimaryCtxRetain",
                &[&raw mut context as u64, device as u64],
            );
            context
        });
        let mut words = 0_u64;
        with_context(context, || {
            call(
                "cuMemHostAlloc",
                &[&raw mut words as u64, 8, PORTABLE_MAPPED],
            );
        });
        // SAFETY: `cuMemHostAlloc` returned 8 bytes of memory, aligned to at least 8.
        unsafe { (words as *mut u64).write(0) };
        valves.words.push(words);
        words
    }
}

/// The checks of a device on the GPU of its test.
pub(crate) struct GpuChecks(pub(crate) Arc<Gpu>);

impl Checks for GpuChecks {
    fn expects_leaks(&self) {
        // Relaxed: only the thread that ends the test reads the flag.
        self.0.expects_leaks.store(true, Ordering::Relaxed);
    }

    fn kernels_run(&self, name: &str) -> Option<u64> {
        self.0.session().map(|session| session.kernels_run(name))
    }

    fn gate(&self) -> Option<Arc<dyn Gate>> {
        Some(Arc::new(GpuGate::new(&self.0)))
    }
}

impl Drop for Gpu {
    /// Every device has closed: the driver must have found no mistake, and nothing may be left.
    fn drop(&mut self) {
        let valves = std::mem::take(self.valves.get_mut().unwrap());
        if let Some(context) = valves.context {
            // If leaks are expected, a kernel that was left behind may still read its words.
            if !*self.expects_leaks.get_mut() {
                with_context(context, || {
                    let free = |words: u64| call("cuMemFreeHost", &[words]);
                    valves.words.into_iter().for_each(free);
                });
            }
            call("cuDevicePrimaryCtxRelease_v2", &[0]);
        }
        // If the test has failed, the drop of the session prints its findings.
        if let Some(session) = self.session.take()
            && !std::thread::panicking()
        {
            let mut reports = session.end();
            let expects_leaks = *self.expects_leaks.get_mut();
            reports.retain(|report| !expects_leaks || !report.starts_with("leak: "));
            assert!(reports.is_empty(), "{}", reports.join("\n"));
        }
    }
}

/// The gate of a valve. On hardware a held kernel polls a word of host memory until it is not 0. The fake driver
/// executes one kernel at a time to its end, so it does not start a held kernel before the gate is open.
pub(crate) struct GpuGate {
    gpu: Arc<Gpu>,
    words: u64,
    /// The number of held kernels that had run on the fake driver before.
    before: u64,
}

/// The kernels of `held.cu`.
const HELD: [&str; 2] = ["held", "held_reader"];

impl GpuGate {
    fn new(gpu: &Arc<Gpu>) -> Self {
        let mut gate = Self {
            gpu: gpu.clone(),
            words: gpu.allocate_words(),
            before: 0,
        };
        if let Some(session) = gpu.session() {
            gate.before = HELD.map(|name| session.kernels_run(name)).iter().sum();
            gate.set_open();
            HELD.iter().for_each(|name| session.hold_kernel(name, true));
        }
        gate
    }

    fn set_open(&self) {
        // SAFETY: the words live as long as the GPU. Only kernels access them at the same time, and this write is
        // volatile.
        unsafe { (self.words as *mut u32).write_volatile(1) };
    }
}

impl Gate for GpuGate {
    fn address(&self) -> u64 {
        self.words
    }

    fn open(&self) {
        match self.gpu.session() {
            Some(session) => HELD
                .iter()
                .for_each(|name| session.hold_kernel(name, false)),
            None => self.set_open(),
        }
    }

    fn arrivals(&self) -> u32 {
        match self.gpu.session() {
            Some(session) => {
                let arrived = |name| session.streams_at_kernel(name) + session.kernels_run(name);
                let arrived: u64 = HELD.map(arrived).iter().sum();
                (arrived - self.before) as u32
            }
            // SAFETY: as in `set_open`; the second word is the number of arrivals.
            None => unsafe { (self.words as *const u32).add(1).read_volatile() },
        }
    }
}

impl Drop for GpuGate {
    /// Opens the gate, so that a test that fails leaves no kernel behind.
    fn drop(&mut self) {
        self.open();
    }
}

/// `CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP`
const PORTABLE_MAPPED: u64 = 1 | 2;
/// `CU_STREAM_NON_BLOCKING`
const NON_BLOCKING: u64 = 1;

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // SAFETY: the initializers of a driver may run in any process, and those of the fake driver do nothing.
        let open = |name: &str| unsafe { Library::new(name) };
        open("libcuda.so")
            .or_else(|_| open("libcuda.so.1"))
            .unwrap()
    })
}

/// Calls a function of the driver with up to four numbers or pointers, and asserts that it succeeds.
fn call(name: &str, arguments: &[u64]) {
    type Function = unsafe extern "C" fn(u64, u64, u64, u64) -> u32;
    let mut all = [0; 4];
    all[..arguments.len()].copy_from_slice(arguments);
    let [a, b, c, d] = all;
    // SAFETY: each argument is in its own register; a function with fewer or narrower parameters reads only its part.
    // The callers pass pointers that are valid for the function.
    let answer = unsafe { (library().get::<Function>(name).unwrap())(a, b, c, d) };
    assert_eq!(answer, 0, "{name}");
}

/// Runs `body` with the context current.
fn with_context(context: u64, body: impl FnOnce()) {
    call("cuCtxPushCurrent_v2", &[context]);
    body();
    let mut popped = 0_u64;
    call("cuCtxPopCurrent_v2", &[&raw mut popped as u64]);
}

/// The words of all bindings, copied to the host.
pub(crate) struct Words(Vec<Vec<u32>>);

impl Words {
    /// Copies all bindings to the host, in the order of the task's stream if there is one.
    pub(crate) fn fetch(resources: &CudaResources) -> Self {
        let mut fetched = Vec::new();
        Self::for_each(resources, |address, bytes, _, stream| {
            let mut words = vec![0_u32; bytes as usize / 4];
            let to = words.as_mut_ptr() as u64;
            call("cuMemcpyDtoHAsync_v2", &[to, address, bytes, stream]);
            call("cuStreamSynchronize", &[stream]);
            fetched.push(words);
        });
        Self(fetched)
    }

    /// Copies the bindings back that are not read-only.
    pub(crate) fn store(&self, resources: &CudaResources) {
        let mut all = self.0.iter();
        Self::for_each(resources, |address, bytes, access, stream| {
            let from = all.next().unwrap().as_ptr() as u64;
            if access != Access::Read {
                call("cuMemcpyHtoDAsync_v2", &[address, from, bytes, stream]);
                call("cuStreamSynchronize", &[stream]);
            }
        });
    }

    /// Calls `body` with the address, the size in bytes and the access of each binding, and a stream for copies: that
    /// of a custom task, or a new one.
    fn for_each(resources: &CudaResources, mut body: impl FnMut(u64, u64, Access, u64)) {
        with_context(resources.context() as u64, || {
            let mut own = 0_u64;
            let stream = resources.stream().map_or_else(
                || {
                    let made = &raw mut own as u64;
                    call("cuStreamCreateWithPriority", &[made, NON_BLOCKING, 0]);
                    own
                },
                |stream| stream as u64,
            );
            let bindings = (0..).map_while(|index| resources.binding(index));
            bindings.for_each(|(address, bytes, access)| body(address, bytes, access, stream));
            if own != 0 {
                call("cuStreamDestroy_v2", &[own]);
            }
        });
    }

    pub(crate) fn binding(&mut self, index: usize) -> &mut [u32] {
        let all = self.0.len();
        let binding = self.0.get_mut(index);
        binding.unwrap_or_else(|| panic!("there is no binding {index}, only {all}"))
    }
}
