//! The options of the CPU device.

use std::thread::available_parallelism;

use millstream_protocol::{MAX_QUEUES, OpenError};

/// The default number of queues is at most this: more of them rarely overlap usefully.
const DEFAULT_QUEUES_MAX: usize = 4;
/// The default number of queues is at least this, so that two streams can overlap.
const DEFAULT_QUEUES_MIN: usize = 2;
/// The greatest number of threads of a cube team: far above any machine, so that a mistyped number is an error.
pub(crate) const THREADS_MAX: usize = 4096;

/// The CPU as a device: its options, and [`Open`](millstream_protocol::Open).
///
/// ```
/// use millstream_cpu::Cpu;
///
/// let options = Cpu::default().queues(2).threads(4).memory_limit(1 << 30);
/// # let _ = options;
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cpu {
    pub(crate) queues: usize,
    pub(crate) threads: usize,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) machine_code: bool,
}

impl Default for Cpu {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self {
            queues: cores.clamp(DEFAULT_QUEUES_MIN, DEFAULT_QUEUES_MAX),
            threads: cores.min(THREADS_MAX),
            memory_limit: None,
            machine_code: true,
        }
    }
}

impl Cpu {
    /// Sets the number of queues, each with one worker thread. The default is one per core, from two to four.
    #[must_use]
    pub fn queues(mut self, queues: usize) -> Self {
        self.queues = queues;
        self
    }

    /// Sets the number of threads that share the cubes of one launch, including the queue's worker. The default is
    /// one per core. With one thread, every launch runs on its queue's worker alone.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the greatest number of bytes that the device allocates. There is no limit by default.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// Sets whether programs may become machine code, which lies in memory that is executable and never writable. The
    /// default is `true`. It takes effect if the feature `machine-code` is enabled and the processor is x86-64.
    /// Otherwise loops that were compiled with the program run, with bit-identical results, and the device has no
    /// executable memory of its own.
    ///
    /// ```
    /// use millstream_cpu::Cpu;
    ///
    /// let on_a_console = Cpu::default().machine_code(false);
    /// # let _ = on_a_console;
    /// ```
    #[must_use]
    pub fn machine_code(mut self, may: bool) -> Self {
        self.machine_code = may;
        self
    }

    /// Checks the values.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let within = |option, given: usize, most, must| match (1..=most).contains(&given) {
            true => Ok(()),
            false => Err(OpenError::Option {
                option,
                given: given.to_string(),
                must,
            }),
        };
        within("queues", self.queues, MAX_QUEUES, "from 1 to 16")?;
        within("threads", self.threads, THREADS_MAX, "from 1 to 4096")
    }
}

const _: () = assert!(
    MAX_QUEUES == 16 && THREADS_MAX == 4096,
    "the texts above state the limits"
);
