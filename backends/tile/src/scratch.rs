//! A thread's memory for tiles. It is kept from launch to launch, so that the steady state allocates nothing (I9).

use std::cell::Cell;

/// A line of the cache.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Registers and slots of one thread.
pub(crate) struct Scratch {
    lines: Vec<Line>,
    slots: Vec<*mut u8>,
}

thread_local! {
    /// Taken while it is in use: a launch inside of another, on the same thread, would find none and make its own.
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl Scratch {
    /// Runs `work` with this thread's.
    #[inline]
    pub(crate) fn with<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
        // Where the thread is ending already, there is none.
        let kept = SCRATCH.try_with(Cell::take).ok().flatten();
        let mut scratch = kept.unwrap_or_else(|| {
            Box::new(Scratch {
                lines: Vec::new(),
                slots: Vec::new(),
            })
        });
        let result = work(&mut scratch);
        let _ = SCRATCH.try_with(|cell| cell.set(Some(scratch)));
        result
    }

    /// Room for so many bytes, which begin at a line of the cache, and so many slots. What is in them is anything.
    #[inline]
    pub(crate) fn room(&mut self, bytes: usize, slots: usize) -> (*mut u8, &mut [*mut u8]) {
        let lines = bytes.div_ceil(64);
        if self.lines.len() < lines {
            self.lines.resize(lines, Line([0; 64]));
        }
        if self.slots.len() < slots {
            self.slots.resize(slots, std::ptr::null_mut());
        }
        (self.lines.as_mut_ptr().cast(), &mut self.slots[..slots])
    }
}
