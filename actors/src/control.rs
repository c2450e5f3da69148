//! The control channel of a device: messages outside its mailbox, which are never lost and never refused.

use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;

use crate::server::HostToken;
use millstream_protocol::{HostOutcome, StepIn};
use millstream_sync::channel;
use millstream_sync::facade::{Edges, Mutex, lock};
use millstream_sync::gate::Gate;
use millstream_sync::timeline::Timeline;

use crate::step;

/// A message to the device outside its mailbox. Never lost, never refused.
pub(crate) enum Control {
    /// A host function ended. The value is dropped in the turn that takes note of it.
    HostFinished(HostToken, HostOutcome, Option<Box<dyn Any + Send>>),
    /// The timeline of a queue has ended: its backend found the device lost.
    TimelineEnded,
    /// The GC actor has room for an effect that was kept.
    Wake,
    /// Accept no further messages and finish the accepted ones.
    Close,
}

/// The deferred teardown of a closed device, which no thread runs any more.
pub(crate) trait DeferredTeardown: Send + Sync {
    /// Handles the controls that were sent. Returns `true` if later controls have no effect.
    fn run(&self) -> bool;
}

/// Sends controls to the device.
#[derive(Clone)]
pub(crate) struct ControlSender {
    control: channel::Sender<Control>,
    pub(crate) gate: Arc<Gate>,
    edges: Arc<Edges>,
    /// Does the device's work in place of its thread. Set if callers may step in.
    station: Arc<OnceLock<Weak<dyn StepIn>>>,
    /// Handles controls once no thread runs the device. Set only while user code of the device runs, since it holds
    /// the device.
    teardown: Arc<Mutex<Option<Arc<dyn DeferredTeardown>>>>,
}

impl ControlSender {
    /// Creates the control channel of a device that sleeps at `gate`.
    pub(crate) fn new(gate: Arc<Gate>, edges: Arc<Edges>) -> (Self, channel::Receiver<Control>) {
        let (control, receiver) = channel::unbounded();
        let device = Self {
            control,
            gate,
            edges,
            station: Arc::default(),
            teardown: Arc::default(),
        };
        (device, receiver)
    }

    /// Sends a control. Does nothing if the device is gone.
    pub(crate) fn send(&self, control: Control) {
        self.edges.release();
        let _ = self.control.send(control);
        self.gate.wake();
        self.run_teardown();
    }

    /// Sends a control as [`ControlSender::send`] does. The calling thread may handle it itself, so it holds no lock that
    /// work of the device takes.
    pub(crate) fn send_and_step_in(&self, control: Control) {
        self.edges.release();
        let _ = self.control.send(control);
        step::wake_or_step_in(&self.gate, &self.station);
        self.run_teardown();
    }

    /// Sets what does the device's work in place of its thread.
    pub(crate) fn set_station(&self, station: Weak<dyn StepIn>) {
        let _ = self.station.set(station);
    }

    /// Passes controls to `teardown` from now on, including those that were sent before. For a closed device that no
    /// thread runs.
    pub(crate) fn set_teardown(&self, teardown: Arc<dyn DeferredTeardown>) {
        *lock(&self.teardown) = Some(teardown);
        self.run_teardown();
    }

    fn run_teardown(&self) {
        let teardown = lock(&self.teardown).clone();
        if teardown.is_some_and(|teardown| teardown.run()) {
            // Dropping it may end the device, so drop it after the lock.
            let teardown = lock(&self.teardown).take();
            drop(teardown);
        }
    }
}

/// Notifies a device when a timeline ends: a backend may find the device lost on any thread.
/// It is registered at a cursor that never comes, so it costs nothing until then.
struct EndWaker(ControlSender);

impl std::task::Wake for EndWaker {
    fn wake(self: Arc<Self>) {
        self.0.send(Control::TimelineEnded);
    }
}

/// Registers for the end of each timeline.
pub(crate) fn watch_timeline_ends(timelines: &[Arc<Timeline>], device: &ControlSender) {
    let waker = Waker::from(Arc::new(EndWaker(device.clone())));
    for timeline in timelines {
        if timeline.register_own(u64::MAX, &waker).is_none() {
            waker.wake_by_ref();
        }
    }
}
