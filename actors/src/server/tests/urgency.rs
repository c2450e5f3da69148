//! Priorities and weights: which stream issues first on a busy queue, and that no stream starves (I12).

use millstream_protocol::{DeviceOptions, Priority, Strategy};

use super::build::Stream;
use super::rig::Rig;

fn rig(queues: usize) -> Rig {
    Rig::new(queues, DeviceOptions::default().max_tasks(1_000))
}

/// Creates streams with these numbers of launches, numbered from 100 times the index of the stream; all are held.
fn backlog(rig: &mut Rig, streams: &[(Priority, u32, u64)]) -> Vec<Stream> {
    let made: Vec<Stream> = streams
        .iter()
        .map(|(priority, weight, _)| rig.stream_of(*priority, *weight))
        .collect();
    for (index, (stream, (_, _, tasks))) in made.iter().zip(streams).enumerate() {
        let slice = rig.slice(stream, 64);
        for task in 0..*tasks {
            rig.launch(stream, 100 * index as u64 + task, &[slice.update()]);
        }
    }
    made
}

/// Runs tasks of the only queue, one by one, until `tasks` of them are issued.
fn issue(rig: &mut Rig, tasks: usize) {
    rig.rest();
    while rig.order(0).len() < tasks {
        rig.step(0);
        rig.rest();
    }
}

/// Returns the streams of a queue's tasks, in the order of issue.
fn streams_of_tasks(rig: &Rig, queue: u8) -> Vec<u64> {
    rig.order(queue).iter().map(|task| task / 100).collect()
}

#[test]
fn high_priority_is_issued_first_and_low_priority_does_not_starve_i12() {
    let mut rig = rig(1);
    let streams = [
        (Priority::Low, 1, 3),
        (Priority::Normal, 1, 6),
        (Priority::High, 1, 20),
    ];
    let _streams = backlog(&mut rig, &streams);
    rig.rest();
    let streams_of_tasks = streams_of_tasks(&rig, 0);
    // High has 8 of 13 turns, normal 4, low 1.
    assert_eq!(
        streams_of_tasks[..13],
        [2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 0]
    );
    assert_eq!(
        streams_of_tasks[13..26],
        [2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 0, 2, 2]
    );
    assert_eq!(streams_of_tasks.len(), 29);
    rig.drain();
}

#[test]
fn stream_of_weight_two_issues_two_tasks_per_turn() {
    let mut rig = rig(1);
    let streams = [(Priority::Normal, 2, 4), (Priority::Normal, 1, 4)];
    let _streams = backlog(&mut rig, &streams);
    rig.rest();
    assert_eq!(rig.order(0), [0, 1, 100, 2, 3, 101, 102, 103]);
    rig.drain();
}

/// I6: a quantum that would overflow is still a quantum, not 0.
#[test]
fn greatest_weight_and_batch_still_issue_i6() {
    let options = DeviceOptions::default()
        .strategy(Strategy::Sequential)
        .max_tasks(usize::MAX);
    let mut rig = Rig::new(1, options);
    let streams = [(Priority::Normal, u32::MAX, 3), (Priority::Normal, 2, 3)];
    let _streams = backlog(&mut rig, &streams);
    rig.rest();
    assert_eq!(rig.order(0), [0, 1, 2, 100, 101, 102]);
    rig.drain();
}

#[test]
fn priorities_have_queues_of_their_own_if_there_are_enough() {
    let mut rig = rig(3);
    let streams = [
        (Priority::Normal, 1, 2),
        (Priority::High, 1, 2),
        (Priority::Normal, 1, 2),
        (Priority::Low, 1, 2),
    ];
    let _streams = backlog(&mut rig, &streams);
    rig.rest();
    assert_eq!(streams_of_tasks(&rig, 1), [1, 1]);
    rig.drain();
}

/// Otherwise an urgent task would wait for all tasks of low priority.
#[test]
fn awaited_task_inherits_the_priority_of_an_urgent_one() {
    let options = DeviceOptions::default().max_tasks(1_000).max_in_flight(1);
    let mut rig = Rig::new(1, options);
    let others: Vec<Stream> = (0..8).map(|_| rig.stream_of(Priority::Low, 1)).collect();
    let (low, first) = (
        rig.stream_of(Priority::Low, 1),
        rig.stream_of(Priority::Low, 1),
    );
    let high = rig.stream_of(Priority::High, 1);
    let (shared, more) = (rig.slice(&low, 64), rig.slice(&first, 64));
    let slices: Vec<_> = others.iter().map(|stream| rig.slice(stream, 64)).collect();
    // The queue is full with one task; the others wait for their turns.
    for number in 0..3 {
        for (stream, slice) in others.iter().zip(&slices) {
            rig.launch(stream, number, &[slice.update()]);
        }
    }
    // `high` waits for `low`, which waits for `first`. Without inheritance both would come after all others.
    rig.launch(&first, 100, &[more.update()]);
    rig.launch(&low, 101, &[more.read(), shared.update()]);
    rig.launch(&high, 200, &[shared.update()]);
    rig.drain();
    let order = rig.order(0);
    let place = |number| order.iter().position(|task| *task == number).unwrap();
    assert!(place(100) < place(101) && place(101) < place(200));
    assert!(place(200) <= 4, "{order:?}");
}

/// A chain of waiting streams may be as long as there are streams: the device thread neither recurses over it nor
/// visits streams that are not part of it.
#[test]
fn urgent_task_behind_a_chain_of_thousands_of_streams_overflows_no_stack() {
    let chain = std::thread::Builder::new().stack_size(256 << 10);
    chain
        .spawn(urgent_task_behind_a_chain)
        .unwrap()
        .join()
        .unwrap();
}

fn urgent_task_behind_a_chain() {
    const STREAMS: usize = 4_000;
    let options = DeviceOptions::default().max_tasks(1_000_000);
    let mut rig = Rig::new(1, options);
    let streams: Vec<Stream> = (0..STREAMS)
        .map(|_| rig.stream_of(Priority::Low, 1))
        .collect();
    let slices: Vec<_> = streams.iter().map(|stream| rig.slice(stream, 64)).collect();
    rig.host(&streams[0], &[slices[0].update()]);
    for (number, stream) in streams.iter().enumerate().skip(1) {
        let [from, to] = [&slices[number - 1], &slices[number]];
        rig.launch(stream, number as u64, &[from.read(), to.update()]);
    }
    let urgent = rig.stream_of(Priority::High, 1);
    let last = &slices[STREAMS - 1];
    rig.launch(&urgent, STREAMS as u64, &[last.update()]);
    rig.rest();
    assert!(rig.order(0).is_empty(), "all wait for the host function");
    rig.run_host(0);
    rig.drain();
    let order = rig.order(0);
    assert!(order.is_sorted());
    assert_eq!(order.last(), Some(&(STREAMS as u64)));
}

/// A task that an urgent stream awaits inherits its priority, also if an earlier task of the same stream did before.
#[test]
fn later_task_of_a_stream_inherits_priority_again() {
    let options = DeviceOptions::default().max_tasks(1_000).max_in_flight(1);
    let mut rig = Rig::new(1, options);
    let (low, other) = (
        rig.stream_of(Priority::Low, 1),
        rig.stream_of(Priority::Low, 1),
    );
    let [first, second] = [(); 2].map(|()| rig.stream_of(Priority::High, 1));
    let [early, late, others] = [(); 3].map(|()| rig.slice(&low, 64));
    rig.launch(&other, 0, &[others.update()]);
    rig.launch(&low, 100, &[early.update()]);
    (1..4).for_each(|number| rig.launch(&other, number, &[others.update()]));
    rig.launch(&low, 101, &[late.update()]);
    rig.launch(&first, 200, &[early.update()]);
    rig.launch(&second, 201, &[late.update()]);
    rig.drain();
    let order = rig.order(0);
    let place = |number| order.iter().position(|task| *task == number).unwrap();
    assert!(place(201) < place(2), "{order:?}");
}

/// A turn that a full queue interrupts resumes with the rest of its quantum, so no stream keeps a busy queue.
#[test]
fn full_queue_does_not_lengthen_a_turn() {
    let options = DeviceOptions::default().max_tasks(1_000).max_in_flight(1);
    let mut rig = Rig::new(1, options);
    let streams = [(Priority::Normal, 3, 7), (Priority::Normal, 1, 3)];
    let _streams = backlog(&mut rig, &streams);
    issue(&mut rig, 10);
    let streams_of_tasks = streams_of_tasks(&rig, 0);
    assert_eq!(streams_of_tasks, [0, 0, 0, 1, 0, 0, 0, 1, 0, 1]);
    rig.drain();
}

#[test]
fn sequential_issues_whole_batches_on_a_full_queue() {
    let options = DeviceOptions::default()
        .strategy(Strategy::Sequential)
        .max_tasks(3)
        .max_in_flight(1);
    let mut rig = Rig::new(1, options);
    let streams = [(Priority::Normal, 1, 7), (Priority::Normal, 1, 7)];
    let _streams = backlog(&mut rig, &streams);
    issue(&mut rig, 14);
    let streams_of_tasks = streams_of_tasks(&rig, 0);
    // The first was issued when its stream held a batch, before the other stream held any.
    assert_eq!(streams_of_tasks, [0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1]);
    rig.drain();
}

/// A stream that keeps sending has no advantage: the room that a full queue regains is handed out by turns.
#[test]
fn stream_with_a_full_batch_waits_for_its_turn_on_a_full_queue() {
    let options = DeviceOptions::default().max_tasks(2).max_in_flight(1);
    let mut rig = Rig::new(1, options);
    let streams = [(Priority::Normal, 1, 4), (Priority::Normal, 1, 1)];
    let made = backlog(&mut rig, &streams);
    let more = rig.slice(&made[0], 64);
    rig.rest();
    for task in 4..8 {
        rig.step(0);
        rig.launch(&made[0], task, &[more.update()]);
        rig.rest();
    }
    assert!(rig.order(0)[..4].contains(&100), "{:?}", rig.order(0));
    rig.drain();
}

/// The shares hold on a queue that is never empty, too.
#[test]
fn priorities_have_their_shares_of_a_full_queue() {
    let options = DeviceOptions::default().max_tasks(1_000).max_in_flight(2);
    let mut rig = Rig::new(1, options);
    let streams = [
        (Priority::Low, 1, 90),
        (Priority::Normal, 1, 90),
        (Priority::High, 1, 90),
    ];
    let _streams = backlog(&mut rig, &streams);
    issue(&mut rig, 67);
    // Two were issued before other streams held any.
    let order = &rig.order(0)[2..67];
    let of = |stream| order.iter().filter(|task| **task / 100 == stream).count();
    assert_eq!([of(0), of(1), of(2)], [5, 20, 40]);
    rig.drain();
}
