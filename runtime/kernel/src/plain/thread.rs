//! A thread, as views of buffers know it.

/// A thread of a launch: its number, which no other thread has, and its position.
#[derive(Clone, Copy)]
pub struct Thread {
    number: usize,
    /// The position along three axes, the slowest first. A launch with fewer axes has the last ones.
    position: [usize; 3],
    threads: usize,
}

impl Thread {
    /// Returns a thread. Its number is that of no other thread of the launch.
    #[inline(always)]
    pub(super) fn new(number: usize, position: [usize; 3], threads: usize) -> Self {
        Self {
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
