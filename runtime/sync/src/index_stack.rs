//! A stack of indices that takes no lock: the free slots of a table whose entries store the links.
//!
//! A Treiber stack. Each change counts up in the head, so that an exchange fails if the top has left the stack and come
//! back since the head was read (ABA). No thread waits for another, so a child that is forked while another thread is
//! inside a call can go on; it lacks at most the index of that call.
//!
//! What the owner of an index did before [`IndexStack::push`] happens before what follows the [`IndexStack::pop`] that
//! returns the index: a push releases, a pop acquires, and all exchanges in between continue the release sequence.

use crate::facade::atomic::{AtomicU32, AtomicU64, Ordering};

/// The stack. An index is below `u32::MAX`, and on the stack at most once.
#[derive(Debug)]
pub struct IndexStack {
    /// The lower half is the top's index plus 1, or 0; the upper half counts changes.
    head: AtomicU64,
}

/// The link of an entry: the index below it on the stack plus 1, or 0.
pub type Link = AtomicU32;

impl IndexStack {
    /// Creates an empty stack.
    #[cfg(not(any(loom, shuttle)))]
    pub const fn new() -> Self {
        Self {
            head: AtomicU64::new(0),
        }
    }

    /// Creates an empty stack.
    #[cfg(any(loom, shuttle))]
    pub fn new() -> Self {
        Self {
            head: AtomicU64::new(0),
        }
    }

    /// Pushes an index, whose entry has this link.
    pub fn push(&self, index: u32, link: &Link) {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the exchange.
            link.store(head as u32, Ordering::Relaxed);
            // Release: pairs with `pop`. Relaxed otherwise: only the head itself is read.
            let (won, lost) = (Ordering::Release, Ordering::Relaxed);
            let next = changed(head, index + 1);
            match self.head.compare_exchange_weak(head, next, won, lost) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Pops an index. `link` returns the link of an entry. `None` if the stack is empty.
    pub fn pop<'a>(&self, link: impl Fn(u32) -> Option<&'a Link>) -> Option<u32> {
        // Acquire: pairs with `push`.
        let mut head = self.head.load(Ordering::Acquire);
        while let Some(index) = (head as u32).checked_sub(1) {
            // Relaxed: if another thread has popped the index meanwhile, the count has changed and the exchange fails.
            let below = link(index)?.load(Ordering::Relaxed);
            let (next, acquire) = (changed(head, below), Ordering::Acquire);
            match self
                .head
                .compare_exchange_weak(head, next, acquire, acquire)
            {
                Ok(_) => return Some(index),
                Err(now) => head = now,
            }
        }
        None
    }
}

impl Default for IndexStack {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the head after a change that makes `top` the lower half.
fn changed(head: u64, top: u32) -> u64 {
    (head >> 32).wrapping_add(1) << 32 | u64::from(top)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn last_index_comes_back_first() {
        let links = [const { Link::new(0) }; 3];
        let stack = IndexStack::new();
        let pop = || stack.pop(|index| links.get(index as usize));
        assert_eq!(pop(), None);
        (0..3).for_each(|index| stack.push(index, &links[index as usize]));
        assert_eq!([pop(), pop()], [Some(2), Some(1)]);
        stack.push(2, &links[2]);
        assert_eq!([pop(), pop(), pop()], [Some(2), Some(0), None]);
    }
}
