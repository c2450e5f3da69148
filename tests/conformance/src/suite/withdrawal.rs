//! Cancellation and deadlines: a task that has not begun is withdrawn and keeps its place in the order (I1, I6, I7).

use std::time::{Duration, Instant};

use crate::support::*;
use millstream::{CancelToken, DeviceOptions, Reason, update};

/// I6, I7: the outputs of the task are poisoned, its readers receive the reason, and other data is unchanged.
pub(crate) fn task_cancelled_while_held_poisons_its_outputs(on: On) {
    let (rig, client, stream) = on.start();
    let add_one = add_one(&client);
    let owner = client.new_stream();
    let held = owner.put(&[1_u32; 4]);
    let free = owner.put(&[5_u32; 4]);
    // While the guard lives, the server holds tasks on `held`.
    let guard = on.guard(&owner, (update(&held),)).unwrap();
    let token = CancelToken::new();
    let request = stream.with_cancel(&token);
    launch_update(&request, &add_one, &held).unwrap();
    let mut answer = request.read(&held);
    let after = stream.read(&free);
    let tally = token.cancel();
    assert_eq!((tally.accepted, tally.detached, tally.waiting()), (2, 0, 2));
    drop(guard);
    let error = answer.wait_timeout(Duration::from_secs(20)).unwrap_err();
    assert_eq!(reason(&error), &Reason::Cancelled);
    assert_eq!(after.wait().unwrap(), [5; 4]);
    let error = owner.read(&held).wait().unwrap_err();
    assert_eq!(reason(&error), &Reason::Cancelled);
    owner.fill(&held, 9).unwrap();
    assert_eq!(owner.get(&held), [9; 4]);
    let tally = token.tally();
    assert_eq!((tally.detached, tally.waiting()), (0, 0));
    assert_eq!((tally.withdrawn, rig.stats().withdrawn), (2, 2));
}

/// I6: an issued task runs to its end, and a completed one is not counted as detached.
pub(crate) fn a_task_that_was_issued_runs_to_its_end(on: On) {
    let (_rig, client, stream) = on.start();
    let add_one = add_one(&client);
    let token = CancelToken::new();
    let request = stream.with_cancel(&token);
    let values = request.put(&[1_u32; 4]);
    launch_update(&request, &add_one, &values).unwrap();
    stream.drain();
    let tally = token.cancel();
    assert_eq!((tally.accepted, tally.finished, tally.detached), (3, 3, 0));
    assert_eq!(stream.get(&values), [2; 4]);
    // From now on no task under the token starts.
    launch_update(&request, &add_one, &values).unwrap();
    let error = stream.read(&values).wait().unwrap_err();
    assert_eq!(reason(&error), &Reason::Cancelled);
}

/// I5, I6: a cancel alone ends a reservation that waits for memory; no other message is needed.
pub(crate) fn a_reservation_that_waits_for_memory_is_given_up_when_it_is_cancelled(on: On) {
    let (rig, guard) = on.open_short_of_memory();
    let stream = rig.client().new_stream();
    let token = CancelToken::new();
    let second = large(&stream.with_cancel(&token));
    let answer = stream.read(&second.slice(..4).unwrap());
    token.cancel();
    assert_eq!(reason(&answer.wait().unwrap_err()), &Reason::Cancelled);
    drop(guard);
}

/// I5, I6: the device wakes at the deadline automatically.
pub(crate) fn a_reservation_that_waits_for_memory_is_given_up_at_its_deadline(on: On) {
    let (rig, guard) = on.open_short_of_memory();
    let stream = rig.client().new_stream();
    let soon = Instant::now() + Duration::from_millis(30);
    let later = soon + Duration::from_secs(3600);
    let second = large(&stream.with_deadline(soon).with_deadline(later));
    let error = stream.read(&second.slice(..4).unwrap()).wait().unwrap_err();
    assert_eq!(reason(&error), &Reason::DeadlinePassed);
    assert!(Instant::now() >= soon);
    drop(guard);
}

/// I1, I6: a deadline that has passed withdraws the task; one in the future has no effect.
pub(crate) fn a_task_whose_deadline_has_passed_is_not_issued(on: On) {
    let (_rig, client, stream) = on.start();
    let add_one = add_one(&client);
    let values = stream.put(&[1_u32; 4]);
    let far = stream.with_deadline(Instant::now() + Duration::from_secs(3600));
    launch_update(&far, &add_one, &values).unwrap();
    assert_eq!(far.get(&values), [2; 4]);
    let past = stream.with_deadline(Instant::now());
    let late = || unreachable!("a withdrawn task ran");
    past.host("late", (update(&values),), late).unwrap();
    let error = stream.read(&values).wait().unwrap_err();
    assert_eq!(reason(&error), &Reason::DeadlinePassed);
}

/// I5: a sync is answered after the tasks before it, even if the stream's token is cancelled.
pub(crate) fn a_cancelled_stream_still_answers_a_sync(on: On) {
    let (_rig, _, stream) = on.start();
    let token = CancelToken::new();
    token.cancel();
    let request = stream.with_cancel(&token);
    let values = request.put(&[1_u32; 4]);
    request.drain();
    let error = stream.read(&values).wait().unwrap_err();
    assert_eq!(reason(&error), &Reason::Cancelled);
}

/// I6: work that runs when it is cancelled is counted as detached, runs to its end, and its data is valid.
/// Needs: Threads, HeldKernels.
pub(crate) fn running_work_that_is_cancelled_is_detached_and_ends(on: On) {
    let (rig, client, stream) = on.start();
    let valve = rig.valve();
    let held = held(&client, &valve);
    let values = stream.put(&[1_u32; 4]);
    stream.drain();
    let token = CancelToken::new();
    let request = stream.with_cancel(&token);
    held.launch(&request, &values).unwrap();
    let answer = request.read(&values);
    valve.wait_for_arrivals(1);
    let tally = token.tally();
    assert!(tally.running > 0 && tally.detached == 0, "{tally:?}");
    let tally = token.cancel();
    assert!(tally.detached >= 1, "{tally:?}");
    assert_eq!(tally.detached, tally.running);
    // The device may have been issuing the read just then, so that it runs now, too.
    let of_stream = request.tally().unwrap();
    assert!(
        of_stream.detached >= tally.detached,
        "{of_stream:?}, before {tally:?}"
    );
    assert_eq!(of_stream.accepted, tally.accepted);
    assert_eq!(of_stream.detached, of_stream.running);
    valve.open();
    // The read was either issued as well, or it is withdrawn.
    match answer.wait() {
        Ok(values) => assert_eq!(values, [2, 1, 1, 1]),
        Err(error) => assert_eq!(reason(&error), &Reason::Cancelled),
    }
    assert_eq!(stream.get(&values), [2, 1, 1, 1]);
    let tally = token.tally();
    assert_eq!((tally.running, tally.detached), (0, 0));
    assert_eq!((tally.accepted, tally.finished + tally.withdrawn), (2, 2));
}

/// I6, I12: a device issues few tasks before it knows how long they take, and the CPU and the simulator withdraw those
/// that were issued and have not begun. So a cancel withdraws nearly all tasks that stand behind a long one.
/// Needs: Threads, HeldKernels.
pub(crate) fn tasks_behind_a_long_one_are_withdrawn_by_default_i6(on: On) {
    const TASKS: u32 = 20;
    let (rig, client, stream) = on.start();
    let valve = rig.valve();
    let (held, add_one) = (held(&client, &valve), add_one(&client));
    let values = stream.put(&[0_u32; 4]);
    stream.drain();
    held.launch(&stream, &values).unwrap();
    valve.wait_for_arrivals(1);
    let token = CancelToken::new();
    let request = stream.with_cancel(&token);
    let out = stream.put(&[0_u32; 4]);
    for _ in 0..TASKS {
        launch_update(&request, &add_one, &out).unwrap();
    }
    let answer = request.read(&out);
    // The messages of all tasks come before this answer.
    client.memory_usage().wait().unwrap();
    token.cancel();
    valve.open();
    stream.drain();
    let error = answer.wait().unwrap_err();
    assert_eq!(reason(&error), &Reason::Cancelled);
    let tally = token.tally();
    assert!(tally.finished <= 3, "{tally:?}");
    let ended = tally.finished + tally.withdrawn;
    assert_eq!((tally.accepted, ended), (21, 21), "{tally:?}");
    assert_eq!(rig.stats().withdrawn, tally.withdrawn);
    stream.fill(&out, 9).unwrap();
    assert_eq!(stream.get(&out), [9; 4]);
    assert_eq!(stream.get(&values)[0], 1);
}

/// I6: user code that runs is detached as well, and its guard stays valid.
pub(crate) fn a_guard_outlives_the_cancel_of_its_request(on: On) {
    let (_rig, _, stream) = on.start();
    let values = stream.put(&[1_u32; 4]);
    let token = CancelToken::new();
    let request = stream.with_cancel(&token);
    let guard = on.guard(&request, (update(&values),)).unwrap();
    assert_eq!(token.cancel().detached, 1);
    drop(guard);
    assert_eq!(stream.get(&values), [1; 4]);
    let tally = token.tally();
    assert_eq!((tally.finished, tally.detached), (1, 0));
}

/// I5, I6: dropping an answer withdraws only that answer.
pub(crate) fn dropping_an_answer_withdraws_no_task(on: On) {
    let (_rig, client, stream) = on.start();
    let add_one = add_one(&client);
    let values = stream.put(&[1_u32; 4]);
    let token = CancelToken::new();
    let request = stream.with_cancel(&token);
    launch_update(&request, &add_one, &values).unwrap();
    let kept = request.read(&values);
    drop(request.read(&values));
    drop(request.sync());
    launch_update(&request, &add_one, &values).unwrap();
    assert_eq!(kept.wait().unwrap(), [2; 4]);
    assert_eq!(stream.get(&values), [3; 4]);
    let tally = token.tally();
    assert_eq!((tally.accepted, tally.finished, tally.withdrawn), (4, 4, 0));
}

/// I5: the caller of a held task is answered when the task is cancelled or late, not at the task's turn.
pub(crate) fn read_behind_a_guard_is_answered_at_its_deadline_or_cancel_while_the_guard_lives(
    on: On,
) {
    let (rig, client, stream) = on.start();
    let owner = client.new_stream();
    let (held, guard) = on.put_held(&owner, &[1_u32; 4]);
    let soon = Instant::now() + Duration::from_millis(10);
    let mut late = stream.with_deadline(soon).read(&held);
    let token = CancelToken::new();
    let mut cancelled = stream.with_cancel(&token).read(&held);
    let mut unlimited = stream.read(&held);
    token.cancel();
    let mut cancelled_before = stream.with_cancel(&token).read(&held);
    for (answer, why) in [
        (&mut late, Reason::DeadlinePassed),
        (&mut cancelled, Reason::Cancelled),
        (&mut cancelled_before, Reason::Cancelled),
    ] {
        let error = answer.wait_timeout(PATIENCE).unwrap_err();
        assert_eq!(reason(&error), &why);
    }
    drop(guard);
    assert_eq!(unlimited.wait_timeout(PATIENCE).unwrap(), [1; 4]);
    // The turn of the last withdrawn task comes after this.
    stream.drain();
    assert_eq!(token.tally().withdrawn, 2);
    assert_eq!(rig.stats().withdrawn, 3);
}

/// I5: a cancel takes effect even if live handles fill the slot table: it needs no slot.
pub(crate) fn read_behind_a_guard_is_answered_at_its_cancel_when_the_slot_table_is_full_i5(on: On) {
    let (_rig, client, stream) = on.start_with(DeviceOptions::default().max_handles(16));
    let owner = client.new_stream();
    let (held, guard) = on.put_held(&owner, &[1_u32; 4]);
    let free = client.new_stream();
    let kept = fill_table(&free);
    let token = CancelToken::new();
    let mut cancelled = stream.with_cancel(&token).read(&held);
    // Waits until the device holds the read.
    free.drain();
    token.cancel();
    let error = cancelled.wait_timeout(PATIENCE).unwrap_err();
    assert_eq!(reason(&error), &Reason::Cancelled);
    drop((guard, kept));
    assert_eq!(owner.get(&held), [1; 4]);
}

/// I5: the same for a request for a guard.
pub(crate) fn guard_behind_a_guard_is_refused_at_its_deadline(on: On) {
    let (_rig, client, stream) = on.start();
    let owner = client.new_stream();
    let (held, guard) = on.put_held(&owner, &[1_u32; 4]);
    let soon = Instant::now() + Duration::from_millis(10);
    let second = on.guard(&stream.with_deadline(soon), (update(&held),));
    assert_eq!(reason(&second.err().unwrap()), &Reason::DeadlinePassed);
    drop(guard);
    // The withdrawn guard was to write the data.
    let error = owner.read(&held).wait().unwrap_err();
    assert_eq!(reason(&error), &Reason::DeadlinePassed);
}

/// I6: dropping a drop guard withdraws the tasks of its token; a disarmed guard does not.
pub(crate) fn a_dropped_guard_cancels_its_token(on: On) {
    let rig = on.open();
    let (stream, other) = (rig.client().new_stream(), rig.client().new_stream());
    let values = stream.put(&[1_u32]);
    let held = on.guard(&other, (update(&values),)).unwrap();
    let (kept, dropped) = (CancelToken::new(), CancelToken::new());
    stream.with_cancel(&kept).fill(&values, 2).unwrap();
    let kept = kept.drop_guard().disarm();
    stream.with_cancel(&dropped).fill(&values, 3).unwrap();
    drop(dropped.clone().drop_guard());
    assert!(dropped.is_cancelled() && !kept.is_cancelled());
    drop(held);
    stream.drain();
    let error = stream.read(&values).wait().unwrap_err();
    assert_eq!(reason(&error), &Reason::Cancelled);
    assert_eq!(kept.tally().finished, 1);
}
