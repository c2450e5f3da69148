//! Calls that make several tensors: they take room for all of them, or for none (I8, I12).

use std::sync::mpsc;
use std::time::{Duration, Instant};

use millstream::{
    DeviceOptions, Error, Stream, Tensor, TensorSpec,
    device::AtLimit,
    error::{Full, MemoryError},
    update,
};

use crate::support::*;

fn empty(stream: &Stream, bytes: &[u64]) -> Result<Vec<Tensor<u8>>, Error> {
    let specs: Vec<_> = bytes.iter().map(|len| TensorSpec::dense(&[*len])).collect();
    stream.empty_tensors(&specs)
}

/// Creates tensors of these lengths. The bytes of the first are 1, those of the second 2.
fn create(stream: &Stream, bytes: &[u64]) -> Result<Vec<Tensor<u8>>, Error> {
    let data: Vec<_> = (1..)
        .zip(bytes)
        .map(|(value, len)| vec![value; *len as usize])
        .collect();
    let specs = bytes.iter().zip(&data);
    let specs: Vec<_> = specs
        .map(|(len, data)| (TensorSpec::dense(&[*len]), data.as_slice()))
        .collect();
    stream.create_tensors(&specs)
}

fn read(stream: &Stream, tensors: &[Tensor<u8>]) -> Vec<Vec<u8>> {
    stream.read_tensors(tensors).wait().unwrap()
}

/// Returns the live slices of the device.
fn slices(rig: &Rig) -> u64 {
    rig.device.memory_usage().unwrap().device.live_slices
}

/// I12: a request is accepted if all of its tensors fit the hard limit together. A refused request changes nothing,
/// whatever its lengths and the memory in use.
pub(crate) fn refused_tensors_are_not_charged_to_the_hard_limit_i12(on: On) {
    const LIMIT: u64 = 6;
    let rig = on.open();
    let builder = rig.device.client_builder().hard_limit(LIMIT);
    let stream = builder.build().new_stream();
    let in_use = || match stream.empty::<u8>(LIMIT as usize) {
        Err(Error::Memory(MemoryError::Limit { in_use, .. })) => in_use,
        other => panic!("{other:?}"),
    };
    let lengths = || 0..=4_u64;
    for held_bytes in 1..=3 {
        let held = stream.empty::<u8>(held_bytes as usize).unwrap();
        for request in lengths().flat_map(|a| lengths().map(move |b| [a, b, 1])) {
            let made = match request[0] % 2 {
                0 => empty(&stream, &request),
                _ => create(&stream, &request),
            };
            let requested: u64 = request.iter().sum();
            match made {
                Ok(tensors) => {
                    assert!(held_bytes + requested <= LIMIT, "{request:?}");
                    assert_eq!(in_use(), held_bytes + requested);
                    drop(tensors);
                }
                Err(Error::Memory(MemoryError::AboveLimit { requested: all, .. })) => {
                    assert!(all == requested && requested > LIMIT, "{request:?}");
                }
                Err(Error::Memory(MemoryError::Limit { requested: all, .. })) => {
                    assert!(all == requested && requested <= LIMIT, "{request:?}");
                    assert!(held_bytes + requested > LIMIT, "{request:?}");
                }
                Err(error) => panic!("{request:?}: {error}"),
            }
            assert_eq!(in_use(), held_bytes, "{request:?}");
        }
        stream.drain();
        assert_eq!(slices(&rig), 1);
        drop(held);
    }
}

/// I8, I12: tensors that fit the limit one by one and not together are refused before anything is submitted, also if the
/// client waits at its limit.
pub(crate) fn tensors_above_the_limit_together_are_refused_at_once_i8_i12(on: On) {
    let rig = on.open();
    for at_limit in [AtLimit::Fail, AtLimit::Wait] {
        let builder = rig.device.client_builder().name("small").hard_limit(1_000);
        let stream = builder.at_limit(at_limit).build().new_stream();
        let soon = || stream.with_deadline(Instant::now() + Duration::from_millis(20));
        for over in [
            empty(&soon(), &[400; 3]).unwrap_err(),
            create(&soon(), &[400; 3]).unwrap_err(),
        ] {
            let above = MemoryError::AboveLimit {
                client: "small".into(),
                requested: 1_200,
                limit: 1_000,
            };
            assert_eq!(over.to_string(), above.to_string());
        }
        let held = stream.empty::<u8>(600).unwrap();
        for refused in [
            empty(&stream.nowait(), &[300; 2]),
            create(&stream.nowait(), &[300; 2]),
            create(&soon(), &[300; 2]),
        ] {
            let refused = refused.unwrap_err();
            let requested = match at_limit {
                AtLimit::Fail => match refused {
                    Error::Memory(MemoryError::Limit { requested, .. }) => requested,
                    other => panic!("{other}"),
                },
                AtLimit::Wait => match full(Err::<(), _>(refused)) {
                    Full::Memory { requested, .. } => requested,
                    other => panic!("{other}"),
                },
            };
            assert_eq!(requested, 600);
        }
        stream.drain();
        assert_eq!(slices(&rig), 1);
        drop(held);
        let all = create(&stream, &[500; 2]).unwrap();
        assert_eq!(read(&stream, &all), [[1; 500], [2; 500]]);
    }
}

/// I8: requests for several tensors take their memory together, so they do not wait for each other's parts.
/// Needs: Threads.
pub(crate) fn requests_for_tensors_of_a_client_that_waits_all_succeed_i8(on: On) {
    let rig = on.open();
    let builder = rig.device.client_builder().hard_limit(35_000);
    let builder = builder.max_upload_bytes(15_000);
    let client = builder.at_limit(AtLimit::Wait).build();
    let request = |number: u8| {
        let stream = client.new_stream().with_deadline(Instant::now() + PATIENCE);
        let lengths = [10_000; 3];
        let tensors = match number % 3 {
            0 => create(&stream, &lengths),
            1 => pollster::block_on(stream.when_ready(|stream| create(stream, &lengths))),
            _ => empty(&stream, &lengths),
        };
        let tensors = tensors.unwrap();
        if number % 3 == 2 {
            for (value, tensor) in (1..).zip(&tensors) {
                stream.fill(tensor.handle(), value).unwrap();
            }
        }
        let expected = [1, 2, 3].map(|value| [value; 10_000]);
        assert_eq!(read(&stream, &tensors), expected);
    };
    let request = &request;
    std::thread::scope(|scope| {
        for number in 0..24 {
            scope.spawn(move || request(number));
        }
    });
    // All memory has returned.
    drop(client.new_stream().empty::<u8>(35_000).unwrap());
}

/// I12: tensors without room for all of their tasks, or for all of their uploads, submit nothing.
pub(crate) fn tensors_without_room_for_all_submit_nothing_i12(on: On) {
    let rig = on.open();
    let builder = rig.device.client_builder().max_tasks(5).hard_limit(1_000);
    let stream = builder.max_upload_bytes(1_000).build().new_stream();
    let other = rig.client().new_stream();
    let (values, guard) = on.put_held(&other, &[0_u8; 600]);
    let nowait = stream.nowait();
    // Both wait for the guard.
    nowait.write(&values, &[1; 600]).unwrap();
    nowait.fill(&values, 2).unwrap();
    for _ in 0..3 {
        let (held, limit) = (2, 5);
        assert_eq!(full(create(&nowait, &[1; 2])), Full::Stream { held, limit });
        assert_eq!(full(empty(&nowait, &[1; 4])), Full::Stream { held, limit });
    }
    assert_eq!(slices(&rig), 1);
    // The room is still there for three tasks, but not for four.
    for value in 3..6 {
        nowait.fill(&values, value).unwrap();
    }
    let (held, limit) = (5, 5);
    assert_eq!(full(nowait.fill(&values, 6)), Full::Stream { held, limit });
    drop(guard);
    stream.drain();
    let guard = on.guard(&other, (update(&values),)).unwrap();
    // The device takes back uploads and memory when it gets to it: this call waits for that.
    stream.write(&values, &[1; 600]).unwrap();
    let (requested, in_use, limit) = (402, 600, 1_000);
    let uploads = Full::Uploads {
        requested,
        in_use,
        limit,
    };
    assert_eq!(full(create(&nowait, &[201; 2])), uploads);
    let made = create(&nowait, &[200; 2]).unwrap();
    drop(guard);
    assert_eq!(read(&stream, &made), [[1; 200], [2; 200]]);
    drop(made);
    // Uploads above the limit go alone, and nothing is charged any more.
    let made = loop {
        match create(&nowait, &[0, 1_000]) {
            Err(Error::Busy { .. }) => stream.drain(),
            made => break made.unwrap(),
        }
    };
    assert_eq!(read(&stream, &made), [vec![], vec![2; 1_000]]);
    drop(made);
    drop(stream.empty::<u8>(1_000).unwrap());
}

/// I8, I12: without a wait, all messages go to the mailbox or none.
/// Needs: Driven.
pub(crate) fn tensors_without_room_in_the_mailbox_submit_nothing_i8_i12(on: On) {
    let (rig, _, stream) = on.start_with(DeviceOptions::default().mailbox_capacity(8));
    stream.drain();
    let nowait = stream.nowait();
    for _ in 0..4 {
        nowait.flush().unwrap();
    }
    let refused = full(create(&nowait, &[1; 3]));
    assert!(matches!(refused, Full::Mailbox { .. }));
    stream.drain();
    assert_eq!(slices(&rig), 0);
    let made = create(&nowait, &[2; 4]).unwrap();
    assert_eq!(read(&stream, &made), [[1; 2], [2; 2], [3; 2], [4; 2]]);
    // What never fits is an error that no future retries. A call that waits sends one message after the other.
    let awaited = stream.when_ready(|stream| create(stream, &[1; 5]));
    for refused in [create(&nowait, &[1; 5]), pollster::block_on(awaited)] {
        let refused = refused.unwrap_err();
        let Error::Argument(why) = &refused else {
            panic!("{refused}");
        };
        let expected = "10 tasks at once exceed the 8 messages of the mailbox";
        assert!(why.to_string().starts_with(expected), "{why}");
    }
    let made = create(&stream, &[1; 9]).unwrap();
    assert_eq!(read(&stream, &made[8..]), [[9]]);
}

/// I8: user code on a thread for it waits for each message.
pub(crate) fn host_function_makes_more_tensors_than_the_mailbox_has_room_for_i8(on: On) {
    let rig = on.open_with(DeviceOptions::default().mailbox_capacity(2));
    let (outer, inner) = (rig.client().new_stream(), rig.client().new_stream());
    let (sender, receiver) = mpsc::channel();
    let stream = inner.clone();
    let makes = move || sender.send(create(&stream, &[3; 5])).unwrap();
    outer.host("makes", (), makes).map_err(|e| e.error).unwrap();
    outer.drain();
    let made = receiver.recv().unwrap().unwrap();
    assert_eq!(read(&inner, &made[4..]), [[5; 3]]);
}
