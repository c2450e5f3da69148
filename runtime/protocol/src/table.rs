//! The table that clients and the device share: an entry, with a count, of everything that a device counts.

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
use crate::releases::Releases;
use crate::staging::Staging;

/// What both sides see of a counted thing. Slices use all of it, kernels and streams nothing.
#[derive(Default)]
pub struct Shared {
    /// Failures that became known while a task ran: marked, found and cleared in execution order.
    pub poison: PoisonCell<FailureRef>,
    /// What a client with a hard limit was charged.
    pub charge: Charge,
}

/// Where the last drop of a counted thing is told: the device's mailbox gives the stamp and is woken. Whoever has the table
/// counts faults here, too.
pub struct Outlet {
    mailbox: Probe<Task>,
    edges: Arc<Edges>,
    /// The device, if callers may turn it. It holds the table.
    station: OnceLock<Weak<dyn StepIn>>,
    /// See [`Outlet::ring`].
    rung: AtomicBool,
    /// Failed tasks by reason, counted where they fail.
    pub faults: SharedFaults,
    /// What may still let go of handles by itself.
    pub releases: Releases,
    /// The memory that uploads go through.
    pub staging: Arc<Staging>,
}

impl Outlet {
    /// Tells `mailbox`; `edges` are the device's.
    pub fn new(mailbox: Probe<Task>, edges: Arc<Edges>) -> Self {
        Self {
            mailbox,
            edges,
            station: OnceLock::new(),
            rung: AtomicBool::new(false),
            faults: SharedFaults::default(),
            releases: Releases::default(),
            staging: Arc::default(),
        }
    }

    /// Who drops may turn this device, where it would have to wake its thread. To be said before there is anything to drop.
    pub fn set_station(&self, station: Weak<dyn StepIn>) {
        let _ = self.station.set(station);
    }

    /// Does the device take nothing any more?
    pub(crate) fn is_over(&self) -> bool {
        self.mailbox.is_closed()
    }

    /// Has the device look at what it holds, and wakes it for that. It needs neither room in the mailbox nor a slot, of which there
    /// may be none (I5).
    pub(crate) fn ring(&self) {
        self.tells();
        // Release: pairs with `take_ring`. A wake comes after what it is for, as that of a dropped slot.
        self.rung.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether a thread has rung since the device looked last.
    #[inline]
    pub fn has_rung(&self) -> bool {
        // Relaxed: a hint; the taking acquires.
        self.rung.load(Ordering::Relaxed)
    }

    /// The same, once.
    #[inline]
    pub fn take_ring(&self) -> bool {
        // Acquire: what was done before the ring is seen.
        self.has_rung() && self.rung.swap(false, Ordering::Acquire)
    }

    /// In a model what a thread has done is something that others may find done, or not. The device's own is part of its step.
    #[inline]
    fn tells(&self) {
        if !THREADS && !is_runtime_thread() {
            self.edges.release();
        }
    }
}

impl Sink for Outlet {
    #[inline]
    fn stamp(&self) -> u64 {
        self.tells();
        self.mailbox.tail()
    }

    #[inline]
    fn wake(&self) {
        self.mailbox.wake_unless(|| {
            let station = self.station.get().and_then(Weak::upgrade);
            station.is_some_and(|station| station.step_in_for_a_wake())
        });
    }
}

impl Ring for Table {
    fn ring(&self) {
        self.sink().ring();
    }

    fn is_over(&self) -> bool {
        self.sink().is_over()
    }
}

/// The table of everything that a device counts: slices, kernels, streams, recordings.
pub type Table = Slots<Shared, Outlet>;

/// One counted hold on an entry of the [`Table`].
pub type Hold = Counted<Shared, Outlet>;
