//! Many reservations that wait, and what other clients get meanwhile (I5, I6, I12).

use std::time::{Duration, Instant};

use millstream_protocol::{AllocationMode, CancelToken, DeviceOptions, Op, Reason, Terms};

use super::build::{Slice, Stream};
use super::rig::Rig;
use crate::steps;

const KIB: u64 = 1 << 10;

/// Creates a device with this memory, where each slice has a page of its own.
fn rig(queues: usize, memory_bytes: u64) -> Rig {
    Rig::isolated(
        queues,
        memory_bytes,
        DeviceOptions::default().max_tasks(100),
    )
}

/// Makes a slice that is dropped, and that a guard keeps.
fn dropped_under_a_guard(rig: &mut Rig, stream: &Stream, bytes: u64) {
    let slice = rig.slice(stream, bytes);
    rig.guard(stream, &[slice.update()]);
    rig.rest();
    rig.run_host(0);
    rig.rest();
    drop(slice);
    rig.rest();
}

/// Makes streams whose only reservations wait for memory, with a task and an answer behind each.
fn park(rig: &mut Rig, count: usize, bytes: u64) -> Vec<(Stream, Slice)> {
    let parked = (0..count).map(|number| {
        let stream = rig.stream();
        let slice = rig.slice(&stream, bytes);
        rig.launch(&stream, 1_000 + number as u64, &[slice.write()]);
        (stream, slice)
    });
    let parked = parked.collect();
    rig.rest();
    parked
}

/// I12: memory that others have used since the wait began counts as theirs until its last use has passed. So a loop with
/// many tasks in flight cannot keep the first reservation waiting.
#[test]
fn loop_of_another_client_does_not_starve_the_first_reservation_i12() {
    let mut rig = rig(3, 16 * KIB);
    let [holder, large, small] = rig.streams();
    dropped_under_a_guard(&mut rig, &holder, 10 * KIB);
    let first = rig.slice(&large, 12 * KIB);
    rig.rest();
    for number in 0..8 {
        let slice = rig.slice(&small, KIB);
        rig.launch(&small, 100 + number, &[slice.write()]);
        rig.rest();
    }
    let usage = rig.actor.server.memory.pools.usage();
    assert!(usage.waiting <= 4 * KIB, "{usage:?}");
    rig.end_guard(0);
    rig.rest();
    assert!(
        rig.has_memory(&first),
        "all that others have used may still be in flight"
    );
    rig.drain();
}

/// A reservation behind the first is served when what it needs has returned, not only when it is the first.
#[test]
fn small_reservation_behind_the_first_is_served_when_others_give_back() {
    let mut rig = rig(3, 16 * KIB);
    let [holder, large, small, late] = rig.streams();
    dropped_under_a_guard(&mut rig, &holder, 10 * KIB);
    let live = rig.slice(&small, 4 * KIB);
    let first = rig.slice(&large, 12 * KIB);
    let waits = rig.slice(&late, 2 * KIB);
    rig.rest();
    assert!(!rig.has_memory(&waits));
    drop(live);
    rig.rest();
    assert_eq!(rig.have_memory([&waits, &first]), [true, false]);
    rig.drain();
    assert!(rig.has_memory(&first));
}

/// I6: the same behind a full queue.
#[test]
fn reservation_waits_for_a_deferred_drop_behind_a_full_queue_i6() {
    let mut rig = Rig::isolated(1, 4 * KIB, DeviceOptions::default().max_in_flight(1));
    let [holder, large] = rig.streams();
    let kept = rig.slice(&holder, 3 * KIB);
    rig.launch(&holder, 1, &[kept.update()]);
    rig.launch(&holder, 2, &[kept.update()]);
    rig.submit(&holder, Op::DropAfter(Box::new(kept.hold)), &[]);
    let second = rig.slice(&large, 2 * KIB);
    let mut answer = rig.copy_out(&large, &[second.read()]);
    rig.rest();
    assert!(answer.look(&rig).is_none(), "the drop will free memory");
    rig.drain();
    assert!(answer.look(&rig).unwrap().is_ok());
}

/// I6: the failure of the first reservation lets a task free memory that waited for it, behind the full queue.
#[test]
fn reservation_waits_for_a_drop_that_waited_for_a_failed_one_i6() {
    let mut rig = Rig::isolated(1, 4 * KIB, DeviceOptions::default().max_in_flight(1));
    let [holder, large, late] = rig.streams();
    let kept = rig.slice(&holder, 3 * KIB);
    rig.launch(&holder, 1, &[kept.update()]);
    rig.launch(&holder, 2, &[kept.update()]);
    let first = rig.slice(&large, 2 * KIB);
    let mut failed = rig.copy_out(&large, &[first.read()]);
    rig.submit(&large, Op::DropAfter(Box::new(kept.hold)), &[]);
    let second = rig.slice(&late, 2 * KIB);
    let mut answer = rig.copy_out(&late, &[second.read()]);
    rig.drain();
    assert!(failed.is_out_of_memory(&rig));
    assert!(answer.look(&rig).unwrap().is_ok());
}

/// I5: a guard behind which nothing frees memory keeps no reservation waiting: its user may be the one that waits.
#[test]
fn guard_that_frees_nothing_keeps_no_reservation_waiting_i5() {
    let mut rig = rig(2, 4 * KIB);
    let [holder, large] = rig.streams();
    let kept = rig.slice(&holder, 3 * KIB);
    rig.guard(&holder, &[kept.update()]);
    rig.rest();
    rig.run_host(0);
    rig.launch(&holder, 2, &[kept.update()]);
    let second = rig.slice(&large, 2 * KIB);
    let mut answer = rig.copy_out(&large, &[second.read()]);
    rig.rest();
    assert!(answer.is_out_of_memory(&rig));
    rig.drain();
}

/// I12: a turn costs what it touches, however many streams wait for memory, and asks the driver for no page in vain.
#[test]
fn turn_visits_no_stream_that_waits_for_memory_i12() {
    let mut costs = Vec::new();
    for parked in [10, 32_000] {
        let mut rig = rig(2, 4 * KIB);
        let [holder, other] = rig.streams();
        let small = rig.slice(&other, KIB / 2);
        rig.rest();
        dropped_under_a_guard(&mut rig, &holder, 3 * KIB);
        let waiting = park(&mut rig, parked, 2 * KIB);
        steps::take();
        let requests = rig.ledger().page_requests;
        for number in 0..100 {
            rig.launch(&other, 10 + number, &[small.update()]);
            let mut answer = rig.copy_out(&other, &[small.read()]);
            rig.rest();
            rig.complete();
            rig.rest();
            assert!(answer.look(&rig).is_some());
        }
        costs.push(steps::take());
        assert_eq!(
            rig.ledger().page_requests - requests,
            0,
            "nothing has been freed"
        );
        assert_eq!(rig.actor.server.memory.wait_list.streams().count(), parked);
        rig.end_guard(0);
        while !rig.has_memory(&waiting[0].1) {
            assert!(rig.turn());
        }
    }
    assert!(costs[1] <= costs[0] + 100, "{costs:?}");
}

/// I12: serving and failing all of them costs a constant number of steps each.
#[test]
fn streams_that_wait_for_memory_end_in_linear_time_i12() {
    let mut costs = Vec::new();
    for parked in [100, 16_000] {
        let mut rig = rig(2, 4 * KIB);
        let holder = rig.stream();
        dropped_under_a_guard(&mut rig, &holder, 3 * KIB);
        steps::take();
        let mut waiting = park(&mut rig, parked, 2 * KIB);
        // The first half returns its memory after the tasks, so that all of it is served. Then two slices stay, and
        // the rest fails.
        let kept = waiting.split_off(parked / 2);
        let ids: Vec<_> = waiting.drain(..).map(|(_, slice)| slice.id()).collect();
        rig.drain();
        assert_eq!(rig.held(), 0);
        let reserved = |rig: &Rig, id| rig.ledger().reserved.contains(&id);
        assert!(ids.into_iter().all(|id| reserved(&rig, id)));
        let served = kept.iter().filter(|(_, slice)| rig.has_memory(slice));
        assert_eq!(served.count(), 2);
        costs.push(steps::take() / parked as u64);
    }
    assert!(costs[1] <= 2 * costs[0], "{costs:?}");
}

/// I5: the deadline of a reservation that is not the first ends it, and so does its token.
#[test]
fn withdrawn_reservation_leaves_the_middle_of_the_wait_list_i5() {
    let mut rig = rig(2, 4 * KIB);
    let holder = rig.stream();
    dropped_under_a_guard(&mut rig, &holder, 3 * KIB);
    let waiting = park(&mut rig, 3, 2 * KIB);
    let [timed, cancelled] = rig.streams();
    let now = Instant::now();
    let deadline = now + Duration::from_secs(1_000);
    let (token, none) = (CancelToken::new(), CancelToken::new());
    token.ring(&rig.table);
    let terms = Terms::of(&none).with_deadline(deadline);
    let mode = Some(AllocationMode::Automatic);
    let first = rig.slice_under(&timed, 2 * KIB, mode, Some(terms));
    let second = rig.slice_under(&cancelled, 2 * KIB, mode, Some(Terms::of(&token)));
    let mut answers = [(&timed, &first), (&cancelled, &second)]
        .map(|(stream, slice)| rig.copy_out(stream, &[slice.read()]));
    rig.rest();
    assert_eq!(rig.actor.server.next_deadline(), Some(deadline));
    assert_eq!(rig.actor.server.memory.wait_list.streams().count(), 5);
    token.cancel();
    rig.rest();
    assert_eq!(rig.actor.server.memory.wait_list.streams().count(), 4);
    assert!(matches!(answers[1].reason(&rig), Some(Reason::Cancelled)));
    rig.actor.server.set_time(deadline);
    let _wakes = rig.point(&holder);
    rig.rest();
    assert_eq!(rig.actor.server.next_deadline(), None);
    assert!(matches!(
        answers[0].reason(&rig),
        Some(Reason::DeadlinePassed)
    ));
    assert!(waiting.iter().all(|(_, slice)| !rig.has_memory(slice)));
    rig.drain();
}

/// I12: parking a host function, and each turn while it waits, visit no other host function that waits.
#[test]
fn turn_visits_no_host_function_that_waits_i12() {
    const HOSTS: u64 = 2_000;
    let mut rig = rig(2, 16 * KIB);
    let [(owner, x), (other, y)] = rig.owners(KIB);
    rig.launch(&owner, 1, &[x.update()]);
    rig.rest();
    steps::take();
    let streams: Vec<_> = (0..HOSTS)
        .map(|_| {
            let stream = rig.stream();
            rig.host(&stream, &[x.read()]);
            stream
        })
        .collect();
    rig.rest();
    assert!(steps::take() <= 2 * HOSTS);
    let queue = rig.queue_of(other.id()).index();
    assert_ne!(queue, rig.queue_of(owner.id()).index());
    for number in 0..100 {
        rig.launch(&other, 10_000 + number, &[y.update()]);
        rig.rest();
        rig.step(queue);
        rig.rest();
    }
    assert_eq!(steps::take(), 0);
    rig.drain();
    assert!(steps::take() <= 2 * HOSTS);
    assert_eq!((rig.held(), streams.len() as u64), (0, HOSTS));
}
