//! The ends of tasks that begin at once ([`HostPlace::AtOnce`]): which thread goes on with their device.
//!
//! Such a task may end on any thread, also inside another device's turn: the parts of a collective end together. A wake of
//! the device's thread costs more than the turn that follows, so the thread that ends the task takes that turn if callers
//! may step in (see `stepping_in`):
//!
//! ```text
//!  the end of a task of device B, on a thread that ..
//!   .. is outside of any device ──────────► steps in at B, or wakes its thread
//!   .. is a thread of a device ───────────► wakes B's thread
//!   .. has stepped in at B itself ────────► nothing: this step takes another turn, or leaves B to its thread
//!   .. has stepped in at another device A ► notes B; once it has left A: steps in at B, or wakes its thread
//! ```
//! So a thread is inside one device at a time, and does not hold the lock of one while it enters another. A step at B may
//! note A again; the first step of the thread handles all notes in a loop, up to [`STEPS_MAX`] of them by stepping in.
//!
//! [`HostPlace::AtOnce`]: millstream_protocol::HostPlace::AtOnce

use std::cell::RefCell;
use std::sync::{Arc, OnceLock, Weak};

use millstream_protocol::StepIn;
use millstream_sync::gate::Gate;

/// The devices at which a thread steps in for one step of its own. Others are left to their threads, so that a call
/// returns soon.
const STEPS_MAX: u32 = 64;

/// Does the work of a device in place of its thread.
type Station = OnceLock<Weak<dyn StepIn>>;

/// A device that is to look at its controls.
type Note = (Arc<Gate>, Option<Weak<dyn StepIn>>);

/// What the calling thread does inside devices.
struct Step {
    /// The gate of the device at which it has stepped in.
    inside: Option<*const Gate>,
    /// The devices whose tasks it has ended there.
    noted: Vec<Note>,
    /// It handles the notes.
    handles_notes: bool,
}

millstream_sync::__thread_local! {
    static STEP: RefCell<Step> = RefCell::new(Step {
        inside: None,
        noted: Vec::new(),
        handles_notes: false,
    })
}

/// Calls `f` with the state of the calling thread, unless that thread ends.
fn with_step<R>(f: impl FnOnce(&mut Step) -> R) -> Option<R> {
    STEP.try_with(|step| Some(f(&mut *step.try_borrow_mut().ok()?)))
        .ok()
        .flatten()
}

/// Has a device look at a control that was sent to it.
pub(crate) fn wake_or_step_in(gate: &Arc<Gate>, station: &Station) {
    let is_noted = with_step(|step| match step.inside {
        None => false,
        Some(inside) => {
            if !std::ptr::eq(inside, &raw const **gate) {
                step.noted.push((gate.clone(), station.get().cloned()));
            }
            true
        }
    });
    if is_noted != Some(true) {
        step_in_at(gate, station.get());
    }
}

fn step_in_at(gate: &Gate, station: Option<&Weak<dyn StepIn>>) {
    gate.wake_unless(|| {
        let station = station.and_then(Weak::upgrade);
        station.is_some_and(|station| station.step_in_for_an_end())
    });
}

/// Takes a caller's turns at the device of `gate` with `turns`. Then handles the devices whose tasks have ended in them.
/// `turns` returns `true` if nothing is left for the device's thread, and does not panic.
pub(crate) fn step_in(gate: &Gate, turns: impl FnOnce() -> bool) -> bool {
    with_step(|step| step.inside = Some(gate));
    let is_rest = turns();
    with_step(|step| step.inside = None);
    handle_notes(is_rest);
    is_rest
}

/// Has the noted devices look at their controls. Steps in only if `may_step_in`: otherwise the caller has a thread to wake.
fn handle_notes(may_step_in: bool) {
    let begins = with_step(|step| {
        let begins = !step.handles_notes && !step.noted.is_empty();
        step.handles_notes |= begins;
        begins
    });
    if begins != Some(true) {
        return;
    }
    let mut steps = if may_step_in { STEPS_MAX } else { 0 };
    while let Some((gate, station)) = with_step(|step| step.noted.pop()).flatten() {
        // Without a station, `step_in_at` wakes the device's thread.
        let station = station.filter(|_| steps > 0);
        steps = steps.saturating_sub(1);
        step_in_at(&gate, station.as_ref());
    }
    with_step(|step| step.handles_notes = false);
}

#[cfg(test)]
mod tests;
