//! A thread's memory for tiles. It is reused from launch to launch, so that the steady state allocates nothing (I9).

use std::cell::Cell;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// The registers and slots of one thread.
pub(crate) struct Scratch {
    lines: Vec<Line>,
    slots: Vec<*mut u8>,
    strides: Vec<isize>,
}

/// Reserved memory of a [`Scratch`]. Its contents are undefined.
pub(crate) struct Buffers<'a> {
    /// Bytes that begin at a cache line.
    pub(crate) memory: *mut u8,
    pub(crate) slots: &'a mut [*mut u8],
    /// As many as slots.
    pub(crate) strides: &'a mut [isize],
}

thread_local! {
    /// Taken while in use: a nested launch on the same thread finds none and makes its own.
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl Scratch {
    /// Runs `work` with this thread's scratch memory.
    #[inline]
    pub(crate) fn with<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
        // A thread that is ending has none any more.
        let cached = SCRATCH.try_with(Cell::take).ok().flatten();
        let mut scratch = cached.unwrap_or_else(|| {
            Box::new(Scratch {
                lines: Vec::new(),
                slots: Vec::new(),
                strides: Vec::new(),
            })
        });
        let result = work(&mut scratch);
        let _ = SCRATCH.try_with(|cell| cell.set(Some(scratch)));
        result
    }

    /// Reserves this many bytes and slots.
    #[inline]
    pub(crate) fn reserve(&mut self, bytes: usize, slots: usize) -> Buffers<'_> {
        let lines = bytes.div_ceil(64);
        if self.lines.len() < lines {
            self.lines.resize(lines, Line([0; 64]));
        }
        if self.slots.len() < slots {
            self.slots.resize(slots, std::ptr::null_mut());
            self.strides.resize(slots, 0);
        }
        Buffers {
            memory: self.lines.as_mut_ptr().cast(),
            slots: &mut self.slots[..slots],
            strides: &mut self.strides[..slots],
        }
    }
}
