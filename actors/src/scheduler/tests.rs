//! The scheduler alone: no bytes, no memory, no device.

use std::sync::Arc;

use millstream_protocol::{ClientId, NewStream, Op, Point, Priority, QueueId, Settings, StreamId};
use millstream_sync::credit::Credit;
use millstream_sync::slots::SlotId;
use millstream_sync::timeline::Timeline;

use super::{HeldTask, QueueState, Scheduler};
use crate::steps;
use millstream_state::points::Points;

struct Rig {
    scheduler: Scheduler,
    timelines: Vec<Arc<Timeline>>,
}

impl Rig {
    fn new(queues: usize) -> Self {
        let settings = Settings {
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

    fn stream(&mut self) -> u32 {
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
            priority: Priority::Normal,
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
}

#[test]
fn queue_is_full_until_a_refresh_sees_progress() {
    let mut rig = Rig::new(1);
    let a = rig.stream();
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

/// A task that awaits many streams is woken by each of them in one step, whatever their order.
#[test]
fn each_of_many_awaited_tasks_is_unlinked_in_one_step() {
    const STREAMS: u64 = 1000;
    for stride in [1, 7, STREAMS as usize - 1] {
        let mut rig = Rig::new(1);
        let last = rig.stream();
        let others: Vec<u32> = (0..STREAMS).map(|_| rig.stream()).collect();
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
fn held_task_is_found_by_its_sequence() {
    let mut rig = Rig::new(1);
    let a = rig.stream();
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
    let mut rig = Rig::new(1);
    let a = rig.stream();
    rig.hold(a, 2);
    let held = rig.take(a);
    let point = rig.scheduler.next_point(QueueId(0));
    rig.scheduler.take_cursors(QueueId(0), 2);
    let (_, last) = rig.scheduler.finish(a, point, held.paid);
    assert_eq!(last, Point::new(QueueId(0), 3));
    let held = rig.take(a);
    rig.end_in_software(a, held);
    assert_eq!(
        rig.scheduler.ends_of(&[a]),
        Points::from(last),
        "a task that is finished in software takes no cursor"
    );
}

#[test]
fn host_function_is_ready_once_its_dependencies_have_completed_i2() {
    let mut rig = Rig::new(2);
    let (a, b) = (rig.stream(), rig.stream());
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

#[test]
fn host_functions_that_are_ready_together_begin_in_order_i12() {
    let mut rig = Rig::new(1);
    let works = rig.stream();
    rig.hold(works, 5);
    let points: Vec<Point> = (0..5).map(|_| rig.issue(works)).collect();
    let streams = [3, 0, 4, 1, 2].map(|index: usize| {
        let stream = rig.stream();
        let mut held = rig.scheduler.take_block();
        held.after.insert(points[index]);
        rig.scheduler.hold(stream, held);
        rig.scheduler.park_on_host(stream);
        stream
    });
    rig.timelines[0].publish(5);
    let ready = std::iter::from_fn(|| Some(rig.scheduler.next_ready_host()?.0));
    let order = [1, 3, 4, 0, 2].map(|index: usize| streams[index]);
    assert_eq!(ready.collect::<Vec<_>>(), order);
}

/// I1: the report that another task has ended does not end the host function that runs.
#[test]
fn running_host_function_ends_by_its_own_number_i1() {
    let mut rig = Rig::new(1);
    let a = rig.stream();
    rig.hold(a, 2);
    rig.scheduler.park_on_host(a);
    let (_, _, held) = rig.scheduler.next_ready_host().unwrap();
    rig.scheduler.host_begins(a, held, "work".into());
    assert!(rig.scheduler.host_ends(a, 2).is_none(), "another task");
    let (held, name) = rig.scheduler.host_ends(a, 1).unwrap();
    assert_eq!(name.as_deref(), Some("work"));
    rig.end_in_software(a, held);
    assert!(rig.scheduler.host_ends(a, 1).is_none(), "it has ended");
}

#[test]
fn token_covers_the_tasks_between_its_start_and_its_end() {
    let mut rig = Rig::new(1);
    let a = rig.stream();
    rig.hold(a, 1);
    rig.scheduler.cover(a, 7);
    rig.hold(a, 1);
    rig.scheduler.cover(a, 5);
    let (id, until) = rig.scheduler.end_cover(a, 7).unwrap();
    assert_eq!((id, until), (rig.scheduler.stream(a).id, 3));
    assert!(rig.scheduler.end_cover(a, 6).is_none(), "it covers none");
    rig.hold(a, 1);
    let mut covering = Vec::new();
    for sequence in 1..=3 {
        covering.push(rig.scheduler.tokens_of(a, sequence).collect::<Vec<_>>());
    }
    assert_eq!(covering, [vec![], vec![7], vec![5]]);
    rig.scheduler.uncover(a, 5);
    rig.scheduler.uncover(a, 7);
    assert!(!rig.scheduler.is_covered(a));
}

#[test]
fn lost_device_returns_the_tasks_that_its_streams_held() {
    let mut rig = Rig::new(2);
    let (a, b) = (rig.stream(), rig.stream());
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
    let mut ids = rig.scheduler.queue_ids();
    assert!(!ids.any(|queue| rig.scheduler.has_turns(queue)));
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
