//! The calls of a group, and their checks.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::communicator::{Communicator, lock};
use crate::control::{count, report, take_hang};
use crate::driver::{Driver, Span, driver};
use crate::job::{Job, Kind, Member};
use crate::numbers::{REDUCTIONS, SIZES};
use crate::status::{INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE};

/// A call of a collective for one member.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    pub(crate) communicator: *mut Communicator,
    pub(crate) source: u64,
    pub(crate) target: u64,
    pub(crate) count: usize,
    pub(crate) dtype: u32,
    pub(crate) stream: u64,
}

#[derive(Default)]
struct Group {
    depth: usize,
    calls: Vec<Call>,
    /// The first error of a call. The end of the group returns it, and submits nothing.
    error: Option<u32>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// The groups of all threads that are not ended.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of groups that are not ended.
pub(crate) fn open_groups() -> usize {
    OPEN.load(Ordering::SeqCst)
}

/// Whether this thread has a group that is not ended.
pub(crate) fn is_open() -> bool {
    GROUP.with_borrow(|group| group.depth > 0)
}

pub(crate) fn begin() {
    OPEN.fetch_add(1, Ordering::SeqCst);
    GROUP.with_borrow_mut(|group| group.depth += 1);
}

/// Adds a call to the group of this thread.
pub(crate) fn add(call: Call) -> Result<(), u32> {
    let counted = count(call.kind.name());
    GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            let name = call.kind.name();
            report(format!(
                "no group: {name} outside of a group blocks the only thread of several communicators"
            ));
            return Err(INVALID_USAGE);
        }
        match counted.and_then(|()| check(&call)) {
            Ok(()) => group.calls.push(call),
            Err(status) => {
                group.error.get_or_insert(status);
                return Err(status);
            }
        }
        Ok(())
    })
}

/// Ends a group. The end of the outermost one submits the calls.
pub(crate) fn end() -> Result<(), u32> {
    let ended = GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            report("no group: ncclGroupEnd without ncclGroupStart".to_owned());
            return Err(INVALID_USAGE);
        }
        OPEN.fetch_sub(1, Ordering::SeqCst);
        group.depth -= 1;
        Ok((group.depth == 0).then(|| std::mem::take(group)))
    });
    let Some(group) = ended? else {
        return Ok(());
    };
    count("ncclGroupEnd")?;
    if let Some(status) = group.error {
        return Err(status);
    }
    let mut calls = group.calls;
    while let Some(first) = calls.first() {
        let clique = Communicator::find(first.communicator)
            .ok_or(INVALID_ARGUMENT)?
            .clique
            .clone();
        let is_of = |call: &Call| {
            Communicator::find(call.communicator).is_some_and(|of| Arc::ptr_eq(&of.clique, &clique))
        };
        let (of, rest) = calls.into_iter().partition(is_of);
        calls = rest;
        submit(of)?;
    }
    count("launched")
}

/// Checks the arguments of a call, as far as one member can be checked.
fn check(call: &Call) -> Result<(), u32> {
    let name = call.kind.name();
    let refuse = |why: String| {
        report(format!("{name} {why}"));
        Err(INVALID_ARGUMENT)
    };
    let Some(communicator) = Communicator::find(call.communicator) else {
        return refuse("receives a communicator that was destroyed".to_owned());
    };
    if call.dtype as usize >= SIZES.len() {
        return refuse(format!("receives the unknown type {}", call.dtype));
    }
    match call.kind {
        Kind::AllReduce { reduction } | Kind::ReduceScatter { reduction }
            if reduction >= REDUCTIONS =>
        {
            return refuse(format!("receives the unknown reduction {reduction}"));
        }
        Kind::Broadcast { root } if root >= communicator.clique.devices.len() => {
            return refuse(format!("receives the unknown root {root}"));
        }
        _ => {}
    }
    let driver = driver().ok_or(INTERNAL_ERROR)?;
    let device = communicator.device();
    let (_, of_stream) = driver.stream(call.stream)?;
    if of_stream != device {
        return refuse(format!(
            "of GPU {device} receives a stream of GPU {of_stream}"
        ));
    }
    let member = member(call, communicator);
    for span in [member.source, member.target] {
        check_memory(driver, device, span).or_else(refuse)?;
    }
    let (source, target) = (member.source, member.target);
    let overlap = source.start < target.start + target.bytes
        && target.start < source.start + source.bytes
        && source.start != target.start;
    match overlap {
        true => refuse("receives buffers that overlap".to_owned()),
        false => Ok(()),
    }
}

fn check_memory(driver: &Driver, device: i32, span: Span) -> Result<(), String> {
    if span.bytes == 0 {
        return Ok(());
    }
    // SAFETY: only looks the address up.
    match unsafe { (driver.gpu_at)(span.start) } {
        of if of == device => Ok(()),
        of => Err(format!(
            "of GPU {device} receives memory of GPU {of}, at {:#x}",
            span.start
        )),
    }
}

/// Returns the ranges of a call.
fn member(call: &Call, communicator: &Communicator) -> Member {
    let members = communicator.clique.devices.len() as u64;
    let bytes = (call.count * SIZES[call.dtype as usize]) as u64;
    let (source, target) = match call.kind {
        Kind::AllReduce { .. } => (bytes, bytes),
        Kind::ReduceScatter { .. } => (bytes * members, bytes),
        Kind::AllGather => (bytes, bytes * members),
        Kind::Broadcast { root } if root == communicator.rank => (bytes, bytes),
        // The library does not read what the others pass.
        Kind::Broadcast { .. } => (0, bytes),
    };
    let span = |start, bytes| Span { start, bytes };
    Member {
        stream: call.stream,
        source: span(call.source, source),
        target: span(call.target, target),
    }
}

/// Submits the calls of the members of a clique.
fn submit(mut calls: Vec<Call>) -> Result<(), u32> {
    let rank = |call: &Call| Communicator::find(call.communicator).map_or(0, |of| of.rank);
    calls.sort_by_key(rank);
    let first = calls[0];
    let communicator = Communicator::find(first.communicator).ok_or(INVALID_ARGUMENT)?;
    let clique = communicator.clique.clone();
    let name = first.kind.name();
    if !calls.iter().map(rank).eq(0..clique.devices.len()) {
        let called: Vec<_> = calls.iter().map(rank).collect();
        report(format!(
            "{name} is called once by members {called:?}, expected each of {} once",
            clique.devices.len()
        ));
        return Err(INVALID_USAGE);
    }
    let what = |call: &Call| (call.kind, call.count, call.dtype);
    if let Some(other) = calls.iter().find(|call| what(call) != what(&first)) {
        report(format!(
            "members of a collective differ: {:?} and {:?}",
            what(&first),
            what(other)
        ));
        return Err(INVALID_USAGE);
    }
    let members = calls.iter().map(|call| {
        let communicator = Communicator::find(call.communicator).ok_or(INVALID_ARGUMENT)?;
        *lock(&communicator.last_stream) = call.stream;
        Ok(member(call, communicator))
    });
    let hangs = take_hang();
    let job = Job {
        kind: first.kind,
        dtype: first.dtype,
        clique: clique.clone(),
        members: members.collect::<Result<_, u32>>()?,
        hangs,
        results: Default::default(),
    };
    job.submit(driver().ok_or(INTERNAL_ERROR)?)?;
    clique.hangs.fetch_or(hangs, Ordering::SeqCst);
    Ok(())
}
