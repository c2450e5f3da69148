//! Waits between queues: as few as the data allows (I1, I2, I3).

use millstream_protocol::{DeviceOptions, QueueId};

use super::rig::Rig;

fn rig(queues: usize) -> Rig {
    Rig::new(queues, DeviceOptions::default().max_tasks(100))
}

/// I1: the order within a stream is the order of its queue.
#[test]
fn stream_changes_its_queue_only_while_idle_i1() {
    let mut rig = rig(2);
    let [a, b, c] = rig.streams();
    let (x, z) = (rig.slice(&a, 64), rig.slice(&c, 64));
    // Two streams are assigned to queue 0, and queue 1 is free.
    rig.launch(&a, 1, &[x.update()]);
    rig.rest();
    assert_eq!(rig.queue_of(c.id()), QueueId(0));
    rig.launch(&a, 2, &[x.update()]);
    rig.rest();
    assert_eq!(
        rig.queue_of(a.id()),
        QueueId(0),
        "its first task is still in flight"
    );
    rig.launch(&c, 3, &[z.update()]);
    rig.rest();
    assert_eq!(
        (rig.queue_of(c.id()), rig.order(1)),
        (QueueId(1), vec![3]),
        "an idle stream moves to the queue with less in flight"
    );
    assert_eq!(rig.queue_of(b.id()), QueueId(1));
    rig.drain();
}

/// A stream that was flushed out of turn may still be in the turns of its queue when it moves.
#[test]
fn stream_that_moves_gets_its_turns_on_the_new_queue() {
    let mut rig = Rig::new(2, DeviceOptions::default().max_tasks(1).max_in_flight(2));
    let [a, _b, c] = rig.streams();
    let (x, z) = (rig.slice(&a, 64), rig.slice(&c, 64));
    rig.launch(&c, 1, &[z.update()]);
    rig.admit();
    rig.complete();
    rig.launch(&a, 2, &[x.update()]);
    rig.launch(&a, 3, &[x.update()]);
    rig.admit();
    // It moves to queue 1 with two tasks: neither may stay unflushed.
    rig.launch(&c, 4, &[z.update()]);
    rig.launch(&c, 5, &[z.update()]);
    rig.launch(&c, 6, &[z.update()]);
    rig.drain();
    assert_eq!(rig.held(), 0);
    assert_eq!((rig.in_flight(0), rig.in_flight(1)), (0, 0));
}

/// A staged task begins once the copy of its input has completed. Its output is one more task of its queue, in its place:
/// the tasks after it come after the output.
#[test]
fn staged_task_begins_after_its_download_and_ends_with_its_upload_i2() {
    let mut rig = rig(2);
    let [a, b] = rig.streams();
    let [x, y] = rig.slices(&a, 64);
    rig.launch(&b, 1, &[x.write()]);
    rig.staged(&a, &[x.read(), y.write()], vec![7; 64], None);
    rig.launch(&b, 2, &[y.update()]);
    rig.rest();
    let queue = rig.queue_of(a.id()).index();
    // The download is issued: it waits for task 1 on the device.
    assert_eq!((rig.in_flight(queue) > 0, rig.hosts()), (true, 0));
    while rig.in_flight(queue) > 0 {
        assert_eq!(rig.hosts(), 0, "its input has not arrived (I2)");
        assert!((0..2).any(|queue| rig.step(queue)));
        rig.rest();
    }
    assert_eq!((rig.hosts(), rig.held()), (1, 2));
    rig.run_host(0);
    rig.drain();
    assert_eq!(rig.held(), 0);
    let mut answer = rig.copy_out(&a, &[x.read()]);
    rig.drain();
    assert!(answer.look(&rig).expect("it was answered").is_ok());
}

#[test]
fn point_orders_streams_that_share_no_data_i1() {
    let mut rig = rig(2);
    let [(a, x), (b, y)] = rig.owners(64);
    rig.launch(&a, 1, &[x.update()]);
    let point = rig.point(&a);
    rig.launch(&a, 2, &[x.update()]);
    rig.wait_for(&b, &point);
    rig.launch(&b, 3, &[y.update()]);
    rig.rest();
    // The point is the mark after task 1; there is no wait for task 2.
    assert_eq!(rig.waits(), [(1, 0, 2)]);
    rig.drain();
}
