//! What the tests are written with: the device of a test ([`On`], [`Rig`]), a few kernels ([`kernels`]), and a valve
//! that holds a kernel until the test opens it ([`Valve`]).

mod drops;
mod erased;
pub mod kernels;
mod sure;
mod valve;

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use millstream::{
    AllocationMode, Bound, ComputeClient, Device, DeviceOptions, Driver, Element, Error, Handle,
    Kernel, MemoryOptions, Stream,
    device::Feature,
    report::{Report, Stats},
    update,
};

use crate::subject::{Abilities, Checks, Mode, Setting, Subject};

pub use drops::{BlocksOnDrop, SendsOnDrop};
use erased::Erased;
pub use erased::{Guard, Resources};
pub use kernels::*;
pub use sure::*;
pub use valve::Valve;

/// A time limit far above any wait of a test. A wait that would never end fails the test instead.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A subject and the mode in which it is opened: the device that a test runs on.
#[derive(Clone, Copy)]
pub struct On {
    subject: &'static dyn Erased,
    mode: Mode,
}

impl fmt::Debug for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.subject.name(), self.mode)
    }
}

/// Bytes in a MiB.
pub const MIB: usize = 1 << 20;

/// The size of a page. A fake driver fills the pages of every test, which takes a quarter of the time of the suite if
/// they have the default size.
const PAGE_BYTES: u64 = 1 << 20;

/// An opened device, with the driver of a driven one.
pub struct Rig {
    /// The device.
    pub device: Device,
    /// The driver of a driven device.
    pub driver: Option<Driver>,
    /// The checks that watch the device. Declared last, so that they are dropped after the device has closed.
    pub checks: Box<dyn Checks>,
}

/// Returns the seed of devices that make random choices: the environment variable `MILLSTREAM_SIM_SEED`, or else 7.
fn seed() -> u64 {
    let given = std::env::var("MILLSTREAM_SIM_SEED").ok();
    given.and_then(|seed| seed.parse().ok()).unwrap_or(7)
}

impl On {
    /// The device of `subject`, opened in this mode.
    pub const fn new<S: Subject>(subject: &'static S, mode: Mode) -> Self {
        Self { subject, mode }
    }

    /// Opens the device.
    pub fn open(self) -> Rig {
        self.open_with(DeviceOptions::default())
    }

    /// Opens the device, with a client and a stream.
    pub fn start(self) -> (Rig, ComputeClient, Stream) {
        self.start_with(DeviceOptions::default())
    }

    /// As [`On::start`], with these options.
    pub fn start_with(self, options: DeviceOptions) -> (Rig, ComputeClient, Stream) {
        let rig = self.open_with(options);
        let client = rig.client();
        let stream = client.new_stream();
        (rig, client, stream)
    }

    /// Opens a device of 4 MiB without free memory, and returns a guard that keeps a dropped slice in use. A [`large`]
    /// reservation waits until the guard is dropped.
    pub fn open_short_of_memory(self) -> (Rig, Guard) {
        let rig = self.open_small(4 * MIB as u64);
        let owner = rig.client().new_stream();
        let guard = self.guard(&owner, (update(&large(&owner)),)).unwrap();
        (rig, guard)
    }

    /// Opens the device with these options, and with pages of 1 MiB.
    pub fn open_with(self, options: DeviceOptions) -> Rig {
        let memory = MemoryOptions::default().page_bytes(PAGE_BYTES);
        self.open_limited(None, options.memory(memory), seed())
    }

    /// Opens the device with this seed and with small pages, which are filled quickly.
    pub fn open_seeded(self, seed: u64) -> Rig {
        let memory = MemoryOptions::default().page_bytes(256 << 10);
        let options = DeviceOptions::default().max_tasks(8).memory(memory);
        self.open_limited(None, options, seed)
    }

    /// Opens the device with at most `bytes` of device memory, in pages of 64 KiB.
    pub fn open_small(self, bytes: u64) -> Rig {
        self.open_small_with(bytes, DeviceOptions::default())
    }

    /// As [`On::open_small`], with these options otherwise.
    pub fn open_small_with(self, bytes: u64, options: DeviceOptions) -> Rig {
        let memory = MemoryOptions::default()
            .page_bytes(64 << 10)
            .small_max(4 << 10);
        self.open_limited(Some(bytes), options.memory(memory), seed())
    }

    fn open_limited(self, memory_bytes: Option<u64>, options: DeviceOptions, seed: u64) -> Rig {
        let setting = Setting {
            mode: self.mode,
            memory_bytes,
            seed,
        };
        let rig = self.subject.open(&setting, options);
        register(rig.device.properties().backend, self.subject);
        rig
    }

    /// Returns the mode in which the device is opened.
    pub fn mode(self) -> Mode {
        self.mode
    }

    /// Returns what the device can do.
    pub fn abilities(self) -> Abilities {
        self.subject.abilities(self.mode)
    }

    /// Returns the reason why this machine has no such device.
    pub fn unavailable(self) -> Option<&'static str> {
        self.subject.unavailable()
    }

    /// Returns `true` if the device's kernels are Rust closures.
    pub fn runs_rust(self) -> bool {
        self.abilities().rust_kernels
    }

    /// Waits for a guard of the resources of a binding.
    ///
    /// # Errors
    /// Those of [`Stream::get_resource`].
    pub fn guard<T: Element>(
        self,
        stream: &Stream,
        (binding,): (Bound<'_, T>,),
    ) -> Result<Guard, Error> {
        let binding = (binding.handle().as_bytes(), binding.access());
        self.subject.guard(stream, binding)
    }

    /// Makes a slice with these elements, and a guard of it. While the guard lives, tasks on the slice are held.
    #[track_caller]
    pub fn put_held<T: Element>(self, stream: &Stream, elements: &[T]) -> (Handle<T>, Guard) {
        let handle = stream.put(elements);
        let guard = self.guard(stream, (update(&handle),)).unwrap();
        (handle, guard)
    }

    /// Submits a custom task: `work` runs on the stream's queue, with the resources of a binding.
    ///
    /// # Errors
    /// Those of [`Stream::with_resource`].
    pub fn with_resource<T: Element>(
        self,
        stream: &Stream,
        name: &str,
        (binding,): (Bound<'_, T>,),
        work: impl FnOnce(Resources<'_>) + Send + 'static,
    ) -> Result<(), Error> {
        let binding = (binding.handle().as_bytes(), binding.access());
        self.subject.custom(stream, name, binding, Box::new(work))
    }
}

impl Rig {
    /// Creates a valve for kernels of this device.
    ///
    /// # Panics
    /// If nothing can hold a kernel of this device, although its abilities declare it.
    pub fn valve(&self) -> Valve {
        match self.checks.gate() {
            Some(gate) => Valve::of(gate),
            None => {
                let runs_rust = self.device.properties().has(Feature::NativeKernels);
                assert!(
                    runs_rust,
                    "`holds_kernels` needs kernels in Rust, or a `Gate`"
                );
                Valve::new()
            }
        }
    }

    /// Creates a client.
    pub fn client(&self) -> ComputeClient {
        self.device.new_client()
    }

    /// Pumps a driven device until it has nothing to do.
    pub fn pump(&mut self) {
        if let Some(driver) = &mut self.driver {
            while driver.pump(Duration::from_millis(1)) {}
        }
    }

    /// Closes the device. A close of a driven device has no time limit.
    pub fn close(&mut self, limit: Duration) -> Report {
        match self.driver.take() {
            Some(driver) => driver.close(),
            None => self.device.close(limit),
        }
    }

    /// Returns the statistics of the device.
    pub fn stats(&self) -> Stats {
        self.device.stats().expect("the device runs")
    }
}

/// The subjects of opened devices, by the name of their backend. A kernel of the suite is prepared with a client alone,
/// and the properties of the client's device have that name.
static SUBJECTS: Mutex<Vec<(&'static str, &'static dyn Erased)>> = Mutex::new(Vec::new());

fn register(backend: &'static str, subject: &'static dyn Erased) {
    let mut all = SUBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
    if all.iter().all(|(known, _)| *known != backend) {
        all.push((backend, subject));
    }
}

/// The panic payload of a test that needs a kernel without a twin ([`Subject::lacks_twin`]).
pub(crate) struct NoTwin {
    /// The name of the kernel.
    pub(crate) kernel: String,
}

/// Adds the twin for the client's device.
fn twin(client: &ComputeClient, kernel: Kernel) -> Kernel {
    let backend = client.properties().backend;
    let all = SUBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = all.iter().find(|(known, _)| *known == backend);
    let subject = found.map(|(_, subject)| *subject);
    drop(all);
    let Some(subject) = subject else {
        return kernel;
    };
    if subject.lacks_twin(kernel.name()) {
        let kernel = kernel.name().to_string();
        std::panic::resume_unwind(Box::new(NoTwin { kernel }));
    }
    subject.twin(kernel)
}

/// Reserves 3 MiB. A device of 4 MiB has room for one such slice.
pub fn large(stream: &Stream) -> Handle<u8> {
    let handle = stream.empty_with::<u8>(3 * MIB, AllocationMode::Dedicated);
    handle.unwrap()
}

/// Waits a few times after a few messages each, so that the device expects waits: from then on a caller may step in.
pub fn make_waits_expected(stream: &Stream) {
    let values = stream.put(&[0_u32]);
    for _ in 0..4 {
        stream.fill(&values, 1_u32).unwrap();
        stream.drain();
    }
}
