//! One task as it lies in a queue.
//!
//! Entries are built in the ring's slot by the device thread and used there by the queue's runner; of
//! their many bytes a usual launch touches a third, so they are never moved whole, except through the
//! overflow. Up to nine bindings and 32 words lie inline; what is more is in a box, which comes back to
//! the next task that needs one (I9).

use std::mem::MaybeUninit;
use std::ptr::addr_of_mut;
use std::sync::{Arc, Weak};

use millstream_host::QUEUE_DEPTH_MAX;
use millstream_protocol::backend::BoundSlice;
use millstream_protocol::id::{Cursor, Point};
use millstream_protocol::kernel::{ExecutionMode, NativeView};
use millstream_protocol::landing::Landing;
use millstream_protocol::launch::Pattern;
use millstream_protocol::launch::{INLINE_BINDINGS, INLINE_WORDS, Inline};
use millstream_protocol::layout::Strided;
use millstream_protocol::message::CustomWork;
use millstream_protocol::message::HostBytes;
use millstream_sync::facade::{Mutex, lock};

use crate::kernel::CpuKernel;

/// Bindings without the heap: those of a task, and a dynamic cube count.
const ENTRY_BINDINGS: usize = INLINE_BINDINGS + 1;

/// Words without the heap: more than a task has, for a recording's kernels have lengths, strides and offsets among
/// theirs. A slot's words that are not used are not touched.
const ENTRY_WORDS: usize = 2 * INLINE_WORDS;

/// Boxes that are kept for the next tasks (I12).
const SPARES_MAX: usize = QUEUE_DEPTH_MAX;

/// What an entry does.
pub(crate) enum Op {
    /// Nothing: its cursor is published.
    Mark,
    /// What comes after waits for the point. It has no cursor of its own.
    Wait(Point),
    /// The failures of the bindings are forgotten. It has no cursor of its own.
    Forget,
    /// Runs a kernel.
    Launch {
        kernel: Arc<CpuKernel>,
        count: Count,
        mode: ExecutionMode,
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
    /// What failures call the task.
    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        match self {
            Op::Mark | Op::Wait(_) | Op::Forget => None,
            Op::Launch { kernel, .. } => Some(kernel.name()),
            Op::CopyIn { name, .. }
            | Op::CopyOut { name, .. }
            | Op::Copy { name }
            | Op::Fill { name, .. }
            | Op::Custom { name, .. } => Some(name),
        }
    }
}

/// The cubes of a launch.
#[derive(Clone, Copy)]
pub(crate) enum Count {
    /// Known.
    Static([u32; 3]),
    /// Three `u32` in the last binding.
    Dynamic,
}

/// The bytes of a copy from the host.
pub(crate) enum Source {
    /// The first bytes of the entry's words.
    Words(usize),
    /// Owned by the entry.
    Owned(Box<dyn HostBytes>),
}

/// What did not fit inline. Each list is used instead of the inline one if it is not empty.
struct Spilled {
    free_list: Weak<Spares>,
    bindings: Vec<BoundSlice>,
    views: Vec<NativeView>,
    words: Vec<u64>,
    metadata: Vec<u32>,
}

// SAFETY: the views point into pages, which live until every cursor that uses them has passed; a box that is laid by
// has none.
unsafe impl Send for Spilled {}

/// Boxes of a device that no task needs just now.
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
    /// Empties the box and lays it by, if its device is still there.
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

/// One task of a queue, or a wait between two.
#[repr(C)]
pub(crate) struct Entry {
    pub(crate) cursor: Cursor,
    pub(crate) op: Op,
    spilled: Option<Box<Spilled>>,
    bindings: Inline<BoundSlice, ENTRY_BINDINGS>,
    /// The memory of the bindings, in the same order.
    views: Inline<NativeView, ENTRY_BINDINGS>,
    words: Inline<u64, ENTRY_WORDS>,
}

// SAFETY: `Op` and the bindings are Send; the views point into pages, which live until every cursor
// that uses them has passed, and which the queue that runs the entry may touch (I2).
unsafe impl Send for Entry {}

impl Entry {
    /// Builds an entry that does nothing yet, in place, touching only what is in use.
    #[inline]
    pub(crate) fn init(slot: &mut MaybeUninit<Entry>, cursor: Cursor) -> &mut Entry {
        let entry = slot.as_mut_ptr();
        // SAFETY: every field is written, through a pointer to the slot that is borrowed exclusively.
        unsafe {
            addr_of_mut!((*entry).cursor).write(cursor);
            addr_of_mut!((*entry).op).write(Op::Mark);
            addr_of_mut!((*entry).spilled).write(None);
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

    /// Sets words of which there are no more than a task has room for.
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

    /// The task is refused while it is built: it has no operation yet, and must not publish.
    #[cold]
    pub(crate) fn cancel(&mut self) {
        debug_assert!(matches!(self.op, Op::Mark), "the operation is set last");
        self.cursor = 0;
    }

    /// Drops what the task owns (user code may run) and leaves an entry that does nothing.
    pub(crate) fn release(&mut self) {
        let op = std::mem::replace(&mut self.op, Op::Mark);
        if let Some(spilled) = self.spilled.take() {
            spilled.recycle();
        }
        drop(op);
    }
}
