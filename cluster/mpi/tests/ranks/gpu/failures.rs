//! Calls of ranks with CUDA devices that fail.

use millstream::{Reason, error::Remote, write};
use millstream_cluster::Reduction;
use millstream_mpi::World;

use super::{PIECE, Rig, double, driver};
use crate::ended;

/// The part of one rank fails: a CUDA device or a CPU, of a call in pieces. All outputs carry the failure, and the next call
/// works.
pub(crate) fn poison(world: World) {
    let rig = Rig::new(world, &[1]);
    let rank = &rig.rank;
    let len = 5 * PIECE / 4 + 3;
    for failed in 0..rank.size {
        let buffer = rank.create(&vec![1_u32; len]);
        if rank.rank == failed {
            let broken = rank.stream().external("broken", (write(&buffer),), |task| {
                task.unwrap().fail(Reason::Refused("no".to_owned()));
            });
            broken.unwrap();
        }
        rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
        let error = rank.error(&buffer).to_string();
        match rank.rank == failed {
            true => assert!(error.contains("no"), "{error}"),
            false => assert!(error.contains(&format!("rank {failed}")), "{error}"),
        }
        let other = (failed + 1) % rank.size;
        match rank.rank {
            own if own == failed => rank.group.send(other, &buffer).unwrap(),
            own if own == other => {
                rank.group.receive(failed, &buffer).unwrap();
                let error = rank.error(&buffer).to_string();
                assert!(error.contains(&format!("rank {failed}")), "{error}");
            }
            _ => {}
        }
        transfer_of_other_length(&rig, (failed, other), len);
        rank.stream().fill(&buffer, 1).unwrap();
        rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
        assert!(rank.read(&buffer) == vec![rank.size as u32; len]);
    }
    rig.close();
}

/// A receiver that expects less than is sent fails, and the sender does not: the first transfer between two ranks, which the
/// sender may ask about, and another one after it.
fn transfer_of_other_length(rig: &Rig, (from, to): (usize, usize), len: usize) {
    let rank = &rig.rank;
    let long = rank.create(&vec![rank.rank as u32; len]);
    let short = rank.create(&[7_u32; 10]);
    if rank.rank == from {
        rank.group.send(to, &long).unwrap();
        rank.group.send(to, &long).unwrap();
        assert!(rank.read(&long) == vec![from as u32; len]);
    } else if rank.rank == to {
        rank.group.receive(from, &short).unwrap();
        rank.group.receive(from, &long).unwrap();
        let error = rank.error(&short);
        let reason = &error.failure().unwrap().root().reason;
        assert!(
            matches!(reason, Reason::Remote(Remote::Mismatch { .. })),
            "{error}"
        );
        assert!(rank.read(&long) == vec![from as u32; len]);
    }
}

/// The GPU of rank 1 is lost while the pieces of an all-reduce are copied. The call ends on both ranks.
pub(crate) fn lost(world: World) {
    let rig = Rig::new(world, &[]);
    let rank = &rig.rank;
    let buffer = rank.create(&vec![1_u32; 8 * PIECE / 4]);
    rank.stream().sync().wait().unwrap();
    if rank.rank == 1 {
        rig.gpu.break_at(3, 700);
    }
    rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
    let error = rank.error(&buffer);
    if rank.rank == 0 {
        let reason = &error.failure().unwrap().root().reason;
        assert!(
            matches!(reason, Reason::Remote(Remote::Failed { rank: 1, .. })),
            "{error}"
        );
        // Rank 0 goes on.
        rank.stream().fill(&buffer, 3).unwrap();
        assert_eq!(rank.read(&buffer)[..3], [3; 3]);
    }
    let own = rank.rank;
    drop(buffer);
    let gpu = rig.close_device();
    match own {
        0 => gpu.assert_clean(),
        // What a lost GPU had is not released.
        _ => drop(gpu),
    }
}

/// The GPU of rank 1 is lost while MPI accesses its memory. MPI reports an error, which ends the group.
pub(crate) fn lost_under_a_request(world: World) {
    let rig = Rig::new(world, &[]);
    let rank = &rig.rank;
    let buffer = rank.create(&vec![1_u32; PIECE / 4]);
    rank.stream().sync().wait().unwrap();
    if rank.rank == 1 {
        // After the read of the first operation of MPI: at the write of its result.
        rig.gpu.break_at(2, 700);
    }
    rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
    let client = rank.fleet.devices()[0].new_client();
    let outcome = client.new_stream().read(&buffer).wait();
    if rank.rank == 0 {
        // The status of the call may have arrived before the error of rank 1.
        match outcome {
            Ok(values) => assert!(values == vec![2; PIECE / 4]),
            Err(error) => assert!(error.failure().is_some(), "{error}"),
        }
        // Rank 0 goes on.
        rank.stream().fill(&buffer, 3).unwrap();
        assert_eq!(rank.read(&buffer)[..3], [3; 3]);
    } else {
        let error = outcome.unwrap_err();
        let lost = matches!(error, millstream::Error::DeviceLost { .. });
        assert!(lost || error.failure().is_some(), "{error}");
    }
    drop(buffer);
    drop(rig.close_device());
}

/// MPI refuses the third piece of an all-reduce: the pieces that it has accepted end, and no further ones are copied.
pub(crate) fn an_error_of_mpi(world: World) {
    let rig = Rig::new(world, &[]);
    let rank = &rig.rank;
    let buffer = rank.create(&vec![1_u32; 8 * PIECE / 4]);
    rank.stream().sync().wait().unwrap();
    let before = driver::copies();
    double::refuse_after(2);
    rank.group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
    let error = rank.error(&buffer);
    let reason = &error.failure().unwrap().root().reason;
    // Each rank is refused; the first one revokes the group, which the other may learn before its own refusal.
    let is_revoked = matches!(reason, Reason::Remote(Remote::Ended { rank: None }));
    assert!(
        is_revoked || matches!(reason, Reason::Refused(_)),
        "{error}"
    );
    let after = driver::copies();
    // Four pieces are copied at once, and one more after each that has ended well.
    assert!(after.to_host - before.to_host <= 6);
    assert!(after.to_gpu - before.to_gpu <= 2);
    drop(buffer);
    rig.close();
}

/// A rank is killed while calls of some pieces are in flight.
pub(crate) fn ended(world: World) {
    let Rig { rank, gpu } = Rig::new(world, &[3]);
    let len = 3 * PIECE / 4;
    ended::killed_with(rank, len, |group, rank, whole, part| {
        group.all_reduce(Reduction::Sum, &[whole]).unwrap();
        group.broadcast(1, &[whole]).unwrap();
        let _ = (rank, part);
    });
    // MPI may keep memory of calls that did not end.
    drop(gpu);
}
