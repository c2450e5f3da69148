//! Accesses to buffers whose elements several threads may access: of each word by itself.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use millstream_protocol::Stored;
use millstream_protocol::bytemuck::{bytes_of, bytes_of_mut};

use super::buffer::Shared;
use super::memory::{At, Get, Set, out_of_bounds};

// Relaxed in all of these: the program promises no order between threads of a launch, and the end of the launch orders
// its accesses before those of later tasks.

impl<T, const WHOLE: bool> Shared<'_, T, WHOLE> {
    /// Returns the place of an element, whose words are aligned.
    #[inline(always)]
    pub(super) fn place(&self, index: usize, at: &'static At) -> *mut T {
        if index >= self.len {
            out_of_bounds(at, index, self.len);
        }
        // SAFETY: the element exists.
        unsafe { self.first.add(index) }
    }
}

impl<T: Stored, const WHOLE: bool> Shared<'_, T, WHOLE> {
    /// Stores the words of an element that are not those of `before`.
    #[inline(always)]
    fn store(&self, index: usize, value: &T, before: Option<&T>, at: &'static At) {
        let place = self.place(index, at).cast::<u8>();
        let before = before.map(bytes_of);
        for (word, bytes) in bytes_of(value).chunks_exact(T::WORD.size()).enumerate() {
            let first = word * T::WORD.size();
            if before.is_some_and(|before| before[first..][..bytes.len()] == *bytes) {
                continue;
            }
            // SAFETY: the word lies in the element.
            let word = unsafe { place.add(first) };
            // SAFETY: all accesses to the element are atomic (`View::of`), and the word is aligned for its size.
            unsafe {
                match bytes {
                    [a] => AtomicU8::from_ptr(word).store(*a, Relaxed),
                    [a, b] => {
                        AtomicU16::from_ptr(word.cast())
                            .store(u16::from_ne_bytes([*a, *b]), Relaxed);
                    }
                    [a, b, c, d] => {
                        let bits = u32::from_ne_bytes([*a, *b, *c, *d]);
                        AtomicU32::from_ptr(word.cast()).store(bits, Relaxed);
                    }
                    bytes => {
                        let mut all = [0; 8];
                        all.copy_from_slice(bytes);
                        AtomicU64::from_ptr(word.cast()).store(u64::from_ne_bytes(all), Relaxed);
                    }
                }
            }
        }
    }
}

impl<T: Stored, const WHOLE: bool> Get for Shared<'_, T, WHOLE> {
    type Element = T;

    #[inline(always)]
    fn get(&self, index: usize, at: &'static At) -> T {
        let place = self.place(index, at).cast::<u8>();
        let mut value = T::zeroed();
        for (word, bytes) in bytes_of_mut(&mut value)
            .chunks_exact_mut(T::WORD.size())
            .enumerate()
        {
            // SAFETY: the word lies in the element.
            let word = unsafe { place.add(word * T::WORD.size()) };
            // SAFETY: all accesses to the element are atomic (`View::of`), and the word is aligned for its size.
            unsafe {
                match T::WORD.size() {
                    8 => bytes.copy_from_slice(
                        &AtomicU64::from_ptr(word.cast()).load(Relaxed).to_ne_bytes(),
                    ),
                    4 => bytes.copy_from_slice(
                        &AtomicU32::from_ptr(word.cast()).load(Relaxed).to_ne_bytes(),
                    ),
                    2 => bytes.copy_from_slice(
                        &AtomicU16::from_ptr(word.cast()).load(Relaxed).to_ne_bytes(),
                    ),
                    _ => bytes.copy_from_slice(&[AtomicU8::from_ptr(word).load(Relaxed)]),
                }
            }
        }
        value
    }
}

impl<T: Stored, const WHOLE: bool> Set for Shared<'_, T, WHOLE> {
    #[inline(always)]
    fn set(&mut self, index: usize, value: T, at: &'static At) {
        self.store(index, &value, None, at);
    }

    #[inline(always)]
    fn change(&mut self, index: usize, change: impl FnOnce(&mut T), at: &'static At) {
        // Other threads may change other words meanwhile.
        let before = self.get(index, at);
        let mut value = before;
        change(&mut value);
        self.store(index, &value, Some(&before), at);
    }
}
