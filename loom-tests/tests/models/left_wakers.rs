//! Users' wakers that a caller collects inside a device: each is woken once, by the device's thread unless it has ended.

use std::sync::Arc as StdArc;
use std::task::{Wake, Waker};

use millstream_loom::{Bound, check};
use millstream_sync::deferred_wakes::{DeferredWakes, LeftWakers, wake};
use millstream_sync::facade::Arc;
use millstream_sync::facade::atomic::{AtomicBool, AtomicU32, Ordering};
use millstream_sync::gate::Gate;
use millstream_sync::handoff_lock::HandoffLock;

use super::spinner;

/// A waker that counts its wakes.
#[derive(Default)]
struct Count(AtomicU32);

impl Count {
    fn get(&self) -> u32 {
        // Relaxed: the thread that wakes reads it, or the joined threads are over.
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Count {
    fn wake(self: StdArc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The parts of a device that hand wakers over.
#[derive(Default)]
struct Device {
    /// A message was posted, whose turn reaches the waker.
    is_posted: AtomicBool,
    /// Whether the message was taken.
    door: HandoffLock<bool>,
    left: LeftWakers,
    gate: Gate,
    woken: StdArc<Count>,
}

impl Device {
    fn has_work(&self, is_taken: bool) -> bool {
        // Relaxed: ordered by the door and the gate.
        !is_taken && self.is_posted.load(Ordering::Relaxed)
    }

    /// Takes the message, if there is one.
    fn turn(&self, is_taken: &mut bool) {
        if self.has_work(*is_taken) {
            *is_taken = true;
            wake(Waker::from(self.woken.clone()));
            assert_eq!(self.woken.get(), 0, "woken inside");
        }
    }

    /// Runs the device's thread until the waker is woken.
    fn own(&self) {
        while self.woken.get() == 0 {
            let deferred = DeferredWakes::begin();
            let mut inside = self.door.enter();
            self.turn(&mut inside);
            let again = self.door.leave(inside);
            drop(deferred);
            self.left.wake_all();
            if !again && self.woken.get() == 0 {
                let has_news = |inside: &mut bool| self.has_work(*inside) || self.left.has_any();
                self.door.idle(&self.gate, &mut spinner(), None, has_news);
            }
        }
    }

    /// Posts the message, and takes the turn if the device's thread sleeps.
    fn post(&self) {
        self.is_posted.store(true, Ordering::Relaxed);
        self.gate.wake_unless(|| {
            let Some(mut inside) = self.door.try_enter() else {
                return true;
            };
            let deferred = DeferredWakes::begin();
            self.turn(&mut inside);
            let leaves_wakers = self.left.leave(deferred.take());
            !(self.door.leave(inside) | leaves_wakers)
        });
    }

    /// Reaches the waker outside of the door, as the end of a held task does. Returns `true` if it is left to the thread.
    fn run_held(&self) -> bool {
        let deferred = DeferredWakes::begin();
        wake(Waker::from(self.woken.clone()));
        self.left.leave(deferred.take())
    }

    fn check(&self) {
        assert_eq!((self.woken.get(), self.left.has_any()), (1, false));
    }
}

#[test]
fn a_waker_that_a_caller_leaves_inside_is_woken_by_the_thread() {
    check(Bound::TwoThreads, |sides| {
        let device = Arc::new(Device::default());
        let (owner, caller) = (device.clone(), device.clone());
        sides.run(move || owner.own(), move || caller.post());
        device.check();
    });
}

#[test]
fn a_waker_that_a_caller_leaves_outside_is_woken_by_the_thread() {
    check(Bound::TwoThreads, |sides| {
        let device = Arc::new(Device::default());
        let (owner, caller) = (device.clone(), device.clone());
        let run_held = move || {
            assert!(caller.run_held());
            caller.gate.wake();
        };
        sides.run(move || owner.own(), run_held);
        device.check();
    });
}

#[test]
fn a_waker_that_is_left_as_the_device_ends_is_woken_once() {
    check(Bound::None, |sides| {
        let device = Arc::new(Device::default());
        let (owner, caller) = (device.clone(), device.clone());
        sides.run(move || owner.left.end(), move || caller.run_held());
        device.check();
    });
}
