//! One task from its inputs' poison to its settled outputs, away from the device's lock: user code runs here.
//!
//! As on every device whose tasks fail while they run: the poison of the inputs is looked up, the task runs,
//! its outputs are settled, what it owns is dropped; its cursor is published later, by another step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use millstream_host::{HostResources, count_cubes, read_counts};
use millstream_protocol::access::Access;
use millstream_protocol::backend::BoundSlice;
use millstream_protocol::error::Refused;
use millstream_protocol::failure::{Extent, Failure, FailureRef, Reason};
use millstream_protocol::kernel::NativeView;
use millstream_protocol::launch::Pattern;
use millstream_protocol::layout::for_each_run;
use millstream_protocol::settle;
use millstream_protocol::table::Table;
use millstream_sync::payload::panic_message;

use crate::checker::Unwritten;
use crate::cost::Work;
use crate::coverage::Coverage;
use crate::cubes::run_cubes;
use crate::entry::{Entry, LaunchOp, Op};
use crate::random::Random;
use crate::resources::SimResources;
use millstream_host::LaunchFailure;

/// How a task is to run.
pub(crate) enum Fate {
    /// As it does.
    Runs,
    /// It fails half way, as this numbered fault.
    Fails(u64),
    /// It never starts: the device is lost.
    Lost,
}

/// A task that has run, or failed when it was to run.
pub(crate) struct Ran {
    pub(crate) entry: Box<Entry>,
    pub(crate) work: Work,
    /// What it declared as written and did not store. Its operation is gone by now, so a violation names the task alone.
    pub(crate) unwritten: Vec<Unwritten>,
}

type Outcome = Result<Work, FailureRef>;

/// Runs a task, settles what it did, drops what it owns, and says what work it was.
pub(crate) fn run(
    table: &Table,
    mut entry: Box<Entry>,
    fate: Fate,
    seed: u64,
    checks: bool,
) -> Ran {
    let mut unwritten = Vec::new();
    settle::outputs(table, &entry.forgets, &Ok(()));
    if matches!(entry.op, Op::Mark) {
        let work = Work::Nothing;
        return Ran {
            entry,
            work,
            unwritten,
        };
    }
    let outcome = match (fate, settle::inputs(table, &entry.bindings)) {
        (Fate::Lost, _) => fail(&entry, Failure::not_run(&entry.name, Reason::Lost)),
        (_, Err(cause)) => inherit(&mut entry, cause),
        (Fate::Fails(number), Ok(())) => fail_half_way(&entry, number, seed),
        (Fate::Runs, Ok(())) => perform(&mut entry, seed, checks.then_some(&mut unwritten)),
    };
    let (outcome, work) = match outcome {
        Ok(work) => (Ok(()), work),
        Err(failure) => (Err(failure), Work::Nothing),
    };
    // A launch of no cube wrote nothing.
    if !matches!(work, Work::Cubes(0)) {
        settle::outputs(table, &entry.bindings, &outcome);
    }
    let op = std::mem::replace(&mut entry.op, Op::Mark);
    discard_panic(move || drop(op));
    Ran {
        entry,
        work,
        unwritten,
    }
}

/// The task fails with this; whoever waits for its bytes is told.
fn fail(entry: &Entry, failure: FailureRef) -> Outcome {
    if let Op::CopyOut { landing, .. } = &entry.op {
        discard_panic(|| landing.fail(failure.clone()));
    }
    Err(failure)
}

/// The task does not run because of what it reads; whoever it would have told is told why.
fn inherit(entry: &mut Entry, mut cause: FailureRef) -> Outcome {
    let failure = settle::inherited(&entry.name, cause.clone());
    match std::mem::replace(&mut entry.op, Op::Mark) {
        // It is told of the failure; what it makes of that changes nothing.
        Op::Custom(work) => discard_panic(move || drop(work(&mut cause))),
        // What was asked for is the data, so its failure is the answer.
        Op::CopyOut { landing, .. } => discard_panic(move || landing.fail(cause)),
        op => entry.op = op,
    }
    Err(failure)
}

/// The device fails while it runs the task: its outputs are anything.
fn fail_half_way(entry: &Entry, number: u64, seed: u64) -> Outcome {
    scramble(entry, seed, Access::writes);
    let failure = Failure {
        task: entry.name.clone(),
        reason: Reason::Refused(format!("injected fault: run {number}")),
        extent: Extent::MaybePartial,
        origin: None,
    };
    fail(entry, Arc::new(failure))
}

fn perform(entry: &mut Entry, seed: u64, checked: Option<&mut Vec<Unwritten>>) -> Outcome {
    match &entry.op {
        Op::Mark => Ok(Work::Nothing),
        Op::Launch(_) | Op::Custom(_) => {
            // `Write` defines every byte, so no task may use what was there before.
            if !runs_no_cube(entry) {
                scramble(entry, seed, |access| access == Access::Write);
            }
            match std::mem::replace(&mut entry.op, Op::Mark) {
                Op::Launch(launch) => perform_launch(entry, &launch, seed, checked),
                Op::Custom(work) => perform_custom(entry, work),
                _ => Ok(Work::Nothing),
            }
        }
        Op::CopyIn { .. } | Op::CopyOut { .. } | Op::Copy | Op::Fill(_) => {
            let moved = catch_unwind(AssertUnwindSafe(|| perform_copy(entry)));
            let failure = match moved {
                Ok(Ok(work)) => return Ok(work),
                Ok(Err(why)) => Failure::not_run(&entry.name, Reason::Refused(why)),
                Err(payload) => Failure::panicked(&entry.name, panic_message(payload)),
            };
            fail(entry, failure)
        }
    }
}

/// The counts of a launch, and what its kernel is given.
fn counts_of<'a>(entry: &'a Entry, launch: &LaunchOp) -> ([u32; 3], &'a [NativeView]) {
    match (launch.count, entry.views.split_last()) {
        (Some(counts), _) => (counts, &entry.views),
        (None, Some((count, views))) => {
            // SAFETY: initialized memory, which no other task writes while this task runs (I2).
            (unsafe { read_counts(*count) }, views)
        }
        (None, None) => ([0; 3], &entry.views),
    }
}

/// Whether the task is a launch of no cube.
fn runs_no_cube(entry: &Entry) -> bool {
    match &entry.op {
        Op::Launch(launch) => count_cubes(counts_of(entry, launch).0) == Some(0),
        _ => false,
    }
}

fn perform_launch(
    entry: &Entry,
    launch: &LaunchOp,
    seed: u64,
    checked: Option<&mut Vec<Unwritten>>,
) -> Outcome {
    let (counts, views) = counts_of(entry, launch);
    let Some(cubes) = count_cubes(counts) else {
        let [x, y, z] = counts;
        let why = format!("{x} x {y} x {z} cubes are more than can be counted");
        return Err(Failure::not_run(&entry.name, Reason::Refused(why)));
    };
    if cubes == 0 {
        return Ok(Work::Cubes(0));
    }
    // SAFETY: the launch was checked against the kernel's signature, or its caller vouches for it and for
    // the kernel; pages are initialized and the entry keeps them; one task runs at a time.
    let run = || unsafe { run_cubes(launch, views, counts, cubes, seed) };
    // SAFETY: as above.
    let coverage =
        checked.and_then(|found| Some((unsafe { Coverage::begin(entry, launch) }?, found)));
    let ran = run();
    if let (Ok(()), Some((coverage, found))) = (&ran, coverage) {
        // SAFETY: as above.
        *found = unsafe { coverage.end(|| run().is_ok()) };
    }
    match ran {
        Ok(()) => Ok(Work::Cubes(cubes)),
        Err(LaunchFailure::Panicked(message)) => Err(Failure::panicked(&entry.name, message)),
        Err(LaunchFailure::Refused(why)) => {
            Err(Failure::not_run(&entry.name, Reason::Refused(why)))
        }
    }
}

fn perform_custom(entry: &Entry, work: millstream_protocol::message::CustomWork) -> Outcome {
    let bindings = entry.views.iter().zip(&entry.bindings);
    let bindings = bindings.map(|(view, binding)| (*view, binding.access));
    // SAFETY: pages are initialized and the entry keeps them; one task runs at a time, and guards of the
    // host keep away what conflicts (I2).
    let resources = unsafe { HostResources::new(bindings, Some(entry.point.queue)) };
    let mut resources = SimResources::of_task(resources);
    let why = match catch_unwind(AssertUnwindSafe(move || work(&mut resources))) {
        Ok(Ok(())) => return Ok(Work::Custom),
        Ok(Err(Refused::Task(why))) => Reason::Refused(why),
        Ok(Err(_)) => Reason::Lost,
        Err(payload) => return Err(Failure::panicked(&entry.name, panic_message(payload))),
    };
    Err(Failure::not_run(&entry.name, why))
}

/// A copy or fill, or why it is refused.
fn perform_copy(entry: &Entry) -> Result<Work, String> {
    let Some(first) = entry.views.first().copied() else {
        return Ok(Work::Nothing);
    };
    match &entry.op {
        Op::CopyIn { source, layout } => {
            let source = source.bytes();
            let dense = source.len() as u64;
            for_each_run(layout.as_ref(), first.bytes, dense, |strided, at, bytes| {
                // SAFETY: both ranges lie within their sides; a host's bytes are no device memory.
                unsafe {
                    let from = source.as_ptr().add(at);
                    from.copy_to_nonoverlapping(first.pointer.add(strided), bytes);
                }
            })?;
            Ok(Work::HostBytes(dense))
        }
        Op::CopyOut { landing, layout } => {
            let (target, len) = landing.target();
            for_each_run(
                layout.as_ref(),
                first.bytes,
                len as u64,
                |strided, at, bytes| {
                    // SAFETY: as above; the landing is this queue's until the cursor passes.
                    unsafe {
                        let from = first.pointer.add(strided);
                        from.copy_to_nonoverlapping(target.add(at), bytes);
                    }
                },
            )?;
            Ok(Work::HostBytes(len as u64))
        }
        Op::Copy => {
            let target = entry.views.get(1).copied().unwrap_or(first);
            let bytes = first.bytes.min(target.bytes);
            // SAFETY: both sides have that many bytes.
            unsafe { first.pointer.copy_to(target.pointer, bytes as usize) };
            Ok(Work::DeviceBytes(bytes))
        }
        Op::Fill(pattern) => {
            fill(first, *pattern);
            Ok(Work::DeviceBytes(first.bytes))
        }
        Op::Mark | Op::Launch(_) | Op::Custom(_) => Ok(Work::Nothing),
    }
}

/// Fills memory, which is whole patterns.
fn fill(target: NativeView, pattern: Pattern) {
    let (width, value) = (usize::from(pattern.width).clamp(1, 8), pattern.bytes());
    // SAFETY: initialized memory of that length, which nobody else touches meanwhile (I2).
    let bytes = unsafe { std::slice::from_raw_parts_mut(target.pointer, target.bytes as usize) };
    for piece in bytes.chunks_exact_mut(width) {
        piece.copy_from_slice(&value[..width]);
    }
}

/// Makes anything of the bindings with such an access. Bytes that the task reads by another binding (it
/// may, where its kernel says that they may alias) are left alone.
fn scramble(entry: &Entry, seed: u64, which: impl Fn(Access) -> bool) {
    let mut random = Random::new(seed);
    let is_read = |binding: &BoundSlice| {
        entry.bindings.iter().any(|other| {
            other.access == Access::Read
                && other.page == binding.page
                && other.offset < binding.offset + binding.len
                && binding.offset < other.offset + other.len
        })
    };
    for (view, binding) in entry.views.iter().zip(&entry.bindings) {
        if which(binding.access) && !is_read(binding) {
            let byte = random.next() as u8;
            // SAFETY: the view lies in a block that the entry keeps; nobody else touches it now (I2).
            unsafe { view.pointer.write_bytes(byte, view.bytes as usize) };
        }
    }
}

/// Runs user code whose panic has nobody to be told to.
fn discard_panic(run: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
        panic_message(payload);
    }
}
