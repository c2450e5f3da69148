//! Answers in every form: by a wait, a poll, an await or a callback, several in one, and in sequence (I5, I8).

use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use millstream::stream::{Readbacks, readbacks};
use millstream::{DeviceOptions, Error, Tensor, TensorSpec, error::Full, update};

use crate::support::*;

/// I5: each form of receiving gives the same answer.
pub(crate) fn an_answer_can_be_waited_for_polled_awaited_and_called_back(on: On) {
    let (mut rig, _, stream) = on.start();
    let values = stream.put(&[4_u32]);
    assert_eq!(stream.get(&values), [4]);
    let mut polled = stream.read(&values);
    let first = loop {
        if let Some(driver) = &mut rig.driver {
            driver.pump(Duration::from_millis(1));
        }
        match polled.try_take() {
            Some(answer) => break answer.unwrap(),
            None => std::thread::yield_now(),
        }
    };
    assert_eq!(first, [4]);
    assert!(matches!(polled.try_take(), Some(Err(Error::Taken))));
    let (sender, receiver) = std::sync::mpsc::channel();
    let answer = stream.read(&values);
    let called = answer.on_ready(move |answer| sender.send(answer).unwrap());
    called.unwrap();
    rig.pump();
    if rig.driver.is_none() {
        assert_eq!(pollster::block_on(stream.read(&values)).unwrap(), [4]);
    }
    assert_eq!(receiver.recv().unwrap().unwrap(), [4]);
}

pub(crate) fn tensors_are_pitched_on_the_device_and_dense_for_the_host(on: On) {
    let (rig, _, stream) = on.start();
    let data: Vec<u32> = (0..3 * 5).collect();
    let small: Vec<u32> = vec![9, 8];
    let specs = [
        (TensorSpec::pitched(&[3, 5]), data.as_slice()),
        (TensorSpec::dense(&[2, 1]), small.as_slice()),
    ];
    let tensors = stream.create_tensors(&specs).unwrap();
    let row = (5 * 4_u64).next_multiple_of(rig.device.properties().pitch_alignment) / 4;
    assert!(row > 5, "the rows have no gaps");
    assert_eq!(tensors[0].shape(), [3, 5]);
    assert_eq!(tensors[0].strides(), [row, 1]);
    let read = stream.read_tensors(&tensors).wait().unwrap();
    assert_eq!(read, [data.clone(), small]);
    let transposed = Tensor::new(tensors[0].handle().clone(), &[5, 3], &[1, row]).unwrap();
    let columns = stream.read_tensors([&transposed]).wait().unwrap().remove(0);
    assert_eq!(columns[..4], [0, 5, 10, 1]);
    assert!(Tensor::new(tensors[1].handle().clone(), &[3, 3], &[3, 1]).is_err());
    let blank = [TensorSpec::pitched(&[2, 2])];
    let blank = stream.empty_tensors::<u32>(&blank).unwrap();
    stream.write_tensor(&blank[0], &[1, 2, 3, 4]).unwrap();
    assert_eq!(stream.read_tensors(&blank).wait().unwrap(), [[1, 2, 3, 4]]);
    // A tensor without gaps whose strides are not in dense order.
    let square = stream.put(&[0_u32; 4]);
    let transposed = Tensor::new(square.clone(), &[2, 2], &[1, 2]).unwrap();
    stream.write_tensor(&transposed, &[1, 2, 3, 4]).unwrap();
    assert_eq!(stream.get(&square), [1, 3, 2, 4]);
    assert!(stream.write_tensor(&blank[0], &[1]).is_err());
}

pub(crate) fn several_handles_are_read_in_one_answer(on: On) {
    let (_rig, _, stream) = on.start();
    let all: Vec<_> = (0..20).map(|value| vec![value; value as usize]).collect();
    let handles: Vec<_> = all.iter().map(|values| stream.put::<u32>(values)).collect();
    assert_eq!(stream.read_many(&handles).wait().unwrap(), all);
}

/// Tells the test that it was woken.
struct Tells(mpsc::Sender<()>);

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        // The test may have ended.
        let _ = self.0.send(());
    }
}

/// I5: a task that awaits an answer is woken, also if `try_take` has looked at the answer meanwhile: before the read was
/// issued, and while what it waits for ran.
/// Needs: Threads, HeldKernels.
pub(crate) fn a_look_at_an_answer_leaves_the_waker_of_its_task_i5(on: On) {
    let (rig, client, stream) = on.start();
    let values = stream.put(&[1_u32]);
    stream.drain();
    let (told, woken) = mpsc::channel();
    let waker = Waker::from(Arc::new(Tells(told)));
    for is_issued in [false, true] {
        let valve = rig.valve();
        let guard = match is_issued {
            true => None,
            false => Some(on.guard(&client.new_stream(), (update(&values),)).unwrap()),
        };
        if is_issued {
            held(&client, &valve).launch(&stream, &values).unwrap();
            valve.wait_for_arrivals(1);
        }
        let mut answer = stream.read(&values);
        for _ in 0..3 {
            let polled = std::pin::pin!(&mut answer).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            assert!(answer.try_take().is_none());
        }
        assert!(woken.try_recv().is_err(), "the answer has not arrived");
        valve.open();
        drop(guard);
        client.drain();
        woken.recv_timeout(PATIENCE).unwrap();
        assert_eq!(answer.wait().unwrap(), [1 + u32::from(is_issued)]);
        while woken.try_recv().is_ok() {}
    }
}

/// Waits for the rest of a sequence, which then has ended.
fn rest<T: Send + 'static>(mut sequence: Readbacks<u32, T>) -> Vec<(T, Vec<u32>)> {
    let rest = std::iter::from_fn(|| sequence.wait_next())
        .map(|readback| (readback.tag, readback.elements.unwrap().into_vec()))
        .collect();
    assert!(sequence.try_next().is_none());
    rest
}

/// I5, I12: a sequence of readbacks with tags is bounded and in order, awaited or waited for.
pub(crate) fn readback_sequence_is_ordered_tagged_and_bounded(on: On) {
    let (mut rig, _, stream) = on.start();
    let values = stream.put(&[0_u32]);
    let (sender, mut sequence) = readbacks::<u32, u32>(3);
    for frame in 0..3 {
        stream.write(&values, &[frame * 10]).unwrap();
        sender.read(&stream, &values, frame).unwrap();
    }
    let refused = sender.read(&stream, &values, 9).unwrap_err();
    assert_eq!(refused.value, 9, "the tag was not returned");
    let requested = 3;
    assert_eq!(full(Err::<(), _>(refused)), Full::Readbacks { requested });
    rig.pump();
    let first = pollster::block_on(sequence.next()).unwrap();
    assert_eq!(first.tag, 0);
    assert_eq!(first.elements.unwrap(), [0]);
    sender.read(&stream, &values, 3).unwrap();
    drop(sender);
    rig.pump();
    let expected = [(1, vec![10]), (2, vec![20]), (3, vec![20])];
    assert_eq!(rest(sequence), expected);
}

/// A timeout beyond the range of the clock never expires.
pub(crate) fn longest_timeout_never_expires(on: On) {
    let (rig, _, stream) = on.start();
    let values = stream.put(&[5_u32]);
    let answer = stream.read(&values).wait_timeout(Duration::MAX);
    assert_eq!(answer.unwrap(), [5]);
    match rig.driver {
        Some(mut driver) => while driver.pump(Duration::MAX) {},
        None => assert!(rig.device.close(Duration::MAX).drained),
    }
}

/// I5, I8: on a driven device a caller that finds the mailbox full runs callbacks, including those of the sequence.
pub(crate) fn readbacks_beyond_the_mailbox_capacity_all_arrive_in_order(on: On) {
    let (_rig, _, stream) = on.start_with(DeviceOptions::default().mailbox_capacity(2));
    let values = stream.put(&[7_u32]);
    let (sender, sequence) = readbacks::<u32, u32>(64);
    for frame in 0..64 {
        sender.read(&stream, &values, frame).unwrap();
    }
    drop(sender);
    let expected: Vec<_> = (0..64).map(|frame| (frame, vec![7])).collect();
    assert_eq!(rest(sequence), expected);
}

/// I8: a readback that a `nowait` stream has no room for is not submitted: its tag is returned, and it takes no place
/// in the sequence.
pub(crate) fn readback_refused_by_a_full_stream_returns_its_tag_i8(on: On) {
    let (_rig, client, stream) = on.start_with(DeviceOptions::default().max_held(4));
    let other = client.new_stream();
    let values = other.put(&[7_u32]);
    let (sender, sequence) = readbacks(8);
    // While the guard lives, tasks on `values` are held.
    let guard = on.guard(&other, (update(&values),)).unwrap();
    let (mut submitted, busy) = (0, stream.nowait());
    let returned = loop {
        match sender.read(&busy, &values, submitted) {
            Ok(()) => submitted += 1,
            Err(returned) => break returned,
        }
    };
    assert!(matches!(returned.error, Error::Busy { .. }), "{returned:?}");
    assert_eq!(returned.value, submitted);
    drop(guard);
    sender.read(&stream, &values, submitted).unwrap();
    drop(sender);
    let expected: Vec<_> = (0..=submitted).map(|tag| (tag, vec![7])).collect();
    assert_eq!(rest(sequence), expected);
}

/// I8: the same for a full mailbox. That of a driven device stays full until a thread pumps.
pub(crate) fn readback_refused_by_a_full_mailbox_returns_its_tag_i8(on: On) {
    let (rig, _, stream) = on.start_with(DeviceOptions::default().mailbox_capacity(4));
    let values = stream.put(&[7_u32]);
    stream.drain();
    let (sender, sequence) = readbacks::<u32, u32>(8);
    let busy = stream.nowait();
    while busy.fill(&values, 7).is_ok() {}
    let mut accepted = Vec::new();
    for tag in 0..4 {
        match sender.read(&busy, &values, tag) {
            Ok(()) => accepted.push((tag, vec![7])),
            Err(returned) => assert_eq!(returned.value, tag),
        }
    }
    assert!(rig.driver.is_none() || accepted.is_empty());
    sender.read(&stream, &values, 4).unwrap();
    accepted.push((4, vec![7]));
    drop(sender);
    assert_eq!(rest(sequence), accepted);
}

/// I5: after the consumer was dropped no room ever comes back, so the error is not `Busy`.
pub(crate) fn readback_without_a_consumer_is_an_error_and_not_busy(on: On) {
    let (mut rig, _, stream) = on.start();
    let values = stream.put(&[7_u32]);
    let (sender, sequence) = readbacks::<u32, u32>(1);
    sender.read(&stream, &values, 1).unwrap();
    drop(sequence);
    let refused = sender.read(&stream, &values, 2).unwrap_err();
    assert_eq!(refused.value, 2, "the tag was not returned");
    assert!(matches!(refused.error, Error::NoConsumer));
    // The first readback is discarded and blocks nothing.
    stream.drain();
    rig.pump();
}

/// I5: a consumer may wait before the first request; then it drives the device that receives the request.
pub(crate) fn consumer_that_waits_before_the_first_readback_receives_it(on: On) {
    let (_rig, _, stream) = on.start();
    let values = stream.put(&[7_u32]);
    let (sender, mut sequence) = readbacks::<u32, u32>(2);
    let first = std::thread::spawn(move || {
        let next = sequence.wait_next().unwrap();
        (next.tag, next.elements.unwrap().into_vec())
    });
    // A driven device has no thread; the consumer runs it.
    sender.read(&stream, &values, 3).unwrap();
    assert_eq!(first.join().unwrap(), (3, vec![7]));
}

/// I5: one sequence may serve several devices.
pub(crate) fn readback_sequence_of_two_devices_keeps_the_request_order(on: On) {
    let rigs = [on.open(), on.open()];
    let (sender, sequence) = readbacks::<u32, usize>(8);
    for round in 0..4 {
        for (number, rig) in rigs.iter().enumerate() {
            let stream = rig.client().new_stream();
            let values = stream.put(&[round]);
            sender.read(&stream, &values, number).unwrap();
        }
    }
    drop(sender);
    let expected = (0..4).flat_map(|round| [(0, vec![round]), (1, vec![round])]);
    assert_eq!(rest(sequence), expected.collect::<Vec<_>>());
}
