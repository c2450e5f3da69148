//! What a panic of user code carries, and how it ends.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a panic carries.
pub type Payload = Box<dyn Any + Send>;

/// Drops what a panic carries, which is user code and may panic itself. What comes of that is leaked: it might go on
/// for ever.
pub fn end(payload: Payload) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
}

/// What a panic of user code said. Its payload is dropped here, where that may panic as well.
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

    struct Rude;

    impl Drop for Rude {
        fn drop(&mut self) {
            panic!("even here");
        }
    }

    #[test]
    fn a_payload_is_dropped_and_may_panic_then() {
        let alive = std::sync::Arc::new(());
        end(Box::new(alive.clone()));
        assert_eq!(std::sync::Arc::strong_count(&alive), 1);
        end(Box::new(Rude));
    }
}
