//! The GPU of a test: the fake driver, which checks, or the hardware, where NVIDIA's driver is what is loaded.
//!
//! Cargo puts the fake where the driver is looked for. Run outside of it, the same binary finds what the machine has; then
//! there is no session, and nothing is checked but what tests see themselves.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use fake_cuda::Session;
use libloading::Library;
use millstream::Access;
use millstream_conformance::{Checks, Gate};
use millstream_cuda::CudaResources;

/// What all devices of a test share: there is one GPU. Dropped when the last of them has closed.
pub(crate) struct Gpu {
    /// None on hardware.
    session: Option<Session>,
    valves: Mutex<Valves>,
    expects_leaks: AtomicBool,
}

/// Memory of the host's that kernels look at, and the context that it is of.
#[derive(Default)]
struct Valves {
    context: Option<u64>,
    words: Vec<u64>,
}

thread_local! {
    /// That of the test that runs on this thread.
    static CURRENT: RefCell<Weak<Gpu>> = const { RefCell::new(Weak::new()) };
}

impl Gpu {
    /// The GPU of this test. Others in the process wait for its end. With `stepped`, it works in calls that wait or ask.
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

    /// Two words of the host's memory that kernels see, both 0. They live as long as this.
    fn words(&self) -> u64 {
        let mut valves = self.valves.lock().unwrap();
        let context = *valves.context.get_or_insert_with(|| {
            let (mut device, mut context) = (0_i32, 0_u64);
            must("cuInit", &[0]);
            must("cuDeviceGet", &[&raw mut device as u64, 0]);
            must(
                "cuDevicePrimaryCtxRetain",
                &[&raw mut context as u64, device as u64],
            );
            context
        });
        let mut words = 0_u64;
        within(context, || {
            must(
                "cuMemHostAlloc",
                &[&raw mut words as u64, 8, PORTABLE_MAPPED],
            );
        });
        // SAFETY: new memory of so many bytes.
        unsafe { (words as *mut u64).write(0) };
        valves.words.push(words);
        words
    }
}

/// What a device's test holds of its GPU.
pub(crate) struct OfGpu(pub(crate) Arc<Gpu>);

impl Checks for OfGpu {
    fn expects_leaks(&self) {
        // Relaxed: it is read by the thread that ends the test.
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
    /// Every device has closed: nothing may be wrong, and nothing left.
    fn drop(&mut self) {
        let valves = std::mem::take(self.valves.get_mut().unwrap());
        if let Some(context) = valves.context {
            // What is left behind may be kernels that still look at their words.
            if !*self.expects_leaks.get_mut() {
                within(context, || {
                    let free = |words: u64| must("cuMemFreeHost", &[words]);
                    valves.words.into_iter().for_each(free);
                });
            }
            must("cuDevicePrimaryCtxRelease_v2", &[0]);
        }
        // A session that is dropped by a test that has failed tells what it found.
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

/// A valve's side of the GPU. On hardware a kernel looks again and again at a word of the host's until it is not 0; the
/// fake executes one kernel at a time to its end, so there it is not begun before.
pub(crate) struct GpuGate {
    gpu: Arc<Gpu>,
    words: u64,
    /// Kernels that had run on the fake before.
    before: u64,
}

/// The kernels of `held.cu`.
const HELD: [&str; 2] = ["held", "held_reader"];

impl GpuGate {
    fn new(gpu: &Arc<Gpu>) -> Self {
        let mut gate = Self {
            gpu: gpu.clone(),
            words: gpu.words(),
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
        // SAFETY: the words live as long as the GPU; the kernel, which may look at them now, is the only other one.
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
                let come = |name| session.streams_at_kernel(name) + session.kernels_run(name);
                let come: u64 = HELD.map(come).iter().sum();
                (come - self.before) as u32
            }
            // SAFETY: as above.
            None => unsafe { (self.words as *const u32).add(1).read_volatile() },
        }
    }
}

impl Drop for GpuGate {
    /// A test that fails leaves nobody behind who waits.
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
        // SAFETY: a driver's initializers are what its users run, and those of the fake do nothing.
        let open = |name: &str| unsafe { Library::new(name) };
        open("libcuda.so")
            .or_else(|_| open("libcuda.so.1"))
            .unwrap()
    })
}

/// Calls a function of the driver with up to four numbers or pointers.
fn must(name: &str, arguments: &[u64]) {
    type Function = unsafe extern "C" fn(u64, u64, u64, u64) -> u32;
    let mut all = [0; 4];
    all[..arguments.len()].copy_from_slice(arguments);
    let [a, b, c, d] = all;
    // SAFETY: each argument is passed in a register of its own, of which a function of fewer or narrower ones reads its
    // part; pointers are those of the callers below.
    let answer = unsafe { (library().get::<Function>(name).unwrap())(a, b, c, d) };
    assert_eq!(answer, 0, "{name}");
}

/// Has a context current for a while.
fn within(context: u64, body: impl FnOnce()) {
    must("cuCtxPushCurrent_v2", &[context]);
    body();
    let mut popped = 0_u64;
    must("cuCtxPopCurrent_v2", &[&raw mut popped as u64]);
}

/// Words of the GPU's memory, copied to the host.
pub(crate) struct Words(Vec<Vec<u32>>);

impl Words {
    /// All bindings, as they are when the stream has come so far; without a stream, as they are.
    pub(crate) fn fetch(resources: &CudaResources) -> Self {
        let mut fetched = Vec::new();
        Self::each(resources, |address, bytes, _, stream| {
            let mut words = vec![0_u32; bytes as usize / 4];
            let to = words.as_mut_ptr() as u64;
            must("cuMemcpyDtoHAsync_v2", &[to, address, bytes, stream]);
            must("cuStreamSynchronize", &[stream]);
            fetched.push(words);
        });
        Self(fetched)
    }

    /// Puts the bindings back that are not only read.
    pub(crate) fn store(&self, resources: &CudaResources) {
        let mut all = self.0.iter();
        Self::each(resources, |address, bytes, access, stream| {
            let from = all.next().unwrap().as_ptr() as u64;
            if access != Access::Read {
                must("cuMemcpyHtoDAsync_v2", &[address, from, bytes, stream]);
                must("cuStreamSynchronize", &[stream]);
            }
        });
    }

    /// Address, bytes and access of each binding, and a stream to copy by: that of a custom task, or a new one.
    fn each(resources: &CudaResources, mut body: impl FnMut(u64, u64, Access, u64)) {
        within(resources.context() as u64, || {
            let mut own = 0_u64;
            let stream = resources.stream().map_or_else(
                || {
                    let made = &raw mut own as u64;
                    must("cuStreamCreateWithPriority", &[made, NON_BLOCKING, 0]);
                    own
                },
                |stream| stream as u64,
            );
            let bindings = (0..).map_while(|index| resources.binding(index));
            bindings.for_each(|(address, bytes, access)| body(address, bytes, access, stream));
            if own != 0 {
                must("cuStreamDestroy_v2", &[own]);
            }
        });
    }

    pub(crate) fn binding(&mut self, index: usize) -> &mut [u32] {
        let all = self.0.len();
        let binding = self.0.get_mut(index);
        binding.unwrap_or_else(|| panic!("binding {index} of {all} was asked for"))
    }
}
