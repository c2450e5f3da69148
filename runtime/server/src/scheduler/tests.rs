//! The scheduler by itself: no bytes, no memory, no device.

use std::sync::Arc;

use millstream_protocol::id::{ClientId, Point, QueueId, StreamId};
use millstream_protocol::options::{Settings, Strategy};
use millstream_protocol::priority::Priority;
use millstream_sync::credit::Credit;
use millstream_sync::slots::SlotId;
use millstream_sync::timeline::Timeline;

use super::actor::Parked;
use super::queue::QueueState;
use super::{NewStream, Scheduler};

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
            scheduler: Scheduler::new(&settings, states.collect()),
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

    /// Issues the first task of a stream.
    fn issue(&mut self, stream: u32) -> Point {
        let held = self.scheduler.take_first(stream).unwrap();
        let point = self.scheduler.next_point(self.scheduler.queue_of(stream));
        self.scheduler.finish(stream, point, held.paid);
        self.scheduler.put_block(held);
        point
    }

    /// The streams in the order in which their tasks go, on a queue that is never full.
    fn order(&mut self, queue: QueueId) -> Vec<u32> {
        let mut order = Vec::new();
        while let Some(go) = self.scheduler.next_go(queue) {
            for _ in 0..go.quantum {
                let actor = self.scheduler.stream(go.stream);
                let first = actor.held.front();
                if !first.is_some_and(|first| first.awaits.is_empty()) {
                    break;
                }
                self.issue(go.stream);
                order.push(go.stream);
            }
            self.scheduler.join_turn(go.stream);
        }
        order
    }
}

#[test]
fn strategies_take_turns_by_task_and_by_batch() {
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
fn a_go_that_a_full_queue_cut_short_is_the_next_one() {
    let mut rig = Rig::new(1, Strategy::Sequential);
    let (a, b) = (rig.stream(Priority::Normal), rig.stream(Priority::Normal));
    rig.hold(a, 3);
    rig.hold(b, 3);
    let go = rig.scheduler.next_go(QueueId(0)).unwrap();
    assert_eq!((go.stream, go.quantum, go.gone), (a, 3, 0));
    rig.issue(a);
    rig.scheduler.put_back(QueueId(0), a, 1);
    let go = rig.scheduler.next_go(QueueId(0)).unwrap();
    assert_eq!((go.stream, go.gone), (a, 1));
}

#[test]
fn a_queue_is_full_until_it_is_seen_to_have_come_further() {
    let mut rig = Rig::new(1, Strategy::Interleave);
    let a = rig.stream(Priority::Normal);
    rig.hold(a, 5);
    for _ in 0..4 {
        rig.issue(a);
    }
    assert!(rig.scheduler.seems_full(QueueId(0)) && rig.scheduler.is_full(QueueId(0)));
    assert_eq!(rig.scheduler.wants_room(QueueId(0)), Some(2));
    rig.timelines[0].publish(1);
    assert!(rig.scheduler.progress() && !rig.scheduler.seems_full(QueueId(0)));
    assert!(!rig.scheduler.progress(), "it has come no further since");
    assert!(!rig.scheduler.is_drained());
    rig.issue(a);
    rig.timelines[0].publish(5);
    rig.scheduler.progress();
    assert!(rig.scheduler.is_drained());
}

/// I1: the order within a stream is its queue's order, so a stream with work on a queue stays there.
#[test]
fn only_an_idle_stream_sits_down_elsewhere_i1() {
    let mut rig = Rig::new(2, Strategy::Interleave);
    let streams: Vec<u32> = (0..3).map(|_| rig.stream(Priority::Normal)).collect();
    let [a, _, c] = streams[..] else {
        unreachable!()
    };
    let queue = |rig: &Rig, stream: u32| rig.scheduler.stream(stream).queue;
    assert_eq!(
        queue(&rig, a),
        queue(&rig, c),
        "there are two queues for three"
    );
    rig.hold(a, 2);
    rig.issue(a);
    rig.scheduler.settle(a);
    assert_eq!(queue(&rig, a), QueueId(0), "it holds a task");
    rig.scheduler.settle(c);
    assert_eq!(
        queue(&rig, c),
        QueueId(1),
        "it is idle behind another's work"
    );
    rig.issue(a);
    rig.timelines[0].publish(2);
    rig.scheduler.progress();
    rig.scheduler.settle(a);
    assert_eq!(queue(&rig, a), QueueId(0), "nothing is in its way");
}

#[test]
fn tasks_that_others_wait_for_are_as_urgent_and_wake_them() {
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
    rig.scheduler.come_after((high, 1), &mut held, (low, 1));
    rig.scheduler.come_after((high, 1), &mut held, (low, 1));
    assert_eq!(held.awaits.len(), 1, "one edge a task");
    rig.scheduler.hurry(high, &held.awaits);
    rig.scheduler.hold(high, held);
    assert_eq!(rig.order(QueueId(0)), [low, high, other, other]);
}

#[test]
fn host_function_has_its_turn_when_its_predecessors_have_completed_i2() {
    let mut rig = Rig::new(2, Strategy::Interleave);
    let (a, b) = (rig.stream(Priority::Normal), rig.stream(Priority::Normal));
    rig.hold(a, 1);
    let point = rig.issue(a);
    let mut held = rig.scheduler.take_block();
    held.paid = false;
    held.come_after(point);
    rig.scheduler.hold(b, held);
    rig.scheduler.park_on_host(b);
    assert_eq!(rig.scheduler.stream(b).parked, Parked::HostTurn);
    assert!(rig.scheduler.next_host_turn(0).is_none());
    assert_eq!(rig.scheduler.host_wants(QueueId(0)), Some(1));
    rig.timelines[0].publish(1);
    let turn = rig.scheduler.next_host_turn(0).unwrap();
    assert_eq!((turn.stream, turn.sequence, turn.next), (b, 1, 0));
    assert!(!rig.scheduler.has_host_turns());
}

#[test]
fn a_dropped_stream_goes_with_its_last_task() {
    let mut rig = Rig::new(1, Strategy::Interleave);
    let a = rig.stream(Priority::Normal);
    rig.hold(a, 1);
    rig.scheduler.mark_dropped(a);
    assert!(rig.scheduler.remove_if_done(a).is_none());
    rig.issue(a);
    assert!(rig.scheduler.remove_if_done(a).is_some());
    assert_eq!(rig.scheduler.stream_count(), 0);
    assert_eq!(rig.scheduler.queue(QueueId(0)).streams, 0);
    assert!(!rig.scheduler.has_turns(QueueId(0)), "it has left the turn");
}
