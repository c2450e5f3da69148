//! Soft limits: a client above its soft limit gets free memory, and waits behind other clients while memory is short
//! (I5, I6).

use crate::support::*;
use millstream::{ComputeClient, Handle, Pending, Reason, Stream};

fn limited(rig: &Rig, soft_limit: usize) -> ComputeClient {
    let builder = rig.device.client_builder().name("limited");
    builder.soft_limit(soft_limit as u64).build()
}

/// Reserves memory, fills it, and reads its start.
fn reserve_and_read(stream: &Stream, value: u8) -> (Handle<u8>, Pending<Vec<u8>>) {
    let slice = large(stream);
    stream.fill(&slice, value).unwrap();
    let start = stream.read(&slice.slice(..4).unwrap());
    (slice, start)
}

/// I5, I6: the later reservation, which is within its limit, goes first. That above the limit gets the memory
/// afterwards, if the other one is dropped; otherwise it fails.
pub(crate) fn reservation_above_the_soft_limit_waits_behind_one_within(on: On) {
    for drops in [false, true] {
        let (rig, guard) = on.open_short_of_memory();
        let (first, second) = (limited(&rig, MIB).new_stream(), rig.client().new_stream());
        let (_above, mut above_read) = reserve_and_read(&first, 9);
        let (within, within_read) = reserve_and_read(&second, 7);
        let within = (!drops).then_some(within);
        assert!(above_read.try_take().is_none());
        // The release of a guard does not go through the mailbox, but `stats` does: its answer proves that both are on
        // the wait list. Otherwise the first could get the memory before the second is admitted.
        assert!(rig.stats().tasks_parked >= 2);
        drop(guard);
        assert_eq!(within_read.wait().unwrap(), [7; 4]);
        let above = above_read.wait();
        if drops {
            assert_eq!(above.unwrap(), [9; 4]);
        } else {
            let error = above.unwrap_err();
            assert!(
                matches!(reason(&error), Reason::OutOfMemory { .. }),
                "{error}"
            );
        }
        drop(within);
    }
}

/// I12: the memory report has the bytes above the soft limit, and the statistics the number of crossings.
pub(crate) fn bytes_and_crossings_above_a_soft_limit_are_reported(on: On) {
    let rig = on.open();
    let client = limited(&rig, MIB);
    let stream = client.new_stream();
    let of_client = || {
        let report = client.memory_usage().wait().unwrap();
        let mut clients = report.clients.into_iter();
        clients.find(|of| of.client == client.id()).unwrap()
    };
    assert_eq!(of_client().soft_limit, Some(MIB as u64));
    assert_eq!(of_client().in_use, 0);
    for round in 1..=3 {
        let slices = [(); 2].map(|()| stream.empty::<u8>(MIB).unwrap());
        stream.fill(&slices[1], 1).unwrap();
        assert_eq!(stream.get(&slices[1]), [1; MIB]);
        assert_eq!(of_client().above_soft_limit(), MIB as u64);
        assert_eq!(rig.stats().soft_limit_crossings, round);
        drop(slices);
        stream.drain();
        assert_eq!(of_client().above_soft_limit(), 0);
    }
}
