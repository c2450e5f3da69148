//! The kernels of a device that calls prepare the first time, by their types.

use std::any::TypeId;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

/// The slots of the first table.
const SLOTS_MIN: usize = 64;

/// Kernels by type: a hash table that is only added to, so that a launch finds its kernel without a lock. Where two
/// kernels have one slot, the second is in the next table, which is twice as long.
pub(crate) struct Prepared<T> {
    slots: Box<[OnceLock<(TypeId, T)>]>,
    next: OnceLock<Box<Prepared<T>>>,
}

impl<T> Default for Prepared<T> {
    fn default() -> Self {
        Self::of(SLOTS_MIN)
    }
}

impl<T> Prepared<T> {
    fn of(slots: usize) -> Self {
        Self {
            slots: (0..slots).map(|_| OnceLock::new()).collect(),
            next: OnceLock::new(),
        }
    }

    fn slot(&self, key: TypeId) -> &OnceLock<(TypeId, T)> {
        &self.slots[hash(key) & (self.slots.len() - 1)]
    }

    /// Returns a kernel.
    #[inline]
    pub(crate) fn find(&self, key: TypeId) -> Option<&T> {
        let mut table = self;
        loop {
            match table.slot(key).get()? {
                (other, kernel) if *other == key => return Some(kernel),
                _ => table = table.next.get()?,
            }
        }
    }

    /// Adds a kernel. Returns the one that was added first if there is one.
    pub(crate) fn add(&self, key: TypeId, kernel: T) -> &T {
        let (mut table, mut added) = (self, Some(kernel));
        loop {
            let taken = table
                .slot(key)
                .get_or_init(|| (key, added.take().expect("added once")));
            if taken.0 == key {
                return &taken.1;
            }
            let slots = 2 * table.slots.len();
            table = table.next.get_or_init(|| Box::new(Self::of(slots)));
        }
    }
}

/// Returns a hash of a type: the id is one.
fn hash(key: TypeId) -> usize {
    struct Last(u64);

    impl Hasher for Last {
        fn finish(&self) -> u64 {
            self.0
        }

        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
            }
        }

        fn write_u64(&mut self, word: u64) {
            self.0 = word;
        }
    }

    let mut last = Last(0);
    key.hash(&mut last);
    last.finish() as usize
}
