//! Memory: limits, reuse, and reservations that find none (I4, I6, I12).

use std::sync::mpsc::{self, TryRecvError};

use crate::support::*;
use millstream::{
    CubeCount, DeviceOptions, Error, Handle, Reason, Stream,
    error::{Full, MemoryError},
    update,
};

/// I7, I12: out of memory is a typed failure of one slice.
pub(crate) fn slice_without_device_memory_fails_alone(on: On) {
    let rig = on.open_small(4 * MIB as u64);
    let client = rig.client();
    let (add_one, stream) = (add_one(&client), client.new_stream());
    let kept = stream.put(&[1_u32; 16]);
    match stream.empty::<u8>(64 * MIB) {
        Err(Error::Memory(MemoryError::TooLarge { .. })) => {}
        Err(error) => panic!("{error}"),
        Ok(huge) => {
            let error = stream.read(&huge).wait().unwrap_err();
            let why = reason(&error);
            assert!(
                matches!(why, Reason::OutOfMemory { .. } | Reason::Refused(_)),
                "{error}"
            );
        }
    }
    launch_update(&stream, &add_one, &kept).unwrap();
    assert_eq!(stream.get(&kept), [2; 16]);
}

/// I5, I7: a slice may be larger than the host memory; reading it is an error and does not abort the process.
/// Needs: LazyMemory.
pub(crate) fn readback_larger_than_host_memory_is_an_error_i5(on: On) {
    let (_rig, _, stream) = on.start();
    let huge = stream.empty::<u32>(1 << 58).unwrap();
    let expected = MemoryError::Host { requested: 1 << 60 }.to_string();
    assert_eq!(stream.failure(&huge), expected);
    let many = stream.read_many([&huge]).wait();
    assert_eq!(error_text(many), expected);
}

/// I4, I6: a reservation without memory parks only its own stream, and proceeds when memory is freed.
pub(crate) fn a_task_out_of_memory_parks_its_stream_alone_and_proceeds_when_memory_returns(on: On) {
    let rig = on.open_small(4 * MIB as u64);
    let client = rig.client();
    let add_one = add_one(&client);
    let owner = client.new_stream();
    let hungry = client.new_stream();
    let other = client.new_stream();
    let small = other.put(&[0_u32]);
    let big = large(&owner);
    // The guard keeps the big slice in use. Its handle is dropped, so its memory is freed later.
    let guard = on.guard(&owner, (update(&big),)).unwrap();
    let behind = client.new_stream();
    behind.host("uses_big", (update(&big),), || {}).unwrap();
    drop(big);
    let second = large(&hungry);
    hungry.fill(&second, 7).unwrap();
    let mut parked = hungry.read(&second.slice(..4).unwrap());
    for _ in 0..10 {
        launch_update(&other, &add_one, &small).unwrap();
    }
    assert_eq!(other.get(&small), [10]);
    assert!(parked.try_take().is_none());
    drop(guard);
    assert_eq!(parked.wait().unwrap(), [7; 4]);
}

/// I4: memory is not reused while a held task names it.
pub(crate) fn freed_slice_is_not_reused_while_a_held_task_reads_it_i4(on: On) {
    let (_rig, client, owner) = on.start();
    let (add_one, transfer) = (add_one(&client), transfer(&client));
    let holder = client.new_stream();
    let taker = client.new_stream();
    let gate_bytes = owner.put(&[0_u32]);
    for _ in 0..20 {
        let out = holder.put(&[0_u32; 256]);
        let guard = on.guard(&owner, (update(&gate_bytes),)).unwrap();
        let doomed = owner.put(&[42_u32; 256]);
        // The holder's task waits behind the guard, with `doomed` as its argument.
        launch_update(&holder, &add_one, &gate_bytes).unwrap();
        launch_transfer(&holder, &transfer, &doomed, &out).unwrap();
        drop(doomed);
        let others: Vec<_> = (0..8).map(|_| taker.put(&[7_u32; 256])).collect();
        taker.drain();
        drop(guard);
        assert_eq!(holder.get(&out), [42; 256]);
        drop(others);
    }
}

/// I12: a reservation is charged to the hard limit at once, and credited at the drop of the last handle.
pub(crate) fn a_clients_hard_limit_is_charged_at_once_and_credited_at_the_last_drop(on: On) {
    let rig = on.open();
    let limited = rig.device.client_builder().name("small one");
    let stream = limited.hard_limit(1_000).build().new_stream();
    let free = rig.client().new_stream();
    let expected = "client `small one` requested 600 B and uses 600 B of its hard limit of 1000 B";
    for _ in 0..1_000 {
        let first = stream.empty::<u8>(600).unwrap();
        let error = error_text(stream.empty::<u8>(600));
        assert!(error.contains(expected), "{error}");
        let again = first.clone();
        drop(first);
        assert!(stream.empty::<u8>(600).is_err());
        drop(again);
    }
    assert!(stream.empty::<u8>(1_000).is_ok());
    assert!(free.empty::<u8>(10_000).is_ok());
}

/// Every call accepts zero-sized slices.
pub(crate) fn zero_sized_buffers_and_zero_cubes_are_valid_no_ops(on: On) {
    let (_rig, client, stream) = on.start();
    let (add_one, transfer) = (add_one(&client), transfer(&client));
    let empty = stream.create::<u32>(&[]).unwrap();
    let also_empty = stream.empty::<u32>(0).unwrap();
    launch_update(&stream, &add_one, &empty).unwrap();
    launch_transfer(&stream, &transfer, &empty, &also_empty).unwrap();
    stream.fill(&empty, 3).unwrap();
    stream.copy(&empty, &also_empty).unwrap();
    stream.write(&empty, &[]).unwrap();
    assert_eq!(stream.get(&also_empty), [0_u32; 0]);
    let none = stream.read_many(&[] as &[Handle<u32>]).wait();
    assert!(none.unwrap().is_empty());
    let values = stream.put(&[1_u32]);
    for count in [CubeCount::d1(0), CubeCount::d3(2, 0, 2)] {
        stream.launch(&add_one, count, in_place(&values)).unwrap();
    }
    assert_eq!(stream.get(&values), [1]);
}

/// A cleanup frees the pages that hold no live slice.
pub(crate) fn cleanup_gives_unused_pages_back(on: On) {
    let (_rig, client, stream) = on.start();
    let kept = stream.put(&[1_u32; 4]);
    let data = vec![0_u8; 64 << 10];
    let many = [(); 256].map(|()| stream.put(&data));
    stream.drain();
    let full = client.memory_usage().wait().unwrap().device;
    drop(many);
    stream.drain();
    let freed = client.memory_cleanup().wait().unwrap();
    let after = client.memory_usage().wait().unwrap().device;
    assert_eq!(after.reserved, full.reserved - freed);
    assert_eq!(after.live_slices, 1);
    assert!(freed > 8 << 20, "{freed} of {full:?}");
    assert_eq!(stream.get(&kept), [1; 4]);
}

/// Reuse in place is safe only if there is no other handle.
pub(crate) fn can_mut_is_true_only_for_a_sole_handle(on: On) {
    let (_rig, _, stream) = on.start();
    let handle = stream.put(&[1_u32, 2]);
    assert!(handle.is_unique());
    let view = handle.slice(..1).unwrap();
    assert!(!handle.is_unique() && !view.is_unique());
    let handle = handle.try_unique().unwrap_err();
    drop(view);
    assert!(handle.try_unique().is_ok());
}

/// I4, I5: the slots of freed slices are recycled when their last use has passed, although no message wakes the device.
/// Needs: Threads, HeldKernels.
pub(crate) fn slots_of_freed_slices_return_without_further_messages(on: On) {
    let (rig, client, stream) = on.start_with(DeviceOptions::default().max_handles(6));
    let valve = rig.valve();
    let held = held(&client, &valve);
    let mut values: Vec<_> = Vec::new();
    while let Ok(value) = stream.create(&[0_u32; 4]) {
        values.push(value);
    }
    assert!(values.len() >= 2);
    for value in &values {
        held.launch(&stream, value).unwrap();
    }
    valve.wait_for_arrivals(1);
    // Their kernels have not run yet.
    values.clear();
    let busy = full(stream.nowait().empty::<u32>(4));
    assert!(matches!(busy, Full::Handles { limit: 6, .. }), "{busy}");
    valve.open();
    let value = stream.empty::<u32>(4).unwrap();
    stream.fill(&value, 9).unwrap();
    assert_eq!(stream.get(&value), [9; 4]);
}

/// I8, I12: slots are recycled automatically, as memory is, so a loop that drops its slices waits for slots, however
/// few there are and whatever other threads do.
pub(crate) fn loop_that_drops_its_slices_waits_for_slots(on: On) {
    let rig = on.open_with(DeviceOptions::default().max_handles(16));
    let client = rig.client();
    let create_and_drop = |stream: &Stream| {
        for round in 0..200 {
            let values = stream.put(&[round; 4]);
            let copy = stream.empty::<u32>(4).unwrap();
            stream.copy(&values, &copy).unwrap();
            if round % 50 == 0 {
                assert_eq!(stream.get(&copy), [round; 4]);
            }
        }
    };
    let streams = [client.new_stream(), client.new_stream()];
    std::thread::scope(|scope| {
        for stream in &streams {
            scope.spawn(|| create_and_drop(stream));
        }
    });
    for _ in 0..100 {
        drop(client.new_stream());
    }
    // Slots of live handles are not waited for, and the message names the remedy.
    let held = fill_table(&streams[0]);
    assert!(held.len() < 16);
    assert_eq!(
        error_text(streams[0].empty::<u32>(1)),
        "all 16 slots of the device are taken by live slices, kernels, streams, recordings and clients; drop some, or raise `max_handles`"
    );
    drop(held);
    streams[0].drain();
    assert!(streams[0].empty::<u32>(1).is_ok());
}

/// I8: user code on a thread of the runtime cannot wait for a slot, since a task that uses the slot may wait for that
/// code; a future can.
pub(crate) fn full_slot_table_is_an_error_in_user_code_and_awaited_by_a_future(on: On) {
    let (rig, client, stream) = on.start_with(DeviceOptions::default().max_handles(8));
    let other = client.new_stream();
    let beside = client.new_stream();
    let (gate, guard) = on.put_held(&other, &[0_u32]);
    let mut values: Vec<_> = Vec::new();
    while let Ok(value) = stream.empty::<u32>(1) {
        stream.copy(&gate, &value).unwrap();
        values.push(value);
    }
    values.clear();
    let (sender, received) = mpsc::channel();
    let inner = stream.clone();
    let makes = move || sender.send(inner.empty::<u32>(1)).unwrap();
    beside.host("makes", (), makes).unwrap();
    beside.drain();
    let refused = no_room(&received.recv().unwrap().unwrap_err());
    assert!(matches!(refused, Some(Full::Handles { .. })), "{refused:?}");
    let awaited = stream.when_ready(|stream| stream.empty::<u32>(1));
    let mut awaited = Box::pin(awaited);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(awaited.as_mut().poll(&mut context).is_pending());
    drop(guard);
    rig.device.drain();
    assert!(stream.empty::<u32>(1).is_ok());
    let value = pollster::block_on(awaited).unwrap();
    stream.fill(&value, 3).unwrap();
    assert_eq!(stream.get(&value), [3]);
}

/// I6: a reservation waits for memory whose release was requested before, whether a deferred drop, a host function or a
/// callback owns the last handle.
pub(crate) fn reservation_waits_for_handles_owned_by_deferred_drops_and_user_code(on: On) {
    release_and_reserve(&on.open_small(OWNED_ROOM), |_| Vec::new());
}

/// I6: the same if the slot table is full: the device needs no slot for the release.
pub(crate) fn reservation_waits_for_such_handles_when_the_slot_table_is_full_i6(on: On) {
    let options = DeviceOptions::default().max_handles(16);
    let rig = on.open_small_with(OWNED_ROOM, options);
    release_and_reserve(&rig, |stream| {
        let mut kept = fill_table(stream);
        // Two slots stay free, for the released slice and the new one.
        kept.truncate(kept.len() - 2);
        kept
    });
}

/// The bytes of a slice of which the device holds one, but not two. Small, since a simulator fills it slowly.
const OWNED: usize = 768 << 10;
/// The memory of the device.
const OWNED_ROOM: u64 = 1 << 20;

fn release_and_reserve(rig: &Rig, keep: impl FnOnce(&Stream) -> Vec<Handle<u8>>) {
    let client = rig.client();
    let (first, second) = (client.new_stream(), client.new_stream());
    let small = first.put(&[7_u8]);
    let _kept = keep(&first);
    for round in 0..9 {
        let held = first.empty::<u8>(OWNED).unwrap();
        first.fill(&held, 1).unwrap();
        let (alive, dropped) = mpsc::channel::<()>();
        // A tuple drops its fields in order: `dropped` disconnects after `held` was dropped.
        let owner = (held, alive);
        match round % 3 {
            0 => first.drop_after(owner).unwrap(),
            1 => first.host("drops_owner", (), move || drop(owner)).unwrap(),
            _ => first.read(&small).on_ready(move |_| drop(owner)).unwrap(),
        }
        let next = second.empty::<u8>(OWNED).unwrap();
        second.fill(&next, 2).unwrap();
        let one = next.slice(..1).unwrap();
        assert_eq!(second.get(&one), [2], "round {round}");
        drop(next);
        second.drain();
        // If the previous host function delayed `first`, `next` got its memory before `held` was dropped, and `held`
        // keeps its slot until here.
        while dropped.try_recv() == Err(TryRecvError::Empty) {
            rig.device.drain();
        }
    }
}

/// I12: the memory of dropped slices whose tasks have not completed counts as well.
pub(crate) fn hard_limit_bounds_a_loop_that_drops_its_slices(on: On) {
    const LIMIT: u64 = 1 << 20;
    let rig = on.open();
    let limited = rig.device.client_builder().hard_limit(LIMIT).build();
    let stream = limited.new_stream();
    for round in 0..16 {
        let values = stream.empty::<u32>(128 << 10).unwrap();
        stream.fill(&values, round).unwrap();
        drop(values);
        let memory = rig.device.memory_usage().unwrap().device;
        let in_use = memory.in_use + memory.waiting;
        assert!(in_use <= LIMIT, "{in_use} bytes in round {round}");
    }
    // All memory is free in the end.
    let all = stream.empty::<u8>(LIMIT as usize).unwrap();
    stream.fill(&all, 1).unwrap();
    stream.drain();
}

/// I8, I12: a call that must not wait returns `Busy` if memory will be freed, and an error if live handles hold all of
/// it.
pub(crate) fn hard_limit_returns_busy_while_tasks_hold_the_memory_and_an_error_while_handles_do(
    on: On,
) {
    let rig = on.open();
    let limited = rig.device.client_builder().hard_limit(1_000).build();
    let (stream, other) = (limited.new_stream(), rig.client().new_stream());
    let (gate, guard) = on.put_held(&other, &[0_u8; 600]);
    let values = stream.empty::<u8>(600).unwrap();
    stream.copy(&gate, &values).unwrap();
    let live = stream.nowait().empty::<u8>(600).unwrap_err();
    assert!(matches!(live, Error::Memory(MemoryError::Limit { .. })));
    // Now only a task that waits for the guard uses the memory.
    drop(values);
    let (requested, in_use, limit) = (600, 600, 1_000);
    let memory = Full::Memory {
        requested,
        in_use,
        limit,
    };
    assert_eq!(full(stream.nowait().empty::<u8>(600)), memory);
    drop(guard);
    let values = stream.empty::<u8>(600).unwrap();
    stream.fill(&values, 3).unwrap();
    assert_eq!(stream.get(&values), [3; 600]);
}
