//! Memory under pressure: who waits, who goes first, who is told that there is none (I4, I6).

use millstream_protocol::access::Access;
use millstream_protocol::error::Error;
use millstream_protocol::failure::Reason;
use millstream_protocol::memory::MemoryOptions;
use millstream_protocol::options::DeviceOptions;

use super::build::{Answer, Slice, Stream};
use super::rig::Rig;

/// A device with room for four slices of 1024 bytes, each on a page of its own.
fn rig(queues: usize) -> Rig {
    let memory = MemoryOptions::default()
        .page_bytes(4096)
        .isolate(true)
        .max_pages_cached(0);
    let options = DeviceOptions::default().memory(memory).max_tasks(100);
    Rig::with_memory(queues, 4096, options)
}

fn out_of_memory(rig: &Rig, answer: &mut Answer) -> bool {
    match answer.look(rig) {
        Some(Err(Error::Failed(failure))) => {
            matches!(failure.root().reason, Reason::OutOfMemory { .. })
        }
        _ => false,
    }
}

/// I4: what streams hold keeps its slices.
#[test]
fn a_dropped_slice_is_freed_only_after_the_tasks_that_streams_hold_on_it() {
    let mut rig = rig(1);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let (x, y) = (rig.slice(&a, 1024), rig.slice(&b, 1024));
    rig.host(&a, 1, &[y.read()], Ok(()));
    rig.launch(&a, &kernel, 2, &[x.update()]);
    rig.rest();
    drop(x);
    rig.rest();
    assert_eq!(
        (rig.server.live_slices(), rig.ledger.get().memory.live().1),
        (1, 2)
    );
    rig.run_host(0);
    rig.rest();
    // Its task is issued and not complete: the slice is gone, its page is not (the ledger checks).
    assert_eq!(
        (rig.order(0), rig.ledger.get().memory.live()),
        (vec![2], (2, 1))
    );
    rig.drain();
    rig.server.free_pages();
    assert_eq!(rig.ledger.get().memory.live(), (1, 1));
}

/// A reservation that is too early waits for what is on its way back.
#[test]
fn a_reservation_waits_for_memory_that_tasks_still_use() {
    let mut rig = rig(2);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let x = rig.slice(&a, 4096);
    rig.launch(&a, &kernel, 1, &[x.update()]);
    drop(x);
    let y = rig.slice(&b, 4096);
    rig.launch(&b, &kernel, 2, &[y.write()]);
    let mut answer = rig.copy_out(&b, &[y.read()]);
    rig.rest();
    assert_eq!((rig.order(1), rig.held()), (vec![], 3));
    assert!(answer.look(&rig).is_none());
    rig.drain();
    assert_eq!(rig.order(1), [2]);
    assert!(answer.look(&rig).unwrap().is_ok());
}

#[test]
fn a_parked_reservation_keeps_its_place_before_later_ones() {
    let mut rig = rig(2);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let (x, _live) = (rig.slice(&a, 3072), rig.slice(&a, 1024));
    rig.launch(&a, &kernel, 1, &[x.update()]);
    drop(x);
    rig.rest();
    // The first wants all that comes back; the second would fit into a part of it.
    let first = rig.slice(&b, 3072);
    let mut first_read = rig.copy_out(&b, &[first.read()]);
    let second = rig.slice(&a, 1024);
    let mut second_read = rig.copy_out(&a, &[second.read()]);
    rig.rest();
    rig.step(0);
    rig.rest();
    assert_eq!(
        (rig.has_memory(&first), rig.has_memory(&second)),
        (true, false)
    );
    rig.drain();
    assert!(first_read.look(&rig).unwrap().is_ok());
    assert!(out_of_memory(&rig, &mut second_read));
}

#[test]
fn later_small_reservations_may_take_what_was_clean() {
    let mut rig = rig(2);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let x = rig.slice(&a, 3072);
    rig.launch(&a, &kernel, 1, &[x.update()]);
    drop(x);
    rig.rest();
    let first = rig.slice(&b, 3072);
    let second = rig.slice(&a, 1024);
    let third = rig.slice(&a, 1024);
    rig.rest();
    let has = |rig: &Rig| {
        (
            rig.has_memory(&first),
            rig.has_memory(&second),
            rig.has_memory(&third),
        )
    };
    assert_eq!(has(&rig), (false, true, false));
    rig.drain();
    assert_eq!(has(&rig), (true, true, false));
}

/// What the oldest needs beside what returns is not spare.
#[test]
fn later_reservations_leave_what_the_oldest_needs_beside_what_returns() {
    let mut rig = rig(2);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let x = rig.slice(&a, 2048);
    rig.launch(&a, &kernel, 1, &[x.update()]);
    drop(x);
    rig.rest();
    let first = rig.slice(&b, 3072);
    let (second, third) = (rig.slice(&b, 1024), rig.slice(&a, 2048));
    rig.rest();
    assert!(!rig.has_memory(&first) && !rig.has_memory(&third));
    rig.drain();
    assert!(
        rig.has_memory(&first),
        "it had a claim to what returned and to what was left"
    );
    drop((second, third));
}

/// A stream that waits for memory is no exception to the rule for those behind it.
#[test]
fn a_waiting_streams_own_later_reservations_wait_behind_its_first() {
    let options = MemoryOptions::default().page_bytes(4096).small_max(0);
    let options = DeviceOptions::default().memory(options).max_tasks(100);
    let mut rig = Rig::with_memory(2, 4096, options);
    let kernel = rig.kernel();
    let (a, b, c) = (rig.stream(), rig.stream(), rig.stream());
    for number in 1..=4 {
        let quarter = rig.slice(&a, 1024);
        rig.launch(&a, &kernel, number, &[quarter.update()]);
    }
    let point = rig.point(&c);
    rig.rest();
    let first = rig.slice(&b, 4096);
    rig.rest();
    rig.step(0);
    // The device looks where to put this one, sees the first completion, and has a quarter again.
    rig.wait_for(&c, &point);
    let second = rig.slice(&b, 1024);
    rig.admit();
    assert!(!rig.has_memory(&second));
    rig.drain();
    assert!(rig.has_memory(&first));
}

/// Who waits first is who asked first, not whose queue is looked at first.
#[test]
fn the_oldest_reservation_is_served_first_whatever_its_queue() {
    let mut rig = rig(2);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let x = rig.slice(&a, 4096);
    rig.launch(&a, &kernel, 1, &[x.update()]);
    drop(x);
    rig.host(&b, 2, &[], Ok(()));
    let first = rig.slice(&b, 3072);
    let second = rig.slice(&a, 2048);
    rig.rest();
    rig.run_host(0);
    rig.rest();
    rig.drain();
    assert_eq!(
        (rig.has_memory(&first), rig.has_memory(&second)),
        (true, false)
    );
}

/// I6: nothing can come back, so it fails, and so does what needs it; nothing else does.
#[test]
fn out_of_memory_fails_only_when_nothing_can_return() {
    let mut rig = rig(2);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let x = rig.slice(&a, 3072);
    rig.launch(&a, &kernel, 1, &[x.update()]);
    let y = rig.slice(&b, 2048);
    let mut refused = rig.copy_out(&b, &[y.read()]);
    let mut fine = rig.copy_out(&a, &[x.read()]);
    rig.rest();
    assert!(out_of_memory(&rig, &mut refused), "x is live");
    rig.drain();
    assert!(fine.look(&rig).unwrap().is_ok());
    // The same with x on its way back waits instead.
    rig.launch(&a, &kernel, 2, &[x.update()]);
    drop(x);
    let z = rig.slice(&b, 4096);
    let mut waits = rig.copy_out(&b, &[z.read()]);
    rig.rest();
    assert!(waits.look(&rig).is_none());
    rig.drain();
    assert!(waits.look(&rig).unwrap().is_ok());
}

/// I5: a slice that comes back only after the memory does, does not come back.
#[test]
fn a_reservation_fails_when_only_tasks_behind_it_hold_dropped_slices() {
    let mut rig = rig(1);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let x = rig.slice(&a, 3072);
    let y = rig.slice(&a, 2048);
    rig.launch(&a, &kernel, 1, &[x.read(), y.write()]);
    // Another stream waits for the one that waits.
    rig.launch(&b, &kernel, 2, &[x.update()]);
    let mut answer = rig.copy_out(&a, &[y.read()]);
    drop((x, y));
    rig.drain();
    assert!(out_of_memory(&rig, &mut answer));
    assert_eq!((rig.held(), rig.order(0)), (0, vec![2]));
}

#[test]
fn a_reservation_that_was_dropped_while_it_waits_ends() {
    let mut rig = rig(1);
    let (a, b) = (rig.stream(), rig.stream());
    let _x = rig.slice(&a, 3072);
    drop(rig.slice(&b, 2048));
    let mut answer = rig.sync(&b);
    rig.drain();
    assert!(answer.look(&rig).unwrap().is_ok());
    assert_eq!((rig.held(), rig.server.live_slices()), (0, 1));
}

/// A reservation needs no place in a queue.
#[test]
fn a_parked_reservation_goes_on_while_its_queue_is_full() {
    let memory = MemoryOptions::default()
        .page_bytes(4096)
        .isolate(true)
        .max_pages_cached(0);
    let options = DeviceOptions::default().memory(memory).max_in_flight(1);
    let mut rig = Rig::with_memory(2, 4096, options);
    let kernel = rig.kernel();
    let (a, b, c) = (rig.stream(), rig.stream(), rig.stream());
    let (x, y) = (rig.slice(&a, 2048), rig.slice(&b, 2048));
    rig.launch(&b, &kernel, 1, &[y.update()]);
    rig.launch(&a, &kernel, 2, &[x.update()]);
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

/// I6: above a soft limit there is memory as long as nobody else waits for it, and each crossing counts.
#[test]
fn a_client_above_its_soft_limit_gets_what_there_is() {
    let mut rig = rig(1);
    let limited = rig.limited_stream(1024);
    let slices: Vec<_> = (0..4).map(|_| rig.slice(&limited, 1024)).collect();
    rig.rest();
    assert!(slices.iter().all(|slice| rig.has_memory(slice)));
    assert_eq!(rig.server.stats().soft_limit_crossings, 1);
    drop(slices);
    rig.rest();
    let _again = [rig.slice(&limited, 1024), rig.slice(&limited, 1024)];
    rig.rest();
    assert_eq!(rig.server.stats().soft_limit_crossings, 2);
}

/// I6: who came first does not matter between an ask that goes above its limit and one that does not.
#[test]
fn memory_that_returns_goes_to_the_ask_that_stays_within_its_limit() {
    let mut rig = rig(3);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let limited = rig.limited_stream(2048);
    let x = rig.slice(&a, 4096);
    rig.launch(&a, &kernel, 1, &[x.update()]);
    drop(x);
    let above = rig.slice(&limited, 3072);
    let mut above_read = rig.copy_out(&limited, &[above.read()]);
    rig.rest();
    let within = rig.slice(&b, 3072);
    rig.rest();
    assert_eq!(
        (rig.has_memory(&above), rig.has_memory(&within)),
        (false, false)
    );
    rig.drain();
    assert_eq!(
        (rig.has_memory(&above), rig.has_memory(&within)),
        (false, true)
    );
    assert!(out_of_memory(&rig, &mut above_read));
}

/// I6: it comes at once to an ask of its own within the limit as well, and to a new one before those that wait.
#[test]
fn a_new_ask_within_its_limit_goes_before_those_above_theirs_that_wait() {
    let mut rig = rig(3);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let limited = rig.limited_stream(1024);
    let x = rig.slice(&a, 3072);
    rig.launch(&a, &kernel, 1, &[x.update()]);
    drop(x);
    let above = rig.slice(&limited, 3072);
    rig.rest();
    // What is clean is a part of what the one that waits needs.
    let within = rig.slice(&b, 1024);
    rig.rest();
    assert_eq!(
        (rig.has_memory(&above), rig.has_memory(&within)),
        (false, true)
    );
    drop(within);
    rig.drain();
    assert!(rig.has_memory(&above));
}

/// I5, I6: what an ask within its limit needs lies behind one that goes above: that one is given up. Each would
/// wait for the other otherwise, or the wrong one would fail.
#[test]
fn an_ask_above_its_limit_does_not_make_one_within_its_limit_fail() {
    let mut rig = rig(2);
    let (kernel, b) = (rig.kernel(), rig.stream());
    let limited = rig.limited_stream(3072);
    let x = rig.slice(&limited, 3072);
    let above = rig.slice(&limited, 2048);
    let mut above_read = rig.copy_out(&limited, &[above.read()]);
    rig.launch(&limited, &kernel, 1, &[x.update()]);
    drop(x);
    let within = rig.slice(&b, 3072);
    rig.launch(&b, &kernel, 2, &[within.write()]);
    let mut within_read = rig.copy_out(&b, &[within.read()]);
    rig.drain();
    assert!(out_of_memory(&rig, &mut above_read));
    assert!(within_read.look(&rig).unwrap().is_ok());
}

/// I6: giving up an ask that keeps nothing back helps nobody: it gets what the other cannot use.
#[test]
fn an_ask_above_its_limit_is_not_given_up_for_nothing() {
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
    assert!(out_of_memory(&rig, &mut within_read) && out_of_memory(&rig, &mut much_read));
    assert!(rig.has_memory(&above));
}

/// I10: from the very call that says that the device is gone on, nothing is freed on it.
#[test]
fn the_step_in_which_the_device_is_lost_frees_no_page() {
    let memory = MemoryOptions::default().page_bytes(64 << 10);
    let options = DeviceOptions::default().memory(memory).max_tasks(100);
    let mut rig = Rig::with_memory(2, 1 << 20, options);
    let (kernel, a, b) = (rig.kernel(), rig.stream(), rig.stream());
    let x = rig.slice(&a, 1 << 19);
    rig.launch(&a, &kernel, 1, &[x.update()]);
    drop(x);
    let _waits = rig.slice(&b, 3 << 18);
    rig.rest();
    assert_eq!((rig.held(), rig.ledger.get().memory.live().0), (1, 1));
    rig.ledger.get().memory.lost = true;
    // The page of `x` is free now. The one that waits for memory meets the loss, and the cleanup comes after it.
    rig.step(0);
    rig.cleanup();
    rig.admit();
    assert!(rig.server.is_lost());
    assert_eq!(rig.ledger.get().memory.live().0, 1);
}

/// A replay of which nothing can run, since there is no memory for what it is bound to, takes the cursors of all its tasks, one after the
/// other: nobody waits for one that was left out (I5).
#[test]
fn a_replay_that_comes_to_nothing_takes_all_its_cursors_i5() {
    let mut rig = rig(1);
    let (kernel, a) = (rig.kernel(), rig.stream());
    let x = rig.slice(&a, 1024);
    let none = rig.slice(&a, 8192);
    rig.rest();
    let launches = [1, 2, 3, 4].map(|value| (value, vec![x.update()]));
    let recording = rig.record(&kernel, &launches);
    let before = rig.in_flight(0);
    rig.replay(&a, &recording, &[none.update()]);
    rig.launch(&a, &kernel, 5, &[x.update()]);
    rig.rest();
    assert_eq!((rig.order(0), rig.in_flight(0)), (vec![5], before + 5));
    rig.drain();
}

/// Slices that have all the memory there is.
fn fill_up(rig: &mut Rig, stream: &Stream) -> Vec<Slice> {
    (0..4).map(|_| rig.slice(stream, 1024)).collect()
}

/// A slice that got no memory is tried again when a task overwrites it: what the task writes is data then, and no more (I7).
#[test]
fn overwriting_a_slice_that_got_no_memory_reserves_it_again() {
    let mut rig = rig(1);
    let (kernel, a) = (rig.kernel(), rig.stream());
    let all = fill_up(&mut rig, &a);
    let x = rig.slice(&a, 1024);
    rig.launch(&a, &kernel, 1, &[x.write()]);
    let mut early = rig.copy_out(&a, &[x.read()]);
    rig.drain();
    assert!(out_of_memory(&rig, &mut early), "there is no memory yet");
    drop(all);
    rig.drain();
    rig.launch(&a, &kernel, 2, &[x.update()]);
    let mut updated = rig.copy_out(&a, &[x.read()]);
    rig.launch(&a, &kernel, 3, &[x.part(0..512, Access::Write)]);
    let (mut written, mut left) = (
        rig.copy_out(&a, &[x.part(0..512, Access::Read)]),
        rig.copy_out(&a, &[x.part(512..1024, Access::Read)]),
    );
    rig.drain();
    assert!(
        out_of_memory(&rig, &mut updated),
        "an update defines nothing"
    );
    assert!(matches!(written.look(&rig), Some(Ok(_))));
    assert!(out_of_memory(&rig, &mut left), "nothing has written that");
}

/// A parameter without memory fails the tasks of a recording that touch it, and no others (I7). The next replay tries again.
#[test]
fn parameter_without_memory_fails_only_the_tasks_that_touch_it_and_only_until_there_is_memory() {
    let mut rig = rig(1);
    let (kernel, a) = (rig.kernel(), rig.stream());
    let mut all = fill_up(&mut rig, &a);
    let (x, lacking) = (all.pop().unwrap(), rig.slice(&a, 1024));
    let tasks = [(1, vec![lacking.write()]), (2, vec![x.write()])];
    let recording = rig.record(&kernel, &tasks);
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

/// Two parameters of a replay stand for one slice without memory, of which the first is read and the second is written: the slice gets
/// memory for both, and what reads it after the write finds data (I7).
#[test]
fn parameters_of_one_slice_without_memory_are_bound_to_the_same_memory_i7() {
    let mut rig = rig(1);
    let (kernel, a) = (rig.kernel(), rig.stream());
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
    let recording = rig.record(&kernel, &tasks);
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
        "what reads it before the write fails alone"
    );
}
