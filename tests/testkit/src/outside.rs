//! Tasks that end outside of the device, when a step of the program says so.

use std::sync::{Arc, Mutex, PoisonError};

use millstream::{ExternalTask, LateWrite, Reason};

use crate::contents::ON_PURPOSE;

/// A task that a later step ends.
pub(crate) struct Outside {
    pub(crate) work: Work,
    pub(crate) fails: bool,
}

pub(crate) enum Work {
    External(Arc<Mutex<External>>),
    Late(LateWrite, Vec<u32>),
}

/// An external task.
pub(crate) enum External {
    Waits,
    Begun(ExternalTask),
    /// The program has ended it, as soon as it begins if it has not yet.
    Ended,
}

fn end(task: ExternalTask, fails: bool) {
    match fails {
        true => task.fail(Reason::Refused(ON_PURPOSE.to_owned())),
        false => task.complete(),
    }
}

/// Puts the state in place of the last one. If the task has begun and the program has ended it, ends it.
pub(crate) fn meet(place: &Mutex<External>, state: External, fails: bool) {
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    let before = std::mem::replace(&mut *place, External::Ended);
    let task = match (before, state) {
        (External::Waits, state) => {
            *place = state;
            return;
        }
        (External::Begun(task), _) | (_, External::Begun(task)) => task,
        _ => return,
    };
    // The end may run the device, where the next task begins.
    drop(place);
    end(task, fails);
}
