//! The call of a fleet that a thread makes, and work that it keeps until the end of that call.
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

/// The call of the calling thread.
#[derive(Default)]
struct Current {
    /// The address of the fleet's order, which the thread holds; 0 if it makes no call.
    order: usize,
    /// The address of the call whose parts it submits; 0 for none.
    submits: usize,
    /// What it keeps of that call.
    work: Option<Work>,
}

thread_local! {
    static CURRENT: RefCell<Current> = const {
        RefCell::new(Current {
            order: 0,
            submits: 0,
            work: None,
        })
    };
}

/// Calls `f` with the call of this thread. `None` if the thread ends.
fn with_current<R>(f: impl FnOnce(&mut Current) -> R) -> Option<R> {
    let current = |current: &RefCell<Current>| f(&mut current.borrow_mut());
    CURRENT.try_with(current).ok()
}

/// Whether the calling thread is inside a call of the fleet with this order.
pub(crate) fn holds<T>(order: *const T) -> bool {
    with_current(|current| current.order == order.addr()).unwrap_or(false)
}

/// The calling thread submits the parts of this call now, inside an [`Afterwards`].
pub(crate) fn submits<T>(call: *const T) {
    // A thread that ends keeps nothing.
    _ = with_current(|current| {
        if current.work.is_none() {
            current.submits = call.addr();
        }
    });
}

/// Keeps `work`, of this call, until the calling thread has submitted it. Returns it if the thread submits another call.
pub(crate) fn keep<T>(call: *const T, work: Work) -> Option<Work> {
    let mut work = Some(work);
    // A thread that ends keeps nothing.
    _ = with_current(|current| {
        if current.submits == call.addr() && current.work.is_none() {
            current.work = work.take();
        }
    });
    work
}

/// A call of the calling thread. Its drop runs what was kept, or drops it if the thread unwinds.
pub(crate) struct Afterwards {
    /// A call may run code that calls another fleet.
    before: Current,
}

impl Afterwards {
    /// The calling thread holds the order of a fleet now.
    pub(crate) fn begin<T>(order: *const T) -> Self {
        let call = Current {
            order: order.addr(),
            ..Current::default()
        };
        let before = with_current(|current| std::mem::replace(current, call));
        Self {
            before: before.unwrap_or_default(),
        }
    }
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        let before = std::mem::take(&mut self.before);
        let ended = with_current(|current| std::mem::replace(current, before));
        match ended.and_then(|ended| ended.work) {
            Some(work) if !std::thread::panicking() => work(),
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
        let call = Afterwards::begin(own);
        assert!(holds(own) && !holds(other));
        assert!(keep(own, work(&sender, 0)).is_some(), "no call yet");
        submits(own);
        assert!(keep(other, work(&sender, 0)).is_some(), "another call");
        let inner = Afterwards::begin(other);
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
        assert!(!holds(own));
    }

    #[test]
    fn a_call_that_panics_drops_its_work() {
        let (sender, receiver) = channel();
        let call = std::panic::catch_unwind(|| {
            let call = &raw const sender;
            let _call = Afterwards::begin(call);
            submits(call);
            assert!(keep(call, work(&sender, 1)).is_none());
            std::panic::panic_any(());
        });
        assert!(call.is_err());
        drop(sender);
        assert!(receiver.recv().is_err(), "the work was dropped uncalled");
    }
}
