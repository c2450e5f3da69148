//! Many clients on a device that is short of memory: what goes on, what waits, and what ends (I5, I6, I12).

use crate::support::*;
use millstream::{Handle, Stream, update};

/// I6: 10 of 16 MiB are dropped and held by a slow late write, and 12 MiB are requested. A third client takes and drops
/// small buffers meanwhile, more than are free in total.
pub(crate) fn small_clients_go_on_while_a_large_reservation_waits_i6(on: On) {
    let rig = on.open_small(16 * MIB as u64);
    let streams = [(); 3].map(|()| rig.client().new_stream());
    let [holder, large, small] = &streams;
    let held = holder.empty::<u8>(10 * MIB).unwrap();
    let one = held.slice(..4).unwrap();
    let late = holder.write_later("receive", &one).unwrap();
    drop((held, one));
    let wanted = large.empty::<u8>(12 * MIB).unwrap();
    let mut parked = large.read(&wanted.slice(..0).unwrap());
    for round in 0..20_u8 {
        let buffer = small.put(&[round; MIB]);
        let end = buffer.slice(MIB - 4..).unwrap();
        assert_eq!(small.get(&end), [round; 4]);
    }
    assert!(parked.try_take().is_none());
    late.send(vec![1_u8; 4]).unwrap();
    assert_eq!(parked.wait().unwrap(), [0_u8; 0]);
}

/// I6: a value that is dropped after work outside of the device may own the last handle of a slice.
pub(crate) fn reservation_waits_for_drops_behind_work_outside_i6(on: On) {
    const HALF: usize = 768 << 10;
    let rig = on.open_small(MIB as u64);
    let (first, second) = (rig.client().new_stream(), rig.client().new_stream());
    let next = |stream: &Stream| -> Handle<u8> {
        let next = stream.empty::<u8>(HALF).unwrap();
        stream.fill(&next, 2).unwrap();
        next
    };
    for round in 0..6 {
        let held = first.empty::<u8>(HALF).unwrap();
        let one = held.slice(..4).unwrap();
        let outside: Box<dyn FnOnce()> = match round % 2 {
            0 => {
                let late = first.write_later("receive", &one).unwrap();
                Box::new(move || late.send(vec![1_u8; 4]).unwrap())
            }
            _ => {
                let guard = on.guard(&first, (update(&one),)).unwrap();
                Box::new(move || drop(guard))
            }
        };
        drop(one);
        first.drop_after(held).unwrap();
        let wanted = next(&second);
        let mut read = second.read(&wanted.slice(..1).unwrap());
        // The device answers this after it has tried the reservation.
        rig.device.memory_usage().unwrap();
        rig.device.memory_usage().unwrap();
        assert!(read.try_take().is_none(), "round {round}");
        outside();
        assert_eq!(read.wait().unwrap(), [2], "round {round}");
        drop(wanted);
        rig.device.drain();
    }
}

/// I5, I12: the reservations of very many streams are served one after the other.
pub(crate) fn thousands_of_streams_wait_for_memory_and_end_i5_i12(on: On) {
    const STREAMS: usize = 2_000;
    let rig = on.open_small(4 << 10);
    let client = rig.client();
    let owner = client.new_stream();
    let held = owner.empty::<u8>(4 << 10).unwrap();
    let guard = on.guard(&owner, (update(&held),)).unwrap();
    drop(held);
    let answers: Vec<_> = (0..STREAMS)
        .map(|number| {
            let stream = client.new_stream();
            let slice = stream.empty::<u8>(4 << 10).unwrap();
            stream.fill(&slice, number as u8).unwrap();
            stream.read(&slice.slice(..1).unwrap())
        })
        .collect();
    drop(guard);
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.wait().unwrap(), [number as u8]);
    }
}
