//! All there is, under one lock: calls of the driver take it, and so does the "GPU" for each operation.
//!
//! The parts do not know the state: each takes what it needs. Modules above the state have the methods that need several
//! parts.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::access::Step;
use crate::chance::Chance;
use crate::clock::{Clock, HOST};
use crate::code::Code;
use crate::event::Event;
use crate::function::Function;
use crate::graph::Graphs;
use crate::host_function::HostCall;
use crate::memory::{Home, Memory};
use crate::peer::Peers;
use crate::stream::Streams;
use crate::time::Time;
use ptx::Kernel;
use ptx::Kind;

/// Handles are numbers of our own, no pointers, of which none is used twice.
const HANDLE_FIRST: u64 = 0x0c0d_0000_0000;
/// What the "GPU" has, unless a test says otherwise.
const MEMORY_BYTES: u64 = 1 << 30;
/// More reports than these say nothing new.
const REPORTS_MAX: usize = 200;

/// A call to be refused.
struct Fault {
    /// Of this function; of any if none.
    name: Option<String>,
    /// So many calls from now; the next is 1.
    after: u64,
    code: Code,
}

/// A GPU's primary context: its handle, and how often it is retained.
#[derive(Clone, Copy, Default)]
pub(crate) struct Primary {
    pub(crate) context: u64,
    pub(crate) retained: u64,
}

/// A loaded module, and its kernels by the handles of their functions.
pub(crate) struct Module {
    pub(crate) kernels: Vec<Arc<Kernel>>,
    pub(crate) functions: Vec<u64>,
    /// Where its variables are.
    pub(crate) variables: Vec<u64>,
}

/// Everything of a session.
pub(crate) struct State {
    /// None: the fake is inert, and is a driver that sees no GPU.
    pub(crate) session: Option<u64>,
    sessions: u64,
    pub(crate) initialized: bool,
    /// One for each GPU.
    pub(crate) primaries: Vec<Primary>,
    /// Contexts besides those, each with its GPU.
    pub(crate) contexts: BTreeMap<u64, usize>,
    /// The context that is current on the thread whose call this is; 0 is none.
    pub(crate) current: u64,
    /// A fault was planned for this call: it ends what it ends, and is refused.
    pub(crate) refusing: bool,
    /// That thread.
    pub(crate) caller: u64,
    /// What is touched while somebody wants to know.
    pub(crate) touched: Option<Vec<(Kind, Range<u64>)>>,
    /// The contexts are gone.
    pub(crate) sticky: Option<Code>,
    pub(crate) chance: Chance,
    pub(crate) time: Time,
    /// No thread is the "GPU": calls that wait or ask execute.
    pub(crate) stepped: bool,
    next_handle: u64,
    /// Handles up to this one are of sessions before.
    pub(crate) handles_before: u64,
    /// The priority of each stream that was made, in order.
    pub(crate) priorities: Vec<i32>,
    /// What was launched, as [`Launch::said`](crate::operation::Launch::said) says it.
    pub(crate) launched: Vec<String>,
    /// `cuStreamWriteValue64` is there.
    pub(crate) writes_values: bool,
    pub(crate) memory: Memory,
    pub(crate) streams: Streams,
    pub(crate) events: BTreeMap<u64, Event>,
    pub(crate) graphs: Graphs,
    pub(crate) peers: Peers,
    /// Functions of the host's that are to be called next.
    pub(crate) host_calls: VecDeque<HostCall>,
    /// Each with its GPU.
    pub(crate) pools: BTreeMap<u64, usize>,
    pub(crate) modules: BTreeMap<u64, Module>,
    pub(crate) functions: BTreeMap<u64, Function>,
    pub(crate) host: Clock,
    calls: BTreeMap<String, u64>,
    pub(crate) calls_total: u64,
    /// `FAKE_CUDA_TRACE` is set: every call is told.
    traced: bool,
    faults: Vec<Fault>,
    pub(crate) faults_met: u64,
    pub(crate) executed: u64,
    /// How often each kernel was run, by its name.
    pub(crate) kernels_run: BTreeMap<String, u64>,
    /// The operation at this place, from 1, breaks the GPU.
    pub(crate) break_at: Option<(u64, Code)>,
    pub(crate) reports: Vec<String>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
/// Something was queued or executed, released, or the session is over.
static CHANGED: Condvar = Condvar::new();

/// The name of the calling thread, as the system knows it: a library's own `std` does not know those of others.
pub(crate) fn thread_name() -> String {
    let name = std::fs::read_to_string("/proc/thread-self/comm");
    name.map_or_else(|_| "unknown".to_owned(), |name| name.trim().to_owned())
}

/// The state, locked.
pub(crate) struct Locked(MutexGuard<'static, Option<State>>);

impl std::ops::Deref for Locked {
    type Target = State;

    fn deref(&self) -> &State {
        self.0.as_ref().expect("made when it is locked")
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut State {
        self.0.as_mut().expect("made when it is locked")
    }
}

impl Locked {
    /// Waits for a change.
    pub(crate) fn wait(self) -> Self {
        Self(CHANGED.wait(self.0).unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for a change, but no longer than this: the "GPU" is slow now and then.
    pub(crate) fn dawdle(self, time: std::time::Duration) -> Self {
        let waited = CHANGED.wait_timeout(self.0, time);
        Self(waited.unwrap_or_else(PoisonError::into_inner).0)
    }
}

/// Locks the state.
pub(crate) fn lock() -> Locked {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    state.get_or_insert_with(State::new);
    Locked(state)
}

/// Tells all who wait that something has changed.
pub(crate) fn changed() {
    CHANGED.notify_all();
}

impl State {
    fn new() -> Self {
        Self {
            session: None,
            sessions: 0,
            initialized: false,
            primaries: vec![Primary::default()],
            contexts: BTreeMap::new(),
            current: 0,
            refusing: false,
            caller: 0,
            touched: None,
            sticky: None,
            chance: Chance::new(0),
            time: Time::new(0),
            stepped: false,
            next_handle: HANDLE_FIRST,
            handles_before: HANDLE_FIRST,
            priorities: Vec::new(),
            launched: Vec::new(),
            writes_values: true,
            memory: Memory::new(MEMORY_BYTES),
            streams: Streams::default(),
            events: BTreeMap::new(),
            graphs: Graphs::default(),
            peers: Peers::default(),
            host_calls: VecDeque::new(),
            pools: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            host: Clock::default(),
            calls: BTreeMap::new(),
            calls_total: 0,
            traced: std::env::var_os("FAKE_CUDA_TRACE").is_some(),
            faults: Vec::new(),
            faults_met: 0,
            executed: 0,
            kernels_run: BTreeMap::new(),
            break_at: None,
            reports: Vec::new(),
        }
    }

    /// Begins a session: a GPU as new.
    pub(crate) fn begin(&mut self, seed: u64, stepped: bool) -> u64 {
        self.sessions += 1;
        self.memory.clear();
        self.memory.bytes = MEMORY_BYTES;
        let fresh = Self {
            session: Some(self.sessions),
            sessions: self.sessions,
            chance: Chance::new(seed),
            time: Time::new(seed),
            stepped,
            next_handle: self.next_handle,
            handles_before: self.next_handle,
            memory: std::mem::replace(&mut self.memory, Memory::new(0)),
            ..Self::new()
        };
        *self = fresh;
        self.sessions
    }

    /// Was there a session in this process?
    pub(crate) fn has_begun_one(&self) -> bool {
        self.sessions > 0
    }

    pub(crate) fn handle(&mut self) -> u64 {
        self.next_handle += 16;
        self.next_handle
    }

    /// The GPU whose living context this is.
    pub(crate) fn gpu_of(&self, context: u64) -> Option<usize> {
        let lives = |primary: &Primary| primary.retained > 0 && primary.context == context;
        let primary = self.primaries.iter().position(lives);
        primary.or_else(|| self.contexts.get(&context).copied())
    }

    /// Where memory is that is made in the current context.
    pub(crate) fn home_here(&self) -> Home {
        Home {
            context: self.current,
            gpu: self.gpu_of(self.current).unwrap_or(0),
            pool: None,
        }
    }

    /// May a kernel of this context use the memory at this address? What is no memory of a GPU is not judged here.
    pub(crate) fn may_reach(&mut self, context: u64, address: u64) -> bool {
        let home = self.memory.home(address);
        home.is_none_or(|home| self.peers.may_reach(context, self.gpu_of(context), home))
    }

    /// Something is wrong.
    pub(crate) fn report(&mut self, said: String) {
        if self.reports.len() < REPORTS_MAX && !self.reports.contains(&said) {
            self.reports.push(said);
        }
    }

    /// Counts a call. Is it to be refused?
    pub(crate) fn count(&mut self, name: &str) -> Option<Code> {
        self.calls_total += 1;
        if self.traced {
            eprintln!("call {}: {name} on `{}`", self.calls_total, thread_name());
        }
        match self.calls.get_mut(name) {
            Some(count) => *count += 1,
            None => _ = self.calls.insert(name.to_owned(), 1),
        }
        let mut met = None;
        self.faults.retain_mut(|fault| {
            if fault.name.as_deref().is_none_or(|of| of == name) {
                fault.after -= 1;
            }
            if fault.after == 0 {
                met = Some(fault.code);
            }
            fault.after > 0
        });
        self.faults_met += u64::from(met.is_some());
        met
    }

    /// How often a function was called.
    pub(crate) fn calls(&self, name: &str) -> u64 {
        self.calls.get(name).copied().unwrap_or(0)
    }

    /// Refuses the call of this function, or of any, that is so many from now.
    pub(crate) fn plan_fault(&mut self, name: Option<String>, after: u64, code: Code) {
        let after = after.max(1);
        self.faults.push(Fault { name, after, code });
    }

    /// How a report calls the call that is being made.
    pub(crate) fn this_call(&self, name: &str) -> String {
        format!("`{name}` (call {})", self.calls_total)
    }

    /// The host does something now.
    pub(crate) fn host_step(&mut self, name: &str) -> Step {
        let tick = self.host.step(HOST);
        Step {
            actor: HOST,
            tick,
            clock: Arc::new(self.host.clone()),
            name: name.into(),
        }
    }

    /// A step touches memory that is there.
    pub(crate) fn touch(&mut self, step: &Step, kind: Kind, range: Range<u64>) {
        if let Some(touched) = &mut self.touched {
            touched.push((kind, range.clone()));
        }
        let start = range.start;
        for said in self.memory.touch(step, kind, range) {
            self.report(said);
        }
        if self.memory.is_crowded(start) {
            let known = self.streams.known_by_all(&self.host);
            self.memory.forget(start, &known);
        }
    }

    /// The GPU broke: the context is gone, and nothing that was queued runs.
    pub(crate) fn break_down(&mut self, code: Code) {
        self.sticky.get_or_insert(code);
        self.host_calls.clear();
        for stream in self.streams.live.values_mut() {
            stream.queue.clear();
            stream.busy = false;
        }
    }
}
