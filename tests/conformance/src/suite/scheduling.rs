//! Scheduling: batches, flushes and fairness (I5, I6, I12).

use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::*;
use millstream::{DeviceOptions, Strategy, error::Full};

/// I6: no task runs twice.
pub(crate) fn flushing_a_stream_listed_twice_runs_each_task_once(on: On) {
    let (_rig, client, stream) = on.start();
    let add_one = add_one(&client);
    let values = stream.put(&[0_u32]);
    for _ in 0..5 {
        launch_update(&stream, &add_one, &values).unwrap();
    }
    client.flush([&stream, &stream, &stream]).unwrap();
    assert_eq!(stream.get(&values), [5]);
}

/// I5: a task runs without an explicit flush.
/// Needs: Threads, HeldKernels.
pub(crate) fn lone_launch_runs_without_a_flush(on: On) {
    let (rig, client, stream) = on.start();
    let valve = rig.valve();
    let held = held(&client, &valve);
    let values = stream.put(&[0_u32]);
    held.launch(&stream, &values).unwrap();
    valve.wait_for_arrivals(1);
    valve.open();
}

/// The same on a driven device: pumping is enough.
/// Needs: Driven.
pub(crate) fn lone_launch_runs_when_the_driver_is_pumped(on: On) {
    let (mut rig, client, stream) = on.start();
    let set = set(&client);
    let values = stream.put(&[0_u32]);
    stream.launch(&set, one(), to(&values, 5)).unwrap();
    let mut answer = stream.read(&values);
    assert!(answer.try_take().is_none(), "a task ran before the pump");
    rig.pump();
    assert_eq!(answer.try_take().unwrap().unwrap(), [5]);
}

/// I5, I12: the server holds tasks that cannot run, and other streams go on.
pub(crate) fn ten_thousand_held_launches_do_not_block_other_streams(on: On) {
    let (_rig, client, owner) = on.start();
    let add_one = add_one(&client);
    let (contested, guard) = on.put_held(&owner, &[0_u32]);
    // The server holds every task on the guarded slice, and no other task.
    let consumers: Vec<_> = (0..10).map(|_| client.new_stream()).collect();
    for index in 0..10_000 {
        launch_update(&consumers[index % 10], &add_one, &contested).unwrap();
    }
    let other = client.new_stream();
    let values = other.put(&[0_u32]);
    for _ in 0..100 {
        launch_update(&other, &add_one, &values).unwrap();
    }
    assert_eq!(other.get(&values), [100]);
    let mut blocked = consumers[3].read(&contested);
    assert!(blocked.try_take().is_none());
    drop(guard);
    assert_eq!(blocked.wait().unwrap(), [10_000]);
}

/// The single task of a client starts while another client floods the queue.
/// Needs: Threads, OneQueue.
pub(crate) fn lone_task_starts_while_another_client_floods_the_queue(on: On) {
    for strategy in [Strategy::Interleave, Strategy::Sequential] {
        flood_one_queue(&on.open_with(DeviceOptions::default().strategy(strategy)));
    }
}

fn flood_one_queue(rig: &Rig) {
    let (busy, stop) = (rig.client(), AtomicBool::new(false));
    let add_one = add_one(&busy);
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let stream = busy.new_stream();
            let values = stream.put(&[0_u32]);
            while !stop.load(Ordering::Relaxed) {
                launch_update(&stream, &add_one, &values).unwrap();
            }
        });
        let lone = rig.client();
        for _ in 0..20 {
            let stream = lone.new_stream();
            let values = stream.put(&[1_u32]);
            launch_update(&stream, &add_one, &values).unwrap();
            assert_eq!(stream.get(&values), [2]);
        }
        stop.store(true, Ordering::Relaxed);
        flood.join().unwrap();
    });
}

/// I12: a full mailbox returns `Busy`, and no refused task runs.
/// Needs: Driven.
pub(crate) fn full_mailbox_returns_busy_and_loses_nothing(on: On) {
    let (_rig, client, stream) = on.start_with(DeviceOptions::default().mailbox_capacity(16));
    let add_one = add_one(&client);
    let values = stream.put(&[0_u32]);
    stream.drain();
    let mut accepted = 0;
    let refused = loop {
        match launch_update(&stream.nowait(), &add_one, &values) {
            Ok(()) => accepted += 1,
            Err(error) => break error,
        }
    };
    let messages = 16;
    assert_eq!(full(Err::<(), _>(refused)), Full::Mailbox { messages });
    // A drop needs no room in the mailbox and does not wait.
    let spare = values.clone();
    drop(spare);
    drop(client.new_stream());
    assert_eq!(stream.get(&values), [accepted]);
}

/// I12: the held tasks of a stream are bounded, and the bound affects only callers of that stream.
/// Needs: Threads.
pub(crate) fn stream_at_max_held_returns_busy_while_others_go_on(on: On) {
    let (_rig, client, owner) = on.start_with(DeviceOptions::default().max_held(8));
    let add_one = add_one(&client);
    let behind = client.new_stream();
    let free = client.new_stream();
    let (contested, guard) = on.put_held(&owner, &[0_u32]);
    let mut accepted = 0;
    while launch_update(&behind.nowait(), &add_one, &contested).is_ok() {
        accepted += 1;
    }
    assert!(accepted >= 8);
    let (held, limit) = (8, 8);
    let refused = full(behind.nowait().empty::<u32>(1));
    assert_eq!(refused, Full::Stream { held, limit });
    let values = free.put(&[1_u32]);
    launch_update(&free, &add_one, &values).unwrap();
    assert_eq!(free.get(&values), [2]);
    drop(guard);
    assert_eq!(behind.get(&contested), [accepted]);
}

/// I5: ten thousand streams, which need no threads, all answer.
pub(crate) fn ten_thousand_streams_all_answer(on: On) {
    let rig = on.open();
    let client = rig.client();
    let set = set(&client);
    let streams: Vec<_> = (0..10_000_u32)
        .map(|index| {
            let stream = client.new_stream();
            let values = stream.empty::<u32>(2).unwrap();
            stream.launch(&set, one(), to(&values, index)).unwrap();
            (stream, values)
        })
        .collect();
    for (index, (stream, values)) in streams.iter().enumerate() {
        assert_eq!(stream.get(values), [index as u32; 2]);
    }
    assert_eq!(rig.stats().streams, 10_000);
}
