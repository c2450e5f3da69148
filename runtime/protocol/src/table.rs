//! The table of slots that clients and the device share: one counted slot for each slice, kernel, recording, stream and
//! client.
//!
//! # The life of a slot
//! ```text
//! client threads                                device thread
//! acquire a slot from the free list
//! send `Register` or `Reserve`        ───────►  admits it: the id resolves to the object from here on
//! clone handles, send tasks with
//!   the plain id                      ───────►  resolves the id
//! drop the last handle: the slot enters
//!   the list of drops, stamped with the
//!   mailbox's tail                    ─ wake ►  takes the list; once the mailbox has passed the stamp, and no stream
//!                                               holds a task on it, frees the object
//! acquire it again                    ◄───────  recycles the slot once the points that used it have passed
//! ```
//! Every send with a handle happens before the drop of that handle, so its message lies before the stamp. When the
//! mailbox has passed the stamp, no message names the id any more, and a task can carry a plain id without a count
//! (I4). A drop never waits, allocates nothing and needs no room in the mailbox (I9, I12). Each occupant of a slot
//! has its own generation, so a stale id resolves to nothing.
//!
//! The lists and their orderings are in `millstream_sync::slots`; loom's model `slots` checks them.

use std::sync::{Arc, OnceLock, Weak};

use millstream_sync::facade::atomic::{AtomicBool, Ordering};
use millstream_sync::facade::{Edges, THREADS};
use millstream_sync::mailbox::Probe;
use millstream_sync::poison::PoisonCell;
use millstream_sync::slots::{Counted, Sink, Slots};

use crate::cancel::Ring;
use crate::channel::StepIn;
use crate::charge::Charge;
use crate::failure::FailureRef;
use crate::marks::is_runtime_thread;
use crate::message::Task;
use crate::metrics::SharedFaults;
use crate::printed::Prints;
use crate::process::Process;
use crate::releases::Releases;
use crate::staging::Staging;

/// The part of a slot that clients and the device share. Slices use all of it, other objects nothing.
#[derive(Default)]
pub struct Shared {
    /// Failures that became known while a task ran. Queues mark, find and clear them in execution order (I7).
    pub poison: PoisonCell<FailureRef>,
    /// The charge to the hard limit of a client.
    pub charge: Charge,
}

/// The receiver of last drops: the device's mailbox, which gives the stamp and is woken. It also has the state that
/// every holder of the table may reach.
pub struct DropSink {
    mailbox: Probe<Task>,
    process: Process,
    edges: Arc<Edges>,
    /// The device, if callers may step in for its thread. Weak, because the device owns the table.
    station: OnceLock<Weak<dyn StepIn>>,
    /// Set by [`DropSink::ring`], taken by the device.
    rung: AtomicBool,
    /// Whether a token was cancelled since the device looked last.
    cancelled: AtomicBool,
    /// Failed tasks by reason, counted where a task fails.
    pub faults: SharedFaults,
    /// Pending releases, which may drop handles.
    pub releases: Releases,
    /// The host memory for uploads.
    pub staging: Arc<Staging>,
    /// What kernels have printed.
    pub prints: Prints,
}

impl DropSink {
    /// Creates the receiver of last drops for the device with `mailbox` and `edges`.
    pub fn new(mailbox: Probe<Task>, edges: Arc<Edges>) -> Self {
        Self {
            mailbox,
            process: Process::current(),
            edges,
            station: OnceLock::new(),
            rung: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            faults: SharedFaults::default(),
            releases: Releases::default(),
            staging: Arc::default(),
            prints: Prints::default(),
        }
    }

    /// Lets a thread that drops a handle step in for this device instead of waking its thread. Call it before
    /// anything can be dropped.
    pub fn set_station(&self, station: Weak<dyn StepIn>) {
        let _ = self.station.set(station);
    }

    /// Returns `true` if the device accepts no messages any more.
    pub(crate) fn is_over(&self) -> bool {
        self.mailbox.is_closed()
    }

    /// Wakes the device to look at what it holds. Needs neither room in the mailbox nor a slot, of which there may be
    /// none (I5).
    pub(crate) fn ring(&self) {
        self.record_edge();
        // Release: pairs with the Acquire in `take_ring`. The wake comes after the flag, as for a dropped slot.
        self.rung.store(true, Ordering::Release);
        self.wake();
    }

    /// Returns `true` if a thread has rung since the last [`DropSink::take_ring`].
    #[inline]
    pub fn has_rung(&self) -> bool {
        // Relaxed: a hint; `take_ring` acquires.
        self.rung.load(Ordering::Relaxed)
    }

    /// Takes the ring: returns `true` once for all rings so far.
    #[inline]
    pub fn take_ring(&self) -> bool {
        // Acquire: pairs with the Release in `ring`; what was done before the ring is visible.
        self.has_rung() && self.rung.swap(false, Ordering::Acquire)
    }

    /// Returns `true` once for all rings of cancelled tokens that the last [`DropSink::take_ring`] took. Other rings
    /// are of ended releases, and need no look at the tasks that a token may have withdrawn.
    #[inline]
    pub fn take_cancel(&self) -> bool {
        // Acquire: pairs with the Release in `Table::ring`. The flag may be taken by the look that another ring asked for,
        // before `rung` is stored for it; the cancelled token must be visible then, since no other look follows.
        self.cancelled.swap(false, Ordering::Acquire)
    }

    /// In a model of a user, publishes what the calling thread has done, which other threads may then observe. The
    /// device itself is part of a step of the model, so its own threads publish nothing.
    #[inline]
    fn record_edge(&self) {
        if !THREADS && !is_runtime_thread() {
            self.edges.release();
        }
    }
}

impl Sink for DropSink {
    #[inline]
    fn stamp(&self) -> u64 {
        self.record_edge();
        self.mailbox.tail()
    }

    #[inline]
    fn wake(&self) {
        if !self.process.is_current() {
            // There is no device to wake.
            return;
        }
        self.mailbox.wake_unless(|| {
            let station = self.station.get().and_then(Weak::upgrade);
            station.is_some_and(|station| station.step_in_for_a_wake())
        });
    }
}

impl Ring for Table {
    fn ring(&self) {
        // Release: pairs with the Acquire in `take_cancel`, which then sees that the token is cancelled.
        self.sink().cancelled.store(true, Ordering::Release);
        self.sink().ring();
    }

    fn is_over(&self) -> bool {
        self.sink().is_over()
    }
}

/// The table of all counted objects of a device: slices, kernels, recordings, streams and clients.
pub type Table = Slots<Shared, DropSink>;

/// A counted hold on an entry of the [`Table`].
pub type SlotRef = Counted<Shared, DropSink>;
