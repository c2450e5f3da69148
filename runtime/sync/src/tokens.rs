//! A fixed set of tokens: one thread takes them, any thread gives them back.
//!
//! A token is a right to something that its number names, such as an entry of a table: who holds it may write there. A bit
//! for each, so that taking and giving back are one step each and nobody waits.

use crate::facade::atomic::{AtomicU64, Ordering};

/// Which tokens are free.
#[derive(Debug)]
pub struct Tokens {
    free: AtomicU64,
}

impl Tokens {
    /// As many tokens as there can be.
    pub const MAX: usize = u64::BITS as usize;

    /// All free; `count` of them, [`Tokens::MAX`] where it is more.
    pub fn new(count: usize) -> Self {
        let all = match Self::MAX.saturating_sub(count) as u32 {
            u64::BITS => 0,
            unused => u64::MAX >> unused,
        };
        Self {
            free: AtomicU64::new(all),
        }
    }

    /// A token, as its number; `None` where all are taken. One thread at a time.
    #[inline]
    pub fn take(&self) -> Option<usize> {
        // Acquire: pairs with `give_back`; what its last holder did comes before.
        let free = self.free.load(Ordering::Acquire);
        let token = free.trailing_zeros();
        if token == u64::BITS {
            return None;
        }
        // Relaxed: nobody else takes, so what was free still is; and whoever it is handed on to learns of it by other ways.
        self.free.fetch_and(!(1 << token), Ordering::Relaxed);
        Some(token as usize)
    }

    /// Who has taken it, or was handed it, is done with it. One that is free already stays free.
    ///
    /// # Panics
    /// Where there is no such token in any set: from [`Tokens::MAX`] on.
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
        /// Against a set, whatever is taken and given back (I12).
        #[test]
        fn it_is_a_set(count in 0..70_usize, steps in prop::collection::vec(any::<Option<u8>>(), 0..300)) {
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
