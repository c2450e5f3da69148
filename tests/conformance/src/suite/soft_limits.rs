//! Soft limits: a client above its soft limit gets free memory, and waits behind other clients while memory is short
//! (I5, I6).

use crate::support::*;
use millstream::{AllocationMode, ComputeClient, Handle, Reason, Stream, update};

const MIB: usize = 1 << 20;

fn large(stream: &Stream) -> Handle<u8> {
    let handle = stream.empty_with(3 * MIB, AllocationMode::Dedicated);
    handle.unwrap()
}

fn limited(rig: &Rig, soft_limit: usize) -> ComputeClient {
    let builder = rig.device.client_builder().name("limited");
    builder.soft_limit(soft_limit as u64).build()
}

/// Returns a device without free memory, and a guard; dropping the guard frees the memory.
fn short_of_memory(on: On) -> (Rig, Guard) {
    let rig = on.open_small(4 * MIB as u64);
    let owner = rig.client().new_stream();
    let guard = on.guard(&owner, (update(&large(&owner)),)).unwrap();
    (rig, guard)
}

/// Asserts that both reservations wait for memory. The release of a guard does not go through the mailbox, but `stats`
/// does: its answer proves that both are on the wait list. Otherwise the first could get the memory before the second
/// is admitted.
fn assert_both_wait(rig: &Rig) {
    assert!(rig.stats().tasks_parked >= 2);
}

/// I6: the later reservation, which is within its limit, goes first and gets all memory.
pub(crate) fn reservation_above_the_soft_limit_waits_behind_one_within(on: On) {
    let (rig, guard) = short_of_memory(on);
    let (first, second) = (limited(&rig, MIB).new_stream(), rig.client().new_stream());
    let above = large(&first);
    let mut above_read = first.read(&above.slice(..4).unwrap());
    let within = large(&second);
    second.fill(&within, 7).unwrap();
    let within_read = second.read(&within.slice(..4).unwrap());
    assert!(above_read.try_take().is_none());
    assert_both_wait(&rig);
    drop(guard);
    assert_eq!(within_read.wait().unwrap(), [7; 4]);
    let error = above_read.wait().unwrap_err();
    let reason = &error.failure().unwrap().root().reason;
    assert!(matches!(reason, Reason::OutOfMemory { .. }), "{error}");
}

/// I5, I6: the reservation above the limit waits and gets the memory afterwards.
pub(crate) fn reservation_above_the_soft_limit_gets_the_memory_that_others_leave(on: On) {
    let (rig, guard) = short_of_memory(on);
    let (first, second) = (limited(&rig, MIB).new_stream(), rig.client().new_stream());
    let above = large(&first);
    first.fill(&above, 9).unwrap();
    let above_read = first.read(&above.slice(..4).unwrap());
    let within = large(&second);
    second.fill(&within, 7).unwrap();
    let within_read = second.read(&within.slice(..4).unwrap());
    assert_both_wait(&rig);
    drop((within, guard));
    assert_eq!(within_read.wait().unwrap(), [7; 4]);
    assert_eq!(above_read.wait().unwrap(), [9; 4]);
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
    assert_eq!(
        (of_client().soft_limit, of_client().in_use),
        (Some(MIB as u64), 0)
    );
    for round in 1..=3 {
        let slices = [(); 2].map(|()| stream.empty::<u8>(MIB).unwrap());
        stream.fill(&slices[1], 1).unwrap();
        assert_eq!(stream.read(&slices[1]).wait().unwrap(), [1; MIB]);
        assert_eq!(of_client().above_soft_limit(), MIB as u64);
        assert_eq!(rig.stats().soft_limit_crossings, round);
        drop(slices);
        stream.sync().wait().unwrap();
        assert_eq!(of_client().above_soft_limit(), 0);
    }
}
