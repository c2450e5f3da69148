//! Door: published work is seen inside, and the owner does not sleep while work is left.

use millstream_loom::{Bound, check};
use millstream_sync::facade::Arc;
use millstream_sync::facade::atomic::{AtomicU32, Ordering};
use millstream_sync::gate::Gate;
use millstream_sync::handoff_lock::HandoffLock;

use super::spinner;

/// The number of posts, and how many of them were seen inside.
struct Shared {
    posted: AtomicU32,
    door: HandoffLock<u32>,
    gate: Gate,
}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            posted: AtomicU32::new(0),
            door: HandoffLock::new(0),
            gate: Gate::new(),
        })
    }

    fn post(&self) {
        // Relaxed: ordered by the door.
        self.posted.fetch_add(1, Ordering::Relaxed);
    }

    fn seen(&self, inside: &mut u32) -> bool {
        let posted = self.posted.load(Ordering::Relaxed);
        let news = posted != *inside;
        *inside = posted;
        news
    }

    /// Visits the door after a post.
    fn visit(&self) {
        while let Some(mut inside) = self.door.try_enter() {
            self.seen(&mut inside);
            if !self.door.leave(inside) {
                break;
            }
        }
    }

    /// Posts, and takes the post in the owner's place if the owner sleeps. Leaves the last of `all`
    /// posts to the owner.
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

    /// Runs the owner until it has seen `all` posts.
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
fn no_work_is_left_behind() {
    check(Bound::None, |sides| {
        let shared = Shared::new();
        let (one, two) = (shared.clone(), shared.clone());
        let side = |shared: Arc<Shared>| {
            move || {
                shared.post();
                shared.visit();
            }
        };
        sides.run(side(one), side(two));
        assert_eq!(*shared.door.enter(), 2, "a post was left behind");
    });
}

#[test]
fn a_visitor_leaves_the_rest_to_the_owner() {
    check(Bound::TwoThreads, |sides| {
        let shared = Shared::new();
        let owner = shared.clone();
        sides.run(
            move || owner.own(2),
            move || {
                shared.post_and_step_in(2);
                shared.post_and_step_in(2);
            },
        );
    });
}

#[test]
fn two_visitors_beside_the_owner() {
    check(Bound::ThreeThreads, |sides| {
        let shared = Shared::new();
        let (owner, one) = (shared.clone(), shared.clone());
        sides.run_three(
            move || owner.own(2),
            move || one.post_and_step_in(2),
            move || shared.post_and_step_in(2),
        );
    });
}
