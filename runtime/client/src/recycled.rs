//! The elements of readbacks, whose memory is reused.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use millstream_sync::facade::{Mutex, lock};

/// The elements of a readback. When dropped, the memory is reused for a later readback of the same sequence, since the
/// first touch of fresh memory takes several times as long as the copy.
///
/// ```
/// # fn f(frames: &millstream_client::Readbacks<u8, u32>) -> Result<(), millstream_protocol::error::Error> {
/// while let Some(frame) = frames.try_next() {
///     let pixels = frame.elements?;
///     println!("frame {} begins with {:?}", frame.tag, pixels.first());
///     if frame.tag == 7 {
///         std::fs::write("frame-7", pixels.into_vec()).ok(); // to keep them
///     }
/// }
/// # Ok(()) }
/// ```
pub struct Recycled<T> {
    elements: Vec<T>,
    free_list: Arc<FreeList<T>>,
}

impl<T> Recycled<T> {
    pub(super) fn new(elements: Vec<T>, free_list: &Arc<FreeList<T>>) -> Self {
        let free_list = free_list.clone();
        Self {
            elements,
            free_list,
        }
    }

    /// Converts the elements to a vector; its memory is not reused.
    pub fn into_vec(mut self) -> Vec<T> {
        std::mem::take(&mut self.elements)
    }
}

impl<T> Drop for Recycled<T> {
    fn drop(&mut self) {
        self.free_list.put(std::mem::take(&mut self.elements));
    }
}

impl<T> Deref for Recycled<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.elements
    }
}

impl<T> DerefMut for Recycled<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.elements
    }
}

impl<T: fmt::Debug> fmt::Debug for Recycled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.elements.fmt(f)
    }
}

impl<T: PartialEq, Other: AsRef<[T]>> PartialEq<Other> for Recycled<T> {
    fn eq(&self, other: &Other) -> bool {
        self.elements == other.as_ref()
    }
}

/// The free list of a sequence's readback memory: at most the capacity of the sequence.
pub(super) struct FreeList<T> {
    vectors: Mutex<Vec<Vec<T>>>,
    capacity_max: usize,
}

impl<T> FreeList<T> {
    pub(super) fn new(capacity_max: usize) -> Arc<Self> {
        let vectors = Mutex::default();
        Arc::new(Self {
            vectors,
            capacity_max,
        })
    }

    /// Takes memory for `len` elements, or an empty vector.
    pub(super) fn take(&self, len: usize) -> Vec<T> {
        let mut vectors = lock(&self.vectors);
        let place = vectors.iter().rposition(|vector| vector.capacity() >= len);
        place.map_or_else(Vec::new, |place| vectors.swap_remove(place))
    }

    pub(super) fn put(&self, memory: Vec<T>) {
        if memory.capacity() == 0 {
            return;
        }
        let mut vectors = lock(&self.vectors);
        // Image sizes change over time, so evict the memory that was unused for the longest time.
        let surplus = (vectors.len() >= self.capacity_max).then(|| vectors.remove(0));
        vectors.push(memory);
        drop(vectors);
        drop(surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_memory_is_reused_if_its_capacity_suffices() {
        let free_list = FreeList::new(2);
        let long = Recycled::new(vec![1_u32; 100], &free_list);
        let start = long.as_ptr();
        drop(long);
        assert_eq!(free_list.take(101).capacity(), 0);
        let again = free_list.take(50);
        assert_eq!(again.as_ptr(), start);
        assert_eq!(free_list.take(50).capacity(), 0, "the memory is in use");
    }

    /// I12: the free list is bounded, and memory that was taken as a vector does not return to it.
    #[test]
    fn full_free_list_evicts_the_longest_unused_memory_i12() {
        let free_list = FreeList::new(2);
        for len in [30, 20, 10] {
            drop(Recycled::new(vec![0_u8; len], &free_list));
        }
        drop(Recycled::new(vec![0_u8; 40], &free_list).into_vec());
        let lengths = lock(&free_list.vectors)
            .iter()
            .map(Vec::len)
            .collect::<Vec<_>>();
        assert_eq!(lengths, [20, 10]);
    }
}
