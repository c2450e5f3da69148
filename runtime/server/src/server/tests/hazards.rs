//! What waits for what, on which queue: as little as the data allows (I1, I2, I3).

use millstream_protocol::id::QueueId;
use millstream_protocol::options::DeviceOptions;

use super::ledger::Call;
use super::rig::Rig;

fn rig(queues: usize) -> Rig {
    Rig::new(queues, DeviceOptions::default().max_tasks(100))
}

#[test]
fn a_reader_on_another_queue_waits_once_for_the_writer() {
    let mut rig = rig(2);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let (x, y) = (rig.slice(&a, 64), rig.slice(&b, 64));
    rig.launch(&a, &kernel, 1, &[x.write()]);
    rig.launch(&b, &kernel, 2, &[x.read(), y.write()]);
    rig.launch(&b, &kernel, 3, &[x.read(), y.update()]);
    rig.rest();
    assert_eq!(rig.waits(), [(1, 0, 1)]);
    rig.drain();
}

/// The point must be recorded before anything can wait for it.
#[test]
fn an_unflushed_producer_is_flushed_before_the_wait() {
    let mut rig = rig(2);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let x = rig.slice(&a, 64);
    rig.launch(&a, &kernel, 1, &[x.write()]);
    rig.launch(&b, &kernel, 2, &[x.read()]);
    rig.admit();
    rig.rest();
    let calls = rig.calls();
    let place = |call: Call| calls.iter().position(|other| *other == call).unwrap();
    assert!(place(Call::Run(0, 1)) < place(Call::Flush(0, 1)));
    assert!(place(Call::Flush(0, 1)) < place(Call::Wait(1, 0, 1)));
    assert!(place(Call::Wait(1, 0, 1)) < place(Call::Run(1, 2)));
}

#[test]
fn readers_do_not_wait_for_each_other_and_a_writer_waits_for_all() {
    let mut rig = rig(3);
    let kernel = rig.kernel();
    let (a, b, c) = (rig.stream(), rig.stream(), rig.stream());
    let x = rig.slice(&a, 64);
    rig.launch(&a, &kernel, 1, &[x.read()]);
    rig.launch(&b, &kernel, 2, &[x.read()]);
    rig.rest();
    assert_eq!(rig.waits(), []);
    rig.launch(&c, &kernel, 3, &[x.write()]);
    rig.rest();
    let mut waits = rig.waits();
    waits.sort_unstable();
    assert_eq!(waits, [(2, 0, 1), (2, 1, 1)]);
    rig.drain();
}

#[test]
fn parts_of_a_slice_that_do_not_overlap_need_no_order() {
    let mut rig = rig(2);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let x = rig.slice(&a, 64);
    let part = |start, end| x.part(start..end, millstream_protocol::access::Access::ReadWrite);
    rig.launch(&a, &kernel, 1, &[part(0, 32)]);
    rig.launch(&b, &kernel, 2, &[part(32, 64)]);
    rig.rest();
    assert_eq!(rig.waits(), []);
    rig.launch(&b, &kernel, 3, &[part(31, 40)]);
    rig.rest();
    assert_eq!(rig.waits(), [(1, 0, 1)]);
    rig.drain();
}

/// I3, through a third queue.
#[test]
fn what_a_waited_point_had_waited_for_needs_no_wait_of_its_own() {
    let mut rig = rig(3);
    let kernel = rig.kernel();
    let (a, b, c) = (rig.stream(), rig.stream(), rig.stream());
    let (x, y) = (rig.slice(&a, 64), rig.slice(&b, 64));
    rig.launch(&a, &kernel, 1, &[x.write()]);
    rig.launch(&b, &kernel, 2, &[x.read(), y.write()]);
    rig.launch(&c, &kernel, 3, &[y.read()]);
    rig.launch(&c, &kernel, 4, &[x.read()]);
    rig.rest();
    assert_eq!(rig.waits(), [(1, 0, 1), (2, 1, 1)]);
    rig.drain();
}

/// I3, among the waits of one task, whatever their order.
#[test]
fn of_two_points_that_one_task_needs_only_the_one_that_implies_the_other_is_waited_for() {
    let mut rig = rig(3);
    let kernel = rig.kernel();
    let (a, b, c) = (rig.stream(), rig.stream(), rig.stream());
    let (x, y) = (rig.slice(&a, 64), rig.slice(&b, 64));
    rig.launch(&a, &kernel, 1, &[x.write()]);
    rig.launch(&b, &kernel, 2, &[x.read(), y.write()]);
    rig.launch(&c, &kernel, 3, &[x.read(), y.read()]);
    rig.rest();
    assert_eq!(rig.waits(), [(1, 0, 1), (2, 1, 1)]);
    rig.drain();
}

/// A point has the clock of its own moment: what its queue waited for later is not implied.
#[test]
fn what_a_queue_waited_for_after_a_point_is_waited_for_again() {
    let mut rig = rig(3);
    let kernel = rig.kernel();
    let (a, b, c) = (rig.stream(), rig.stream(), rig.stream());
    let (x, y, z) = (rig.slice(&a, 64), rig.slice(&b, 64), rig.slice(&a, 64));
    rig.launch(&b, &kernel, 1, &[y.write()]);
    rig.launch(&a, &kernel, 2, &[x.write()]);
    rig.launch(&b, &kernel, 3, &[x.read(), z.write()]);
    rig.launch(&c, &kernel, 4, &[y.read()]);
    rig.launch(&c, &kernel, 5, &[x.read()]);
    rig.rest();
    assert_eq!(rig.waits(), [(1, 0, 1), (2, 1, 1), (2, 0, 1)]);
    rig.drain();
}

#[test]
fn what_has_completed_is_not_waited_for() {
    let mut rig = rig(2);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let x = rig.slice(&a, 64);
    rig.launch(&a, &kernel, 1, &[x.write()]);
    rig.drain();
    rig.launch(&b, &kernel, 2, &[x.read()]);
    rig.drain();
    assert_eq!(rig.waits(), []);
}

/// I1: the order within a stream is its queue's.
#[test]
fn a_stream_changes_its_queue_only_when_idle() {
    let mut rig = rig(2);
    let kernel = rig.kernel();
    let (a, b, c) = (rig.stream(), rig.stream(), rig.stream());
    let (x, z) = (rig.slice(&a, 64), rig.slice(&c, 64));
    // Two streams sit on queue 0, and the other one is free.
    rig.launch(&a, &kernel, 1, &[x.update()]);
    rig.rest();
    assert_eq!(rig.queue_of(c.id()), QueueId(0));
    rig.launch(&a, &kernel, 2, &[x.update()]);
    rig.rest();
    assert_eq!(
        rig.queue_of(a.id()),
        QueueId(0),
        "its first task is still in flight"
    );
    rig.launch(&c, &kernel, 3, &[z.update()]);
    rig.rest();
    assert_eq!(
        (rig.queue_of(c.id()), rig.order(1)),
        (QueueId(1), vec![3]),
        "an idle stream goes where less is in flight"
    );
    assert_eq!(rig.queue_of(b.id()), QueueId(1));
    rig.drain();
}

/// A stream that was flushed by itself may still be in its queue's turn when it moves.
#[test]
fn a_stream_that_moves_takes_its_turn_where_it_goes() {
    let mut rig = Rig::new(2, DeviceOptions::default().max_tasks(1).max_in_flight(2));
    let kernel = rig.kernel();
    let (a, _b, c) = (rig.stream(), rig.stream(), rig.stream());
    let (x, z) = (rig.slice(&a, 64), rig.slice(&c, 64));
    rig.launch(&c, &kernel, 1, &[z.update()]);
    rig.admit();
    rig.complete();
    rig.launch(&a, &kernel, 2, &[x.update()]);
    rig.launch(&a, &kernel, 3, &[x.update()]);
    rig.admit();
    // It goes to queue 1 with two tasks: neither may be left there unflushed.
    rig.launch(&c, &kernel, 4, &[z.update()]);
    rig.launch(&c, &kernel, 5, &[z.update()]);
    rig.launch(&c, &kernel, 6, &[z.update()]);
    rig.drain();
    assert_eq!(rig.held(), 0);
    assert_eq!((rig.in_flight(0), rig.in_flight(1)), (0, 0));
}

/// A host function is on no queue: the order of its stream's queue does not help it.
#[test]
fn a_host_function_waits_for_other_streams_of_its_own_queue() {
    let mut rig = rig(1);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let x = rig.slice(&a, 64);
    rig.launch(&a, &kernel, 1, &[x.write()]);
    rig.host(&b, 2, &[x.read()], Ok(()));
    rig.rest();
    assert_eq!(rig.hosts(), 0, "what it reads is still being written (I2)");
    assert!(rig.step(0));
    rig.rest();
    assert_eq!(rig.hosts(), 1);
    rig.drain();
}

/// Nor does what its queue's clock implies: that holds for what is on the queue.
#[test]
fn a_host_function_waits_for_what_its_queue_only_has_a_wait_for() {
    let mut rig = rig(2);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let (x, y) = (rig.slice(&a, 64), rig.slice(&b, 64));
    rig.launch(&a, &kernel, 1, &[x.write()]);
    let c = rig.stream();
    assert_eq!(rig.queue_of_new(&c), QueueId(0));
    let d = rig.stream();
    rig.launch(&b, &kernel, 2, &[x.read(), y.write()]);
    rig.host(&d, 3, &[x.read()], Ok(()));
    rig.rest();
    assert_eq!(rig.hosts(), 0);
    rig.drain();
    assert_eq!(rig.held(), 0);
}

/// I2 in both directions: nothing that conflicts goes while the host function runs.
#[test]
fn tasks_that_conflict_with_a_running_host_function_are_held_and_others_go() {
    let mut rig = rig(1);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let (x, y) = (rig.slice(&a, 64), rig.slice(&b, 64));
    rig.host(&a, 1, &[x.update()], Ok(()));
    rig.launch(&b, &kernel, 2, &[y.update()]);
    rig.launch(&b, &kernel, 3, &[x.read()]);
    rig.launch(&b, &kernel, 4, &[y.update()]);
    rig.rest();
    assert_eq!((rig.order(0), rig.hosts(), rig.held()), (vec![2], 1, 3));
    rig.run_host(0);
    rig.rest();
    assert_eq!((rig.order(0), rig.held()), (vec![2, 3, 4], 0));
    rig.drain();
}

#[test]
fn a_point_orders_streams_that_share_no_data() {
    let mut rig = rig(2);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let (x, y) = (rig.slice(&a, 64), rig.slice(&b, 64));
    rig.launch(&a, &kernel, 1, &[x.update()]);
    let point = rig.point(&a);
    rig.launch(&a, &kernel, 2, &[x.update()]);
    rig.wait_for(&b, &point);
    rig.launch(&b, &kernel, 3, &[y.update()]);
    rig.rest();
    // The point is the mark after task 1; task 2 is not waited for.
    assert_eq!(rig.waits(), [(1, 0, 2)]);
    rig.drain();
}
