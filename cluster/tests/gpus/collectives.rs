//! Collectives of GPUs by NCCL: values, order, and when it is used.

use millstream::cuda::{Cuda, CudaRaw};
use millstream::{Device, bf16, f16};
use millstream_cluster::{Fleet, Group, Reducible, Reduction};
use rstest::rstest;

use crate::{Rig, create, inputs, open, options, read, refs, session, zeros};

/// The calls by which data would pass through memory of the host.
const TO_HOST: &str = "cuMemcpyDtoHAsync_v2";

/// Reduces small numbers of a type by both calls and all reductions. `by_nccl`: whether NCCL has the type.
fn types_of<T: Reducible + PartialEq + std::fmt::Debug>(by_nccl: bool, of: impl Fn(u8) -> T) {
    let rig = Rig::new(3, 3);
    let group = rig.fleet.group();
    let values = [[3, 1, 2], [5, 2, 1], [2, 7, 1]].map(|values| values.map(&of).to_vec());
    let cases = [
        (Reduction::Sum, [10, 10, 4]),
        (Reduction::Product, [30, 14, 2]),
        (Reduction::Min, [2, 1, 1]),
        (Reduction::Max, [5, 7, 2]),
    ];
    for (reduction, expected) in cases {
        let expected = expected.map(&of);
        let buffers = create(&group, &values);
        group.all_reduce(reduction, &refs(&buffers)).unwrap();
        assert_eq!(read(&group, &buffers), vec![expected.to_vec(); 3]);
        let (from, to) = (create(&group, &values), zeros::<T>(&group, 1));
        let (from, to) = (refs(&from), refs(&to));
        group.reduce_scatter(reduction, &from, &to).unwrap();
        for (member, value) in expected.into_iter().enumerate() {
            assert_eq!(
                group.stream(member).read(to[member]).wait().unwrap(),
                [value]
            );
        }
    }
    for call in ["ncclAllReduce", "ncclReduceScatter"] {
        let members = 3 * cases.len() as u64;
        assert_eq!(rig.nccl.calls(call), if by_nccl { members } else { 0 });
    }
    rig.close(group);
}

#[test]
fn every_element_type_is_reduced() {
    types_of(true, |value| value);
    types_of(true, |value| value as i8);
    types_of(true, u32::from);
    types_of(true, i32::from);
    types_of(true, u64::from);
    types_of(true, i64::from);
    types_of(true, f32::from);
    types_of(true, f64::from);
    types_of(true, |value| f16::from_f32(f32::from(value)));
    types_of(true, |value| bf16::from_f32(f32::from(value)));
    types_of(false, u16::from);
    types_of(false, i16::from);
}

/// The bytes do not go through the host. The random programs (`programs`) compare what the calls compute.
#[rstest]
fn calls_of_a_group_are_calls_of_the_library(
    #[values(2, 3, 5)] members: usize,
    #[values(0, 1, 700)] len: usize,
) {
    let rig = Rig::new((members * 1000 + len) as u64, members);
    let group = rig.fleet.group();
    let parts = create(&group, &inputs(members, len));
    let wholes = create(&group, &inputs(members, len * members));
    let (part, whole) = (refs(&parts), refs(&wholes));
    group.all_reduce(Reduction::Sum, &part).unwrap();
    group.reduce_scatter(Reduction::Sum, &whole, &part).unwrap();
    group.all_gather(&part, &whole).unwrap();
    for root in 0..members {
        group.broadcast(root, &part).unwrap();
    }
    for member in 0..members {
        group.stream(member).sync().wait().unwrap();
    }
    assert_eq!(rig.gpu.calls(TO_HOST), 0);
    let calls = if len > 0 { members as u64 } else { 0 };
    for call in ["ncclAllReduce", "ncclReduceScatter", "ncclAllGather"] {
        assert_eq!(rig.nccl.calls(call), calls, "{call}");
    }
    assert_eq!(rig.nccl.calls("ncclBroadcast"), calls * members as u64);
    assert_eq!(rig.nccl.calls("ncclCommInitAll"), calls.min(1));
    rig.close((parts, wholes, group));
}

/// All members get the same bits of a sum of floats, in an order of the library's own.
#[test]
fn members_get_the_same_bits() {
    let rig = Rig::new(4, 3);
    let values = [vec![1e8_f32, 0.1], vec![-1e8, 0.2], vec![1.0, 0.3]];
    let reduced = |group: &Group| {
        let buffers = create(group, &values);
        group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
        let sums = read(group, &buffers);
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
        sums[0].clone()
    };
    let by_library = reduced(&rig.fleet.group());
    let rig = rig.without_nccl();
    let in_order = reduced(&rig.fleet.group());
    assert_eq!(in_order, [1e8 - 1e8 + 1.0, 0.1 + 0.2 + 0.3]);
    // From the last to the first, here.
    assert_eq!(by_library[0], 1.0 - 1e8 + 1e8);
    assert_eq!(rig.nccl.calls("ncclAllReduce"), 3);
    rig.close(());
}

/// Threads call collectives of overlapping groups at the same time. On each GPU they run one after the other, in the same
/// order; otherwise the fake NCCL has a race.
#[rstest]
fn overlapping_groups_of_threads_do_not_deadlock(#[values(1, 2, 3, 4, 5, 6)] seed: u64) {
    const GROUPS: [&[usize]; 4] = [&[0, 1, 2], &[2, 0], &[1, 2], &[2, 1, 0]];
    let rig = Rig::new(seed, 3);
    std::thread::scope(|scope| {
        for members in GROUPS {
            let fleet = &rig.fleet;
            scope.spawn(move || {
                let group = fleet.group_of(members).unwrap();
                let buffers = create(&group, &vec![vec![1_u64; 300]; members.len()]);
                for _ in 0..10 {
                    group.all_reduce(Reduction::Sum, &refs(&buffers)).unwrap();
                }
                let sum = (members.len() as u64).pow(10);
                assert_eq!(read(&group, &buffers), vec![vec![sum; 300]; members.len()]);
            });
        }
    });
    assert_eq!(rig.nccl.calls("ncclCommInitAll"), GROUPS.len() as u64);
    assert_eq!(rig.nccl.calls("ncclAllReduce"), (3 + 2 + 2 + 3) * 10);
    rig.close(());
}

/// Two devices on one GPU do without NCCL.
#[test]
fn members_that_nccl_cannot_serve_do_without_it() {
    let gpu = session(5, 2);
    let fleet = Fleet::new([0, 1, 1].map(open)).unwrap();
    let rig = Rig::of(fleet, gpu);
    for (members, by_nccl) in [(&[0, 1, 2][..], 0), (&[1, 2], 0), (&[2, 0], 2), (&[1], 0)] {
        let group = rig.fleet.group_of(members).unwrap();
        let before = rig.nccl.calls("ncclAllReduce");
        let buffers = create(&group, &inputs(members.len(), 60));
        group.all_reduce(Reduction::Min, &refs(&buffers)).unwrap();
        assert_eq!(
            read(&group, &buffers),
            vec![inputs(1, 60)[0].clone(); members.len()]
        );
        assert_eq!(rig.nccl.calls("ncclAllReduce"), before + by_nccl);
    }
    rig.close(());
}

/// A device in a context that the application created does without NCCL, which uses the primary one.
#[test]
fn members_with_contexts_of_their_own_do_without_nccl() {
    let gpu = session(6, 2);
    let devices = [open(0), open(1)];
    let contexts = devices
        .each_ref()
        .map(|device| device.raw::<CudaRaw>().unwrap().context());
    // SAFETY: the devices with these contexts outlive the fleet.
    let adopting = contexts.map(|context| unsafe { Cuda::adopt_context(context) });
    let adopting = adopting.map(|cuda| Device::open_with(cuda.queues(1), options()).unwrap());
    let rig = Rig::of(Fleet::new(adopting).unwrap(), gpu);
    let group = rig.fleet.group();
    let buffers = create(&group, &inputs(2, 60));
    group.all_reduce(Reduction::Min, &refs(&buffers)).unwrap();
    group.broadcast(1, &refs(&buffers)).unwrap();
    assert_eq!(read(&group, &buffers), vec![inputs(1, 60)[0].clone(); 2]);
    assert_eq!(rig.nccl.calls("ncclCommInitAll"), 0);
    assert_eq!(rig.gpu.calls("cuMemcpyPeerAsync"), 1);
    let Rig { fleet, nccl, gpu } = rig;
    drop((buffers, group, fleet, devices));
    nccl.assert_clean();
    gpu.assert_clean();
}

/// Without the library, reductions go through the host and the rest by copies. The variable with the folder of the library
/// is read once, so that this runs in a process of its own.
#[test]
fn without_the_library_reductions_go_through_the_host() {
    const FOLDER: &str = "MILLSTREAM_NCCL";
    if std::env::var_os(FOLDER).is_none() {
        let name = "collectives::without_the_library_reductions_go_through_the_host";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let status = child
            .args(["--exact", name])
            .env(FOLDER, "/nowhere")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let missing = millstream::cuda::collective_library().unwrap_err();
    let why = "no libnccl.so can be loaded from `/nowhere` (MILLSTREAM_NCCL); set MILLSTREAM_NCCL to the folder of NCCL";
    assert!(missing.to_string().contains(why), "{missing}");
    let rig = Rig::new(6, 2);
    let group = rig.fleet.group();
    let buffers = create(&group, &inputs(2, 60));
    let before = rig.gpu.calls(TO_HOST);
    group.all_reduce(Reduction::Min, &refs(&buffers)).unwrap();
    assert_eq!(read(&group, &buffers), vec![inputs(1, 60)[0].clone(); 2]);
    assert_eq!(rig.gpu.calls(TO_HOST), before + 4);
    group.broadcast(1, &refs(&buffers)).unwrap();
    read(&group, &buffers);
    assert_eq!(rig.gpu.calls("cuMemcpyPeerAsync"), 1);
    assert_eq!(rig.nccl.calls("ncclAllReduce"), 0);
    rig.close((buffers, group));
}
