//! The charge of a slice to its client's hard limit.
//!
//! A slice is charged twice when it is requested:
//!
//! | charge | ends with | on |
//! | --- | --- | --- |
//! | for its *handles* | the last handle | the thread that drops it |
//! | for its *memory* | the last task that uses the slice | the device thread |
//!
//! A request that exceeds the limit by live handles alone fails, since only the user can make room. A request that
//! exceeds it only by memory that returns without the user waits for that memory. A client that waits in both cases
//! ([`AtLimit::Wait`]) is charged for memory only.
//!
//! The [`Charge`] lies in the slot of the slice, from before the first handle until the slot is recycled. So the
//! holder of a handle, and the device for the last task, may access it.
//!
//! With [`AtLimit::Wait`], a request of a stream that has memory waits ahead of those of streams that have none
//! (`Holding`, and *ahead* in `credit`): it must end before its memory returns, and behind a request that needs that
//! memory neither would go on. Two callers that each hold more than half of the limit and request as much again still
//! wait for each other, until a deadline. The runtime cannot detect it: threads that do not wait may keep handles, and
//! futures are no threads. If waiting were the default, a single thread that keeps its handles would hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use millstream_sync::credit::Credit;

use crate::options::AtLimit;

/// The hard limit of a client in one epoch.
pub struct Limit {
    /// Bytes of slices with live handles. Unused if requests wait.
    pub handles: Credit,
    /// Bytes of slices with live handles, or with tasks that have not completed.
    pub memory: Arc<Credit>,
    /// What a request does that live handles leave no room for.
    pub at_limit: AtLimit,
}

impl Limit {
    /// Creates a limit in bytes. `memory` is the credit that ends with the epoch.
    pub fn new(bytes: u64, memory: Arc<Credit>, at_limit: AtLimit) -> Arc<Self> {
        let handles = Credit::new(bytes);
        Arc::new(Self {
            handles,
            memory,
            at_limit,
        })
    }
}

/// The bytes that one stream has reserved and that still count towards the limit of its client.
#[derive(Default)]
pub struct Holding(AtomicU64);

impl Holding {
    /// Returns `true` if there are any.
    pub fn is_some(&self) -> bool {
        // Relaxed: it only orders requests.
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// The charge of one slice.
struct Charged {
    limit: Arc<Limit>,
    /// The holding of the stream that reserved the slice, if the client waits at its limit.
    holding: Option<Arc<Holding>>,
    bytes: u64,
    has_handles: AtomicBool,
    has_memory: AtomicBool,
}

impl Charged {
    fn end_for_handles(&self) {
        // Relaxed: the swap alone decides which thread gives the bytes back.
        if self.has_handles.swap(false, Ordering::Relaxed) {
            self.limit.handles.release(self.bytes);
        }
    }

    fn end_for_memory(&self) {
        // Relaxed: as above.
        if self.has_memory.swap(false, Ordering::Relaxed) {
            if let Some(holding) = &self.holding {
                // Relaxed: as in `Holding::is_some`.
                holding.0.fetch_sub(self.bytes, Ordering::Relaxed);
            }
            self.limit.memory.release(self.bytes);
        }
    }
}

/// The charge of a slice, in its slot. Empty if the client has no limit.
#[derive(Default)]
pub struct Charge(AtomicPtr<Charged>);

impl Charge {
    /// Begins the charge of a slice, for its handles and its memory. The caller took the credit for memory, and that for
    /// handles unless requests wait.
    pub fn begin(&self, limit: Arc<Limit>, bytes: u64, holding: Option<Arc<Holding>>) {
        if let Some(holding) = &holding {
            // Relaxed: as in `Holding::is_some`.
            holding.0.fetch_add(bytes, Ordering::Relaxed);
        }
        let has_handles = limit.at_limit == AtLimit::Fail;
        let charged = Charged {
            limit,
            holding,
            bytes,
            has_handles: AtomicBool::new(has_handles),
            has_memory: AtomicBool::new(true),
        };
        let charged = Box::into_raw(Box::new(charged));
        // Release: pairs with the Acquire in `get`, which reads the box behind the pointer.
        let before = self.0.swap(charged, Ordering::AcqRel);
        debug_assert!(before.is_null(), "a fresh slot has no charge");
    }

    /// Returns `true` if there is no charge. Exact for a thread that has a handle.
    #[inline]
    pub fn is_none(&self) -> bool {
        // Relaxed: the charge was set before the first handle was made.
        self.0.load(Ordering::Relaxed).is_null()
    }

    fn get(&self) -> Option<&Charged> {
        // Acquire: pairs with the Release in `begin`.
        let charged = self.0.load(Ordering::Acquire);
        // SAFETY: the pointer is null, or of a box that lives until `clear`, which comes after the last handle and
        // the last task. The caller has one of these.
        unsafe { charged.as_ref() }
    }

    /// Ends the charge for handles: only tasks use the memory from now on. The holder of the last handle calls it.
    #[cold]
    pub fn end_for_handles(&self) {
        if let Some(charged) = self.get() {
            charged.end_for_handles();
        }
    }

    /// Ends both charges when the device is lost: its memory no longer counts. Handles may still be alive.
    pub fn end(&self) {
        if let Some(charged) = self.get() {
            charged.end_for_handles();
            charged.end_for_memory();
        }
    }

    /// Frees the charge, when handles, tasks and memory of the slice no longer exist, or the slot was never used.
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
            // SAFETY: the pointer is of `Box::into_raw` in `begin`, and only this swap took it.
            let charged = unsafe { Box::from_raw(charged) };
            charged.end_for_handles();
            charged.end_for_memory();
        }
    }
}

impl Drop for Charge {
    /// Frees a charge that is left when the table is dropped: the device was closed before the handles were dropped.
    fn drop(&mut self) {
        self.clear();
    }
}
