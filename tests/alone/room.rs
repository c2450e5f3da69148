//! I9: tasks that wait for room in a mailbox allocate nothing, and neither does the receiver that wakes them.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use millstream_heap_count::steady_allocations;
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::{RoomPlace, mailbox};

/// As many tasks as one wake takes without the heap.
const TASKS: usize = 8;

#[derive(Default)]
struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn wake_of_tasks_that_wait_for_room_allocates_nothing_i9() {
    super::alone(module_path!(), || {
        let (sender, receiver) = mailbox::<u32>(2, Arc::new(Gate::new()));
        let receiver = RefCell::new(receiver);
        let woken = Arc::new(WakeCount::default());
        let waker = Waker::from(woken.clone());
        let wait_and_wake = || {
            while let Ok(slot) = sender.try_reserve() {
                // SAFETY: the slot was just reserved; it is initialized and committed once.
                unsafe {
                    slot.as_ptr().write(MaybeUninit::new(1));
                    sender.commit(slot, || false);
                }
            }
            let mut places = [const { RoomPlace::new() }; TASKS];
            for place in &mut places {
                assert!(sender.poll_room(place, &waker).is_pending());
            }
            woken.0.store(0, Ordering::Relaxed);
            let mut receiver = receiver.borrow_mut();
            while receiver.try_recv_with(|_| ()).is_some() {}
            receiver.wake_senders();
            assert_eq!(woken.0.load(Ordering::Relaxed), TASKS);
            for place in places {
                sender.leave_room(place);
            }
        };
        assert_eq!(steady_allocations(|| (), wait_and_wake), 0);
    });
}
