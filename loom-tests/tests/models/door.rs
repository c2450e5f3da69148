//! Door: what was published is seen by a thread that is inside afterwards, and the owner does not sleep over it.

use millstream_loom::{Bound, check};
use millstream_sync::door::Door;
use millstream_sync::facade::Arc;
use millstream_sync::facade::atomic::{AtomicU32, Ordering};
use millstream_sync::gate::Gate;

use super::spinner;

/// What is posted, and how much of it was seen inside.
struct Shared {
    posted: AtomicU32,
    door: Door<u32>,
    gate: Gate,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            posted: AtomicU32::new(0),
            door: Door::new(0),
            gate: Gate::new(),
        })
    }

    fn post(&self) {
        // Relaxed: the door orders it.
        self.posted.fetch_add(1, Ordering::Relaxed);
    }

    fn seen(&self, inside: &mut u32) -> bool {
        let posted = self.posted.load(Ordering::Relaxed);
        let news = posted != *inside;
        *inside = posted;
        news
    }

    /// Comes by after posting.
    fn come_by(&self) {
        while let Some(mut inside) = self.door.try_enter() {
            self.seen(&mut inside);
            if !self.door.leave(inside) {
                break;
            }
        }
    }

    /// Posts, and sees to it in the owner's stead where that sleeps. The last of `all` is left to the owner.
    fn post_and_step_in(&self, all: u32) {
        self.post();
        self.gate.wake_unless(|| {
            let Some(mut inside) = self.door.try_enter() else {
                return true;
            };
            self.seen(&mut inside);
            let is_left = *inside == all;
            !(self.door.leave(inside) || is_left)
        });
    }

    /// The owner, until it has seen `all`.
    fn own(&self, all: u32) {
        loop {
            let mut inside = self.door.enter();
            self.seen(&mut inside);
            let is_over = *inside == all;
            let again = self.door.leave(inside);
            if is_over {
                return;
            }
            if !again {
                let news = |inside: &mut u32| *inside == all || self.seen(inside);
                self.door.idle(&self.gate, &mut spinner(), None, news);
            }
        }
    }
}

#[test]
fn nothing_is_left_behind() {
    check("door: two come by", Bound::None, |sides| {
        let shared = Shared::new();
        let (one, two) = (shared.clone(), shared.clone());
        let side = |shared: Arc<Shared>| {
            move || {
                shared.post();
                shared.come_by();
            }
        };
        sides.run(side(one), side(two));
        assert_eq!(*shared.door.enter(), 2, "something was left behind");
    });
}

#[test]
fn who_steps_in_leaves_the_rest_to_the_owner() {
    check(
        "door: owner and one who steps in",
        Bound::TwoThreads,
        |sides| {
            let shared = Shared::new();
            let owner = shared.clone();
            sides.run(
                move || owner.own(2),
                move || {
                    shared.post_and_step_in(2);
                    shared.post_and_step_in(2);
                },
            );
        },
    );
}

#[test]
fn two_step_in_beside_the_owner() {
    check(
        "door: owner and two who step in",
        Bound::ThreeThreads,
        |sides| {
            let shared = Shared::new();
            let (owner, one) = (shared.clone(), shared.clone());
            sides.run_three(
                move || owner.own(2),
                move || one.post_and_step_in(2),
                move || shared.post_and_step_in(2),
            );
        },
    );
}
