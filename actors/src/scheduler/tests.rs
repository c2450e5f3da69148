//! The scheduler alone: no bytes, no memory, no device.

use std::sync::Arc;

use millstream_protocol::id::{ClientId, Point, QueueId, StreamId};
use millstream_protocol::message::{NewStream, Op};
use millstream_protocol::options::{Settings, Strategy};
use millstream_protocol::priority::Priority;
use millstream_sync::credit::Credit;
use millstream_sync::slots::SlotId;
use millstream_sync::timeline::Timeline;

use super::{HeldTask, QueueState, Scheduler};
use crate::steps;

struct Rig {
    scheduler: Scheduler,
    timelines: Vec<Arc<Timeline>>,
}

impl Rig {
    fn new(queues: usize, strategy: Strategy) -> Self {
        let settings = Settings {
            strategy,
            max_tasks: 3,
            max_in_flight: 4,
            ..Settings::default()
        };
        let timelines: Vec<_> = (0..queues).map(|_| Arc::new(Timeline::new())).collect();
        let states = timelines.iter().cloned();
        let states = states.map(|timeline| QueueState::new(timeline, None));
        Self {
            scheduler: Scheduler::new(&settings, usize::MAX, states.collect()),
            timelines,
        }
    }

    fn stream(&mut self, priority: Priority) -> u32 {
        let index = self.scheduler.stream_count() as u32;
        self.scheduler.add(NewStream {
            id: StreamId(SlotId {
                index,
                generation: 0,
            }),
            client: ClientId(0),
            client_name: "test".into(),
            client_slot: None,
            soft_limit: None,
            priority,
            weight: 1,
            credit: Arc::new(Credit::new(64)),
            credit_is_shared: false,
        })
    }

    fn hold(&mut self, stream: u32, tasks: usize) {
        for _ in 0..tasks {
            let mut block = self.scheduler.take_block();
            block.paid = false;
            self.scheduler.hold(stream, block);
        }
    }

    /// Takes the first task out of a stream.
    fn take(&mut self, stream: u32) -> Box<HeldTask> {
        self.scheduler.take_first(stream).unwrap()
    }

    /// Finishes a task in software that was taken out of its stream.
    fn end_in_software(&mut self, stream: u32, held: Box<HeldTask>) {
        self.scheduler.unpark(stream);
        let place = Point::new(self.scheduler.queue_of(stream), 0);
        self.scheduler.finish(stream, place, held.paid);
        self.scheduler.put_block(held);
        self.scheduler.resume(stream);
    }

    /// Issues the first task of a stream.
    fn issue(&mut self, stream: u32) -> Point {
        let held = self.take(stream);
        let point = self.scheduler.next_point(self.scheduler.queue_of(stream));
        self.scheduler.finish(stream, point, held.paid);
        self.scheduler.put_block(held);
        point
    }

    /// Issues everything on a queue that is never full, and returns the streams in the order of their tasks.
    fn order(&mut self, queue: QueueId) -> Vec<u32> {
        let mut order = Vec::new();
        while let Some(turn) = self.scheduler.next_turn(queue) {
            for _ in 0..turn.quantum {
                if self.scheduler.first(turn.stream).is_none() {
                    break;
                }
                self.issue(turn.stream);
                order.push(turn.stream);
            }
            self.scheduler.resume(turn.stream);
        }
        order
    }
}

#[test]
fn quantum_is_a_task_or_a_batch_by_strategy() {
    let cases = [
        (Strategy::Interleave, vec![0, 1, 0, 1, 0, 1, 0, 0]),
        (Strategy::Sequential, vec![0, 0, 0, 1, 1, 1, 0, 0]),
    ];
    for (strategy, order) in cases {
        let mut rig = Rig::new(1, strategy);
        let (a, b) = (rig.stream(Priority::Normal), rig.stream(Priority::Normal));
        rig.hold(a, 5);
        rig.hold(b, 3);
        assert_eq!(rig.order(QueueId(0)), order, "{strategy:?}");
        assert_eq!(rig.scheduler.held(), 0);
    }
}

#[test]
fn turn_that_a_full_queue_interrupted_is_the_next_one() {
    let mut rig = Rig::new(1, Strategy::Sequential);
    let (a, b) = (rig.stream(Priority::Normal), rig.stream(Priority::Normal));
    rig.hold(a, 3);
    rig.hold(b, 3);
    let turn = rig.scheduler.next_turn(QueueId(0)).unwrap();
    assert_eq!((turn.stream, turn.quantum, turn.issued), (a, 3, 0));
    rig.issue(a);
    rig.scheduler.put_back(QueueId(0), a, 1);
    let turn = rig.scheduler.next_turn(QueueId(0)).unwrap();
    assert_eq!((turn.stream, turn.issued), (a, 1));
}

#[test]
fn queue_is_full_until_a_refresh_sees_progress() {
    let mut rig = Rig::new(1, Strategy::Interleave);
    let a = rig.stream(Priority::Normal);
    rig.hold(a, 5);
    for _ in 0..4 {
        rig.issue(a);
    }
    assert!(rig.scheduler.seems_full(QueueId(0)) && rig.scheduler.is_full(QueueId(0)));
    assert_eq!(rig.scheduler.room_cursor(QueueId(0)), Some(2));
    rig.timelines[0].publish(1);
    assert!(rig.scheduler.progress() && !rig.scheduler.seems_full(QueueId(0)));
    assert!(!rig.scheduler.progress(), "there is no progress since");
    assert!(!rig.scheduler.is_drained());
    rig.issue(a);
    rig.timelines[0].publish(5);
    rig.scheduler.progress();
    assert!(rig.scheduler.is_drained());
}

/// I1: the order within a stream is the order of its queue, so a stream with work on a queue stays there.
#[test]
fn only_an_idle_stream_moves_to_another_queue_i1() {
    let mut rig = Rig::new(2, Strategy::Interleave);
    let streams: Vec<u32> = (0..3).map(|_| rig.stream(Priority::Normal)).collect();
    let [a, _, c] = streams[..] else {
        unreachable!()
    };
    let queue = |rig: &Rig, stream: u32| rig.scheduler.queue_of(stream);
    assert_eq!(
        queue(&rig, a),
        queue(&rig, c),
        "two queues serve three streams"
    );
    rig.hold(a, 2);
    rig.issue(a);
    rig.scheduler.rebalance(a);
    assert_eq!(queue(&rig, a), QueueId(0), "it holds a task");
    rig.scheduler.rebalance(c);
    assert_eq!(
        queue(&rig, c),
        QueueId(1),
        "it is idle, and its queue has work of another stream"
    );
    rig.issue(a);
    rig.timelines[0].publish(2);
    rig.scheduler.progress();
    rig.scheduler.rebalance(a);
    assert_eq!(queue(&rig, a), QueueId(0), "its queue has no work");
}

#[test]
fn awaited_task_inherits_the_priority_and_wakes_its_waiter() {
    let mut rig = Rig::new(1, Strategy::Interleave);
    let (low, other, high) = (
        rig.stream(Priority::Low),
        rig.stream(Priority::Low),
        rig.stream(Priority::High),
    );
    rig.hold(other, 2);
    rig.hold(low, 1);
    let mut held = rig.scheduler.take_block();
    held.paid = false;
    let others = &mut vec![(low, 1), (low, 1)];
    rig.scheduler.come_after((high, 1), &mut held, others);
    assert_eq!(held.awaits.len(), 1, "one link per task");
    rig.scheduler.raise_priority(high, &held.awaits);
    rig.scheduler.hold(high, held);
    assert_eq!(rig.order(QueueId(0)), [low, high, other, other]);
}

/// A task that awaits many streams is woken by each of them in one step, whatever their order.
#[test]
fn each_of_many_awaited_tasks_is_unlinked_in_one_step() {
    const STREAMS: u64 = 1000;
    for stride in [1, 7, STREAMS as usize - 1] {
        let mut rig = Rig::new(1, Strategy::Interleave);
        let last = rig.stream(Priority::Normal);
        let others: Vec<u32> = (0..STREAMS).map(|_| rig.stream(Priority::Normal)).collect();
        let mut links = Vec::new();
        for other in &others {
            rig.hold(*other, 1);
            links.extend([(*other, 1); 2]);
        }
        let mut held = rig.scheduler.take_block();
        held.paid = false;
        rig.scheduler.come_after((last, 1), &mut held, &mut links);
        rig.scheduler.hold(last, held);
        steps::take();
        for turn in 0..others.len() {
            assert!(rig.scheduler.first(last).is_none());
            rig.issue(others[turn * stride % others.len()]);
        }
        assert!(rig.scheduler.first(last).is_some());
        assert_eq!(steps::take(), STREAMS, "stride {stride}");
    }
}

#[test]
fn task_that_is_put_back_keeps_its_place_and_counts_as_held_i1() {
    let mut rig = Rig::new(1, Strategy::Interleave);
    let a = rig.stream(Priority::Normal);
    for number in 1..=3 {
        let mut held = rig.scheduler.take_block();
        (held.paid, held.admitted_ns) = (false, number);
        assert_eq!(rig.scheduler.hold(a, held), (number as usize, number));
    }
    let first = rig.take(a);
    assert_eq!((first.admitted_ns, rig.scheduler.held()), (1, 3));
    assert!(rig.scheduler.is_held(a, 1), "it is not issued");
    rig.scheduler.put_first_back(a, first);
    for number in 1..=3 {
        let first = rig.scheduler.first_held(a);
        assert_eq!(first.map(|first| first.admitted_ns), Some(number));
        rig.issue(a);
        assert!(!rig.scheduler.is_held(a, number));
        assert_eq!(rig.scheduler.held(), 3 - number);
    }
    assert!(rig.scheduler.first(a).is_none() && !rig.scheduler.holds_any(a));
    assert_eq!(rig.scheduler.last_sequence(a), Some(3));
}

#[test]
fn held_task_is_found_by_its_sequence() {
    let mut rig = Rig::new(1, Strategy::Interleave);
    let a = rig.stream(Priority::Normal);
    rig.hold(a, 2);
    rig.issue(a);
    rig.scheduler.task_mut(a, 2).unwrap().op = Op::Mark;
    let found = |sequence| rig.scheduler.task(a, sequence);
    assert!(found(1).is_none(), "it was issued");
    assert!(matches!(found(2).unwrap().op, Op::Mark));
    assert!(found(3).is_none(), "the stream has no such task");
}

#[test]
fn finished_task_ends_at_its_last_cursor() {
    let mut rig = Rig::new(1, Strategy::Interleave);
    let a = rig.stream(Priority::Normal);
    rig.hold(a, 2);
    let held = rig.take(a);
    let point = rig.scheduler.next_point(QueueId(0));
    rig.scheduler.take_cursors(QueueId(0), 2);
    let (_, last) = rig.scheduler.finish(a, point, held.paid);
    assert_eq!(last, Point::new(QueueId(0), 3));
    let held = rig.take(a);
    rig.end_in_software(a, held);
    assert_eq!(
        rig.scheduler.ends_of(&[a])[..],
        [last],
        "a task that is finished in software takes no cursor"
    );
}

#[test]
fn parked_stream_gets_no_turn() {
    let mut rig = Rig::new(1, Strategy::Interleave);
    let (a, b) = (rig.stream(Priority::Normal), rig.stream(Priority::Normal));
    rig.hold(a, 2);
    assert_eq!(rig.scheduler.next_turn(QueueId(0)).unwrap().stream, a);
    rig.scheduler.park_for_memory(a);
    rig.scheduler.resume(a);
    assert!(rig.scheduler.waits_for_memory(a) && !rig.scheduler.has_turns(QueueId(0)));
    assert!(rig.scheduler.first(a).is_none());
    rig.hold(a, 1);
    rig.hold(b, 1);
    assert_eq!(rig.order(QueueId(0)), [b], "other streams pass it");
    rig.scheduler.unpark(a);
    rig.scheduler.resume(a);
    assert_eq!(rig.order(QueueId(0)), [a, a, a]);
}

#[test]
fn host_function_is_ready_once_its_dependencies_have_completed_i2() {
    let mut rig = Rig::new(2, Strategy::Interleave);
    let (a, b) = (rig.stream(Priority::Normal), rig.stream(Priority::Normal));
    rig.hold(a, 1);
    let point = rig.issue(a);
    let mut held = rig.scheduler.take_block();
    held.paid = false;
    held.after.insert(point);
    rig.scheduler.hold(b, held);
    rig.scheduler.park_on_host(b);
    assert!(rig.scheduler.first(b).is_none());
    assert!(rig.scheduler.next_ready_host().is_none());
    assert_eq!(rig.scheduler.wake_cursor(QueueId(0)), Some(1));
    rig.timelines[0].publish(1);
    let (stream, sequence, _) = rig.scheduler.next_ready_host().unwrap();
    assert_eq!((stream, sequence), (b, 1));
    assert!(!rig.scheduler.has_waiting_hosts());
}

/// I1: a task after a host function in its stream is not issued before the function has ended.
#[test]
fn running_host_function_stays_the_first_of_its_stream_until_it_ends_i1() {
    let mut rig = Rig::new(1, Strategy::Interleave);
    let a = rig.stream(Priority::Normal);
    rig.hold(a, 2);
    assert_eq!(rig.scheduler.next_turn(QueueId(0)).unwrap().stream, a);
    rig.scheduler.park_on_host(a);
    let (_, _, held) = rig.scheduler.next_ready_host().unwrap();
    rig.scheduler.host_begins(a, held, "work".into());
    assert!(rig.scheduler.host_runs() && rig.scheduler.held() == 2);
    rig.scheduler.resume(a);
    assert!(rig.order(QueueId(0)).is_empty());
    assert!(rig.scheduler.host_ends(a, 2).is_none(), "another task");
    let (held, name) = rig.scheduler.host_ends(a, 1).unwrap();
    assert_eq!(name.as_deref(), Some("work"));
    rig.end_in_software(a, held);
    assert!(!rig.scheduler.host_runs() && rig.scheduler.host_ends(a, 1).is_none());
    assert_eq!(rig.order(QueueId(0)), [a]);
}

#[test]
fn token_covers_the_tasks_between_its_start_and_its_end() {
    let mut rig = Rig::new(1, Strategy::Interleave);
    let a = rig.stream(Priority::Normal);
    rig.hold(a, 1);
    rig.scheduler.cover(a, 7);
    rig.hold(a, 1);
    rig.scheduler.cover(a, 5);
    let (id, until) = rig.scheduler.end_cover(a, 7).unwrap();
    assert_eq!((id, until), (rig.scheduler.stream(a).id, 3));
    assert!(rig.scheduler.end_cover(a, 6).is_none(), "it covers none");
    rig.hold(a, 1);
    let mut covering = Vec::new();
    for _ in 0..3 {
        covering.push(rig.scheduler.tokens_of_next(a).collect::<Vec<_>>());
        rig.issue(a);
    }
    assert_eq!(covering, [vec![], vec![7], vec![5]]);
    rig.scheduler.uncover(a, 5);
    rig.scheduler.uncover(a, 7);
    assert!(!rig.scheduler.is_covered(a));
}

#[test]
fn lost_device_returns_the_tasks_that_its_streams_held() {
    let mut rig = Rig::new(2, Strategy::Interleave);
    let (a, b) = (rig.stream(Priority::Normal), rig.stream(Priority::Normal));
    rig.hold(a, 3);
    let point = rig.issue(a);
    let mut held = rig.scheduler.take_block();
    rig.scheduler
        .come_after((b, 1), &mut held, &mut vec![(a, 3)]);
    rig.scheduler.hold(b, held);
    rig.scheduler.end();
    let left = [a, b].map(|stream| {
        let (held, last) = rig.scheduler.take_held(stream);
        (last, held.len())
    });
    assert_eq!(left, [(Some(point), 2), (None, 1)]);
    assert_eq!(rig.scheduler.held(), 0);
    assert!(rig.order(QueueId(0)).is_empty() && rig.order(QueueId(1)).is_empty());
    assert_eq!(
        rig.scheduler.last_of(rig.scheduler.stream(a).id),
        Some(point)
    );
    rig.scheduler.mark_dropped(a);
    assert!(
        rig.scheduler.remove_if_done(a).is_some(),
        "no task waits for its tasks"
    );
}

#[test]
fn dropped_stream_is_removed_with_its_last_task() {
    let mut rig = Rig::new(1, Strategy::Interleave);
    let a = rig.stream(Priority::Normal);
    rig.hold(a, 1);
    rig.scheduler.mark_dropped(a);
    assert!(rig.scheduler.remove_if_done(a).is_none());
    rig.issue(a);
    assert!(rig.scheduler.remove_if_done(a).is_some());
    assert_eq!(rig.scheduler.stream_count(), 0);
    assert_eq!(rig.scheduler.queue(QueueId(0)).streams, 0);
    assert!(
        !rig.scheduler.has_turns(QueueId(0)),
        "it has left the turns"
    );
}
