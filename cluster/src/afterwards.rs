//! Work that a thread keeps until the end of the call of a fleet that it makes.
//!
//! While a thread submits a call, it may step in at a device, where the last part of this or another call arrives. Moving
//! many bytes there would shut the device for others, and hold the order of the fleet. So the thread keeps the movement,
//! and does it when it has left both:
//!
//! ```text
//!  caller: order held ─► part submitted ─► steps in: the last part arrives, keep ─► order released ─► the work runs
//! ```
//! One piece of work is kept at a time, so that a call returns soon.

use std::cell::RefCell;

/// What is kept.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// What the calling thread keeps.
enum Kept {
    /// It makes no call.
    Closed,
    Nothing,
    Work(Work),
}

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept::Closed) };
}

/// Replaces what the calling thread keeps. `None` if the thread ends.
fn replace(kept: Kept) -> Option<Kept> {
    KEPT.try_with(|place| place.replace(kept)).ok()
}

/// Keeps `work` until the end of the call that the calling thread makes. Returns it if it makes none, or keeps other work.
pub(crate) fn keep(work: Work) -> Option<Work> {
    let mut work = Some(work);
    // A thread that ends keeps nothing.
    _ = KEPT.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        if matches!(*kept, Kept::Nothing) {
            *kept = work.take().map_or(Kept::Nothing, Kept::Work);
        }
    });
    work
}

/// A call of the calling thread. Its drop runs what was kept, or drops it if the thread unwinds.
pub(crate) struct Afterwards {
    /// What the thread kept before: a call may run code that calls another fleet.
    before: Kept,
}

impl Afterwards {
    pub(crate) fn begin() -> Self {
        Self {
            before: replace(Kept::Nothing).unwrap_or(Kept::Closed),
        }
    }
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut self.before, Kept::Closed);
        match replace(before) {
            Some(Kept::Work(work)) if !std::thread::panicking() => work(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    fn work(sender: &Sender<u32>, number: u32) -> Work {
        let sender = sender.clone();
        Box::new(move || _ = sender.send(number))
    }

    #[test]
    fn work_is_kept_until_the_end_of_the_call_one_at_a_time() {
        let (sender, receiver) = channel();
        assert!(keep(work(&sender, 0)).is_some(), "no call");
        let call = Afterwards::begin();
        assert!(keep(work(&sender, 1)).is_none());
        assert!(keep(work(&sender, 2)).is_some(), "the thread keeps work 1");
        let inner = Afterwards::begin();
        assert!(keep(work(&sender, 3)).is_none());
        assert_eq!(receiver.try_iter().count(), 0);
        drop(inner);
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [3]);
        drop(call);
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1]);
        assert!(keep(work(&sender, 4)).is_some(), "the call has ended");
    }

    #[test]
    fn a_call_that_panics_drops_its_work() {
        let (sender, receiver) = channel();
        let call = std::panic::catch_unwind(|| {
            let _call = Afterwards::begin();
            assert!(keep(work(&sender, 1)).is_none());
            std::panic::panic_any(());
        });
        assert!(call.is_err());
        drop(sender);
        assert!(receiver.recv().is_err(), "the work was dropped uncalled");
    }
}
