//! Slots with real threads; the models check the orderings.

use super::*;
use crate::poison::PoisonCell;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A sink that counts wakes, and whose stamps count up.
#[derive(Clone, Default)]
struct CountingSink {
    stamps: Arc<AtomicU64>,
    wakes: Arc<AtomicU64>,
}

impl Sink for CountingSink {
    fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, SeqCst)
    }

    fn wake(&self) {
        self.wakes.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_slot_is_small() {
    assert!(size_of::<Slot<PoisonCell<Arc<str>>>>() <= 48);
    assert!(size_of::<Counted<(), CountingSink>>() <= 24);
}

#[test]
fn the_last_drop_puts_a_slot_on_the_list_oldest_first() {
    let sink = CountingSink::default();
    let table = Slots::<(), _>::new(100, sink.clone());
    let held: Vec<_> = (0..3).map(|_| table.acquire().unwrap()).collect();
    let copy = held[1].clone();
    assert!(held[0].is_unique() && !copy.is_unique());
    drop(held);
    assert!(copy.is_unique() && table.has_dropped());
    drop(copy);
    let mut order = Vec::new();
    assert_eq!(
        table.take_dropped(|index, stamp| order.push((index, stamp))),
        3
    );
    assert_eq!(order, [(0, 0), (2, 1), (1, 2)]);
    assert_eq!(sink.wakes.load(SeqCst), 1, "only the first push wakes");
    assert!(!table.has_dropped());
    assert_eq!(table.live(), 3);
    order.iter().for_each(|&(index, _)| table.recycle(index));
    assert_eq!(table.live(), 0);
}

#[test]
fn a_recycled_slot_has_a_new_generation_and_keeps_its_payload() {
    let table = Slots::<AtomicU64, _>::new(100, CountingSink::default());
    let first = table.acquire().unwrap();
    let id = first.id();
    first.payload().store(7, SeqCst);
    drop(first);
    table.take_dropped(|index, _| table.recycle(index));
    let second = table.acquire().unwrap();
    assert_eq!(
        second.id(),
        SlotId {
            index: id.index,
            generation: id.generation + 1
        }
    );
    assert_eq!(second.payload().load(SeqCst), 7);
    assert!(std::ptr::eq(second.slot(), table.slot(id.index).unwrap()));
}

#[test]
fn handles_keep_the_table_alive_and_the_last_one_frees_it() {
    let sink = CountingSink::default();
    let table = Slots::<Option<Arc<()>>, _>::new(100, sink.clone());
    let held = table.acquire().unwrap();
    let (copy, weak) = (held.clone(), Arc::downgrade(&table));
    drop((table, held));
    assert!(weak.upgrade().is_some());
    std::thread::spawn(move || drop(copy)).join().unwrap();
    assert!(weak.upgrade().is_none());
    assert_eq!(Arc::strong_count(&sink.wakes), 1);
}

#[test]
fn a_slot_has_one_holder_at_a_time() {
    const THREADS: usize = 3;
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 4_000 };
    let table = Slots::<AtomicU64, _>::new(200, CountingSink::default());
    let done = Arc::new(AtomicU64::new(0));
    let clients: Vec<_> = (0..THREADS)
        .map(|client| {
            let (table, done) = (table.clone(), done.clone());
            std::thread::spawn(move || {
                let mine = client as u64 + 1;
                for _ in 0..ROUNDS {
                    let held: Vec<_> = (0..4).filter_map(|_| table.acquire().ok()).collect();
                    for one in &held {
                        assert_eq!(one.payload().swap(mine, SeqCst), 0);
                    }
                    let copies = held.clone();
                    for one in &copies {
                        assert_eq!(one.payload().swap(0, SeqCst), mine);
                    }
                }
                done.fetch_add(1, SeqCst);
            })
        })
        .collect();
    loop {
        let last = done.load(SeqCst) == THREADS as u64;
        let mut seen = HashSet::new();
        table.take_dropped(|index, _| {
            assert!(seen.insert(index));
            table.recycle(index);
        });
        if last {
            break;
        }
        std::thread::yield_now();
    }
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
    table.take_dropped(|index, _| table.recycle(index));
    assert_eq!(table.live(), 0);
}
