//! Ranks that call different things: each learns what the other called and where, and nothing hangs.

use millstream::{Element, Handle, Reason, error::Remote};
use millstream_cluster::Reduction;
use millstream_mpi::World;

use crate::Rank;

/// Returns the message of a mismatch.
fn message<T: Element>(rank: &Rank, buffer: &Handle<T>) -> String {
    let error = rank.error(buffer);
    match &error.failure().unwrap().root().reason {
        Reason::Remote(Remote::Mismatch { message }) => message.clone(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn other_calls_are_reported(world: World) {
    let rank = Rank::new(world);
    let odd = rank.rank == 1;
    let group = &rank.group;

    // Sizes: of calls whose bytes travel with the comparison, and of calls whose bytes follow.
    for lens in [[50, 100], [50, 1_000], [2_000, 100], [2_000, 1_000]] {
        let buffer = rank.create(&vec![1_u32; lens[usize::from(!odd)]]);
        group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
        let text = message(&rank, &buffer);
        for len in lens {
            let call = format!("`all_reduce` (sum) of {len} u32 at tests/ranks/mismatch.rs:");
            assert!(text.contains(&call), "{text}");
        }
        assert!(
            text.starts_with(&format!("rank {} called", rank.rank)),
            "{text}"
        );
    }

    // Types.
    let (integers, floats) = (rank.create(&[1_u32; 8]), rank.create(&[1_f32; 8]));
    let text = match odd {
        true => {
            group.all_reduce(Reduction::Sum, &[&floats]).unwrap();
            message(&rank, &floats)
        }
        false => {
            group.all_reduce(Reduction::Sum, &[&integers]).unwrap();
            message(&rank, &integers)
        }
    };
    assert!(
        text.contains("8 f32 at") && text.contains("8 u32 at"),
        "{text}"
    );

    // Operations.
    let buffer = rank.create(&[1_u32; 8]);
    let reduction = if odd { Reduction::Max } else { Reduction::Sum };
    group.all_reduce(reduction, &[&buffer]).unwrap();
    let text = message(&rank, &buffer);
    assert!(text.contains("(max)") && text.contains("(sum)"), "{text}");

    // Orders.
    let (first, second) = (rank.create(&[1_u32; 8]), rank.create(&[1_u32; 8]));
    match odd {
        true => {
            group.broadcast(0, &[&second]).unwrap();
            group.all_reduce(Reduction::Sum, &[&first]).unwrap();
        }
        false => {
            group.all_reduce(Reduction::Sum, &[&first]).unwrap();
            group.broadcast(2, &[&second]).unwrap();
        }
    }
    for buffer in [&first, &second] {
        // The root of a broadcast writes nothing, so nothing of it is poisoned.
        if rank.rank == 2 && std::ptr::eq(buffer, &second) {
            continue;
        }
        let text = message(&rank, buffer);
        assert!(
            text.contains("`all_reduce`") && text.contains("`broadcast`"),
            "{text}"
        );
    }

    // A send and a receive.
    let data = rank.create(&vec![1_u32; if odd { 5 } else { 8 }]);
    match rank.rank {
        0 => group.send(1, &data).unwrap(),
        1 => {
            group.receive(0, &data).unwrap();
            let text = message(&rank, &data);
            assert!(
                text.starts_with("rank 0 sends 8 u32 at tests/ranks/mismatch.rs:")
                    && text.contains("rank 1 receives 5 u32 at tests/ranks/mismatch.rs:"),
                "{text}"
            );
        }
        _ => {}
    }

    // The group goes on.
    let buffer = rank.create(&[1_u32; 8]);
    group.all_reduce(Reduction::Sum, &[&buffer]).unwrap();
    assert_eq!(rank.read(&buffer), [3; 8]);
}
