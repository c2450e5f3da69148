//! Order: hazards between streams and queues (I1, I2, I3).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use millstream::error::ArgumentErrorKind;
use millstream::{CubeCount, DeviceOptions, Error, Kernel, update};

use crate::support::*;

/// I2: a write waits for the readers on all streams.
pub(crate) fn a_write_waits_for_every_reader(on: On) {
    let (_rig, client, writer) = on.start();
    let (transfer, set) = (transfer(&client), set(&client));
    let shared = writer.put(&[7_u32; 64]);
    for round in 0..50 {
        let copies = [(); 6].map(|()| {
            let stream = client.new_stream();
            let copy = stream.empty::<u32>(64).unwrap();
            launch_transfer(&stream, &transfer, &shared, &copy).unwrap();
            (stream, copy)
        });
        let overwrites = to(&shared, round + 100);
        writer.launch(&set, one(), overwrites).unwrap();
        let expected = if round == 0 { 7 } else { round + 99 };
        for (stream, copy) in copies {
            assert_eq!(stream.get(&copy), [expected; 64]);
        }
    }
}

/// I2: the same while the reader runs on the device.
/// Needs: Threads, HeldKernels.
pub(crate) fn a_write_waits_for_a_reader_that_is_still_running(on: On) {
    let (rig, client, second) = on.start();
    let (valve, set) = (rig.valve(), set(&client));
    let reader = held_reader(&client, &valve);
    let first = client.new_stream();
    let shared = first.put(&[7_u32]);
    let out = first.put(&[0_u32]);
    reader.launch_reader(&first, &shared, &out).unwrap();
    valve.wait_for_arrivals(1);
    second.launch(&set, one(), to(&shared, 9)).unwrap();
    let after = second.read(&shared);
    valve.open();
    assert_eq!((first.get(&out), after.wait().unwrap()), (vec![7], vec![9]));
}

/// I1, I2: a reader waits for the latest write, not only for the allocation (other libraries track only the latter).
pub(crate) fn a_buffer_rewritten_in_place_by_another_thread_is_never_read_stale(on: On) {
    let (_rig, client, b) = on.start();
    let add_one = add_one(&client);
    let a = client.new_stream();
    let shared = a.put(&[0_u32; 16]);
    for round in 1..=200_u32 {
        std::thread::scope(|scope| {
            scope.spawn(|| launch_update(&b, &add_one, &shared).unwrap());
        });
        assert_eq!(a.get(&shared), [round; 16]);
    }
}

/// I2, I3: byte ranges conflict, not whole slices.
/// Needs: Threads, HeldKernels, QueuesOverlap.
pub(crate) fn writes_to_disjoint_halves_overlap_and_a_reader_of_the_whole_waits_for_both(on: On) {
    let (rig, client, left_stream) = on.start();
    let valve = rig.valve();
    let held = held(&client, &valve);
    let right_stream = client.new_stream();
    let reader = client.new_stream();
    let whole = reader.put(&[10_u32, 20]);
    reader.drain();
    let (left, right) = (whole.slice(..1).unwrap(), whole.slice(1..).unwrap());
    held.launch(&left_stream, &left).unwrap();
    held.launch(&right_stream, &right).unwrap();
    // Both kernels have started: neither waits for the other.
    valve.wait_for_arrivals(2);
    let mut answer = reader.read(&whole);
    assert!(answer.try_take().is_none());
    valve.open();
    assert_eq!(answer.wait().unwrap(), [11, 21]);
}

/// I3: a queue runs its tasks in order, so its streams need no waits.
/// Needs: OneQueue.
pub(crate) fn streams_on_one_queue_issue_no_waits(on: On) {
    let rig = on.open();
    let client = rig.client();
    let add_one = add_one(&client);
    let streams = [(); 3].map(|()| client.new_stream());
    let shared = streams[0].put(&[0_u32; 4]);
    for index in 0..300 {
        launch_update(&streams[index % 3], &add_one, &shared).unwrap();
    }
    assert_eq!(streams[1].get(&shared), [300; 4]);
    assert_eq!(rig.stats().waits_issued, 0);
}

/// I3: the first wait enters the point in the queue's clock, so later reads need no wait.
/// Needs: Threads, HeldKernels, QueuesOverlap.
pub(crate) fn consumer_waits_once_for_an_unchanged_buffer_of_another_queue(on: On) {
    let (rig, client, consumer) = on.start();
    let valve = rig.valve();
    let (held, transfer) = (held(&client, &valve), transfer(&client));
    let producer = client.new_stream();
    let shared = producer.put(&[1_u32]);
    let out = consumer.put(&[0_u32]);
    rig.device.drain();
    let before = rig.stats().waits_issued;
    held.launch(&producer, &shared).unwrap();
    valve.wait_for_arrivals(1);
    for _ in 0..10 {
        launch_transfer(&consumer, &transfer, &shared, &out).unwrap();
    }
    consumer.flush().unwrap();
    assert_eq!(rig.stats().waits_issued - before, 1);
    valve.open();
    assert_eq!(consumer.get(&out), [2]);
}

/// I2: the writer may be in the middle of a batch that is not flushed yet. The server ends the batch before it issues
/// the wait, so the wait finds the writer's event.
/// Needs: Threads, HeldKernels.
pub(crate) fn reader_waits_for_a_writer_in_the_middle_of_a_batch(on: On) {
    let rig = on.open();
    let client = rig.client();
    let (add_one, transfer) = (add_one(&client), transfer(&client));
    for _ in 0..4 {
        let valve = rig.valve();
        let held = held(&client, &valve);
        // Two readers, so that one of them may be assigned to another queue than the writer.
        let writer = client.new_stream();
        let readers = [client.new_stream(), client.new_stream()];
        let shared = writer.put(&[0_u32]);
        let other = writer.put(&[0_u32]);
        let outs = readers.each_ref().map(|stream| stream.put(&[9_u32]));
        rig.device.drain();
        held.launch(&writer, &shared).unwrap();
        for _ in 0..5 {
            launch_update(&writer, &add_one, &other).unwrap();
        }
        let mut answers: Vec<_> = (readers.iter().zip(&outs))
            .map(|(reader, out)| {
                launch_transfer(reader, &transfer, &shared, out).unwrap();
                reader.read(out)
            })
            .collect();
        let mut early = answers
            .iter_mut()
            .map(|answer| answer.wait_timeout(Duration::from_millis(5)));
        let waited = early.all(|answer| matches!(answer, Err(Error::TimedOut { .. })));
        // Before any assertion: a held kernel would keep the device from closing.
        valve.open();
        assert!(waited, "a reader did not wait for the writer");
        for answer in answers {
            assert_eq!(answer.wait().unwrap(), [1]);
        }
    }
}

/// I1, I2: data passes from queue to queue without a request for an answer in between, so only waits flush.
pub(crate) fn data_passed_between_streams_without_a_flush_arrives(on: On) {
    const ROUNDS: u32 = 60;
    const LONG: usize = 1 << 12;
    let (_rig, client, there) =
        on.start_with(DeviceOptions::default().max_tasks(4 * ROUNDS as usize));
    let (add_one, transfer) = (add_one(&client), transfer(&client));
    let here = client.new_stream();
    let ours = here.put(&[0_u32; LONG]);
    let theirs = there.put(&[0_u32; LONG]);
    for _ in 0..ROUNDS {
        for _ in 0..3 {
            launch_update(&here, &add_one, &ours).unwrap();
        }
        launch_transfer(&there, &transfer, &ours, &theirs).unwrap();
        launch_update(&there, &add_one, &theirs).unwrap();
        launch_transfer(&here, &transfer, &theirs, &ours).unwrap();
    }
    assert_eq!(here.get(&ours), vec![4 * ROUNDS; LONG]);
}

/// I1: a point is an explicit edge between streams that share no bytes.
/// Needs: Threads, HeldKernels.
pub(crate) fn a_stream_waits_for_the_point_of_another(on: On) {
    let (rig, client, second) = on.start();
    let valve = rig.valve();
    let held = held(&client, &valve);
    let first = client.new_stream();
    let a = first.put(&[0_u32]);
    let b = second.put(&[0_u32]);
    let arrivals_seen = Arc::new(AtomicU32::new(9));
    let (recorded, arrivals) = (arrivals_seen.clone(), valve.clone());
    let after = Kernel::new("add_one")
        .updates::<u32>("values")
        .scalar::<u32>("n")
        .native(move |_cube, _args| {
            recorded.store(arrivals.arrivals(), Ordering::SeqCst);
        });
    let after = prepare(&client, after).unwrap();
    held.launch(&first, &a).unwrap();
    let point = first.point().unwrap();
    second.wait_for(&point).unwrap();
    launch_update(&second, &after, &b).unwrap();
    let done = second.sync();
    valve.wait_for_arrivals(1);
    let ran_on_gpu = || rig.checks.kernels_run("add_one");
    let arrivals_seen = || arrivals_seen.load(Ordering::SeqCst);
    // The launch has not run before the point.
    assert_eq!((arrivals_seen(), ran_on_gpu().unwrap_or(0)), (9, 0));
    valve.open();
    done.wait().unwrap();
    assert_eq!(arrivals_seen(), if on.runs_rust() { 1 } else { 9 });
    assert_eq!(ran_on_gpu().unwrap_or(1), 1);
}

/// I1: device order extends happens-before between sends, across threads and streams.
pub(crate) fn happens_before_between_threads_orders_their_tasks(on: On) {
    let rig = on.open();
    let client = rig.client();
    let add_one = add_one(&client);
    let shared = client.new_stream().put(&[0_u32]);
    let (turn_sender, turn) = mpsc::channel::<u32>();
    std::thread::scope(|scope| {
        let mut next = turn;
        for thread in 0..4 {
            let (sender, receiver) = mpsc::channel();
            let (stream, shared, add_one) = (client.new_stream(), shared.clone(), &add_one);
            let mine = std::mem::replace(&mut next, receiver);
            scope.spawn(move || {
                while let Ok(round) = mine.recv() {
                    assert_eq!(stream.get(&shared), [round * 4 + thread]);
                    launch_update(&stream, add_one, &shared).unwrap();
                    let _ = sender.send(round);
                }
            });
        }
        for round in 0..25 {
            turn_sender.send(round).unwrap();
            next.recv().unwrap();
        }
        drop(turn_sender);
    });
}

/// A dynamic count reads three numbers on the device, with the hazards of a read.
/// Needs: RustKernels, DynamicCounts.
pub(crate) fn a_dynamic_count_is_read_after_it_was_written(on: On) {
    let (_rig, client, stream) = on.start();
    let set = set(&client);
    let count_cubes = Kernel::new("count_cubes")
        .updates_atomically::<u32>("cubes")
        .native(|_cube, args| {
            args.atomics::<u32>(0)[0].fetch_add(1, Ordering::Relaxed);
        });
    let count_cubes = client.kernel(count_cubes).unwrap();
    let count = stream.put(&[1_u32; 3]);
    let cubes = stream.put(&[0_u32]);
    stream.launch(&set, one(), to(&count, 3)).unwrap();
    let other = client.new_stream();
    let two = count.slice(..2).unwrap();
    let launch = |count| other.launch(&count_cubes, CubeCount::Dynamic(count), (update(&cubes),));
    launch(count.clone()).unwrap();
    assert_eq!(stream.get(&cubes), [27]);
    assert_eq!(misfit(launch(two)), ArgumentErrorKind::Count);
}
