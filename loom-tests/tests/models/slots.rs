//! Slots: the count, the free list, the dropped list, and the stamp of a drop (I4).

use super::{SPIN, gate, spinner};
use millstream_loom::{Bound, Payload, Sends, check};
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::mailbox;
use millstream_sync::slots::{Availability, Sink, Slots};
use std::sync::Arc;

/// A sink whose device thread sleeps at the gate, if there is one.
struct GateSink(Option<Arc<Gate>>);

impl Sink for GateSink {
    fn stamp(&self) -> u64 {
        0
    }

    fn wake(&self) {
        if let Some(gate) = &self.0 {
            gate.wake();
        }
    }
}

fn table<P: Default + Send + Sync + 'static>(limit: u32) -> Arc<Slots<P, GateSink>> {
    Slots::new(limit, GateSink(None))
}

/// Recycles the dropped slots after calling `look` with each payload.
fn collect(table: &Slots<Payload, GateSink>, mut look: impl FnMut(&Payload)) -> usize {
    table.take_dropped(|index, _| {
        look(table.slot(index).unwrap().payload());
        table.recycle(index);
    })
}

#[test]
fn the_last_drop_comes_after_all_uses() {
    check(Bound::None, |sides| {
        let table = table::<Payload>(4);
        let one = table.acquire().unwrap();
        let two = one.clone();
        let use_and_drop = |held: millstream_sync::slots::Counted<Payload, GateSink>| {
            assert_eq!(held.payload().get(), 0);
            drop(held);
        };
        let (taken, ()) = sides.run(
            move || {
                use_and_drop(one);
                // The device thread's use of a dropped slot comes after all uses by its handles.
                let taken = collect(&table, |payload| payload.set(1));
                (taken, table)
            },
            move || use_and_drop(two),
        );
        assert_eq!(taken.0 + collect(&taken.1, |_| ()), 1);
    });
}

#[test]
fn is_unique_means_that_other_handles_are_done() {
    check(Bound::None, |sides| {
        let table = table::<Payload>(4);
        let one = table.acquire().unwrap();
        let two = one.clone();
        let write_if_alone = move || {
            if one.is_unique() {
                one.payload().set(1);
            }
        };
        let ((), read) = sides.run(write_if_alone, move || two.payload().get());
        assert_eq!(read, 0);
    });
}

#[test]
fn a_clone_during_a_drop_keeps_the_count() {
    check(Bound::None, |sides| {
        let table = table::<()>(4);
        let one = table.acquire().unwrap();
        let two = one.clone();
        let (three, ()) = sides.run(move || one.clone(), move || drop(two));
        assert!(three.is_unique() && !table.has_dropped());
        drop(three);
        assert_eq!(table.take_dropped(|index, _| table.recycle(index)), 1);
        assert_eq!((table.live(), Arc::strong_count(&table)), (0, 1));
    });
}

#[test]
fn a_free_slot_is_acquired_once() {
    check(Bound::TwoThreads, |sides| {
        let table = table::<()>(4);
        drop([table.acquire().unwrap(), table.acquire().unwrap()]);
        // Slot 1 is recycled last, so it is acquired first.
        table.take_dropped(|index, _| table.recycle(index));
        let (here, there) = (table.clone(), table.clone());
        // The same slot is popped and pushed while the other thread may be reading it.
        let pop_and_push = move || {
            let pushed_again = here.acquire().unwrap();
            let kept = here.acquire().unwrap();
            drop(pushed_again);
            here.take_dropped(|index, _| here.recycle(index));
            kept
        };
        let (kept, theirs) = sides.run(pop_and_push, move || there.acquire().unwrap());
        let last = table.acquire().unwrap();
        let mut held = [kept.id().index, theirs.id().index, last.id().index];
        held.sort_unstable();
        assert!(held[0] != held[1] && held[1] != held[2], "{held:?}");
    });
}

#[test]
fn an_acquired_slot_is_as_its_recycler_left_it() {
    check(Bound::None, |sides| {
        let table = table::<Payload>(1);
        drop(table.acquire().unwrap());
        let client = table.clone();
        let acquire = move || {
            if let Ok(again) = client.acquire() {
                assert_eq!((again.payload().get(), again.id().generation), (7, 1));
                again.payload().set(8);
            }
        };
        sides.run(move || collect(&table, |payload| payload.set(7)), acquire);
    });
}

#[test]
fn every_dropped_slot_is_taken_once() {
    check(Bound::ThreeThreads, |sides| {
        let table = table::<Payload>(4);
        let use_and_drop = || {
            let held = table.acquire().unwrap();
            move || held.payload().set(7)
        };
        let (one, two) = (use_and_drop(), use_and_drop());
        let take = |table: Arc<Slots<Payload, GateSink>>| {
            collect(&table, |payload| {
                assert_eq!(payload.get(), 7);
                payload.set(0);
            })
        };
        let device = table.clone();
        let (early, (), ()) = sides.run_three(move || take(device), one, two);
        assert_eq!(early + take(table.clone()), 2);
        assert_eq!((table.live(), Arc::strong_count(&table)), (0, 1));
    });
}

#[test]
fn the_stamp_of_a_drop_is_after_the_sends_before_it() {
    check(Bound::TwoThreads, |sides| {
        let (tx, _rx) = mailbox::<u32>(2, gate());
        let table = Slots::<(), _>::new(4, tx.probe());
        let one = table.acquire().unwrap();
        let two = one.clone();
        // A message carries the plain index; the handle is dropped after the send.
        let send_and_drop = move || tx.try_send(two.id().index).unwrap();
        let ((), position) = sides.run(move || drop(one), send_and_drop);
        assert_eq!(table.take_dropped(|_, stamp| assert!(stamp > position)), 1);
    });
}

#[test]
fn a_drop_wakes_the_device_thread() {
    check(Bound::TwoThreads, |sides| {
        let gate = gate();
        let table = Slots::<(), _>::new(4, GateSink(Some(gate.clone())));
        let held = [table.acquire().unwrap(), table.acquire().unwrap()];
        let serve = move || {
            let mut taken = 0;
            while taken < 2 {
                taken += gate.wait_until(&mut spinner(), || {
                    let taken = table.take_dropped(|index, _| table.recycle(index));
                    (taken != 0).then_some(taken)
                });
            }
        };
        sides.run(serve, move || drop(held));
    });
}

/// Acquires a slot; waits until one is free. `None` if all are held.
fn wait_for_slot(
    table: &Arc<Slots<Payload, GateSink>>,
) -> Option<millstream_sync::slots::Counted<Payload, GateSink>> {
    loop {
        if let Ok(slot) = table.acquire() {
            return Some(slot);
        }
        match table.availability() {
            Availability::Free => {}
            Availability::Held => return None,
            Availability::Returning { cursor, .. } => table.returns().wait(cursor, &SPIN).unwrap(),
        }
    }
}

#[test]
fn a_waiter_is_woken_when_a_slot_is_recycled() {
    check(Bound::None, |sides| {
        let table = table::<Payload>(1);
        drop(table.acquire().unwrap());
        let waiter = table.clone();
        let (taken, slot) = sides.run(
            move || collect(&table, |_| ()),
            move || wait_for_slot(&waiter),
        );
        assert!(taken == 1 && slot.is_some(), "no slot was held");
    });
}

#[test]
fn a_full_table_of_held_slots_is_not_waited_for() {
    check(Bound::TwoThreads, |sides| {
        let table = table::<Payload>(1);
        let held = table.acquire().unwrap();
        let waiter = table.clone();
        let drop_and_recycle = move || {
            drop(held);
            collect(&table, |_| ())
        };
        let (taken, slot) = sides.run(drop_and_recycle, move || {
            // It waits only if the slot has been dropped.
            wait_for_slot(&waiter).is_some()
        });
        assert_eq!(taken, 1);
        let _ = slot;
    });
}

#[test]
fn the_last_handle_frees_the_table() {
    check(Bound::TwoThreads, |sides| {
        let gate = gate();
        let table = Slots::<Payload, _>::new(4, GateSink(Some(gate.clone())));
        let held = table.acquire().unwrap();
        let copy = held.clone();
        sides.run(move || drop((table, held)), move || drop(copy));
        assert_eq!(
            Arc::strong_count(&gate),
            1,
            "the sink was dropped with the table"
        );
    });
}
