//! One task in a queue.
//!
//! The device thread builds entries in the ring's slot, and the queue's runner uses them there. A usual launch
//! touches a third of an entry's bytes, so entries are never moved as a whole. Up to
//! nine bindings and 32 words lie inline; more of them lie in a box, which is recycled for the next task that needs
//! one (I9).

use std::mem::MaybeUninit;
use std::ptr::addr_of_mut;
use std::sync::{Arc, Weak};

use millstream_host::QUEUE_DEPTH_MAX;
use millstream_protocol::{
    BoundSlice, Cursor, CustomWork, INLINE_BINDINGS, INLINE_WORDS, Inline, Landing, MAX_QUEUES,
    NativeView, OwnedBytes, Pattern, Point, Strided, Withdrawal,
};
use millstream_sync::facade::{Mutex, lock};

use crate::kernel::CpuKernel;

/// Bindings stored inline: those of a task, and a dynamic cube count.
const ENTRY_BINDINGS: usize = INLINE_BINDINGS + 1;

/// Words stored inline: more than a task has, because the kernels of a recording also have lengths, strides and
/// offsets as words. Unused words of a slot are not touched.
const ENTRY_WORDS: usize = 2 * INLINE_WORDS;

/// The greatest number of boxes in the free list (I12).
const SPARES_MAX: usize = QUEUE_DEPTH_MAX;

/// The operation of an entry.
pub(crate) enum Op {
    /// Does nothing; its cursor is published.
    Mark,
    /// Runs a kernel.
    Launch {
        kernel: Arc<CpuKernel>,
        /// The number of cubes along each axis; `None` if the last binding has it.
        count: Option<[u32; 3]>,
    },
    /// Copies from the host to the binding.
    CopyIn {
        name: Arc<str>,
        source: Source,
        layout: Option<Box<Strided>>,
    },
    /// Copies the binding to the host.
    CopyOut {
        name: Arc<str>,
        landing: Arc<dyn Landing>,
        layout: Option<Box<Strided>>,
    },
    /// Copies the first binding to the second.
    Copy { name: Arc<str> },
    /// Fills the binding.
    Fill { name: Arc<str>, pattern: Pattern },
    /// Runs user code.
    Custom { name: Arc<str>, work: CustomWork },
}

impl Op {
    /// Returns the task's name in failures.
    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        match self {
            Op::Mark => None,
            Op::Launch { kernel, .. } => Some(kernel.kernel.name()),
            Op::CopyIn { name, .. }
            | Op::CopyOut { name, .. }
            | Op::Copy { name }
            | Op::Fill { name, .. }
            | Op::Custom { name, .. } => Some(name),
        }
    }
}

/// The source bytes of a copy from the host.
pub(crate) enum Source {
    /// The first bytes of the entry's words; their number.
    Words(usize),
    /// Bytes that the entry owns.
    Owned(OwnedBytes),
}

/// The lists that did not fit inline. A list that is not empty replaces the inline one.
struct Spilled {
    free_list: Weak<Spares>,
    bindings: Vec<BoundSlice>,
    views: Vec<NativeView>,
    words: Vec<u64>,
    metadata: Vec<u32>,
}

// SAFETY: the views point into pages, which live until every cursor that uses them has passed; a box in the free list
// has no views.
unsafe impl Send for Spilled {}

/// The free list of boxes of a device.
#[derive(Default)]
pub(crate) struct Spares {
    #[allow(
        clippy::vec_box,
        reason = "boxes move between threads without being copied"
    )]
    boxes: Mutex<Vec<Box<Spilled>>>,
}

impl Spares {
    #[cold]
    fn take(self: &Arc<Self>) -> Box<Spilled> {
        let spare = lock(&self.boxes).pop();
        spare.unwrap_or_else(|| {
            Box::new(Spilled {
                free_list: Arc::downgrade(self),
                bindings: Vec::new(),
                views: Vec::new(),
                words: Vec::new(),
                metadata: Vec::new(),
            })
        })
    }
}

impl Spilled {
    /// Empties the box and returns it to the free list, if the device still exists.
    #[cold]
    fn recycle(mut self: Box<Self>) {
        let Some(free_list) = self.free_list.upgrade() else {
            return;
        };
        self.bindings.clear();
        self.views.clear();
        self.words.clear();
        self.metadata.clear();
        let mut boxes = lock(&free_list.boxes);
        if boxes.len() < SPARES_MAX {
            boxes.push(self);
        }
    }
}

/// What comes before an entry. Collected by the device, and moved to the next entry of the queue.
#[derive(Default)]
pub(crate) struct Before {
    /// The entry may be withdrawn when it begins.
    pub(crate) withdrawal: Option<Withdrawal>,
    /// Bytes whose failures are forgotten.
    pub(crate) stale: Option<Box<[BoundSlice]>>,
    /// The points of other queues that it waits for, at most one of each.
    pub(crate) waits: Inline<Point, MAX_QUEUES>,
}

impl Before {
    /// Adds a point to wait for.
    pub(crate) fn wait_for(&mut self, point: Point) {
        let same = self
            .waits
            .iter_mut()
            .find(|other| other.queue == point.queue);
        match same {
            Some(other) => other.cursor = other.cursor.max(point.cursor),
            None => _ = self.waits.push(point),
        }
    }

    /// Moves what was collected to an entry that has nothing.
    #[inline]
    pub(crate) fn move_to(&mut self, other: &mut Self) {
        if !self.waits.is_empty() {
            other.waits.copy_from(&self.waits);
            self.waits.clear();
        }
        if self.withdrawal.is_some() {
            other.withdrawal = self.withdrawal.take();
        }
        if self.stale.is_some() {
            other.stale = self.stale.take();
        }
    }
}

/// One task of a queue.
#[repr(C)]
pub(crate) struct Entry {
    pub(crate) cursor: Cursor,
    pub(crate) op: Op,
    spilled: Option<Box<Spilled>>,
    pub(crate) before: Before,
    bindings: Inline<BoundSlice, ENTRY_BINDINGS>,
    /// The memory of the bindings, in the same order.
    views: Inline<NativeView, ENTRY_BINDINGS>,
    words: Inline<u64, ENTRY_WORDS>,
}

// SAFETY: `Op` and the bindings are Send. The views point into pages, which live until every cursor that uses them
// has passed, and which the queue that runs the entry may touch (I2).
unsafe impl Send for Entry {}

impl Entry {
    /// Builds an entry that does nothing yet, in place, and writes only the fields in use.
    #[inline]
    pub(crate) fn init(slot: &mut MaybeUninit<Entry>, cursor: Cursor) -> &mut Entry {
        let entry = slot.as_mut_ptr();
        // SAFETY: every field is written, through a pointer to the slot that is borrowed exclusively.
        unsafe {
            addr_of_mut!((*entry).cursor).write(cursor);
            addr_of_mut!((*entry).op).write(Op::Mark);
            addr_of_mut!((*entry).spilled).write(None);
            addr_of_mut!((*entry).before.withdrawal).write(None);
            addr_of_mut!((*entry).before.stale).write(None);
            addr_of_mut!((*entry).before.waits).write(Inline::new());
            addr_of_mut!((*entry).bindings).write(Inline::new());
            addr_of_mut!((*entry).views).write(Inline::new());
            addr_of_mut!((*entry).words).write(Inline::new());
            &mut *entry
        }
    }

    /// Adds a binding and its memory.
    #[inline]
    pub(crate) fn bind(&mut self, spares: &Arc<Spares>, binding: BoundSlice, view: NativeView) {
        if self.spilled.is_none()
            && self.bindings.push(binding).is_ok()
            && self.views.push(view).is_ok()
        {
            return;
        }
        self.bind_spilled(spares, binding, view);
    }

    #[cold]
    fn bind_spilled(&mut self, spares: &Arc<Spares>, binding: BoundSlice, view: NativeView) {
        let spilled = self.spilled.get_or_insert_with(|| spares.take());
        if spilled.bindings.is_empty() {
            spilled.bindings.extend_from_slice(&self.bindings);
            spilled.views.extend_from_slice(&self.views);
        }
        spilled.bindings.push(binding);
        spilled.views.push(view);
    }

    /// Sets the words. Called after the last [`Entry::bind`].
    #[inline]
    pub(crate) fn set_words(&mut self, spares: &Arc<Spares>, words: &[u64]) {
        if words.len() <= ENTRY_WORDS {
            self.set_few_words(words);
        } else {
            let spilled = self.spilled.get_or_insert_with(|| spares.take());
            spilled.words.extend_from_slice(words);
        }
    }

    /// Sets words that are known to fit inline.
    #[inline]
    pub(crate) fn set_few_words(&mut self, words: &[u64]) {
        debug_assert!(words.len() <= ENTRY_WORDS, "{} words", words.len());
        self.words.set(words);
    }

    /// Sets the metadata. Called after the last [`Entry::bind`].
    #[inline]
    pub(crate) fn set_metadata(&mut self, spares: &Arc<Spares>, metadata: &[u32]) {
        if !metadata.is_empty() {
            let spilled = self.spilled.get_or_insert_with(|| spares.take());
            spilled.metadata.extend_from_slice(metadata);
        }
    }

    #[inline]
    pub(crate) fn bindings(&self) -> &[BoundSlice] {
        match &self.spilled {
            Some(spilled) if !spilled.bindings.is_empty() => &spilled.bindings,
            _ => &self.bindings,
        }
    }

    #[inline]
    pub(crate) fn views(&self) -> &[NativeView] {
        match &self.spilled {
            Some(spilled) if !spilled.views.is_empty() => &spilled.views,
            _ => &self.views,
        }
    }

    #[inline]
    pub(crate) fn words(&self) -> &[u64] {
        match &self.spilled {
            Some(spilled) if !spilled.words.is_empty() => &spilled.words,
            _ => &self.words,
        }
    }

    #[inline]
    pub(crate) fn metadata(&self) -> &[u32] {
        self.spilled
            .as_ref()
            .map_or(&[], |spilled| &spilled.metadata)
    }

    /// Cancels a task that is refused while it is built: it has no operation yet, and must not publish a cursor.
    #[cold]
    pub(crate) fn cancel(&mut self) {
        debug_assert!(matches!(self.op, Op::Mark), "the operation is set last");
        self.cursor = 0;
    }

    /// Drops everything the task owns, which may run user code, and leaves an entry that does nothing.
    pub(crate) fn release(&mut self) {
        let op = std::mem::replace(&mut self.op, Op::Mark);
        if let Some(spilled) = self.spilled.take() {
            spilled.recycle();
        }
        drop(op);
    }
}
