//! The calls of a group, and their checks.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::communicator::{Communicator, lock};
use crate::control::{count, find, report, with};
use crate::driver::{self, Span};
use crate::job::{Call, Job, Kind, Member};
use crate::numbers::{REDUCTIONS, SIZES};
use crate::status::{INVALID_ARGUMENT, INVALID_USAGE};

#[derive(Default)]
struct Group {
    depth: usize,
    members: Vec<Member>,
    /// The first error of a call. The end of the group returns it, and submits nothing.
    error: Option<u32>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// Whether this thread has a group that is not ended.
pub(crate) fn is_open() -> bool {
    GROUP.with_borrow(|group| group.depth > 0)
}

pub(crate) fn begin() {
    with(|control| control.open_groups += 1);
    GROUP.with_borrow_mut(|group| group.depth += 1);
}

/// Adds a call to the group of this thread.
pub(crate) fn add(communicator: u64, call: Call) -> Result<(), u32> {
    let counted = count(call.kind.name());
    GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            let name = call.kind.name();
            report(format!(
                "no group: {name} outside of a group blocks the only thread of several communicators"
            ));
            return Err(INVALID_USAGE);
        }
        match counted.and_then(|()| check(communicator, call)) {
            Ok(member) => group.members.push(member),
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
        with(|control| control.open_groups -= 1);
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
    let mut calls = group.members;
    while let Some(first) = calls.first() {
        let clique = first.communicator.clique.clone();
        let is_of = |member: &Member| Arc::ptr_eq(&member.communicator.clique, &clique);
        let (of, rest) = calls.into_iter().partition(is_of);
        calls = rest;
        submit(of)?;
    }
    count("launched")
}

/// Checks the arguments of a call, as far as one member can be checked.
fn check(communicator: u64, call: Call) -> Result<Member, u32> {
    let name = call.kind.name();
    let refuse = |why: String| {
        report(format!("{name} {why}"));
        Err(INVALID_ARGUMENT)
    };
    let Some(communicator) = find(communicator) else {
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
    let device = communicator.device();
    let (_, of_stream) = driver::stream(call.stream)?;
    if of_stream != device {
        return refuse(format!(
            "of GPU {device} receives a stream of GPU {of_stream}"
        ));
    }
    let [source, target] = spans(&call, &communicator);
    for Span { start, .. } in [source, target].into_iter().filter(|span| span.bytes > 0) {
        let of = driver::gpu_at(start)?;
        if of != device {
            return refuse(format!(
                "of GPU {device} receives memory of GPU {of}, at {start:#x}"
            ));
        }
    }
    let overlap = source.start < target.start + target.bytes
        && target.start < source.start + source.bytes
        && source.start != target.start;
    match overlap {
        true => refuse("receives buffers that overlap".to_owned()),
        false => Ok(Member {
            communicator,
            call,
            source,
            target,
        }),
    }
}

/// Returns the source and the target of a call.
fn spans(call: &Call, communicator: &Communicator) -> [Span; 2] {
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
    [span(call.source, source), span(call.target, target)]
}

/// Submits the calls of the members of a clique.
fn submit(mut members: Vec<Member>) -> Result<(), u32> {
    let rank = |member: &Member| member.communicator.rank;
    members.sort_by_key(rank);
    let (first, clique) = (members[0].call, members[0].communicator.clique.clone());
    if !members.iter().map(rank).eq(0..clique.devices.len()) {
        let called: Vec<_> = members.iter().map(rank).collect();
        report(format!(
            "{} is called once by members {called:?}, expected each of {} once",
            first.kind.name(),
            clique.devices.len()
        ));
        return Err(INVALID_USAGE);
    }
    let what = |call: Call| (call.kind, call.count, call.dtype);
    let mut calls = members.iter().map(|member| member.call);
    if let Some(other) = calls.find(|call| what(*call) != what(first)) {
        report(format!(
            "members of a collective differ: {:?} and {:?}",
            what(first),
            what(other)
        ));
        return Err(INVALID_USAGE);
    }
    for member in &members {
        *lock(&member.communicator.last_stream) = member.call.stream;
    }
    let hangs = with(|control| std::mem::take(&mut control.hangs));
    let job = Job {
        kind: first.kind,
        dtype: first.dtype,
        clique: clique.clone(),
        members,
        hangs,
        results: Default::default(),
    };
    job.submit()?;
    clique.hangs.fetch_or(hangs, Ordering::SeqCst);
    Ok(())
}
