//! Back-pressure: a call that finds no room returns an error with figures and loses nothing, and a caller that waits
//! for room is always answered (I5, I8, I12). The module `scheduling` tests the mailbox and `max_held`.

use std::sync::mpsc;

use millstream::{DeviceOptions, Error, error::Full, update};

use crate::support::*;

/// I8: through `nowait` every call returns `Busy` instead of waiting.
/// Needs: Driven.
pub(crate) fn calls_through_nowait_never_wait(on: On) {
    let (_rig, _, stream) = on.start_with(millstream::DeviceOptions::default().mailbox_capacity(8));
    let values = stream.put(&[0_u32]);
    let nowait = stream.nowait();
    while nowait.fill(&values, 1).is_ok() {}
    full(nowait.fill(&values, 2));
    full(nowait.point());
    full(nowait.read(&values).wait());
    assert_eq!(stream.get(&values), [1]);
}

/// Sends "dropped" when it is dropped.
struct SendOnDrop(mpsc::Sender<&'static str>);

impl Drop for SendOnDrop {
    fn drop(&mut self) {
        // A failed test has dropped the receiver.
        let _ = self.0.send("dropped");
    }
}

/// I12: the pending user code and values to drop of a client are bounded. Beyond the bound nothing is lost, and other
/// clients are not affected.
/// Needs: Threads.
pub(crate) fn host_functions_callbacks_and_values_to_drop_have_a_bound(on: On) {
    let (rig, _, stream) = on.start_with(DeviceOptions::default().max_jobs(3));
    let values = stream.put(&[5_u32]);
    let (valve, (sender, received)) = (Valve::new(), mpsc::channel());
    let held = valve.clone();
    stream.host("held", (), move || held.pass()).unwrap();
    valve.wait_for_arrivals(1);
    stream.drop_after(SendOnDrop(sender.clone())).unwrap();
    let called = sender.clone();
    let callback = move |answer: Result<_, _>| {
        called
            .send(if answer.is_ok() { "called" } else { "failed" })
            .unwrap();
    };
    stream.read(&values).on_ready(callback).unwrap();
    let (in_use, limit) = (3, 3);
    let jobs = Full::Jobs { in_use, limit };
    let refused = stream.nowait().drop_after(SendOnDrop(sender.clone()));
    let refused = refused.unwrap_err();
    assert!(
        received.try_recv().is_err(),
        "the refused value was dropped"
    );
    std::mem::forget(refused.value);
    assert_eq!(full(Err::<(), _>(refused.error)), jobs);
    assert_eq!(full(stream.nowait().host("no", (), || ())), jobs);
    let mut answer = stream.read(&values);
    assert_eq!(full(answer.try_on_ready(|_| ())), jobs);
    let other = rig.client().new_stream();
    other.nowait().host("free", (), || ()).unwrap();
    other.drain();
    std::thread::scope(|scope| {
        let late = scope.spawn(|| stream.host("late", (), move || sender.send("ran").unwrap()));
        valve.open();
        late.join().unwrap().unwrap();
    });
    let mut all: Vec<_> = received.iter().take(3).collect();
    all.sort_unstable();
    assert_eq!(all, ["called", "dropped", "ran"]);
    assert_eq!(answer.wait().unwrap(), [5]);
    // All credit is given back: more jobs find room.
    for _ in 0..10 {
        stream.host("more", (), || ()).unwrap();
    }
    stream.drain();
}

/// I5: user code on a thread of the runtime gets an error if it would wait for room, and only then.
pub(crate) fn host_function_that_would_wait_for_room_gets_an_error(on: On) {
    for (limit, headroom, fits) in [(1, 0, false), (2, 0, true), (1, 1, true)] {
        let options = DeviceOptions::default().max_jobs(limit);
        let rig = on.open_with(options.callback_headroom(headroom));
        let client = rig.client();
        let (stream, inner) = (client.new_stream(), client.new_stream());
        let (sender, received) = mpsc::channel();
        let outer = move || sender.send(inner.host("inner", (), || ())).unwrap();
        stream.host("outer", (), outer).unwrap();
        client.drain();
        match received.recv().unwrap() {
            Ok(()) => assert!(fits),
            Err(returned) => assert!(!fits && no_room(&returned.error).is_some(), "{returned}"),
        }
    }
}

/// I12: an upload beyond the limit returns `Busy` with the bytes and the limit.
/// Needs: Threads, HeldKernels.
pub(crate) fn uploads_beyond_the_limit_return_busy_with_the_figures(on: On) {
    let (rig, client, stream) = on.start_with(DeviceOptions::default().max_upload_bytes(1_024));
    let valve = rig.valve();
    let values = stream.put(&[0_u32; 256]);
    stream.drain();
    held(&client, &valve).launch(&stream, &values).unwrap();
    valve.wait_for_arrivals(1);
    stream.nowait().write(&values, &[1; 256]).unwrap();
    let refused = stream.nowait().write(&values, &[2; 256]).unwrap_err();
    valve.open();
    assert_eq!(
        refused.to_string(),
        "no room for an upload of 1.0 KiB: 1.0 KiB of at most 1.0 KiB are in flight (`max_upload_bytes`), try again later"
    );
    assert_eq!(stream.get(&values), [1; 256]);
    stream.write(&values, &[2; 256]).unwrap();
    assert_eq!(stream.get(&values), [2; 256]);
}

/// I5: on a driven device a caller that waits for room receives `Closed` when the driver is dropped.
/// Needs: Driven.
pub(crate) fn caller_that_waits_for_room_receives_closed_when_the_driver_is_dropped(on: On) {
    let (mut rig, client, behind) = on.start_with(DeviceOptions::default().max_held(2));
    let owner = client.new_stream();
    let (contested, guard) = on.put_held(&owner, &[0_u32]);
    while behind.nowait().fill(&contested, 1).is_ok() {}
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| behind.fill(&contested, 2));
        drop(rig.driver.take());
        assert_closed(waits.join().unwrap());
    });
    drop(guard);
}

/// I12: the limits of a client apply to all its streams together, and to no other client.
pub(crate) fn max_tasks_bounds_all_streams_of_a_client_together(on: On) {
    let rig = on.open();
    let small = rig.device.client_builder().max_tasks(4).build();
    let (first, second) = (small.new_stream(), small.new_stream());
    let (other, beside) = (rig.client().new_stream(), rig.client().new_stream());
    let values = other.put(&[0_u32; 4]);
    let free = beside.put(&[7_u32; 4]);
    // While the guard lives, tasks on `values` are held.
    let guard = on.guard(&other, (update(&values),)).unwrap();
    for _ in 0..2 {
        first.nowait().fill(&values, 1).unwrap();
        second.nowait().fill(&values, 2).unwrap();
    }
    let error = first.nowait().fill(&values, 3).unwrap_err();
    assert!(error.retry_after().is_some());
    let (held, limit) = (4, 4);
    let all = Full::Stream { held, limit };
    assert_eq!(full(Err::<(), _>(error)), all);
    assert_eq!(full(second.nowait().fill(&values, 3)), all);
    assert_eq!(beside.get(&free), [7; 4]);
    drop(guard);
    // The first stream that requests the room gets it.
    for _ in 0..100 {
        second.fill(&values, 5).unwrap();
        first.fill(&values, 5).unwrap();
    }
    assert_eq!(first.get(&values), [5; 4]);
}

/// I12: the same for uploads.
/// Needs: Threads.
pub(crate) fn upload_limit_of_a_client_replaces_that_of_the_device(on: On) {
    let rig = on.open();
    let small = rig.device.client_builder().max_upload_bytes(1_000).build();
    let (stream, other) = (small.new_stream(), rig.client().new_stream());
    let values = stream.put(&[0_u8; 600]);
    let kept = other.empty::<u8>(600).unwrap();
    let guard = on.guard(&other, (update(&values),)).unwrap();
    stream.nowait().write(&values, &[1; 600]).unwrap();
    let (requested, in_use, limit) = (600, 600, 1_000);
    let uploads = Full::Uploads {
        requested,
        in_use,
        limit,
    };
    assert_eq!(full(stream.nowait().write(&values, &[2; 600])), uploads);
    other.nowait().write(&kept, &[3; 600]).unwrap();
    drop(guard);
    stream.write(&values, &[4; 600]).unwrap();
    assert_eq!(stream.get(&values), [4; 600]);
}

/// I12: a refused call charges nothing to the client's hard limit, however often it is repeated.
pub(crate) fn refused_reservation_is_not_charged_to_the_hard_limit(on: On) {
    let rig = on.open();
    let builder = rig.device.client_builder();
    let client = builder.hard_limit(64 << 10).max_tasks(2).build();
    let stream = client.new_stream();
    let other = rig.client().new_stream();
    let (values, guard) = on.put_held(&other, &[0_u32]);
    // These two wait for the guard, and use the whole `max_tasks`.
    stream.fill(&values, 1).unwrap();
    stream.fill(&values, 2).unwrap();
    for _ in 0..3 {
        let (held, limit) = (2, 2);
        let refused = full(stream.nowait().empty::<u8>(64 << 10));
        assert_eq!(refused, Full::Stream { held, limit });
    }
    drop(guard);
    let all = stream.empty::<u8>(64 << 10).unwrap();
    stream.fill(&all, 7).unwrap();
    assert_eq!(stream.get(&all), [7; 64 << 10]);
    assert_eq!(stream.get(&values), [2]);
}

/// I12: `create` is two tasks; if there is no room for both, it submits neither.
pub(crate) fn create_without_room_for_both_of_its_tasks_submits_neither_i12(on: On) {
    let rig = on.open();
    let client = rig.device.client_builder().max_tasks(2).build();
    let (stream, other) = (client.new_stream(), rig.client().new_stream());
    let (values, guard) = on.put_held(&other, &[0_u32]);
    stream.nowait().fill(&values, 1).unwrap();
    let (held, limit) = (1, 2);
    let nowait = stream.nowait();
    let taken = Full::Stream { held, limit };
    for _ in 0..3 {
        assert_eq!(full(nowait.create(&[1_u32])), taken);
        assert_eq!(full(nowait.create_owned(vec![1_u32])), taken);
    }
    // The room is still there for a single task.
    nowait.fill(&values, 2).unwrap();
    drop(guard);
    stream.drain();
    // Issued tasks give their room back one after the other.
    let created = loop {
        match nowait.create(&[7_u32]) {
            Err(Error::Busy { .. }) => rig.device.drain(),
            created => break created.unwrap(),
        }
    };
    assert_eq!(stream.get(&created), [7]);
    // If it can never succeed, the error says so.
    let tiny = rig.device.client_builder().max_tasks(1).build();
    let tiny = tiny.new_stream();
    let message = error_text(tiny.nowait().create(&[1_u32]));
    let advice = "`create` submits 2 tasks, so raise the limit to 2";
    assert!(message.contains(advice), "{message}");
    let waited = tiny.put(&[9_u32]);
    assert_eq!(tiny.get(&waited), [9]);
}

/// I6: a refused call returns the value that it was given, so that the caller can repeat it.
pub(crate) fn refused_call_returns_its_value(on: On) {
    let rig = on.open();
    let client = rig.device.client_builder().max_tasks(2).build();
    let (stream, other) = (client.new_stream(), rig.client().new_stream());
    let (values, guard) = on.put_held(&other, &[0_u32]);
    stream.nowait().fill(&values, 1).unwrap();
    stream.nowait().fill(&values, 2).unwrap();
    let mut data = vec![7_u32; 1_000];
    let address = data.as_ptr();
    let refused = stream.nowait().create_owned(std::mem::take(&mut data));
    let error = refused.unwrap_err().restore(&mut data);
    assert!(matches!(error, Error::Busy { .. }), "{error}");
    assert_eq!((data.as_ptr(), data.len()), (address, 1_000));
    let (sender, received) = mpsc::channel();
    let sends = move || sender.send(3).unwrap();
    let host = stream.nowait().host("sends", (), sends).unwrap_err();
    assert_eq!(host.to_string(), host.error.to_string());
    drop(guard);
    stream.drain();
    stream.host("sends", (), host.into_value()).unwrap();
    let made = stream.create_owned(data).unwrap();
    assert_eq!(stream.get(&made), [7; 1_000]);
    stream.drain();
    assert_eq!(received.recv(), Ok(3));
}

/// I5: a refused `on_ready` returns the answer and the callback.
/// Needs: Threads.
pub(crate) fn refused_on_ready_returns_the_answer_and_the_callback(on: On) {
    let options = DeviceOptions::default().max_jobs(1).callback_headroom(0);
    let (_rig, client, stream) = on.start_with(options);
    let inner = client.new_stream();
    let values = inner.put(&[5_u32]);
    let (sender, received) = mpsc::channel();
    let outer = move || {
        // This function uses the client's only job.
        let refused = inner.read(&values).on_ready(drop).unwrap_err();
        assert!(matches!(no_room(&refused.error), Some(Full::Jobs { .. })));
        sender.send(refused.value.0).unwrap();
    };
    stream.host("outer", (), outer).unwrap();
    assert_eq!(received.recv().unwrap().wait().unwrap(), [5]);
}
