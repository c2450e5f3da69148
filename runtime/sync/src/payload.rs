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
