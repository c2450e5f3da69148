//! Memory under pressure: which reservations wait, which are served first, and which fail (I4, I6).

use millstream_protocol::{Access, DeviceOptions, MemoryOptions};

use super::build::{Slice, Stream};
use super::rig::Rig;

/// Creates a device with room for four slices of 1024 bytes, each on a page of its own.
fn rig(queues: usize) -> Rig {
    Rig::isolated(queues, 4096, DeviceOptions::default().max_tasks(100))
}

/// I4: held tasks keep their slices.
#[test]
fn dropped_slice_is_freed_after_the_held_tasks_that_name_it_i4() {
    let mut rig = rig(1);
    let [(a, x), (_b, y)] = rig.owners(1024);
    rig.host(&a, &[y.read()]);
    rig.launch(&a, 2, &[x.update()]);
    rig.rest();
    drop(x);
    rig.rest();
    assert_eq!(
        (rig.actor.server.live_slices(), rig.ledger().live.1),
        (1, 2)
    );
    rig.run_host(0);
    rig.rest();
    // Its task is issued and has not completed: the slice is removed, its page is not free (the simulator checks).
    assert_eq!((rig.order(0), rig.ledger().live), (vec![2], (2, 1)));
    rig.drain();
    rig.actor.server.free_pages();
    assert_eq!(rig.ledger().live, (1, 1));
}

#[test]
fn parked_reservation_is_served_before_later_ones() {
    let mut rig = rig(2);
    let [a, b] = rig.streams();
    let (x, _live) = (rig.slice(&a, 3072), rig.slice(&a, 1024));
    rig.launch(&a, 1, &[x.update()]);
    drop(x);
    rig.rest();
    // The first needs all that returns; the second would fit into a part of it.
    let first = rig.slice(&b, 3072);
    let mut first_read = rig.copy_out(&b, &[first.read()]);
    let second = rig.slice(&a, 1024);
    let mut second_read = rig.copy_out(&a, &[second.read()]);
    rig.rest();
    rig.step(0);
    rig.rest();
    assert_eq!(rig.have_memory([&first, &second]), [true, false]);
    rig.drain();
    assert!(first_read.look(&rig).unwrap().is_ok());
    assert!(second_read.is_out_of_memory(&rig));
}

#[test]
fn later_reservation_takes_memory_that_was_free_before_the_wait() {
    let mut rig = rig(2);
    let [a, b] = rig.streams();
    let x = rig.slice(&a, 3072);
    rig.launch(&a, 1, &[x.update()]);
    drop(x);
    rig.rest();
    let first = rig.slice(&b, 3072);
    let second = rig.slice(&a, 1024);
    let third = rig.slice(&a, 1024);
    rig.rest();
    let all = [&first, &second, &third];
    assert_eq!(rig.have_memory(all), [false, true, false]);
    rig.drain();
    assert_eq!(rig.have_memory(all), [true, true, false]);
}

/// Free memory that the first reservation needs in addition to what returns is not in the budget.
#[test]
fn later_reservations_leave_the_first_what_it_needs_beside_what_returns() {
    let mut rig = rig(2);
    let [a, b] = rig.streams();
    let x = rig.slice(&a, 2048);
    rig.launch(&a, 1, &[x.update()]);
    drop(x);
    rig.rest();
    let first = rig.slice(&b, 3072);
    let (second, third) = (rig.slice(&b, 1024), rig.slice(&a, 2048));
    rig.rest();
    assert!(!rig.has_memory(&first) && !rig.has_memory(&third));
    rig.drain();
    assert!(
        rig.has_memory(&first),
        "it gets what returned and what was free"
    );
    drop((second, third));
}

/// A stream that waits for memory has no privilege for its further reservations.
#[test]
fn later_reservation_of_a_waiting_stream_waits_behind_its_first() {
    let options = MemoryOptions::default().page_bytes(4096).small_max(0);
    let options = DeviceOptions::default().memory(options).max_tasks(100);
    let mut rig = Rig::with_memory(2, 4096, options);
    let [a, b, c] = rig.streams();
    for number in 1..=4 {
        let quarter = rig.slice(&a, 1024);
        rig.launch(&a, number, &[quarter.update()]);
    }
    let point = rig.point(&c);
    rig.rest();
    let first = rig.slice(&b, 4096);
    rig.rest();
    rig.step(0);
    // The device refreshes the queues for this task, sees the first completion, and has a quarter again.
    rig.wait_for(&c, &point);
    let second = rig.slice(&b, 1024);
    rig.admit();
    assert!(!rig.has_memory(&second));
    rig.drain();
    assert!(rig.has_memory(&first));
}

/// The mailbox position decides, not the order in which queues are visited.
#[test]
fn oldest_reservation_is_served_first_on_any_queue() {
    let mut rig = rig(2);
    let [a, b] = rig.streams();
    let x = rig.slice(&a, 4096);
    rig.launch(&a, 1, &[x.update()]);
    drop(x);
    rig.host(&b, &[]);
    let first = rig.slice(&b, 3072);
    let second = rig.slice(&a, 2048);
    rig.rest();
    rig.run_host(0);
    rig.rest();
    rig.drain();
    assert_eq!(rig.have_memory([&first, &second]), [true, false]);
}

/// I6: no memory can return, so the reservation fails, and so does the task that needs it; nothing else does.
#[test]
fn reservation_fails_only_if_no_memory_can_return_i6() {
    let mut rig = rig(2);
    let [a, b] = rig.streams();
    let x = rig.slice(&a, 3072);
    rig.launch(&a, 1, &[x.update()]);
    let y = rig.slice(&b, 2048);
    let mut refused = rig.copy_out(&b, &[y.read()]);
    let mut fine = rig.copy_out(&a, &[x.read()]);
    rig.rest();
    assert!(refused.is_out_of_memory(&rig), "x is live");
    rig.drain();
    assert!(fine.look(&rig).unwrap().is_ok());
    // While the memory of x will return, a reservation waits.
    rig.launch(&a, 2, &[x.update()]);
    drop(x);
    let z = rig.slice(&b, 4096);
    let mut waits = rig.copy_out(&b, &[z.read()]);
    rig.rest();
    assert!(waits.look(&rig).is_none());
    rig.drain();
    assert!(waits.look(&rig).unwrap().is_ok());
}

/// I5: memory that would return only after the reservation is served does not keep it waiting.
#[test]
fn reservation_fails_if_only_tasks_behind_it_hold_dropped_slices_i5() {
    let mut rig = rig(1);
    let [a, b] = rig.streams();
    let x = rig.slice(&a, 3072);
    let y = rig.slice(&a, 2048);
    rig.launch(&a, 1, &[x.read(), y.write()]);
    // Another stream waits for the one that waits.
    rig.launch(&b, 2, &[x.update()]);
    let mut answer = rig.copy_out(&a, &[y.read()]);
    drop((x, y));
    rig.drain();
    assert!(answer.is_out_of_memory(&rig));
    assert_eq!((rig.held(), rig.order(0)), (0, vec![2]));
}

#[test]
fn reservation_of_a_dropped_slice_ends() {
    let mut rig = rig(1);
    let [a, b] = rig.streams();
    let _x = rig.slice(&a, 3072);
    drop(rig.slice(&b, 2048));
    let mut answer = rig.sync(&b);
    rig.drain();
    assert!(answer.look(&rig).unwrap().is_ok());
    assert_eq!((rig.held(), rig.actor.server.live_slices()), (0, 1));
}

/// A reservation takes no cursor.
#[test]
fn parked_reservation_is_served_while_its_queue_is_full() {
    let mut rig = Rig::isolated(2, 4096, DeviceOptions::default().max_in_flight(1));
    let [a, b, c] = rig.streams();
    let (x, y) = (rig.slice(&a, 2048), rig.slice(&b, 2048));
    rig.launch(&b, 1, &[y.update()]);
    rig.launch(&a, 2, &[x.update()]);
    rig.rest();
    let queue_of_y = rig.queue_of(b.id()).index();
    drop(y);
    let z = rig.slice(&c, 2048);
    rig.rest();
    assert!(!rig.has_memory(&z));
    rig.step(queue_of_y);
    rig.rest();
    assert!(rig.has_memory(&z));
    assert_eq!(rig.in_flight(1 - queue_of_y), 1);
    rig.drain();
}

/// I6: a new reservation within its limit is served at once, before waiting ones above theirs.
#[test]
fn new_reservation_within_its_limit_is_served_before_waiting_ones_above_theirs_i6() {
    let mut rig = rig(3);
    let [a, b] = rig.streams();
    let limited = rig.limited_stream(1024);
    let x = rig.slice(&a, 3072);
    rig.launch(&a, 1, &[x.update()]);
    drop(x);
    let above = rig.slice(&limited, 3072);
    rig.rest();
    // The free memory is a part of what the waiting reservation needs.
    let within = rig.slice(&b, 1024);
    rig.rest();
    assert_eq!(rig.have_memory([&above, &within]), [false, true]);
    drop(within);
    rig.drain();
    assert!(rig.has_memory(&above));
}

/// I5, I6: memory that a reservation within its limit needs lies behind one above its limit, which is given up.
/// Otherwise each would wait for the other, or the wrong one would fail.
#[test]
fn reservation_above_its_limit_is_given_up_for_one_within_its_limit_i5_i6() {
    let mut rig = rig(2);
    let b = rig.stream();
    let limited = rig.limited_stream(3072);
    let x = rig.slice(&limited, 3072);
    let above = rig.slice(&limited, 2048);
    let mut above_read = rig.copy_out(&limited, &[above.read()]);
    rig.launch(&limited, 1, &[x.update()]);
    drop(x);
    let within = rig.slice(&b, 3072);
    rig.launch(&b, 2, &[within.write()]);
    let mut within_read = rig.copy_out(&b, &[within.read()]);
    rig.drain();
    assert!(above_read.is_out_of_memory(&rig));
    assert!(within_read.look(&rig).unwrap().is_ok());
}

/// I6: a reservation that holds back no memory is not given up: it gets memory that the other cannot use.
#[test]
fn reservation_above_its_limit_is_not_given_up_if_that_frees_nothing_i6() {
    let mut rig = rig(2);
    let b = rig.stream();
    let limited = rig.limited_stream(1024);
    let _live = rig.slice(&b, 1024);
    let much = rig.slice(&limited, 4096);
    let mut much_read = rig.copy_out(&limited, &[much.read()]);
    let other = rig.limited_stream(1024);
    let above = rig.slice(&other, 2048);
    let within = rig.slice(&b, 4096);
    let mut within_read = rig.copy_out(&b, &[within.read()]);
    rig.drain();
    assert!(within_read.is_out_of_memory(&rig) && much_read.is_out_of_memory(&rig));
    assert!(rig.has_memory(&above));
}

/// I10: nothing is freed on the device from the call on that reports the loss.
#[test]
fn no_page_is_freed_in_the_step_that_loses_the_device_i10() {
    let memory = MemoryOptions::default().page_bytes(64 << 10);
    let options = DeviceOptions::default().memory(memory).max_tasks(100);
    let mut rig = Rig::with_memory(2, 1 << 20, options);
    let [a, b] = rig.streams();
    let x = rig.slice(&a, 1 << 19);
    rig.launch(&a, 1, &[x.update()]);
    drop(x);
    let _waits = rig.slice(&b, 3 << 18);
    rig.rest();
    assert_eq!((rig.held(), rig.ledger().live.0), (1, 1));
    rig.ledger_mut().lost = true;
    // The page of `x` is free now. The reservation that waits finds the loss, and the cleanup comes after it.
    rig.step(0);
    rig.cleanup();
    rig.admit();
    assert!(rig.actor.server.is_lost());
    assert_eq!(rig.ledger().live.0, 1);
}

/// A replay whose parameter has no memory runs nothing, but takes the cursors of all its tasks, one by one: nothing
/// waits for a cursor that was left out (I5).
#[test]
fn replay_that_runs_nothing_takes_all_its_cursors_i5() {
    let mut rig = rig(1);
    let a = rig.stream();
    let x = rig.slice(&a, 1024);
    let none = rig.slice(&a, 8192);
    rig.rest();
    let launches = [1, 2, 3, 4].map(|value| (value, vec![x.update()]));
    let recording = rig.record(&launches);
    let before = rig.in_flight(0);
    rig.replay(&a, &recording, &[none.update()]);
    rig.launch(&a, 5, &[x.update()]);
    rig.rest();
    assert_eq!((rig.order(0), rig.in_flight(0)), (vec![5], before + 5));
    rig.drain();
}

/// Reserves slices that take all memory.
fn fill_up(rig: &mut Rig, stream: &Stream) -> Vec<Slice> {
    (0..4).map(|_| rig.slice(stream, 1024)).collect()
}

/// A task that overwrites a slice without memory tries again to reserve it: the bytes that it writes are data, and no
/// others (I7).
#[test]
fn overwrite_of_a_slice_without_memory_reserves_it_again_i7() {
    let mut rig = rig(1);
    let a = rig.stream();
    let all = fill_up(&mut rig, &a);
    let x = rig.slice(&a, 1024);
    rig.launch(&a, 1, &[x.write()]);
    let mut early = rig.copy_out(&a, &[x.read()]);
    rig.drain();
    assert!(early.is_out_of_memory(&rig), "there is no memory yet");
    drop(all);
    rig.drain();
    rig.launch(&a, 2, &[x.update()]);
    let mut updated = rig.copy_out(&a, &[x.read()]);
    rig.launch(&a, 3, &[x.part(0..512, Access::Write)]);
    let (mut written, mut left) = (
        rig.copy_out(&a, &[x.part(0..512, Access::Read)]),
        rig.copy_out(&a, &[x.part(512..1024, Access::Read)]),
    );
    rig.drain();
    assert!(
        updated.is_out_of_memory(&rig),
        "an update does not reserve memory"
    );
    assert!(matches!(written.look(&rig), Some(Ok(_))));
    assert!(
        left.is_out_of_memory(&rig),
        "no task has written these bytes"
    );
}

/// A parameter without memory fails only the recorded tasks that touch it (I7). The next replay tries again.
#[test]
fn parameter_without_memory_fails_only_the_tasks_that_touch_it_until_there_is_memory_i7() {
    let mut rig = rig(1);
    let a = rig.stream();
    let mut all = fill_up(&mut rig, &a);
    let (x, lacking) = (all.pop().unwrap(), rig.slice(&a, 1024));
    let tasks = [(1, vec![lacking.write()]), (2, vec![x.write()])];
    let recording = rig.record(&tasks);
    let parameters = recording.parameters.clone();
    let replayed = |rig: &mut Rig| {
        rig.replay(&a, &recording, &parameters);
        let answers = [&lacking, &x].map(|slice| rig.copy_out(&a, &[slice.read()]));
        rig.drain();
        answers.map(|mut answer| matches!(answer.look(rig), Some(Ok(_))))
    };
    assert_eq!(replayed(&mut rig), [false, true]);
    all.pop();
    rig.drain();
    assert_eq!(replayed(&mut rig), [true, true]);
}

/// Two parameters of a replay name one slice without memory; the first is read and the second is written. The slice
/// gets memory for both, and a task that reads it after the write reads data (I7).
#[test]
fn parameters_of_one_slice_without_memory_are_bound_to_the_same_memory_i7() {
    let mut rig = rig(1);
    let a = rig.stream();
    let mut all = fill_up(&mut rig, &a);
    let lacking = rig.slice(&a, 1024);
    rig.drain();
    let (early, late) = (all.pop().unwrap(), all.pop().unwrap());
    let (read, written) = (all[0].read(), all[1].write());
    let tasks = [
        (1, vec![read, early.write()]),
        (2, vec![written]),
        (3, vec![read, late.write()]),
    ];
    let recording = rig.record(&tasks);
    let bound = recording.parameters.iter().map(|parameter| {
        if parameter.slice == read.slice {
            lacking.read()
        } else if parameter.slice == written.slice {
            lacking.write()
        } else {
            *parameter
        }
    });
    let bound: Vec<_> = bound.collect();
    drop(all);
    rig.drain();
    rig.replay(&a, &recording, &bound);
    let answers = [&early, &late].map(|slice| rig.copy_out(&a, &[slice.read()]));
    rig.drain();
    let found = answers.map(|mut answer| matches!(answer.look(&rig), Some(Ok(_))));
    assert_eq!(
        found,
        [false, true],
        "only the task that reads it before the write fails"
    );
}
