//! Values of user code that the runtime drops, such as panic payloads: how they are dropped and read.
//!
//! A destructor is user code: it may block, or take a lock that a client holds while it waits for the device. So a thread
//! that runs a device keeps what it would drop ([`KeptValues`]), and the device has it dropped on another thread.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A panic payload, or another value of user code.
pub type Payload = Box<dyn Any + Send>;

crate::__thread_local! {
    /// The values that the thread keeps, while it does.
    static KEPT: RefCell<Option<Vec<Payload>>> = RefCell::new(None)
}

/// Calls `f` with the values that the thread keeps, if it keeps any. Not while the thread ends.
fn with_kept<R>(f: impl FnOnce(&mut Vec<Payload>) -> R) -> Option<R> {
    KEPT.try_with(|kept| kept.borrow_mut().as_mut().map(f))
        .ok()
        .flatten()
}

/// Keeps the values that the calling thread passes to [`end`], until this is dropped.
#[must_use = "values are kept until this is dropped"]
pub struct KeptValues {
    outer: Option<Vec<Payload>>,
    /// The values are those of one thread.
    _not_send: PhantomData<*const ()>,
}

impl KeptValues {
    /// Begins to keep values, on the calling thread. Allocates only if there are any.
    pub fn begin() -> Self {
        Self {
            outer: replace(Some(Vec::new())),
            _not_send: PhantomData,
        }
    }

    /// Takes the values that were kept so far. The caller has another thread drop them.
    pub fn take(&self) -> Vec<Payload> {
        with_kept(std::mem::take).unwrap_or_default()
    }
}

impl Drop for KeptValues {
    /// Drops what was not taken.
    fn drop(&mut self) {
        let kept = replace(self.outer.take());
        kept.into_iter().flatten().for_each(end);
    }
}

fn replace(kept: Option<Vec<Payload>>) -> Option<Vec<Payload>> {
    KEPT.try_with(|place| place.replace(kept)).ok().flatten()
}

/// Returns `true` if the calling thread keeps the values that it passes to [`end`].
#[inline]
pub fn is_kept() -> bool {
    with_kept(|_| ()).is_some()
}

/// Drops a value, unless the thread keeps it ([`KeptValues`]). Its destructor is user code and may panic; the payload of
/// a panic is leaked, since dropping it could panic without end.
pub fn end(payload: Payload) {
    let mut payload = Some(payload);
    with_kept(|kept| kept.extend(payload.take()));
    let Some(payload) = payload else { return };
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
}

/// Returns the message of a panic of user code and drops the payload, whose destructor may panic too.
pub fn panic_message(payload: Payload) -> String {
    let message = match payload.downcast_ref::<&str>() {
        Some(text) => Some((*text).to_owned()),
        None => payload.downcast_ref::<String>().cloned(),
    };
    end(payload);
    message.unwrap_or_else(|| "a value that is not text".to_owned())
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic!("a destructor that panics");
        }
    }

    #[test]
    fn dropping_a_payload_may_panic() {
        let alive = std::sync::Arc::new(());
        end(Box::new(alive.clone()));
        assert_eq!(std::sync::Arc::strong_count(&alive), 1);
        end(Box::new(PanicsOnDrop));
    }

    #[test]
    fn values_are_kept_for_another_thread() {
        let alive = std::sync::Arc::new(());
        let ends = || end(Box::new(alive.clone()));
        let kept = KeptValues::begin();
        ends();
        let inner = KeptValues::begin();
        ends();
        assert_eq!((inner.take().len(), is_kept()), (1, true));
        ends();
        drop(inner);
        assert_eq!(std::sync::Arc::strong_count(&alive), 3);
        assert_eq!(kept.take().len(), 2, "also what the inner one left");
        ends();
        drop(kept);
        assert_eq!(
            (std::sync::Arc::strong_count(&alive), is_kept()),
            (1, false)
        );
    }
}
