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
use millstream_sync::facade::THREADS;

use crate::client::{DeviceShared, Stream};
use crate::error::{Error, Full, MemoryError};
use crate::handle::Hold;

/// The bytes that a client may have, in one epoch.
pub(crate) struct Limit {
    /// Bytes of slices that have handles.
    handles: Credit,
    /// Bytes of slices that have handles, or tasks that have not completed.
    memory: Arc<Credit>,
}

impl Limit {
    /// A limit in bytes.
    pub(crate) fn new(device: &DeviceShared, bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            handles: Credit::new(bytes),
            memory: device.credit(bytes),
        })
    }

    /// Charges a slice of which there is no handle yet, made by `stream`. May wait for memory to return, if `wait`.
    ///
    /// # Errors
    /// [`MemoryError::Limit`] where live handles leave no room; else as any wait for room.
    pub(crate) fn charge(
        self: &Arc<Self>,
        stream: &Stream,
        (hold, bytes): (&Hold, u64),
        wait: bool,
    ) -> Result<(), Error> {
        if !THREADS {
            // In a model what others have dropped is there, or not yet.
            stream.device().channel().looked();
        }
        let live = self.handles.try_acquire(bytes);
        live.map_err(|full| MemoryError::Limit {
            client: stream.client().shared.name.clone(),
            asked: bytes,
            in_use: full.in_use,
            limit: full.limit,
        })?;
        let full = || Full::Memory {
            asked: bytes,
            in_use: self.memory.in_use(),
            limit: self.memory.limit(),
        };
        match stream.take_room(wait, &self.memory, (bytes, 0), full) {
            // The charge gives it back.
            Ok(room) => room.keep(),
            Err(error) => {
                self.handles.release(bytes);
                return Err(error);
            }
        }
        hold.payload().charge.set(Charged {
            limit: self.clone(),
            bytes,
            has_handles: AtomicBool::new(true),
            has_memory: AtomicBool::new(true),
        });
        Ok(())
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
pub(crate) struct Charge(AtomicPtr<Charged>);

impl Charge {
    fn set(&self, charged: Charged) {
        let charged = Box::into_raw(Box::new(charged));
        // Release: a thread that loads the pointer reads the box behind it.
        let before = self.0.swap(charged, Ordering::AcqRel);
        debug_assert!(before.is_null(), "a fresh slot has no charge");
    }

    /// Whether there is none. Exact for a thread that has a handle.
    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        // Relaxed: the charge was set before the first handle was made.
        self.0.load(Ordering::Relaxed).is_null()
    }

    fn get(&self) -> Option<&Charged> {
        // Acquire: pairs with the Release in `set`.
        let charged = self.0.load(Ordering::Acquire);
        // SAFETY: null, or a box that lives until `clear`, which comes after the last handle and the last task. A caller has one of
        // these.
        unsafe { charged.as_ref() }
    }

    /// The last handle goes: nothing of its client keeps the memory any more but tasks. To be called by who has it.
    #[cold]
    pub(crate) fn end_for_handles(&self) {
        if let Some(charged) = self.get() {
            charged.end_for_handles();
        }
    }

    /// The device is lost: its memory counts no more. Handles may go on living.
    pub(crate) fn end(&self) {
        if let Some(charged) = self.get() {
            charged.end_for_handles();
            charged.end_for_memory();
        }
    }

    /// Handles, tasks and memory of the slice are gone, or nothing was ever behind its slot.
    #[inline]
    pub(crate) fn clear(&self) {
        if !self.is_none() {
            self.free();
        }
    }

    #[cold]
    fn free(&self) {
        // AcqRel: as in `set`; exactly one swap gets the pointer.
        let charged = self.0.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !charged.is_null() {
            // SAFETY: the pointer is of `Box::into_raw` in `set`, and this swap took it alone.
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
