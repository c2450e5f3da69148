//! A collective in flight: the operations of its members on their streams.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::communicator::{Clique, lock, word};
use crate::driver::{Driver, Run, Span, check};
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

/// A member of a collective.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) stream: u64,
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

static JOBS: Mutex<Option<HashMap<u64, Arc<Job>>>> = Mutex::new(None);
static NEXT: AtomicU64 = AtomicU64::new(1);
/// The members that a number of an operation has room for.
const MEMBERS_MAX: u64 = 1 << 8;

fn find(data: u64) -> Option<(Arc<Job>, usize)> {
    let jobs = lock(&JOBS);
    let job = jobs.as_ref()?.get(&(data / MEMBERS_MAX))?.clone();
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
    if is_over && let Some(jobs) = &mut *lock(&JOBS) {
        jobs.remove(&(data / MEMBERS_MAX));
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
    pub(crate) fn submit(self, driver: &Driver) -> Result<(), u32> {
        // Relaxed: the numbers only need to differ.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let job = Arc::new(self);
        lock(&JOBS)
            .get_or_insert_default()
            .insert(number, job.clone());
        job.meet(driver)?;
        job.for_each(driver, |member, at| {
            let writes = [Span {
                start: word(job.clique.devices[at]),
                bytes: 8,
            }];
            let data = number * MEMBERS_MAX + at as u64;
            job.operation(driver, member.stream, (&job.sources(), &writes), read, data)
        })?;
        job.meet(driver)?;
        job.for_each(driver, |member, at| {
            let in_place = matches!(job.kind, Kind::Broadcast { root } if root == at)
                && member.source.start == member.target.start;
            let writes = [member.target];
            // The root keeps its bytes.
            let writes = if in_place { &[][..] } else { &writes };
            let data = number * MEMBERS_MAX + at as u64;
            let run = if in_place { skip } else { write };
            job.operation(driver, member.stream, (&[], writes), run, data)
        })
    }

    /// Makes each stream wait until all have come to this place.
    fn meet(&self, driver: &Driver) -> Result<(), u32> {
        const UNTIMED: u32 = 2;
        let mut events = vec![0_u64; self.members.len()];
        self.for_each(driver, |member, at| {
            // SAFETY: the out pointer is valid, and the driver checks the handles.
            unsafe {
                check((driver.create_event)(&raw mut events[at], UNTIMED))?;
                check((driver.record)(events[at], member.stream))
            }
        })?;
        self.for_each(driver, |member, _| {
            events.iter().try_for_each(|event| {
                // SAFETY: as above.
                check(unsafe { (driver.wait)(member.stream, *event, 0) })
            })
        })?;
        self.for_each(driver, |_, at| {
            // SAFETY: created once, destroyed once; the driver keeps pending waits.
            check(unsafe { (driver.destroy_event)(events[at]) })
        })
    }

    /// Calls a function for each member, within the context of its stream.
    fn for_each(
        &self,
        driver: &Driver,
        mut body: impl FnMut(&Member, usize) -> Result<(), u32>,
    ) -> Result<(), u32> {
        for (at, member) in self.members.iter().enumerate() {
            let (context, _) = driver.stream(member.stream)?;
            driver.within(context, || body(member, at))?;
        }
        Ok(())
    }

    fn operation(
        &self,
        driver: &Driver,
        stream: u64,
        (reads, writes): (&[Span], &[Span]),
        run: Run,
        data: u64,
    ) -> Result<(), u32> {
        let name = CString::new(self.kind.name()).unwrap_or_default();
        // SAFETY: the name ends with a zero byte, and the lists have these lengths.
        check(unsafe {
            (driver.native)(
                stream,
                name.as_ptr(),
                reads.as_ptr(),
                reads.len(),
                writes.as_ptr(),
                writes.len(),
                Some(is_ready),
                Some(run),
                data,
            )
        })
    }
}
