//! Panic payloads of user code: how they are dropped and read.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A panic payload.
pub type Payload = Box<dyn Any + Send>;

/// Drops a payload. Its destructor is user code and may panic too; the payload of that second panic
/// is leaked, since dropping it could panic without end.
pub fn end(payload: Payload) {
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
}
