//! A thread, as views of buffers know it.

use std::marker::PhantomData;

/// A thread of a launch: its number, which no other thread has, and its position. It lives as long as the thread runs, so
/// that no thread of another launch can have it: an access of [`Own`](super::Own) relies on it.
#[derive(Clone, Copy)]
pub struct Thread<'t> {
    runs: PhantomData<&'t ()>,
    number: usize,
    /// The position along three axes, the slowest first. A launch with fewer axes has the last ones.
    position: [usize; 3],
    threads: usize,
}

impl Thread<'_> {
    /// Returns a thread, for the time that its body runs.
    ///
    /// # Safety
    /// Its number is that of no other thread of the launch, and it does not outlive the call of its body.
    #[inline(always)]
    pub(super) unsafe fn new(number: usize, position: [usize; 3], threads: usize) -> Self {
        Self {
            runs: PhantomData,
            number,
            position,
            threads,
        }
    }

    /// Returns the number: the last axis is the fastest.
    #[inline(always)]
    pub fn number(self) -> usize {
        self.number
    }

    /// Returns the number of threads of the launch.
    #[inline(always)]
    pub fn threads(self) -> usize {
        self.threads
    }

    /// Returns the position, the slowest axis first.
    #[inline(always)]
    pub fn position<const AXES: usize>(self) -> [usize; AXES] {
        std::array::from_fn(|axis| self.position[3 - AXES + axis])
    }
}
