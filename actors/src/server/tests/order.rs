//! The order of issue: batches, strategies, full queues, recordings.

use std::time::{Duration, Instant};

use millstream_protocol::{CancelToken, DeviceOptions, Strategy, Terms};

use super::rig::Rig;
use super::script::{Call, Ledger};

/// The numbers of recorded tasks begin here.
const RECORDED: u64 = 1 << 32;

/// Parks a stream until its host function is run.
fn park(rig: &mut Rig, stream: &super::build::Stream) {
    rig.host(stream, &[]);
}

fn options() -> DeviceOptions {
    DeviceOptions::default().max_tasks(100)
}

#[test]
fn stream_that_holds_max_tasks_is_flushed_alone() {
    let mut rig = Rig::new(1, options().max_tasks(3));
    let [(a, x), (b, y)] = rig.owners(64);
    rig.launch(&a, 11, &[x.update()]);
    rig.launch(&b, 21, &[y.update()]);
    rig.launch(&a, 12, &[x.update()]);
    rig.admit();
    assert_eq!((rig.order(0), rig.held()), (vec![], 3));
    rig.launch(&a, 13, &[x.update()]);
    rig.admit();
    assert_eq!((rig.order(0), rig.held()), (vec![11, 12, 13], 1));
    assert_eq!(rig.calls().last(), Some(&Call::Flush(0, 3)));
    rig.rest();
    assert_eq!(rig.order(0), [11, 12, 13, 21]);
}

#[test]
fn interleave_takes_one_task_from_each_stream_in_turn() {
    let mut rig = Rig::new(1, options().strategy(Strategy::Interleave));
    let streams = [rig.stream(), rig.stream(), rig.stream()];
    for (stream, tasks) in [(0, 3), (1, 4), (2, 1)] {
        let slice = rig.slice(&streams[stream], 64);
        for task in 1..=tasks {
            let number = 10 * stream as u64 + task;
            rig.launch(&streams[stream], number, &[slice.update()]);
        }
    }
    rig.rest();
    assert_eq!(rig.order(0), [1, 11, 21, 2, 12, 3, 13, 14]);
}

#[test]
fn sequential_takes_a_batch_from_each_stream_in_turn() {
    let options = options().strategy(Strategy::Sequential).max_tasks(3);
    let mut rig = Rig::new(1, options);
    let streams = [rig.stream(), rig.stream()];
    for (stream, tasks) in [(0, 5), (1, 2)] {
        park(&mut rig, &streams[stream]);
        let slice = rig.slice(&streams[stream], 64);
        for task in 1..=tasks {
            let number = 10 * stream as u64 + task;
            rig.launch(&streams[stream], number, &[slice.update()]);
        }
    }
    rig.rest();
    assert_eq!((rig.order(0), rig.hosts()), (vec![], 2));
    rig.run_host(0);
    rig.run_host(0);
    rig.rest();
    assert_eq!(rig.order(0), [1, 2, 3, 11, 12, 4, 5]);
}

/// I12: `max_in_flight` bounds the tasks in flight.
#[test]
fn full_queue_issues_again_after_a_completion_i12() {
    let mut rig = Rig::new(1, options().max_in_flight(2));
    let [(a, x), (b, y)] = rig.owners(64);
    for task in 1..=3 {
        rig.launch(&a, task, &[x.update()]);
        rig.launch(&b, 10 + task, &[y.update()]);
    }
    rig.rest();
    assert_eq!((rig.order(0), rig.held()), (vec![1, 11], 4));
    assert_eq!(rig.in_flight(0), 2);
    assert!(rig.step(0));
    rig.rest();
    assert_eq!((rig.order(0), rig.held()), (vec![1, 11, 2], 3));
    rig.drain();
    assert_eq!((rig.order(0), rig.held()), (vec![1, 11, 2, 12, 3, 13], 0));
}

#[test]
fn tasks_of_a_lone_stream_pass_through_in_batches() {
    let mut rig = Rig::new(1, options().max_tasks(2));
    let a = rig.stream();
    let x = rig.slice(&a, 64);
    for task in 1..=3 {
        rig.launch(&a, task, &[x.update()]);
    }
    rig.admit();
    assert_eq!((rig.order(0), rig.held()), (vec![1, 2, 3], 0));
    assert_eq!(rig.flushes(0), [2]);
    rig.rest();
    assert_eq!(rig.flushes(0), [2, 3]);
}

/// I3: here each parameter is another slice, the same one twice, so no queue waits for the other.
#[test]
fn replay_with_other_handles_touches_only_these_i3() {
    let mut rig = Rig::new(2, options());
    let [(a, x), (b, other)] = rig.owners(64);
    let y = rig.slice(&a, 64);
    let recording = rig.record(&[(7, vec![x.update()]), (8, vec![y.update()])]);
    rig.replay(&a, &recording, &recording.parameters);
    rig.replay(&b, &recording, &[other.update(), other.update()]);
    rig.rest();
    assert_eq!((rig.order(0), rig.order(1)), (vec![7, 8], vec![7, 8]));
    assert_eq!(rig.waits(), []);
}

/// A device whose driver takes fewer tasks than the replays below have.
fn shallow_rig(options: DeviceOptions) -> Rig {
    let ledger = Ledger {
        driver_depth: Some(2),
        ..Ledger::default()
    };
    Rig::on(ledger, 1, 1 << 20, options)
}

/// I12: a replay with more tasks than the driver takes is issued in parts, and nothing comes between them.
#[test]
fn long_replay_is_issued_as_its_queue_has_room_i12() {
    let mut rig = shallow_rig(options());
    let [(a, x), (b, y)] = rig.owners(64);
    let launches = (0..5).map(|task| (RECORDED + task, vec![x.update()]));
    let recording = rig.record(&launches.collect::<Vec<_>>());
    rig.replay(&a, &recording, &recording.parameters);
    rig.rest();
    rig.launch(&b, 7, &[y.update()]);
    rig.launch(&a, 8, &[x.update()]);
    rig.rest();
    let recorded = |tasks| (RECORDED..RECORDED + tasks).collect::<Vec<_>>();
    // The replay counts as one held task until its last part is issued.
    assert_eq!((rig.order(0), rig.held()), (recorded(2), 3));
    assert!(rig.step(0));
    rig.rest();
    assert_eq!((rig.order(0), rig.held()), (recorded(3), 3));
    rig.drain();
    let order = rig.order(0);
    assert_eq!((&order[..5], rig.held()), (&recorded(5)[..], 0));
    assert_eq!(order.len(), 7);
}

/// I7: a task that is refused in one part fails those that read its output in the next.
#[test]
fn refused_task_of_a_long_replay_fails_what_reads_it_in_a_later_part_i7() {
    let mut rig = shallow_rig(options());
    let a = rig.stream();
    let [x, y] = rig.slices(&a, 64);
    rig.ledger_mut().refused.insert(RECORDED + 1);
    let launches = [
        (RECORDED, vec![y.update()]),
        (RECORDED + 1, vec![x.update()]),
        (RECORDED + 2, vec![y.update()]),
        (RECORDED + 3, vec![x.update()]),
        (RECORDED + 4, vec![y.update()]),
    ];
    let recording = rig.record(&launches);
    rig.replay(&a, &recording, &recording.parameters);
    rig.drain();
    assert_eq!(rig.order(0), [RECORDED, RECORDED + 2, RECORDED + 4]);
}

/// I12: the copies of one answer are issued in parts, too. I6: they have begun with the first part, so a token that is
/// cancelled and a deadline that passes then withdraw nothing.
#[test]
fn copies_of_one_answer_are_issued_as_the_queue_has_room_i6_i12() {
    let mut rig = shallow_rig(options());
    let a = rig.stream();
    let slices: Vec<_> = (0..5).map(|_| rig.slice(&a, 64)).collect();
    for (number, slice) in slices.iter().enumerate() {
        rig.launch(&a, number as u64 + 1, &[slice.write()]);
    }
    rig.drain();
    let (token, deadline) = (
        CancelToken::new(),
        Instant::now() + Duration::from_secs(1_000),
    );
    token.ring(&rig.table);
    let terms = Terms::of(&token).with_deadline(deadline);
    let sources: Vec<_> = slices.iter().map(super::build::Slice::read).collect();
    let mut answer = rig.copy_out_under(&a, &sources, Some(terms));
    rig.rest();
    assert_eq!((rig.in_flight(0), rig.held()), (2, 1));
    assert_eq!(
        rig.actor.server.next_deadline(),
        None,
        "nothing to wake for"
    );
    token.cancel();
    rig.rest();
    rig.drain();
    let bytes = answer.look(&rig).map(|bytes| bytes.unwrap().len());
    assert_eq!(bytes, Some(5));
    assert_eq!((token.tally().withdrawn, token.tally().finished), (0, 1));
}

/// A queue has nothing in flight between two parts of a replay, and the rest of the replay is traced all the same.
#[test]
fn long_replay_is_traced_to_its_end() {
    let mut rig = shallow_rig(options().trace(64));
    let [(a, x)] = rig.owners(64);
    let launches = (0..5).map(|task| (RECORDED + task, vec![x.update()]));
    let recording = rig.record(&launches.collect::<Vec<_>>());
    rig.replay(&a, &recording, &recording.parameters);
    rig.rest();
    rig.complete();
    rig.step(0);
    rig.drain();
    let spans = rig.actor.server.take_trace();
    let cursors: Vec<u64> = spans.iter().map(|span| span.cursor).collect();
    assert_eq!(cursors, [1, 2, 3, 4, 5]);
}

/// I6: an answer of which a part was issued has begun, so it is counted once when its device is closed.
#[test]
fn answer_in_parts_is_counted_once_if_its_device_is_closed_i6() {
    let mut rig = shallow_rig(options());
    let a = rig.stream();
    let slices: [_; 5] = rig.slices(&a, 64);
    let token = CancelToken::new();
    let sources = slices.each_ref().map(super::build::Slice::read);
    let _answer = rig.copy_out_under(&a, &sources, Some(Terms::of(&token)));
    rig.rest();
    assert_eq!((rig.in_flight(0), rig.held()), (2, 1));
    rig.abandon();
    rig.complete();
    let tally = token.tally();
    assert_eq!((tally.withdrawn, tally.finished), (0, 1));
}
