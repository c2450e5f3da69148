//! What the facts are written with: the device of a test ([`On`], [`Rig`]), a few kernels ([`kernels`]), and a valve that
//! holds a kernel until the test lets it go ([`Valve`]).

mod erased;
pub mod kernels;
mod valve;

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use millstream::{
    Bound, ComputeClient, Device, DeviceOptions, Driver, Element, Error, Feature, Handle, Kernel,
    MemoryError, MemoryOptions, Stats, Stream,
};

use crate::subject::{Abilities, Checks, Setting, Subject, Way};

use erased::Erased;
pub use erased::{Guard, Resources};
pub use kernels::*;
pub use valve::Valve;

/// A time limit far above what any wait of a fact takes: a wait that would never end fails instead.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A subject, opened in one way: the device that a fact is checked on.
#[derive(Clone, Copy)]
pub struct On {
    subject: &'static dyn Erased,
    way: Way,
}

impl fmt::Debug for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.subject.name(), self.way)
    }
}

/// An opened device; a driven one keeps its driver.
pub struct Rig {
    /// The device.
    pub device: Device,
    /// The driver of a driven device.
    pub driver: Option<Driver>,
    /// What watches the device. Dropped last, when the device is closed.
    pub checked: Box<dyn Checks>,
}

/// The seed of devices that make random choices: 7, or that of the environment variable `MILLSTREAM_SIM_SEED`.
fn seed() -> u64 {
    let given = std::env::var("MILLSTREAM_SIM_SEED").ok();
    given.and_then(|seed| seed.parse().ok()).unwrap_or(7)
}

impl On {
    /// The device of `subject`, opened in this way.
    pub const fn new<S: Subject>(subject: &'static S, way: Way) -> Self {
        Self { subject, way }
    }

    /// Opens it.
    pub fn open(self) -> Rig {
        self.open_with(DeviceOptions::default())
    }

    /// Opens it with these options.
    pub fn open_with(self, options: DeviceOptions) -> Rig {
        self.open_limited(None, options, seed())
    }

    /// Opens it with this seed, in small pages, which take little time to fill.
    pub fn open_seeded(self, seed: u64) -> Rig {
        let memory = MemoryOptions::default().page_bytes(256 << 10);
        let options = DeviceOptions::default().max_tasks(8).memory(memory);
        self.open_limited(None, options, seed)
    }

    /// Opens it with at most `bytes` of device memory, in pages of 64 KiB.
    pub fn open_small(self, bytes: u64) -> Rig {
        self.open_small_with(bytes, DeviceOptions::default())
    }

    /// The same, with these options otherwise.
    pub fn open_small_with(self, bytes: u64, options: DeviceOptions) -> Rig {
        let memory = MemoryOptions::default()
            .page_bytes(64 << 10)
            .small_max(4 << 10);
        self.open_limited(Some(bytes), options.memory(memory), seed())
    }

    fn open_limited(self, memory_bytes: Option<u64>, options: DeviceOptions, seed: u64) -> Rig {
        let way = self.way;
        let setting = Setting {
            way,
            memory_bytes,
            seed,
        };
        let rig = self.subject.open(&setting, options);
        remember(rig.device.properties().backend, self.subject);
        rig
    }

    /// How it is opened.
    pub fn way(self) -> Way {
        self.way
    }

    /// What it can do.
    pub fn abilities(self) -> Abilities {
        self.subject.abilities(self.way)
    }

    /// Whether its kernels are Rust closures.
    pub fn runs_rust(self) -> bool {
        self.abilities().rust_kernels
    }

    /// Waits for the resources of a binding.
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

    /// Runs `work` on the stream's queue, with the resources of a binding.
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
    /// A valve for kernels of this device.
    ///
    /// # Panics
    /// If nothing can hold a kernel of this device, though its abilities say so.
    pub fn valve(&self) -> Valve {
        match self.checked.gate() {
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

    /// A client.
    pub fn client(&self) -> ComputeClient {
        self.device.new_client()
    }

    /// Statistics of the device.
    pub fn stats(&self) -> Stats {
        self.device.stats().expect("the device runs")
    }
}

/// The subjects of devices that were opened, by the name of their backend. The suite's kernels are prepared with a client
/// alone; its device's properties have that name.
static SUBJECTS: Mutex<Vec<(&'static str, &'static dyn Erased)>> = Mutex::new(Vec::new());

fn remember(backend: &'static str, subject: &'static dyn Erased) {
    let mut all = SUBJECTS.lock().unwrap_or_else(PoisonError::into_inner);
    if all.iter().all(|(known, _)| *known != backend) {
        all.push((backend, subject));
    }
}

/// The panic of a fact that needs a kernel of which its device has no twin, as its subject says.
pub(crate) struct NoTwin {
    /// The kernel.
    pub(crate) kernel: String,
}

/// Adds the twin for a client's device.
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

/// The failure's sentence.
pub fn sentence<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    answer.unwrap_err().to_string()
}

/// Makes slices until live handles fill the table of the device.
pub fn fill_table(stream: &Stream) -> Vec<Handle<u8>> {
    let mut kept = Vec::new();
    loop {
        match stream.empty(0) {
            Ok(handle) => kept.push(handle),
            Err(Error::Memory(MemoryError::TooManyHandles { .. })) => return kept,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits a few times after few messages: from here on a caller may step in.
pub fn get_used_to_waits(stream: &Stream) {
    let values = stream.create(&[0_u32]).unwrap();
    for _ in 0..4 {
        stream.fill(&values, 1_u32).unwrap();
        stream.sync().wait().unwrap();
    }
}
