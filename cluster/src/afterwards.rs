//! Work that a thread keeps until the end of the call of a fleet that it makes.
//!
//! While a thread submits a call, it may step in at a device, where the last part of this or another call arrives. Moving
//! many bytes there would block the device for others, and hold the fleet's lock. So the thread keeps the movement of
//! its own call, and does it when it has left both:
//!
//! ```text
//!  caller: order held ─► last part submitted ─► steps in: it arrives, keep ─► order released ─► the work runs
//! ```
//! Only of the call that it submits itself: all parts of that were submitted, so the thread waits for no more room. It may
//! also step in while it waits for room, which may depend on the movement of another call.

use std::cell::RefCell;

/// What is kept.
pub(crate) type Work = Box<dyn FnOnce() + Send>;

/// What the calling thread keeps.
enum Kept {
    /// It submits no call.
    Nothing,
    /// Nothing yet. It submits the call at this address.
    Of(*const ()),
    Work(Work),
}

thread_local! {
    static KEPT: RefCell<Kept> = const { RefCell::new(Kept::Nothing) };
}

/// Replaces what the calling thread keeps. `None` if the thread ends.
fn replace(kept: Kept) -> Option<Kept> {
    KEPT.try_with(|place| place.replace(kept)).ok()
}

/// The calling thread submits the parts of this call now, inside an [`Afterwards`].
pub(crate) fn submits<T>(call: *const T) {
    // A thread that ends keeps nothing.
    _ = KEPT.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        if !matches!(*kept, Kept::Work(_)) {
            *kept = Kept::Of(call.cast());
        }
    });
}

/// Keeps `work`, of this call, until the calling thread has submitted it. Returns it if the thread submits another call.
pub(crate) fn keep<T>(call: *const T, work: Work) -> Option<Work> {
    let mut work = Some(work);
    // A thread that ends keeps nothing.
    _ = KEPT.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        if matches!(*kept, Kept::Of(own) if own == call.cast()) {
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
            before: replace(Kept::Nothing).unwrap_or(Kept::Nothing),
        }
    }
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut self.before, Kept::Nothing);
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
    fn work_of_the_own_call_is_kept_until_its_end() {
        let (sender, receiver) = channel();
        let (calls, sender) = ([0_u8; 2], sender);
        let [own, other] = calls.each_ref().map(std::ptr::from_ref);
        assert!(keep(own, work(&sender, 0)).is_some(), "no call");
        let call = Afterwards::begin();
        assert!(keep(own, work(&sender, 0)).is_some(), "no call yet");
        submits(own);
        assert!(keep(other, work(&sender, 0)).is_some(), "another call");
        let inner = Afterwards::begin();
        assert!(keep(own, work(&sender, 0)).is_some(), "a call inside it");
        submits(other);
        assert!(keep(other, work(&sender, 1)).is_none());
        assert_eq!(receiver.try_iter().count(), 0);
        drop(inner);
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1]);
        assert!(keep(own, work(&sender, 2)).is_none());
        drop(call);
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [2]);
        assert!(keep(own, work(&sender, 0)).is_some(), "the call has ended");
    }

    #[test]
    fn a_call_that_panics_drops_its_work() {
        let (sender, receiver) = channel();
        let call = std::panic::catch_unwind(|| {
            let _call = Afterwards::begin();
            let call = &raw const sender;
            submits(call);
            assert!(keep(call, work(&sender, 1)).is_none());
            std::panic::panic_any(());
        });
        assert!(call.is_err());
        drop(sender);
        assert!(receiver.recv().is_err(), "the work was dropped uncalled");
    }
}
