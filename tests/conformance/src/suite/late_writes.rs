//! External and staged tasks, and writes whose bytes arrive later: order, failures, withdrawal, ends (I1, I2, I5, I6, I7, I10).

use std::sync::mpsc;
use std::time::Duration;

use bytemuck::cast_slice;

use crate::support::*;
use millstream::error::ArgumentErrorKind;
use millstream::{
    CancelToken, Error, ExternalTask, Failure, Handle, Reason, StagedTask, Stream, update,
};

/// Submits an external task that updates `values`, and returns where its beginning arrives.
fn external(stream: &Stream, values: &Handle<u32>) -> mpsc::Receiver<Result<ExternalTask, Error>> {
    let (sender, receiver) = mpsc::channel();
    stream
        .external("outside", update(values), move |begun| {
            // The test may have ended.
            let _ = sender.send(begun);
        })
        .unwrap_or_else(|returned| panic!("{}", returned.error));
    receiver
}

/// I1, I2: the bytes may be sent before or after the task's turn, from any thread, and every later task sees them. Other
/// data and other streams do not wait.
pub(crate) fn late_bytes_are_seen_by_every_later_task_and_delay_no_other(on: On) {
    let (rig, client, other) = on.start();
    let add_one = add_one(&client);
    let stream = client.new_stream();
    let values = stream.put(&[1_u32; 600]);
    let free = other.put(&[5_u32; 600]);
    for round in 0..4_u32 {
        let late = stream.write_later("receive", &values).unwrap();
        assert_eq!(late.expected_bytes(), 2_400);
        launch_update(&other, &add_one, &values).unwrap();
        let answer = stream.read(&values);
        let beside = rig.client().new_stream().read(&free);
        assert_eq!(beside.wait().unwrap(), [5; 600]);
        let send = move || late.send(vec![round; 600]).unwrap();
        match round % 2 {
            0 => send(),
            _ => std::thread::spawn(send).join().unwrap(),
        }
        assert_eq!(answer.wait().unwrap(), [round + 1; 600]);
    }
}

/// I7: a failure from outside follows the data with its root, and an overwrite heals.
pub(crate) fn a_late_write_that_fails_poisons_its_target_with_the_cause(on: On) {
    let (_rig, _, stream) = on.start();
    let values = stream.put(&[1_u32; 4]);
    let late = stream.write_later("receive", &values).unwrap();
    let cause = Failure::not_run(&"far away".into(), Reason::Refused("no luck".to_owned()));
    late.fail_by(cause);
    let expected =
        "`far away` failed: the device refused it, no luck; so these did not run: `receive`";
    assert_eq!(stream.failure(&values), expected);
    stream.fill(&values, 3).unwrap();
    assert_eq!(stream.get(&values), [3; 4]);
    drop(stream.write_later("receive", &values).unwrap());
    let expected =
        "`receive` failed: the device refused it, its bytes were dropped before they were sent";
    assert_eq!(stream.failure(&values), expected);
    let late = stream.write_later("receive", &values).unwrap();
    let refused = late.send(vec![1_u32; 3]).unwrap_err();
    assert_eq!(refused.value, [1; 3]);
    assert_eq!(
        misfit(Err::<(), _>(refused.error)),
        ArgumentErrorKind::Length
    );
    stream.failure(&values);
    // Bytes that arrive heal.
    let late = stream.write_later("receive", &values).unwrap();
    late.send(vec![8_u32; 4]).unwrap();
    assert_eq!(stream.get(&values), [8; 4]);
}

/// I6, I7: a late write that is withdrawn before its turn poisons its target with the reason, and drops its bytes. Once
/// its turn has come it is detached: its bytes are written.
pub(crate) fn a_late_write_is_withdrawn_before_its_turn_only(on: On) {
    let (rig, client, stream) = on.start();
    let owner = client.new_stream();
    let (values, guard) = on.put_held(&owner, &[1_u32; 4]);
    let token = CancelToken::new();
    let bound = stream.with_cancel(&token);
    let late = bound.write_later("receive", &values).unwrap();
    let answer = stream.read(&values);
    token.cancel();
    drop(guard);
    assert_eq!(reason(&answer.wait().unwrap_err()), &Reason::Cancelled);
    assert!(late.is_over());
    late.send(vec![2_u32; 4]).unwrap();
    // Bytes that come too late change nothing.
    stream.failure(&values);

    let token = CancelToken::new();
    let bound = stream.with_cancel(&token);
    let late = bound.write_later("receive", &values).unwrap();
    await_turn(&rig, &token);
    assert_eq!(token.cancel().detached, 1);
    late.send(vec![2_u32; 4]).unwrap();
    assert_eq!(stream.get(&values), [2; 4]);
    let tally = token.tally();
    assert_eq!((tally.finished, tally.withdrawn, tally.detached), (1, 0, 0));
}

/// I5, I6: writes whose bytes arrive in the reverse order, on one stream and on many, are all done.
pub(crate) fn a_thousand_late_writes_in_flight_arrive_in_any_order(on: On) {
    let rig = on.open();
    let client = rig.client();
    let streams: Vec<Stream> = (0..10).map(|_| client.new_stream()).collect();
    let values = streams[0].put(&vec![0_u32; 64_000]);
    let parts: Vec<Handle<u32>> = (0..1_000)
        .map(|part| values.slice(part * 64..(part + 1) * 64).unwrap())
        .collect();
    let mut late = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        late.push(streams[index % 10].write_later("receive", part).unwrap());
    }
    for (index, late) in late.into_iter().enumerate().rev() {
        late.send(vec![index as u32; 64]).unwrap();
    }
    let found = client.new_stream().get(&values);
    let expected = (0..1_000).flat_map(|part| [part; 64]);
    assert!(found.into_iter().eq(expected));
}

/// I2, I7: an external task begins once its data is ready, holds back what conflicts with it, and ends as its owner says.
pub(crate) fn an_external_task_ends_when_its_owner_says_so(on: On) {
    let (rig, client, stream) = on.start();
    let boom = boom(on, &client);
    let values = stream.put(&[1_u32; 4]);
    let begun = external(&stream, &values);
    let mut answer = client.new_stream().read(&values);
    let task = arrived(&rig, &begun).unwrap();
    // The task has not ended.
    assert!(answer.wait_timeout(Duration::ZERO).is_err());
    task.complete();
    assert_eq!(answer.wait().unwrap(), [1; 4]);

    let begun = external(&stream, &values);
    let task = arrived(&rig, &begun).unwrap();
    task.fail(Reason::Refused("not today".to_owned()));
    let expected = "`outside` failed: the device refused it, not today";
    assert_eq!(stream.failure(&values), expected);

    stream.fill(&values, 2).unwrap();
    let begun = external(&stream, &values);
    drop(arrived(&rig, &begun).unwrap());
    let expected =
        "`outside` failed: the device refused it, it was dropped before it was completed";
    assert_eq!(stream.failure(&values), expected);

    stream.fill(&values, 2).unwrap();
    boom.launch(&stream, &values).unwrap();
    let begun = external(&stream, &values);
    let error = arrived(&rig, &begun).unwrap_err();
    assert_eq!(error.to_string(), "`boom` failed: panicked with \"boom\"");
}

/// I6: a panic that drops a late write of another task fails that write, too.
pub(crate) fn a_panic_that_drops_a_late_write_fails_it(on: On) {
    let (rig, client, stream) = on.start();
    let other = client.new_stream();
    let values = stream.put(&[1_u32; 4]);
    let token = CancelToken::new();
    let late = stream.with_cancel(&token).write_later("receive", &values);
    let late = late.unwrap();
    await_turn(&rig, &token);
    let panics = move || {
        let _late = late;
        panic!("on purpose");
    };
    let submitted = other.host("panics", (), panics);
    submitted.map_err(Error::from).unwrap();
    let text = stream.failure(&values);
    let why = "its bytes were dropped before they were sent";
    assert!(text.contains(why), "{text}");
}

/// I2: a beginning that panics after it has moved the task elsewhere does not end it.
pub(crate) fn an_external_task_outlives_a_panic_of_its_beginning(on: On) {
    let (rig, _, stream) = on.start();
    let values = stream.put(&[1_u32; 4]);
    let (sender, begun) = mpsc::channel();
    stream
        .external("outside", update(&values), move |task| {
            // The test may have ended.
            let _ = sender.send(task);
            panic!("on purpose");
        })
        .unwrap_or_else(|returned| panic!("{}", returned.error));
    let mut answer = rig.client().new_stream().read(&values);
    let task = arrived(&rig, &begun).unwrap();
    for _ in 0..3 {
        assert!(answer.wait_timeout(Duration::from_millis(1)).is_err());
    }
    task.complete();
    assert_eq!(answer.wait().unwrap(), [1; 4]);
}

/// I10: a close does not wait for bytes that never arrive, and bytes that arrive afterwards do no harm.
/// Needs: Threads, LeavesTasksBehind.
pub(crate) fn late_bytes_after_a_close_do_no_harm(on: On) {
    let (rig, _, stream) = on.start();
    let values = stream.put(&[1_u32; 4]);
    let late = stream.write_later("receive", &values).unwrap();
    let answer = stream.read(&values);
    rig.checks.expects_leaks();
    let report = rig.device.close(Duration::from_millis(20));
    assert!(!report.drained, "{report:?}");
    assert_closed(answer.wait());
    late.send(vec![2_u32; 4]).unwrap();
    assert_closed(stream.write_later("receive", &values));
}

/// Waits until a task of the token has its turn, which comes without a task that waits for it.
fn await_turn(rig: &Rig, token: &CancelToken) {
    while token.tally().running == 0 {
        rig.client().sync().wait().unwrap();
        std::thread::yield_now();
    }
}

/// Waits for the beginning of a task. A driven device runs while a caller waits for it.
fn arrived<T>(rig: &Rig, begun: &mpsc::Receiver<Result<T, Error>>) -> Result<T, Error> {
    loop {
        if let Ok(begun) = begun.try_recv() {
            return begun;
        }
        rig.client().drain();
        std::thread::yield_now();
    }
}

/// Submits a staged task, and returns where its beginning arrives.
fn staged(
    stream: &Stream,
    input: Option<&Handle<u32>>,
    output: Option<&Handle<u32>>,
) -> mpsc::Receiver<Result<StagedTask, Error>> {
    let (sender, receiver) = mpsc::channel();
    let (input, output) = (input.map(Handle::as_bytes), output.map(Handle::as_bytes));
    stream
        .external_staged("staged", input, output, move |begun| {
            // The test may have ended.
            let _ = sender.send(begun);
        })
        .unwrap_or_else(|returned| panic!("{}", returned.error));
    receiver
}

/// I1, I2: a staged task sees the input as the tasks before it left it, and the tasks after it see its output. Its two
/// copies are one task: what is added between them does not run between them.
pub(crate) fn a_staged_task_replaces_its_data_at_its_place(on: On) {
    let (rig, client, stream) = on.start();
    let add_one = add_one(&client);
    let other = client.new_stream();
    let values = stream.put(&[1_u32; 300]);
    let result = stream.put(&[0_u32; 300]);
    for in_place in [true, false] {
        let target = if in_place { &values } else { &result };
        launch_update(&other, &add_one, &values).unwrap();
        let begun = staged(&stream, Some(&values), Some(target));
        launch_update(&other, &add_one, target).unwrap();
        let answer = client.new_stream().read(target);
        let task = arrived(&rig, &begun).unwrap();
        let input = cast_slice::<u8, u32>(task.input());
        let doubled: Vec<u32> = input.iter().map(|value| value * 2).collect();
        task.complete_with(doubled).unwrap();
        // 1 + 1, doubled, + 1; then + 1, doubled, + 1.
        let expected = if in_place { 5 } else { 13 };
        assert_eq!(answer.wait().unwrap(), vec![expected; 300]);
    }
    // An input alone, and an output alone.
    let begun = staged(&stream, Some(&values), None);
    let task = arrived(&rig, &begun).unwrap();
    assert_eq!(cast_slice::<u8, u32>(task.input()), [6; 300]);
    task.complete().unwrap();
    let begun = staged(&stream, None, Some(&result));
    let task = arrived(&rig, &begun).unwrap();
    task.complete_with(vec![7_u32; 300]).unwrap();
    assert_eq!(stream.get(&result), [7; 300]);
}

/// I6, I7: a staged task fails with its input, by its owner, and by a wrong length; each poisons its output.
pub(crate) fn a_staged_task_that_fails_poisons_its_output(on: On) {
    let (rig, client, stream) = on.start();
    let boom = boom(on, &client);
    let values = stream.put(&[1_u32; 4]);
    let result = stream.put(&[0_u32; 4]);
    let heal = || stream.fill(&result, 1).unwrap();
    boom.launch(&stream, &values).unwrap();
    let begun = staged(&stream, Some(&values), Some(&result));
    let error = arrived(&rig, &begun).unwrap_err();
    assert_eq!(error.to_string(), "`boom` failed: panicked with \"boom\"");
    let expected = "`boom` failed: panicked with \"boom\"; so these did not run: `staged`";
    assert_eq!(stream.failure(&result), expected);

    stream.fill(&values, 2).unwrap();
    heal();
    let begun = staged(&stream, Some(&values), Some(&result));
    let cause = Failure::not_run(&"far away".into(), Reason::Lost);
    arrived(&rig, &begun).unwrap().fail_by(cause);
    let text = stream.failure(&result);
    assert!(
        text.starts_with("`far away` failed") && text.ends_with("`staged`"),
        "{text}"
    );
    heal();
    let begun = staged(&stream, Some(&values), Some(&result));
    let task = arrived(&rig, &begun).unwrap();
    let short = task.complete_with(vec![1_u32; 3]).map_err(Error::from);
    assert_eq!(misfit(short), ArgumentErrorKind::Length);
    stream.failure(&result);
    heal();
    let begun = staged(&stream, Some(&values), Some(&result));
    drop(arrived(&rig, &begun).unwrap());
    stream.failure(&result);
    heal();
    let part = values.slice(..2).unwrap();
    let (input, output) = (Some(values.as_bytes()), Some(part.as_bytes()));
    let overlap = stream.external_staged("staged", input, output, |_| ());
    assert_eq!(
        misfit(overlap.map_err(Error::from)),
        ArgumentErrorKind::Overlap
    );
    assert_eq!(stream.get(&values), [2; 4]);
}
