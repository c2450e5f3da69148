//! A thread's memory for tiles. It is reused from launch to launch, so that the steady state allocates nothing (I9).

use std::cell::Cell;
use std::thread::LocalKey;

/// A cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A value that a thread caches. Taken while in use: a nested launch on the same thread finds none and makes its own, and
/// so does a thread that is ending.
pub(crate) type Cached<T> = Cell<Option<Box<T>>>;

/// Runs `work` with the cached value of this thread.
#[inline]
pub(crate) fn with_cached<T: Default, R>(
    cell: &'static LocalKey<Cached<T>>,
    work: impl FnOnce(&mut T) -> R,
) -> R {
    let cached = cell.try_with(Cell::take).ok().flatten();
    let mut value = cached.unwrap_or_default();
    let result = work(&mut value);
    let _ = cell.try_with(|cell| cell.set(Some(value)));
    result
}

/// The registers and slots of one thread.
#[derive(Default)]
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
    static SCRATCH: Cached<Scratch> = const { Cell::new(None) };
}

impl Scratch {
    /// Runs `work` with this thread's scratch memory.
    #[inline]
    pub(crate) fn with<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
        with_cached(&SCRATCH, work)
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
