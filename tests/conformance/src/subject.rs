//! What the author of a backend says of it: how a device is opened, what it can do, and twins of the suite's kernels.

use std::any::Any;
use std::sync::Arc;

use millstream::Kernel;
use millstream::backend::{Backend, Open};

/// What a custom task and a guard of this subject are given.
pub type ResourcesOf<S> = <<<S as Subject>::Kind as Open>::Backend as Backend>::Resources;

/// A backend under test.
///
/// # Twins
/// The suite's kernels are Rust closures. A device that runs closures needs nothing else. Any other adds a source of its
/// own to each kernel, by the kernel's name ([`Subject::twin`]). The arguments come in the order of the kernel's signature:
/// bindings, then scalars. `u` is `u32`, `n` the number of elements. A launch may have any number of cubes, so elements are
/// taken in turn by all threads of the grid.
///
/// | kernel | arguments | does |
/// | --- | --- | --- |
/// | `add_one` | `u* values, u n` | `values[i] += 1` for each `i < n` |
/// | `transfer` | `u* src, u* dst, u n` | `dst[i] = src[i]` |
/// | `set` | `u* dst, u value, u n` | `dst[i] = value` |
/// | `add` | `u* values, u by, u n` | `values[i] += by` |
/// | `mix` | `u* src, u* dst, u n` | `dst[i] = dst[i] * 31 + src[i]`, wrapping |
/// | `sum` | `u* a, u* b, u* out, u n` | `out[i] = a[i] + b[i]` |
/// | `places` | `u* out` | each cube once: `out[(z * ny + y) * nx + x] = x + 10 * y + 100 * z`, its place among `nx`, `ny`, `nz` cubes |
/// | `atomics` | `u* a, u* b` | each cube once: adds 1 to `a[0]` and to `b[0]`, atomically; both may be the same |
/// | `large` | eleven `u* in`, `u64* out`, thirty `u64` | each cube once: `out[0]` is the sum of the first element of each input, of the scalars, and of the words of metadata, if a launch has any ([`MetadataWords`](crate::support::MetadataWords)) |
/// | `held` | `u* values, u64 valve` | passes the [`Gate`] at address `valve`, then adds 1 to `values[0]` |
/// | `held_reader` | `u* src, u* out, u64 valve` | passes the gate, then `out[0] = src[0]` |
///
/// `tests/devices/kernels` has them in CUDA C.
pub trait Subject: Sync + 'static {
    /// The options of the device: what `Device::open` takes.
    type Kind: Open;

    /// The options of a device as one test needs it. A test may ask several times.
    fn open(&self, setting: &Setting) -> Opening<Self::Kind>;

    /// What a device opened in this way can do.
    fn abilities(&self, way: Way) -> Abilities {
        let _ = way;
        Abilities::default()
    }

    /// Adds a source that the device understands to one of the suite's kernels.
    fn twin(&self, kernel: Kernel) -> Kernel {
        kernel
    }

    /// Whether [`Subject::twin`] has nothing for this kernel yet. Facts that need it are skipped.
    fn lacks_twin(&self, kernel: &str) -> bool {
        let _ = kernel;
        false
    }

    /// The words of the binding `index`, for a guard.
    fn read(&self, resources: &ResourcesOf<Self>, index: usize) -> Vec<u32>;

    /// Calls `change` with the words of the binding `index`, for a custom task. What it leaves in them is there when the task
    /// ends.
    fn change(
        &self,
        resources: &mut ResourcesOf<Self>,
        index: usize,
        change: &mut dyn FnMut(&mut [u32]),
    );
}

/// How a device is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// It runs by itself, with as many queues as it likes.
    Threads,
    /// It runs by itself, with one queue.
    OneQueue,
    /// It is opened driven: it starts no thread, and runs in `pump` or by itself.
    Driven,
}

/// What a test wants of the device that it opens.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Setting {
    /// How it is opened.
    pub way: Way,
    /// The most bytes that the device may give out; none where it does not matter.
    pub memory_bytes: Option<u64>,
    /// The seed of a device that makes random choices.
    pub seed: u64,
}

/// The options of a device, and what watches it while the test runs.
pub struct Opening<K> {
    /// The options.
    pub kind: K,
    /// Dropped last, when the device is closed.
    pub checks: Box<dyn Checks>,
}

impl<K> Opening<K> {
    /// A device that nothing watches.
    pub fn of(kind: K) -> Self {
        Self::checked(kind, ())
    }

    /// A device that `checks` watches.
    pub fn checked(kind: K, checks: impl Checks) -> Self {
        Self {
            kind,
            checks: Box::new(checks),
        }
    }
}

/// Watches a device while a test runs. It is dropped after the device has closed, and panics then if it found something
/// wrong.
pub trait Checks: Any + Send + Sync {
    /// The test is about to leave tasks or memory behind on the device, which is no error.
    fn expects_leaks(&self) {}

    /// How often kernels of this name have run on the device, where that is known.
    fn kernels_run(&self, name: &str) -> Option<u64> {
        let _ = name;
        None
    }

    /// A gate for kernels that are not Rust. None: kernels of this device cannot be held by one.
    fn gate(&self) -> Option<Arc<dyn Gate>> {
        None
    }
}

impl Checks for () {}

/// Holds kernels on a device whose kernels are not Rust, until it is opened. Dropping it opens it, so that a test that
/// fails leaves no kernel behind.
pub trait Gate: Send + Sync {
    /// The scalar `valve` of a kernel that is to be held by this gate.
    fn address(&self) -> u64;

    /// Lets all kernels go, now and later.
    fn open(&self);

    /// How many kernels have arrived at it.
    fn arrivals(&self) -> u32;
}

/// Which clock a device times its tasks by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// The host's.
    Host,
    /// One of its own.
    Device,
    /// A simulated one.
    Virtual,
}

/// What a device can do. A fact that needs more is skipped, and its test prints that. The default fits a device with
/// kernels in Rust and one queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Abilities {
    /// Kernels are Rust closures ([`Feature::NativeKernels`](millstream::Feature::NativeKernels)).
    pub rust_kernels: bool,
    /// The number of cubes may be read on the device when a launch starts
    /// ([`Feature::DynamicCubeCount`](millstream::Feature::DynamicCubeCount)).
    pub dynamic_counts: bool,
    /// Tasks of two queues run at the same time: a kernel that does not end delays no task of another queue.
    pub queues_overlap: bool,
    /// There is one queue.
    pub one_queue: bool,
    /// A kernel can be held while others are issued: a Rust kernel on a thread of the device's own, or a [`Gate`].
    pub holds_kernels: bool,
    /// A close ends within its time limit although a kernel does not end.
    pub leaves_tasks_behind: bool,
    /// A slice of 2^60 bytes can be made: the device takes memory when it is used first.
    pub memory_is_lazy: bool,
    /// The clock of its spans.
    pub clock: Clock,
}

impl Default for Abilities {
    fn default() -> Self {
        Self {
            rust_kernels: true,
            dynamic_counts: true,
            queues_overlap: false,
            one_queue: true,
            holds_kernels: true,
            leaves_tasks_behind: false,
            memory_is_lazy: false,
            clock: Clock::Host,
        }
    }
}

impl Abilities {
    /// Sets fields: `Abilities::default().with(|has| has.one_queue = false)`.
    #[must_use]
    pub fn with(mut self, set: impl FnOnce(&mut Self)) -> Self {
        set(&mut self);
        self
    }
}
