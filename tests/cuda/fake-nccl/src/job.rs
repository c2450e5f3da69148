//! A collective in flight: the operations of its members on their streams.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use crate::communicator::{Clique, Communicator, lock, word};
use crate::driver::{self, Run, Span};
use crate::numbers::combine;

/// What a collective does. All members pass the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    AllReduce { reduction: u32 },
    ReduceScatter { reduction: u32 },
    AllGather,
    Broadcast { root: usize },
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AllReduce { .. } => "ncclAllReduce",
            Self::ReduceScatter { .. } => "ncclReduceScatter",
            Self::AllGather => "ncclAllGather",
            Self::Broadcast { .. } => "ncclBroadcast",
        }
    }
}

/// A call of a collective for one member.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    pub(crate) source: u64,
    pub(crate) target: u64,
    pub(crate) count: usize,
    pub(crate) dtype: u32,
    pub(crate) stream: u64,
}

/// A member of a collective.
pub(crate) struct Member {
    pub(crate) communicator: Arc<Communicator>,
    pub(crate) call: Call,
    pub(crate) source: Span,
    pub(crate) target: Span,
}

/// A collective in flight.
pub(crate) struct Job {
    pub(crate) kind: Kind,
    pub(crate) dtype: u32,
    pub(crate) clique: Arc<Clique>,
    pub(crate) members: Vec<Member>,
    /// Whether it stands still until it is aborted.
    pub(crate) hangs: bool,
    pub(crate) results: Mutex<Results>,
}

#[derive(Default)]
pub(crate) struct Results {
    /// By member.
    of: HashMap<usize, Vec<u8>>,
    /// The members that have ended.
    ended: usize,
}

static JOBS: LazyLock<Mutex<HashMap<u64, Arc<Job>>>> = LazyLock::new(Mutex::default);
static NEXT: AtomicU64 = AtomicU64::new(1);
/// The members that a number of an operation has room for.
const MEMBERS_MAX: u64 = 1 << 8;

fn find(data: u64) -> Option<(Arc<Job>, usize)> {
    let job = lock(&JOBS).get(&(data / MEMBERS_MAX))?.clone();
    Some((job, (data % MEMBERS_MAX) as usize))
}

/// Whether the operation may run.
extern "C" fn is_ready(data: u64) -> u32 {
    let ready = find(data).is_none_or(|(job, _)| !job.hangs || job.clique.is_aborted());
    ready.into()
}

/// Combines the inputs of all members, for one.
extern "C" fn read(data: u64, inputs: *const *const u8, _: *const *mut u8) {
    let Some((job, member)) = find(data) else {
        return;
    };
    let sources = job.sources();
    let sources = sources.iter().filter(|source| source.bytes > 0).enumerate();
    // SAFETY: the driver passes a pointer for each range that is not empty, and has checked the ranges.
    let inputs: Vec<&[u8]> = sources
        .map(|(at, source)| unsafe {
            std::slice::from_raw_parts(*inputs.add(at), source.bytes as usize)
        })
        .collect();
    let result = job.result(member, &inputs);
    lock(&job.results).of.insert(member, result);
}

/// Writes the output of a member.
extern "C" fn write(data: u64, _: *const *const u8, outputs: *const *mut u8) {
    let Some((job, member)) = find(data) else {
        return;
    };
    let result = lock(&job.results).of.remove(&member).unwrap_or_default();
    let room = job.members[member].target.bytes as usize;
    if room > 0 && !job.clique.is_aborted() {
        // SAFETY: the driver passes a pointer to the range, and has checked it; the result is not longer.
        unsafe { std::ptr::copy_nonoverlapping(result.as_ptr(), *outputs, result.len().min(room)) };
    }
    end(data, &job);
}

/// Ends the part of a member that writes nothing.
extern "C" fn skip(data: u64, _: *const *const u8, _: *const *mut u8) {
    if let Some((job, _)) = find(data) {
        end(data, &job);
    }
}

/// Notes the end of a member. The last one ends the job.
fn end(data: u64, job: &Job) {
    let mut results = lock(&job.results);
    results.ended += 1;
    let is_over = results.ended == job.members.len();
    drop(results);
    if is_over {
        lock(&JOBS).remove(&(data / MEMBERS_MAX));
    }
}

impl Job {
    /// Returns the ranges that each member reads.
    fn sources(&self) -> Vec<Span> {
        match self.kind {
            Kind::Broadcast { root } => vec![self.members[root].source],
            _ => self.members.iter().map(|member| member.source).collect(),
        }
    }

    fn result(&self, member: usize, inputs: &[&[u8]]) -> Vec<u8> {
        let part = self.members[member].target.bytes as usize;
        match self.kind {
            Kind::AllReduce { reduction } => combine(self.dtype, reduction, inputs),
            Kind::ReduceScatter { reduction } => {
                let parts = inputs.iter().map(|input| &input[member * part..][..part]);
                combine(self.dtype, reduction, &parts.collect::<Vec<_>>())
            }
            Kind::AllGather | Kind::Broadcast { .. } => inputs.concat(),
        }
    }

    /// Submits the operations of all members.
    pub(crate) fn submit(self) -> Result<(), u32> {
        // Relaxed: the numbers only need to differ.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let job = Arc::new(self);
        lock(&JOBS).insert(number, job.clone());
        job.meet()?;
        job.for_each(|member, at| {
            let writes = [Span {
                start: word(job.clique.devices[at]),
                bytes: 8,
            }];
            let data = number * MEMBERS_MAX + at as u64;
            job.operation(member.call.stream, (&job.sources(), &writes), read, data)
        })?;
        job.meet()?;
        job.for_each(|member, at| {
            let in_place = matches!(job.kind, Kind::Broadcast { root } if root == at)
                && member.source.start == member.target.start;
            let writes = [member.target];
            // The root keeps its bytes.
            let writes = if in_place { &[][..] } else { &writes };
            let data = number * MEMBERS_MAX + at as u64;
            let run = if in_place { skip } else { write };
            job.operation(member.call.stream, (&[], writes), run, data)
        })
    }

    /// Makes each stream wait until all have come to this place.
    fn meet(&self) -> Result<(), u32> {
        const UNTIMED: u64 = 2;
        let mut events = Vec::new();
        self.for_each(|member, _| {
            let event = driver::make("cuEventCreate", &[UNTIMED])?;
            events.push(event);
            driver::call("cuEventRecord", &[event, member.call.stream])
        })?;
        self.for_each(|member, _| {
            let mut events = events.iter();
            events.try_for_each(|event| {
                driver::call("cuStreamWaitEvent", &[member.call.stream, *event, 0])
            })
        })?;
        // The driver keeps pending waits.
        self.for_each(|_, at| driver::call("cuEventDestroy_v2", &[events[at]]))
    }

    /// Calls a function for each member, within the context of its stream.
    fn for_each(&self, mut body: impl FnMut(&Member, usize) -> Result<(), u32>) -> Result<(), u32> {
        for (at, member) in self.members.iter().enumerate() {
            let (context, _) = driver::stream(member.call.stream)?;
            driver::within(context, || body(member, at))?;
        }
        Ok(())
    }

    fn operation(
        &self,
        stream: u64,
        (reads, writes): (&[Span], &[Span]),
        run: Run,
        data: u64,
    ) -> Result<(), u32> {
        let name = CString::new(self.kind.name()).unwrap_or_default();
        let arguments = [
            stream,
            name.as_ptr() as u64,
            reads.as_ptr() as u64,
            reads.len() as u64,
            writes.as_ptr() as u64,
            writes.len() as u64,
            is_ready as *const () as u64,
            run as *const () as u64,
            data,
        ];
        driver::call("fake_cuda_native", &arguments)
    }
}
