//! The whole state of the fake, under one lock, which each driver call and each executed operation takes.
//!
//! The parts of the state do not depend on it: their methods take what they need as arguments. Methods that need
//! several parts are in modules above this one.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use crate::access::Step;
use crate::clock::{Clock, HOST};
use crate::code::Code;
use crate::event::Event;
use crate::function::Function;
use crate::graph::Graphs;
use crate::memory::{Memory, Origin};
use crate::peer::Peers;
use crate::rng::SeededRng;
use crate::stream::Streams;
use crate::tensor_map::TensorMap;
use crate::time::Time;
use ptx::Kernel;
use ptx::Kind;

/// The first handle. Handles are numbers, not pointers, and are never reused.
const HANDLE_FIRST: u64 = 0x0c0d_0000_0000;
/// The default memory of a GPU.
const MEMORY_BYTES: u64 = 1 << 30;
/// CUDA 13.0
const DRIVER_VERSION: i32 = 13_000;
/// Most reports that are kept.
const REPORTS_MAX: usize = 200;

/// An injected fault.
struct Fault {
    /// The function, or `None` for any.
    name: Option<String>,
    /// The number of calls until the fault; the next call is 1.
    after: u64,
    code: Code,
}

/// A GPU's primary context.
#[derive(Clone, Copy, Default)]
pub(crate) struct Primary {
    pub(crate) context: u64,
    /// The number of retains.
    pub(crate) retained: u64,
}

/// A loaded module.
pub(crate) struct Module {
    pub(crate) kernels: Vec<Arc<Kernel>>,
    pub(crate) functions: Vec<u64>,
    /// The addresses of its variables.
    pub(crate) variables: Vec<u64>,
}

/// The state of the fake.
#[derive(Default)]
pub(crate) struct State {
    /// The number of the current session. `None` if the fake is inert: a driver that sees no GPU.
    pub(crate) session: Option<u64>,
    sessions: u64,
    pub(crate) initialized: bool,
    /// The primary context of each GPU.
    pub(crate) primaries: Vec<Primary>,
    /// The context that is current on the calling thread; 0 for none.
    pub(crate) current: u64,
    /// The function that is called.
    pub(crate) call: &'static str,
    /// The accesses of the current graph node, while one is executed.
    pub(crate) node_accesses: Option<Vec<(Kind, Range<u64>)>>,
    /// Set once the GPU is broken; every call returns this code.
    pub(crate) sticky: Option<Code>,
    pub(crate) rng: SeededRng,
    pub(crate) time: Time,
    /// Whether there is no GPU thread; only calls that wait or query execute operations.
    pub(crate) stepped: bool,
    next_handle: u64,
    /// The last handle of earlier sessions.
    pub(crate) past_handles_end: u64,
    /// The priority of each created stream, in order.
    pub(crate) priorities: Vec<i32>,
    /// The launches, as [`Launch::describe`](crate::operation::Launch::describe) formats them.
    pub(crate) launched: Vec<String>,
    /// The version of CUDA that the driver supports, as `cuDriverGetVersion` returns it.
    pub(crate) driver_version: i32,
    pub(crate) memory: Memory,
    pub(crate) streams: Streams,
    pub(crate) events: BTreeMap<u64, Event>,
    pub(crate) graphs: Graphs,
    pub(crate) peers: Peers,
    /// The pools, with their GPUs.
    pub(crate) pools: BTreeMap<u64, usize>,
    pub(crate) modules: BTreeMap<u64, Module>,
    pub(crate) functions: BTreeMap<u64, Function>,
    /// The encoded tensor maps, in order.
    pub(crate) tensor_maps: Vec<TensorMap>,
    pub(crate) host: Clock,
    calls: BTreeMap<String, u64>,
    pub(crate) calls_total: u64,
    /// The threads that made calls.
    pub(crate) callers: HashSet<ThreadId>,
    /// Whether `FAKE_CUDA_TRACE` is set: each call is printed.
    traced: bool,
    faults: Vec<Fault>,
    pub(crate) faults_injected: u64,
    pub(crate) executed: u64,
    /// The number of runs of each kernel, by name.
    pub(crate) kernels_run: BTreeMap<String, u64>,
    /// The number of the operation that breaks the GPU, from 1.
    pub(crate) break_at: Option<(u64, Code)>,
    pub(crate) reports: Vec<String>,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| Mutex::new(State::new()));
/// Notified when an operation is queued, executed or released, and when the session ends.
static CHANGED: Condvar = Condvar::new();

/// Returns the system's name of the calling thread. The `std` of this library does not know the names of threads that
/// another copy of `std` started.
pub(crate) fn thread_name() -> String {
    let name = std::fs::read_to_string("/proc/thread-self/comm");
    name.map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
}

/// The locked state.
pub(crate) type Locked = MutexGuard<'static, State>;

/// Locks the state.
pub(crate) fn lock() -> Locked {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a change.
pub(crate) fn wait(state: Locked) -> Locked {
    CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a change, or until the time has passed.
pub(crate) fn wait_timeout(state: Locked, time: Duration) -> Locked {
    let waited = CHANGED.wait_timeout(state, time);
    waited.unwrap_or_else(PoisonError::into_inner).0
}

/// Wakes all threads that wait for a change.
pub(crate) fn changed() {
    CHANGED.notify_all();
}

impl State {
    fn new() -> Self {
        Self {
            primaries: vec![Primary::default()],
            next_handle: HANDLE_FIRST,
            past_handles_end: HANDLE_FIRST,
            driver_version: DRIVER_VERSION,
            memory: Memory::new(MEMORY_BYTES),
            traced: std::env::var_os("FAKE_CUDA_TRACE").is_some(),
            ..Self::default()
        }
    }

    /// Begins a session with a fresh state. Returns its number.
    pub(crate) fn begin(&mut self, seed: u64, stepped: bool) -> u64 {
        self.sessions += 1;
        self.memory.clear();
        self.memory.bytes = MEMORY_BYTES;
        let fresh = Self {
            session: Some(self.sessions),
            sessions: self.sessions,
            rng: SeededRng::new(seed),
            time: Time::new(seed),
            stepped,
            next_handle: self.next_handle,
            past_handles_end: self.next_handle,
            memory: std::mem::take(&mut self.memory),
            ..Self::new()
        };
        *self = fresh;
        self.sessions
    }

    /// Returns `true` if this process has begun a session.
    pub(crate) fn has_had_session(&self) -> bool {
        self.sessions > 0
    }

    /// Returns a new handle.
    pub(crate) fn handle(&mut self) -> u64 {
        self.next_handle += 16;
        self.next_handle
    }

    /// Returns the GPU of a live context.
    pub(crate) fn gpu_of(&self, context: u64) -> Option<usize> {
        let lives = |primary: &Primary| primary.retained > 0 && primary.context == context;
        self.primaries.iter().position(lives)
    }

    /// Returns the origin of memory that is allocated in the current context.
    pub(crate) fn current_origin(&self) -> Origin {
        Origin {
            context: self.current,
            gpu: self.gpu_of(self.current).unwrap_or(0),
            pool: None,
        }
    }

    /// Returns `true` if a kernel on this GPU may access the memory at this address. Memory that is not on a GPU is not
    /// checked here.
    pub(crate) fn may_reach(&mut self, gpu: usize, address: u64) -> bool {
        let origin = self.memory.origin(address);
        origin.is_none_or(|origin| self.peers.may_reach(gpu, origin))
    }

    /// Adds a report, unless it is there already.
    pub(crate) fn report(&mut self, report: String) {
        if self.reports.len() < REPORTS_MAX && !self.reports.contains(&report) {
            self.reports.push(report);
        }
    }

    /// Counts a call. Returns the code of the fault that it meets, if any.
    pub(crate) fn count(&mut self, name: &str) -> Option<Code> {
        self.calls_total += 1;
        self.callers.insert(std::thread::current().id());
        if self.traced {
            eprintln!("call {}: {name} on `{}`", self.calls_total, thread_name());
        }
        match self.calls.get_mut(name) {
            Some(count) => *count += 1,
            None => _ = self.calls.insert(name.to_owned(), 1),
        }
        let mut code = None;
        self.faults.retain_mut(|fault| {
            if fault.name.as_deref().is_none_or(|of| of == name) {
                fault.after -= 1;
            }
            if fault.after == 0 {
                code = Some(fault.code);
            }
            fault.after > 0
        });
        self.faults_injected += u64::from(code.is_some());
        code
    }

    /// Returns the number of calls of a function.
    pub(crate) fn calls(&self, name: &str) -> u64 {
        self.calls.get(name).copied().unwrap_or(0)
    }

    /// Injects a fault in the `after`th call from now of this function, or of any.
    pub(crate) fn plan_fault(&mut self, name: Option<String>, after: u64, code: Code) {
        let after = after.max(1);
        self.faults.push(Fault { name, after, code });
    }

    /// Adds a report, and returns the code of the call that it refuses.
    pub(crate) fn refuse(&mut self, code: Code, report: impl Into<String>) -> Code {
        self.report(report.into());
        code
    }

    /// Returns the name of the current call in reports.
    pub(crate) fn this_call(&self) -> String {
        format!("`{}` (call {})", self.call, self.calls_total)
    }

    /// Advances the host by one step.
    pub(crate) fn host_step(&mut self, name: &str) -> Step {
        let tick = self.host.step(HOST);
        Step {
            actor: HOST,
            tick,
            clock: Arc::new(self.host.clone()),
            name: name.into(),
        }
    }

    /// Checks and records an access to existing memory.
    pub(crate) fn record_access(&mut self, step: &Step, kind: Kind, range: Range<u64>) {
        if let Some(accesses) = &mut self.node_accesses {
            accesses.push((kind, range.clone()));
        }
        let start = range.start;
        for report in self.memory.record_access(step, kind, range) {
            self.report(report);
        }
        if self.memory.is_log_full(start) {
            let known = self.streams.known_to_all(&self.host);
            self.memory.prune_log(start, &known);
        }
    }

    /// Breaks the GPU: all contexts are destroyed, and queued operations do not run.
    pub(crate) fn break_gpu(&mut self, code: Code) {
        self.sticky.get_or_insert(code);
        for stream in self.streams.live.values_mut() {
            stream.queue.clear();
        }
    }
}
