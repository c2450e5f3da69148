//! The elements of readbacks, whose memory is reused.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use millstream_sync::facade::{Mutex, lock};

/// The elements of a readback. When dropped, the memory is reused for a later readback of the same sequence, since the
/// first touch of fresh memory takes several times as long as the copy.
///
/// ```
/// # fn f(mut frames: millstream_client::Readbacks<u8, u32>) -> Result<(), millstream_protocol::Error> {
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
    free_list: FreeList<T>,
}

impl<T> Recycled<T> {
    pub(super) fn new(elements: Vec<T>, free_list: &FreeList<T>) -> Self {
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

/// The memory that a sequence of readbacks reuses: a queue of at most as many vectors as the sequence has readbacks. The
/// longest unused one is taken first, and dropped if it is too short, so that the sizes follow those of the readbacks.
pub(super) struct FreeList<T> {
    vectors: Arc<Mutex<VecDeque<Vec<T>>>>,
    vectors_max: usize,
}

impl<T> FreeList<T> {
    pub(super) fn new(vectors_max: usize) -> Self {
        Self {
            vectors: Arc::new(Mutex::default()),
            vectors_max,
        }
    }

    /// Takes memory, which may be too short, or an empty vector.
    pub(super) fn take(&self) -> Vec<T> {
        lock(&self.vectors).pop_front().unwrap_or_default()
    }

    /// Keeps memory, unless there is as much as can be used.
    pub(super) fn put(&self, memory: Vec<T>) {
        let mut vectors = lock(&self.vectors);
        if memory.capacity() > 0 && vectors.len() < self.vectors_max {
            vectors.push_back(memory);
        }
    }
}

impl<T> Clone for FreeList<T> {
    fn clone(&self) -> Self {
        Self {
            vectors: self.vectors.clone(),
            vectors_max: self.vectors_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I12: the free list is bounded, and memory that was taken as a vector does not return to it.
    #[test]
    fn dropped_memory_is_reused_up_to_a_bound_i12() {
        let free_list = FreeList::new(2);
        let first = Recycled::new(vec![1_u32; 100], &free_list);
        let start = first.as_ptr();
        drop(Recycled::new(vec![0_u32; 40], &free_list).into_vec());
        drop(first);
        for len in [20, 10] {
            drop(Recycled::new(vec![0_u32; len], &free_list));
        }
        let taken = [(); 3].map(|()| free_list.take());
        assert_eq!(taken[0].as_ptr(), start);
        assert_eq!((taken[1].len(), taken[2].capacity()), (20, 0));
    }
}
