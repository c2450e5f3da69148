//! Parts that a network takes with memory of their device, and the copies of their pieces.

use std::sync::mpsc::Receiver;

use millstream::Reason;
use millstream_cluster::{Announcement, EnteredContext, Group, Reduction, StagedCopy, Staging};
use millstream_cluster_programs::networks::{Begun, Handover};
use rstest::rstest;

use crate::Rig;

/// Returns a group that hands its parts to the test.
fn handover(
    rig: &Rig,
    devices: &[usize],
    takes_device_memory: bool,
) -> (Group, Receiver<(Announcement, Begun)>) {
    let (network, parts) = Handover::channel(takes_device_memory);
    let group = rig.fleet.group_over_all(network, devices);
    (group.unwrap(), parts)
}

fn wait(mut copy: StagedCopy) -> Result<(), Reason> {
    loop {
        if let Some(outcome) = copy.poll() {
            return outcome;
        }
        std::thread::yield_now();
    }
}

/// Returns the bytes of a piece, of which these tests have 1024.
fn piece(staging: &Staging, piece: usize) -> *mut [u8; 1024] {
    staging.piece(piece).cast()
}

/// I2: the data of a part is complete when it begins, and tasks after the call wait for its end. Pieces are copied both ways,
/// and the fake finds no access without order.
#[rstest]
fn pieces_of_a_part_are_copied_i2(#[values(1, 2, 3)] seed: u64) {
    let rig = Rig::new(seed, 1);
    let (group, parts) = handover(&rig, &[0], true);
    let buffer = group.stream(0).create(&[1_u8; 3000]).unwrap();
    group.stream(0).fill(&buffer, 2).unwrap();
    group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
    let answer = group.stream(0).read(&buffer);
    let (call, part) = parts.recv().unwrap();
    let mut part = part.unwrap();
    assert!(call.on_device);
    let error = part.memory().err().unwrap();
    assert_eq!(error, "its backend did not provide memory of the host");
    let addresses = part.addresses().unwrap();
    assert!(addresses.input.is_none() && !addresses.output.unwrap().is_null());
    let entered = EnteredContext::of(&mut part).unwrap();
    assert!(entered.is_some());
    drop(entered);

    let staging = Staging::new(&mut part, 2, 1024).unwrap();
    assert!(staging.serves(&mut part));
    // SAFETY: each copy is waited for before its bytes are accessed, and before the part ends.
    unsafe {
        wait(staging.load(&mut part, 0..1024, 0).unwrap()).unwrap();
        wait(staging.load(&mut part, 1024..2048, 1).unwrap()).unwrap();
        for index in 0..2 {
            assert_eq!(*piece(&staging, index), [2; 1024]);
            *piece(&staging, index) = [3 + index as u8; 1024];
        }
        wait(staging.store(&mut part, 0..1024, 0).unwrap()).unwrap();
        wait(staging.store(&mut part, 2500..3000, 1).unwrap()).unwrap();
        for range in [2000..3024, 0..1025, 3001..3001] {
            let refused = staging.load(&mut part, range.clone(), 0).err().unwrap();
            assert!(matches!(refused, Reason::Refused(_)), "{refused:?}");
            assert!(staging.store(&mut part, range, 0).is_err());
        }
    }
    part.complete();
    let values = answer.wait().unwrap();
    assert_eq!(values[..1024], [3; 1024]);
    assert_eq!(values[1024..2500], [2; 1476]);
    assert_eq!(values[2500..], [4; 500]);
    rig.close((staging, buffer, group));
}

/// A part with memory of the host: of a CPU, of a group of two devices, or because the network did not ask.
#[test]
fn other_parts_have_memory_of_the_host() {
    let rig = Rig::with_cpu(4, 1);
    for (group, parts) in [
        handover(&rig, &[1], true),
        handover(&rig, &[0], false),
        handover(&rig, &[0, 1], true),
    ] {
        let members = group.local_ranks().len();
        let create = |member| group.stream(member).create(&[5_u8; 100]).unwrap();
        let buffers: Vec<_> = (0..members).map(create).collect();
        let handles: Vec<_> = buffers.iter().collect();
        group.all_reduce(Reduction::Max, &handles).unwrap();
        let (call, part) = parts.recv().unwrap();
        let mut part = part.unwrap();
        assert!(!call.on_device);
        let memory = part.memory().unwrap();
        let bytes = memory.input.or(memory.output.as_deref()).unwrap();
        assert_eq!(bytes, [5; 100]);
        let own = bytes.as_ptr();
        let addresses = part.addresses().unwrap();
        let output = addresses.output.map(<*mut u8>::cast_const);
        assert_eq!(addresses.input.or(output), Some(own));
        assert!(EnteredContext::of(&mut part).unwrap().is_none());
        let why = "its memory is of the host".to_owned();
        let refused = Staging::new(&mut part, 1, 10).err();
        assert_eq!(refused, Some(Reason::Refused(why)));
        drop(part);
        drop((buffers, group));
    }
    rig.close(());
}

/// I7: what the driver refuses is an error of the call, and no copy is left.
#[rstest]
#[case("cuStreamCreateWithPriority", false)]
#[case("cuMemHostAlloc", false)]
#[case("cuMemcpyDtoHAsync_v2", false)]
// Without a mark the copy is waited for, or asked for again.
#[case("cuEventCreate", true)]
#[case("cuEventRecord", true)]
fn a_refusal_of_the_driver_is_returned_i7(#[case] call: &str, #[case] copies: bool) {
    let rig = Rig::new(5, 1);
    let (group, parts) = handover(&rig, &[0], true);
    let buffer = group.stream(0).create(&[6_u8; 1024]).unwrap();
    group.broadcast(0, &[&buffer]).unwrap();
    let mut part = parts.recv().unwrap().1.unwrap();
    rig.gpu.fault(Some(call), 1, 2);
    let copied = Staging::new(&mut part, 1, 1024).and_then(|staging| {
        // SAFETY: the copy is waited for.
        let copy = unsafe { staging.load(&mut part, 0..1024, 0) }?;
        wait(copy)?;
        // SAFETY: as above.
        assert_eq!(unsafe { *piece(&staging, 0) }, [6; 1024]);
        Ok(())
    });
    assert_eq!(rig.gpu.faults_injected(), 1);
    assert_eq!(copied.is_ok(), copies, "{copied:?}");
    if let Err(reason) = copied {
        let name = call.trim_end_matches("_v2");
        let names_it = matches!(&reason, Reason::Refused(why) if why.contains(name));
        assert!(names_it, "{reason:?}");
    }
    part.complete();
    assert_eq!(group.stream(0).read(&buffer).wait().unwrap(), [6; 1024]);
    rig.close((buffer, group));
}

/// I5: a copy ends if its GPU is lost.
#[test]
fn a_lost_gpu_ends_a_copy_i5() {
    let rig = Rig::new(6, 1);
    let (group, parts) = handover(&rig, &[0], true);
    let buffer = group.stream(0).create(&[6_u8; 1024]).unwrap();
    group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
    let mut part = parts.recv().unwrap().1.unwrap();
    let staging = Staging::new(&mut part, 1, 1024).unwrap();
    rig.gpu.break_at(1, 700);
    // SAFETY: the copy is waited for.
    let copy = unsafe { staging.load(&mut part, 0..1024, 0) };
    let outcome = copy.and_then(wait);
    assert_eq!(outcome, Err(Reason::Lost));
    part.fail_by(millstream::Failure::not_run(&"a call".into(), Reason::Lost));
    assert!(group.stream(0).read(&buffer).wait().is_err());
    drop((staging, buffer, group, rig));
}
