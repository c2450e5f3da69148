//! Random schedules (shuttle) of small systems of actors, which are too large for loom. They find
//! errors of protocol, not of memory ordering. Empty without `--cfg shuttle` and the feature
//! `shuttle`; `cargo xtask models` runs them.
#![cfg(all(shuttle, feature = "shuttle"))]
#![allow(clippy::unwrap_used, reason = "tests")]

use millstream_sync::channel::bounded;
use millstream_sync::credit::Credit;
use millstream_sync::facade::{Arc, SpinPolicy, Spinner, thread};
use millstream_sync::gate::Gate;
use millstream_sync::mailbox::{Probe, Sender, mailbox};
use millstream_sync::reply::{Closed, ReplySender, reply};
use millstream_sync::slots::{Counted, Slots};
use millstream_sync::timeline::Timeline;
use std::collections::VecDeque;

const SPIN: SpinPolicy = SpinPolicy::never();

/// Runs `schedules` random schedules, and as many that preempt rarely but at critical points (PCT).
fn walk(name: &str, schedules: usize, f: impl Fn() + Send + Sync + Copy + 'static) {
    let start = std::time::Instant::now();
    shuttle::check_random(f, schedules);
    shuttle::check_pct(f, schedules, 3);
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "WALK  {name:<52} {:>8} schedules  {seconds:>6.2} s",
        2 * schedules
    );
}

fn gate() -> std::sync::Arc<Gate> {
    std::sync::Arc::new(Gate::new())
}

type Request = (u32, ReplySender<u32>);

fn request(tx: &Sender<Request>, question: u32) -> Result<u32, Closed> {
    let (answer, mut rx) = reply();
    drop(tx.send((question, answer)));
    rx.wait(&SPIN)
}

/// An accepted request always ends, even against a shutdown (I5).
#[test]
fn requests_end_when_the_actor_stops() {
    walk(
        "three callers, four requests each, an actor that stops",
        10_000,
        || {
            let (tx, mut rx) = mailbox::<Request>(2, gate());
            let actor = thread::spawn(move || {
                let mut spin = Spinner::new(SPIN);
                for _ in 0..5 {
                    match rx.recv(&mut spin) {
                        Some((question, answer)) => answer.send(question + 1),
                        None => return,
                    }
                }
            });
            let callers: Vec<_> = (0..3)
                .map(|caller| {
                    let tx = tx.clone();
                    thread::spawn(move || {
                        for question in caller * 10..caller * 10 + 4 {
                            let answer = request(&tx, question);
                            assert!(answer == Ok(question + 1) || answer == Err(Closed));
                        }
                    })
                })
                .collect();
            drop(tx);
            callers
                .into_iter()
                .for_each(|caller| caller.join().unwrap());
            actor.join().unwrap();
        },
    );
}

/// A message carries a plain index; its slot is recycled only after the message was received (I4),
/// and every slot is recycled in the end (I10).
#[test]
fn a_slot_outlives_the_messages_that_name_it() {
    type Table = Slots<(), Probe<(u32, u32)>>;
    walk("drops behind messages", 10_000, || {
        let (tx, mut rx) = mailbox::<(u32, u32)>(4, gate());
        let table = Table::new(8, tx.probe());
        let device = {
            let table = table.clone();
            thread::spawn(move || {
                let (gate, mut spin) = (rx.gate().clone(), Spinner::new(SPIN));
                let mut dropped = VecDeque::new();
                loop {
                    gate.wait_until(&mut spin, || {
                        let work = rx.has_next() || table.has_dropped() || rx.is_finished();
                        work.then_some(())
                    });
                    // The drops first, though earlier messages may not have arrived: the stamps
                    // prevent a recycling.
                    table.take_dropped(|index, stamp| dropped.push_back((index, stamp)));
                    while dropped
                        .front()
                        .is_some_and(|(_, stamp)| rx.head() >= *stamp)
                    {
                        let (index, _) = dropped.pop_front().unwrap();
                        table.recycle(index);
                    }
                    while let Some((index, generation)) = rx.try_recv() {
                        let slot = table.slot(index).unwrap();
                        assert_eq!(slot.generation(), generation, "recycled before its message");
                    }
                    if rx.is_finished() && !table.has_dropped() && dropped.is_empty() {
                        return;
                    }
                }
            })
        };
        let launch = |tx: &Sender<(u32, u32)>, held: &Counted<_, _>| {
            let id = held.id();
            tx.send((id.index, id.generation)).unwrap();
        };
        // Both clients hold the first slot, and each acquires a slot of its own.
        let shared = table.acquire().unwrap();
        let clients: Vec<_> = (0..2)
            .map(|_| {
                let (tx, table, shared) = (tx.clone(), table.clone(), shared.clone());
                thread::spawn(move || {
                    launch(&tx, &shared);
                    drop(shared);
                    let own: Counted<_, _> = table.acquire().unwrap();
                    let copy = own.clone();
                    launch(&tx, &own);
                    drop(own);
                    launch(&tx, &copy);
                })
            })
            .collect();
        drop(shared);
        drop(tx);
        clients
            .into_iter()
            .for_each(|client| client.join().unwrap());
        device.join().unwrap();
        assert_eq!(table.live(), 0);
    });
}

/// Device, queue and GC: credit bounds what is in flight, the timeline says when slices may be
/// freed, and every wait ends.
#[test]
fn work_in_flight_is_bounded_and_collected() {
    walk("credit, timeline and GC hand-over", 10_000, || {
        let (credit, timeline) = (Arc::new(Credit::new(1)), Arc::new(Timeline::new()));
        let (tx, mut rx) = mailbox::<()>(2, gate());
        let (to_collector, slices) = bounded(1);
        let queue = {
            let (credit, timeline) = (credit.clone(), timeline.clone());
            thread::spawn(move || {
                let (mut spin, mut cursor) = (Spinner::new(SPIN), 0);
                while rx.recv(&mut spin).is_some() {
                    cursor += 1;
                    to_collector.send(cursor).unwrap();
                    timeline.publish(cursor);
                    credit.release(1);
                }
                timeline.end();
            })
        };
        let collector = {
            let timeline = timeline.clone();
            thread::spawn(move || {
                let mut collected = 0;
                while let Ok(cursor) = slices.recv() {
                    timeline.wait(cursor, &SPIN).unwrap();
                    collected += 1;
                }
                collected
            })
        };
        let clients: Vec<_> = (0..2)
            .map(|_| {
                let (tx, credit) = (tx.clone(), credit.clone());
                thread::spawn(move || {
                    for _ in 0..3 {
                        credit.acquire(1, &SPIN).unwrap();
                        assert!(credit.in_use() <= 1);
                        tx.send(()).unwrap();
                    }
                })
            })
            .collect();
        drop(tx);
        clients
            .into_iter()
            .for_each(|client| client.join().unwrap());
        queue.join().unwrap();
        assert_eq!(collector.join().unwrap(), 6);
        assert_eq!((credit.in_use(), timeline.completed()), (0, 6));
        assert!(timeline.wait(7, &SPIN).is_err());
    });
}
