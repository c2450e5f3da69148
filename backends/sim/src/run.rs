//! Runs one task, from its inputs' poison to its settled outputs, without the device's lock: user code runs here.
//!
//! The order is that of every device whose tasks fail while they run: look up the poison of the inputs, run the task,
//! settle its outputs, drop what it owns. Another step publishes its cursor later.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use millstream_host::{
    HostResources, Transfer, check_counts, count_cubes, counts_of, discard_panic, launch_failure,
    run_custom,
};
use millstream_protocol::{
    Access, BoundSlice, Extent, Failure, FailureRef, Lines, Reason, Table, settle,
};
use millstream_sync::payload::panic_message;

use crate::checker::Observed;
use crate::cost::Work;
use crate::coverage::Coverage;
use crate::cubes::{Choices, Shuffled, Stopped, run_cubes};
use crate::entry::{Entry, LaunchOp, Op};
use crate::random::Random;
use crate::shared::SimResources;

/// The fate of a task that is about to run.
pub(crate) enum Fate {
    /// It runs.
    Runs,
    /// It takes its time, and does nothing unless it is custom work.
    Passes,
    /// It fails midway, as the fault with this number.
    Fails(u64),
    /// It never starts, because the device is lost.
    Lost,
    /// It never starts, because it was withdrawn.
    Withdrawn(Reason),
}

/// A task that begins.
pub(crate) struct Running {
    pub(crate) entry: Box<Entry>,
    pub(crate) fate: Fate,
    /// Chooses the order of cubes, and the bytes of undefined outputs.
    pub(crate) seed: u64,
    /// Whether it is checked while it runs.
    pub(crate) checks: bool,
}

/// A task that has run, or failed when it should have run.
pub(crate) struct Ran {
    pub(crate) entry: Box<Entry>,
    pub(crate) work: Work,
    /// What it did wrong. Its operation is already dropped, so a violation names only the task.
    pub(crate) observed: Observed,
}

type Outcome = Result<Work, FailureRef>;

/// Runs a task, settles its outputs, drops what it owns, and returns its work.
pub(crate) fn run(table: &Table, task: Running) -> Ran {
    let Running {
        mut entry,
        fate,
        seed,
        checks,
    } = task;
    let mut observed = Observed::default();
    for fill in entry.fills.drain(..) {
        // SAFETY: the entry keeps the blocks; one task runs at a time, and every task that touches the bytes comes before
        // this one (I4).
        unsafe { fill.run() };
    }
    settle::outputs(table, &entry.forgets, &Ok(()));
    let outcome = match (fate, settle::inputs(table, &entry.bindings)) {
        (Fate::Lost, _) => fail(&entry, Failure::not_run(&entry.name, Reason::Lost)),
        (Fate::Withdrawn(reason), _) => {
            let failure = Failure::not_run(&entry.name, reason);
            Err(refuse(&mut entry, failure))
        }
        (_, Err(cause)) => inherit(&mut entry, cause),
        (Fate::Fails(number), Ok(())) => fail_half_way(&entry, number, seed),
        (Fate::Passes, Ok(())) => pass(&mut entry),
        (Fate::Runs, Ok(())) => {
            let observed = checks.then_some(&mut observed);
            perform(table, &mut entry, seed, observed)
        }
    };
    let (outcome, work) = match outcome {
        Ok(work) => (Ok(()), work),
        Err(failure) => (Err(failure), Work::Nothing),
    };
    // A launch without cubes wrote nothing.
    if !matches!(work, Work::Cubes(0)) {
        settle::outputs(table, &entry.bindings, &outcome);
    }
    let op = std::mem::replace(&mut entry.op, Op::Mark);
    discard_panic(move || drop(op));
    Ran {
        entry,
        work,
        observed,
    }
}

/// Fails the task; a copy to the host receives the failure.
fn fail(entry: &Entry, failure: FailureRef) -> Outcome {
    if let Op::CopyOut { landing, .. } = &entry.op {
        discard_panic(|| landing.fail(failure.clone()));
    }
    Err(failure)
}

/// The task does not run because an input is poisoned.
fn inherit(entry: &mut Entry, cause: FailureRef) -> Outcome {
    // The caller of a copy to the host requested the data, so the data's failure is the answer.
    let cause = refuse(entry, cause);
    Err(settle::inherited(&entry.name, cause))
}

/// The task does not run because of `cause`, which custom work and copies to the host receive.
fn refuse(entry: &mut Entry, cause: FailureRef) -> FailureRef {
    let received = cause.clone();
    match std::mem::replace(&mut entry.op, Op::Mark) {
        // Custom work receives the failure; its result changes nothing.
        Op::Custom(work) => discard_panic(move || drop(work(&received))),
        Op::CopyOut { landing, .. } => discard_panic(move || landing.fail(received)),
        op => entry.op = op,
    }
    cause
}

/// The device fails while it runs the task: its outputs become random.
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

fn perform(
    table: &Table,
    entry: &mut Entry,
    seed: u64,
    observed: Option<&mut Observed>,
) -> Outcome {
    match &entry.op {
        Op::Mark => Ok(Work::Nothing),
        Op::Launch(_) | Op::Custom(_) => {
            // `Write` defines every byte, so no task may rely on the old bytes.
            if !runs_no_cube(entry) {
                scramble(entry, seed, |access| access == Access::Write);
            }
            match std::mem::replace(&mut entry.op, Op::Mark) {
                Op::Launch(launch) => {
                    let lines = launch.kernel.kernel.prints().then(Lines::default);
                    let outcome = perform_launch(entry, &launch, seed, (observed, lines.as_ref()));
                    if let Some(lines) = lines {
                        let prints = &table.sink().prints;
                        prints.add(entry.point, &launch.kernel.kernel, lines);
                    }
                    outcome
                }
                Op::Custom(work) => perform_custom(entry, work),
                _ => Ok(Work::Nothing),
            }
        }
        Op::CopyIn { .. } | Op::CopyOut { .. } | Op::Copy | Op::Fill(_) => {
            let moved = catch_unwind(AssertUnwindSafe(|| perform_copy(entry, seed)));
            let failure = match moved {
                Ok(Ok(work)) => return Ok(work),
                Ok(Err(why)) => Failure::not_run(&entry.name, Reason::Refused(why)),
                Err(payload) => Failure::panicked(&entry.name, panic_message(payload)),
            };
            fail(entry, failure)
        }
    }
}

/// Returns the work of a task, as far as it is known before it runs.
fn work_of(entry: &Entry) -> Work {
    match &entry.op {
        Op::Mark => Work::Nothing,
        Op::Launch(launch) => Work::Cubes(launch.count.and_then(count_cubes).unwrap_or(0)),
        Op::CopyIn { source, .. } => Work::HostBytes(source.bytes().len() as u64),
        Op::CopyOut { landing, .. } => Work::HostBytes(landing.target().1 as u64),
        Op::Copy | Op::Fill(_) => {
            Work::DeviceBytes(entry.views.first().map_or(0, |view| view.bytes))
        }
        Op::Custom(_) => Work::Custom,
    }
}

/// Returns the work of a task that does none. A copy to the host receives zeros.
fn pass(entry: &mut Entry) -> Outcome {
    let work = work_of(entry);
    match std::mem::replace(&mut entry.op, Op::Mark) {
        Op::Custom(work) => return perform_custom(entry, work),
        Op::CopyOut { landing, .. } => {
            let (target, len) = landing.target();
            // SAFETY: the landing has room for this many bytes, and belongs to this queue until the cursor passes.
            unsafe { target.write_bytes(0, len) };
        }
        _ => {}
    }
    Ok(work)
}

/// Returns `true` if the task is a launch without cubes.
fn runs_no_cube(entry: &Entry) -> bool {
    match &entry.op {
        Op::Launch(launch) => {
            // SAFETY: as in `perform_launch`.
            let (counts, _) = unsafe { counts_of(launch.count, &entry.views) };
            count_cubes(counts) == Some(0)
        }
        _ => false,
    }
}

fn perform_launch(
    entry: &Entry,
    launch: &LaunchOp,
    seed: u64,
    (observed, lines): (Option<&mut Observed>, Option<&Lines>),
) -> Outcome {
    // SAFETY: pages are initialized and the entry keeps them; one task runs at a time.
    let (counts, views) = unsafe { counts_of(launch.count, &entry.views) };
    let cubes =
        check_counts(counts).map_err(|why| Failure::not_run(&entry.name, Reason::Refused(why)))?;
    if cubes == 0 {
        return Ok(Work::Cubes(0));
    }
    let checks = observed.is_some();
    let choices = Choices { seed, checks };
    // SAFETY: the launch was checked against the kernel's signature, or its caller vouches for it and for the kernel;
    // pages are initialized and the entry keeps them; one task runs at a time.
    let run = |lines| unsafe { run_cubes(launch, views, counts, cubes, choices, lines) };
    let Some(observed) = observed else {
        return outcome(entry, cubes, run(lines));
    };
    // SAFETY: as above.
    let coverage = unsafe { Coverage::begin(entry, launch) };
    let ran = run(lines);
    match (&ran, coverage) {
        (Ok(()), Some(coverage)) => {
            // SAFETY: as above.
            observed.unwritten = unsafe { coverage.end(|| run(None).is_ok()) };
        }
        (Err(Stopped::Mistake(mistake)), _) => observed.mistake = Some(mistake.clone()),
        _ => {}
    }
    outcome(entry, cubes, ran)
}

fn outcome(entry: &Entry, cubes: u64, ran: Result<(), Stopped>) -> Outcome {
    match ran {
        Ok(()) => Ok(Work::Cubes(cubes)),
        Err(Stopped::Host(why)) => Err(launch_failure(&entry.name, why)),
        Err(Stopped::Mistake(mistake)) => Err(Failure::panicked(&entry.name, mistake.to_string())),
    }
}

fn perform_custom(entry: &Entry, work: millstream_protocol::CustomWork) -> Outcome {
    let bindings = entry.views.iter().zip(&entry.bindings);
    let bindings = bindings.map(|(view, binding)| (*view, binding.access));
    // SAFETY: pages are initialized and the entry keeps them; one task runs at a time, and conflicting tasks wait for
    // guards of the host (I2).
    let resources = unsafe { HostResources::new(bindings, Some(entry.point.queue)) };
    let resources = SimResources {
        resources,
        _guard: None,
    };
    run_custom(&entry.name, move || work(&resources)).map(|()| Work::Custom)
}

/// Runs a copy or fill, or returns why it is refused.
fn perform_copy(entry: &Entry, seed: u64) -> Result<Work, String> {
    let transfer = match &entry.op {
        Op::CopyIn { source, layout } => Transfer::In {
            source: source.bytes(),
            layout: layout.as_ref(),
        },
        Op::CopyOut { landing, layout } => Transfer::Out {
            landing: &**landing,
            layout: layout.as_ref(),
        },
        Op::Copy => Transfer::Copy,
        Op::Fill(pattern) => Transfer::Fill(*pattern),
        Op::Mark | Op::Launch(_) | Op::Custom(_) => return Ok(Work::Nothing),
    };
    // SAFETY: the views lie in blocks that the entry keeps; nothing else touches them now (I2). Host bytes are not device
    // memory, and the landing belongs to this queue until the cursor passes.
    unsafe { transfer.run(&mut Shuffled(seed), &entry.views) }?;
    Ok(work_of(entry))
}

/// Overwrites the bindings whose access `which` selects with a random byte. Bindings that overlap one the task reads
/// (possible if its kernel allows aliases) are left alone.
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
            // SAFETY: the view lies in a block that the entry keeps; nothing else touches it now (I2).
            unsafe { view.pointer.write_bytes(byte, view.bytes as usize) };
        }
    }
}
