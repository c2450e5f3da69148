//! What the author of a backend declares: how to open a device, what it can do, and twins of the suite's kernels.

use std::any::Any;
use std::sync::Arc;

use millstream::Kernel;
use millstream::backend::{Backend, Open};

/// The resources that a custom task and a guard receive on the device of this subject.
pub type ResourcesOf<S> = <<<S as Subject>::Kind as Open>::Backend as Backend>::Resources;

/// A backend under test.
///
/// # Twins
/// The suite's kernels are Rust closures. A device that runs closures needs nothing else. Any other device adds its own
/// source to each kernel, by the kernel's name ([`Subject::twin`]). The arguments are in the order of the kernel's
/// signature: bindings, then scalars. `u` is `u32`, `n` is the number of elements. A launch may have any number of
/// cubes, so all threads of the grid must share the elements (a grid-stride loop).
///
/// | kernel | arguments | effect |
/// | --- | --- | --- |
/// | `add_one` | `u* values, u n` | `values[i] += 1` for each `i < n` |
/// | `transfer` | `u* src, u* dst, u n` | `dst[i] = src[i]` |
/// | `set` | `u* dst, u value, u n` | `dst[i] = value` |
/// | `add` | `u* values, u by, u n` | `values[i] += by` |
/// | `mix` | `u* src, u* dst, u n` | `dst[i] = dst[i] * 31 + src[i]`, wrapping |
/// | `sum` | `u* a, u* b, u* out, u n` | `out[i] = a[i] + b[i]` |
/// | `places` | `u* out` | once in each cube: `out[(z * ny + y) * nx + x] = x + 10 * y + 100 * z`, where `x`, `y`, `z` are its coordinates among `nx`, `ny`, `nz` cubes |
/// | `atomics` | `u* a, u* b` | once in each cube: adds 1 to `a[0]` and to `b[0]`, atomically; both may be the same |
/// | `large` | eleven `u* in`, `u64* out`, thirty `u64` | once in each cube: `out[0]` is the sum of the first element of each input, of the scalars, and of the words of metadata, if a launch has any ([`MetadataWords`](crate::support::MetadataWords)) |
/// | `held` | `u* values, u64 valve` | passes the [`Gate`] at address `valve`, then adds 1 to `values[0]` |
/// | `held_reader` | `u* src, u* out, u64 valve` | passes the gate, then `out[0] = src[0]` |
///
/// `tests/devices/kernels` has them in CUDA C.
pub trait Subject: Sync + 'static {
    /// The options of the device: the argument of `Device::open`.
    type Kind: Open;

    /// Returns the options of a device for one test. A test may open several devices.
    fn open(&self, setting: &Setting) -> Opening<Self::Kind>;

    /// Returns what a device that is opened in this mode can do.
    fn abilities(&self, mode: Mode) -> Abilities {
        let _ = mode;
        Abilities::default()
    }

    /// Returns the reason why this machine has no such device, for example a missing driver. All tests are then skipped
    /// with this reason.
    fn unavailable(&self) -> Option<&'static str> {
        None
    }

    /// Adds a source that the device understands to one of the suite's kernels.
    fn twin(&self, kernel: Kernel) -> Kernel {
        kernel
    }

    /// Returns `true` if [`Subject::twin`] has no source for this kernel yet. Tests that need the kernel are skipped.
    fn lacks_twin(&self, kernel: &str) -> bool {
        let _ = kernel;
        false
    }

    /// Returns the words of the binding `index` of a guard.
    fn read(&self, resources: &ResourcesOf<Self>, index: usize) -> Vec<u32>;

    /// Calls `change` with the words of the binding `index` of a custom task. The words that it leaves must be in the
    /// binding when the task ends.
    fn change(
        &self,
        resources: &ResourcesOf<Self>,
        index: usize,
        change: &mut dyn FnMut(&mut [u32]),
    );
}

/// How a device is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// With threads, and any number of queues.
    Threads,
    /// With threads, and one queue.
    OneQueue,
    /// Driven: the device starts no thread, and runs in `pump` or in calls that wait.
    Driven,
}

/// The requirements of a test on the device that it opens.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Setting {
    /// How the device is opened.
    pub mode: Mode,
    /// The limit of the device's memory in bytes; `None` if the test does not depend on it.
    pub memory_bytes: Option<u64>,
    /// The seed of a device that makes random choices.
    pub seed: u64,
}

/// The options of a device, and the checks that watch it while the test runs.
pub struct Opening<K> {
    /// The options.
    pub kind: K,
    /// The checks. The suite drops them last, after it has closed the device.
    pub checks: Box<dyn Checks>,
}

impl<K> Opening<K> {
    /// Creates an opening without checks.
    pub fn of(kind: K) -> Self {
        Self::checked(kind, ())
    }

    /// Creates an opening whose device `checks` watches.
    pub fn checked(kind: K, checks: impl Checks) -> Self {
        Self {
            kind,
            checks: Box::new(checks),
        }
    }
}

/// Watches a device while a test runs. The suite drops it after the device has closed; the drop must panic if the
/// checks found a mistake.
pub trait Checks: Any + Send + Sync {
    /// Announces that the test is about to leave tasks or memory behind on the device, which is no mistake.
    fn expects_leaks(&self) {}

    /// Returns how often kernels of this name have run on the device, if the checks count that.
    fn kernels_run(&self, name: &str) -> Option<u64> {
        let _ = name;
        None
    }

    /// Returns a new gate for kernels that are not Rust, or `None` if no gate can hold kernels of this device.
    fn gate(&self) -> Option<Arc<dyn Gate>> {
        None
    }
}

impl Checks for () {}

/// Holds kernels on a device whose kernels are not Rust, until it is opened. Dropping a gate must open it, so that a
/// test that fails leaves no kernel behind.
pub trait Gate: Send + Sync {
    /// Returns the scalar `valve` of a kernel that this gate is to hold.
    fn address(&self) -> u64;

    /// Lets all kernels pass, now and later.
    fn open(&self);

    /// Returns the number of kernels that have arrived at the gate.
    fn arrivals(&self) -> u32;
}

/// The clock that a device times its tasks by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// The host's clock.
    Host,
    /// A clock of the device.
    Device,
    /// A simulated clock.
    Virtual,
}

/// What a device can do. A test that needs more is skipped and prints that. The default fits a device with kernels in
/// Rust and one queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Abilities {
    /// Kernels are Rust closures ([`Feature::NativeKernels`](millstream::device::Feature::NativeKernels)).
    pub rust_kernels: bool,
    /// The device may read the number of cubes when a launch starts
    /// ([`Feature::DynamicCubeCount`](millstream::device::Feature::DynamicCubeCount)).
    pub dynamic_counts: bool,
    /// A launch with such a number heals the failed data that it overwrites: the queue knows the number when the launch
    /// has run, and settles failures.
    pub dynamic_launches_heal: bool,
    /// Tasks of two queues run at the same time: a kernel that does not end delays no task of another queue.
    pub queues_overlap: bool,
    /// The device has one queue.
    pub one_queue: bool,
    /// A kernel can be held while others are issued: a Rust kernel on a thread of the device, or a [`Gate`].
    pub holds_kernels: bool,
    /// A close ends within its time limit even if a kernel does not end.
    pub leaves_tasks_behind: bool,
    /// A slice of 2^60 bytes can be made: the device takes memory at its first use.
    pub memory_is_lazy: bool,
    /// Views that tasks of different streams write at the same time begin at multiples of this many bytes. More than 1
    /// if a checker of the device takes the bytes before a view for accessed.
    pub view_alignment: usize,
    /// The clock of the device's spans.
    pub clock: Clock,
}

impl Default for Abilities {
    fn default() -> Self {
        Self {
            rust_kernels: true,
            dynamic_counts: true,
            dynamic_launches_heal: true,
            queues_overlap: false,
            one_queue: true,
            holds_kernels: true,
            leaves_tasks_behind: false,
            memory_is_lazy: false,
            view_alignment: 1,
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
