//! A fixed set of tokens: one thread takes them, any thread gives them back.
//!
//! A token is the right to something that its number names, such as an entry of a table: its holder
//! may write there. The set is one word with a bit for each free token, so that taking and giving
//! back are one step each and no thread waits.
//!
//! The Release of `give_back` pairs with the Acquire of `take`: the new holder sees the writes of
//! the last one. Checked by the models in `loom-tests/tests/models/tokens.rs`.

use crate::facade::atomic::{AtomicU64, Ordering};

/// A fixed set of tokens.
#[derive(Debug)]
pub struct Tokens {
    free: AtomicU64,
}

impl Tokens {
    /// The greatest number of tokens of one set.
    pub const MAX: usize = u64::BITS as usize;

    /// Creates a set of `count` free tokens, at most [`Tokens::MAX`].
    pub fn new(count: usize) -> Self {
        let all = match Self::MAX.saturating_sub(count) as u32 {
            u64::BITS => 0,
            unused => u64::MAX >> unused,
        };
        Self {
            free: AtomicU64::new(all),
        }
    }

    /// Takes a token and returns its number, or `None` if all are taken. One thread at a time.
    #[inline]
    pub fn take(&self) -> Option<usize> {
        // Acquire: pairs with `give_back`; the last holder's writes happen before.
        let free = self.free.load(Ordering::Acquire);
        let token = free.trailing_zeros();
        if token == u64::BITS {
            return None;
        }
        // Relaxed: no other thread takes, so the token is still free. A thread that receives it
        // from this one is ordered by the means of passing it.
        self.free.fetch_and(!(1 << token), Ordering::Relaxed);
        Some(token as usize)
    }

    /// Gives a token back, by the thread that took it or received it. A free token stays free.
    ///
    /// # Panics
    /// If `token` is [`Tokens::MAX`] or greater.
    #[inline]
    pub fn give_back(&self, token: usize) {
        assert!(token < Self::MAX, "there is no token {token}");
        // Release: pairs with `take`.
        self.free.fetch_or(1 << token, Ordering::Release);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// I12: the set agrees with a `BTreeSet` for any sequence of takes and returns.
        #[test]
        fn tokens_agree_with_a_set(count in 0..70_usize, steps in prop::collection::vec(any::<Option<u8>>(), 0..300)) {
            let tokens = Tokens::new(count);
            let mut free: BTreeSet<usize> = (0..count.min(Tokens::MAX)).collect();
            let mut taken = Vec::new();
            for step in steps {
                match step.filter(|_| !taken.is_empty()) {
                    None => {
                        let token = tokens.take();
                        prop_assert_eq!(token, free.pop_first());
                        taken.extend(token);
                    }
                    Some(which) => {
                        let token = taken.swap_remove(usize::from(which) % taken.len());
                        tokens.give_back(token);
                        free.insert(token);
                    }
                }
            }
        }
    }
}
