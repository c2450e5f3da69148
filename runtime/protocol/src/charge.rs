//! A client's hard limit: what its slices are charged, and when that is given back.
//!
//! A slice is charged twice when it is asked for. The charge for its *handles* ends with the last handle, on the thread that drops
//! it. The charge for its *memory* ends when its last task has completed, on the device thread. A request that exceeds the limit with
//! live handles alone fails, since nothing would make room for it by itself. One that exceeds it only with memory that returns by
//! itself waits for that.
//!
//! The [`Charge`] lies in the slot of the slice, from before its first handle until the slot is recycled: so the
//! holder of a handle, and the last task, may look at it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use millstream_sync::credit::Credit;

/// The bytes that a client may have, in one epoch.
pub struct Limit {
    /// Bytes of slices that have handles.
    pub handles: Credit,
    /// Bytes of slices that have handles, or tasks that have not completed.
    pub memory: Arc<Credit>,
}

impl Limit {
    /// A limit in bytes, of which `memory` is the credit that ends with the epoch.
    pub fn new(bytes: u64, memory: Arc<Credit>) -> Arc<Self> {
        let handles = Credit::new(bytes);
        Arc::new(Self { handles, memory })
    }
}

/// What one slice was charged.
struct Charged {
    limit: Arc<Limit>,
    bytes: u64,
    has_handles: AtomicBool,
    has_memory: AtomicBool,
}

impl Charged {
    fn end_for_handles(&self) {
        // Relaxed: a swap alone decides which thread gives the bytes back.
        if self.has_handles.swap(false, Ordering::Relaxed) {
            self.limit.handles.release(self.bytes);
        }
    }

    fn end_for_memory(&self) {
        // Relaxed: as above.
        if self.has_memory.swap(false, Ordering::Relaxed) {
            self.limit.memory.release(self.bytes);
        }
    }
}

/// The charge of a slice, in its slot. There is none where its client has no limit.
#[derive(Default)]
pub struct Charge(AtomicPtr<Charged>);

impl Charge {
    /// Charges the slice `bytes`, both for its handles and for its memory. The limit's credits have given them.
    pub fn begin(&self, limit: Arc<Limit>, bytes: u64) {
        let charged = Charged {
            limit,
            bytes,
            has_handles: AtomicBool::new(true),
            has_memory: AtomicBool::new(true),
        };
        let charged = Box::into_raw(Box::new(charged));
        // Release: a thread that loads the pointer reads the box behind it.
        let before = self.0.swap(charged, Ordering::AcqRel);
        debug_assert!(before.is_null(), "a fresh slot has no charge");
    }

    /// Whether there is none. Exact for a thread that has a handle.
    #[inline]
    pub fn is_none(&self) -> bool {
        // Relaxed: the charge was set before the first handle was made.
        self.0.load(Ordering::Relaxed).is_null()
    }

    fn get(&self) -> Option<&Charged> {
        // Acquire: pairs with the Release in `begin`.
        let charged = self.0.load(Ordering::Acquire);
        // SAFETY: null, or a box that lives until `clear`, which comes after the last handle and the last task. A caller has one of
        // these.
        unsafe { charged.as_ref() }
    }

    /// The last handle goes: nothing of its client keeps the memory any more but tasks. To be called by who has it.
    #[cold]
    pub fn end_for_handles(&self) {
        if let Some(charged) = self.get() {
            charged.end_for_handles();
        }
    }

    /// The device is lost: its memory counts no more. Handles may go on living.
    pub fn end(&self) {
        if let Some(charged) = self.get() {
            charged.end_for_handles();
            charged.end_for_memory();
        }
    }

    /// Handles, tasks and memory of the slice are gone, or nothing was ever behind its slot.
    #[inline]
    pub fn clear(&self) {
        if !self.is_none() {
            self.free();
        }
    }

    #[cold]
    fn free(&self) {
        // AcqRel: as in `begin`; exactly one swap gets the pointer.
        let charged = self.0.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !charged.is_null() {
            // SAFETY: the pointer is of `Box::into_raw` in `begin`, and this swap took it alone.
            let charged = unsafe { Box::from_raw(charged) };
            charged.end_for_handles();
            charged.end_for_memory();
        }
    }
}

impl Drop for Charge {
    /// The table goes with a slice still charged: its device was closed before its handles went.
    fn drop(&mut self) {
        self.clear();
    }
}
