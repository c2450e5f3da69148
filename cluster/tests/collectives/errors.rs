//! Bad input: a typed error at once, and nothing is submitted.

use millstream::{Cpu, Device};
use millstream_cluster::{ClusterError, Fleet, Reduction};

use crate::{Kind, Rig, create, read, refs, zeros};

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let rig = Rig::new(Kind::Mixed, 3);
    let group = rig.fleet.group();
    let buffers = create(&group, &vec![vec![1_u32; 6]; 3]);
    let (short, all) = (zeros::<u32>(&group, 2), refs(&buffers));
    let errors = [
        (
            group.all_reduce(Reduction::Sum, &all[..2]),
            "`all_reduce` got 2 buffers in `buffers`, expected 3: one for each member of this process",
        ),
        (
            group.all_reduce(Reduction::Sum, &[all[0], all[2], all[1]]),
            "`all_reduce` got a buffer in `buffers` that is not of the device of member 1; pass one buffer of each member's device, in the order of the members",
        ),
        (
            group.all_reduce(Reduction::Sum, &[all[0], all[1], &short[2]]),
            "`all_reduce` got a buffer of 2 elements in `buffers` for member 2, expected 6",
        ),
        (
            group.all_gather(&all, &refs(&short)),
            "`all_gather` got a buffer of 2 elements in `outputs` for member 0, expected 18",
        ),
        (
            group.broadcast(3, &all),
            "rank 3 does not exist, the group has 3 members, counted from 0",
        ),
        (
            {
                let parts = [0, 1, 2].map(|member: usize| buffers[member].slice(..2).unwrap());
                group.reduce_scatter(Reduction::Sum, &all, &refs(&parts))
            },
            "`reduce_scatter` got an input and an output for member 0 that overlap; pass the same view, or separate memory",
        ),
        (
            rig.fleet.copy(&buffers[0], &short[1]),
            "`copy` got a buffer of 2 elements in `target` for member 1, expected 6",
        ),
        (
            {
                let stranger = Device::open(Cpu::default()).unwrap();
                let handle = stranger
                    .new_client()
                    .new_stream()
                    .create(&[1_u32; 6])
                    .unwrap();
                rig.fleet.copy(&buffers[0], &handle)
            },
            "the target is of no device of this process's part of the fleet or group; create it on one of them",
        ),
        (
            rig.fleet.group_of(&[0, 3]).map(drop),
            "device 3 does not exist, the fleet has 3, counted from 0",
        ),
        (
            rig.fleet.group_of(&[1, 1]).map(drop),
            "device 1 is named twice; a device is one member of a group",
        ),
        (
            rig.fleet.group_of(&[]).map(drop),
            "a group needs at least one member; name the devices that belong to it",
        ),
        (
            Fleet::new([]).map(drop),
            "a group needs at least one member; name the devices that belong to it",
        ),
    ];
    for (outcome, text) in errors {
        assert_eq!(outcome.unwrap_err().to_string(), text);
    }
    assert_eq!(read(&group, &buffers), vec![vec![1; 6]; 3]);
    assert!(matches!(Fleet::new([]), Err(ClusterError::Empty)));
}
