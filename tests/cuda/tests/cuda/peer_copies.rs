//! Copies from one GPU to another.

use millstream::cuda::{Cuda, copy_across, copy_across_async};
use millstream_actors::Device;
use millstream_client::Stream;
use millstream_protocol::Error;
use rstest::rstest;

use crate::support::*;

/// Returns two GPUs, which may be peers, with a device and a stream on each.
fn two(seed: u64, peers: bool) -> (Gpu, [Device; 2], [Stream; 2]) {
    let gpu = gpu(seed);
    gpu.set_gpu_count(2);
    gpu.set_peers(peers);
    let open = |ordinal| Device::open_with(Cuda::ordinal(ordinal).queues(2), options()).unwrap();
    let devices = [0, 1].map(open);
    let streams = devices
        .each_ref()
        .map(|device| device.new_client().new_stream());
    (gpu, devices, streams)
}

/// I1, I2: a peer copy is ordered after earlier and before later tasks on its source and on its target, whether or not
/// the GPUs have peer access.
#[rstest]
fn a_peer_copy_is_ordered_in_both_streams_i1_i2(
    #[values(true, false)] peers: bool,
    #[values(1, 2, 3, 4)] seed: u64,
) {
    let (gpu, _devices, streams) = two(seed, peers);
    let from = streams[0].create(&vec![0_u32; 5000]).unwrap();
    let to = streams[1].create(&vec![9_u32; 5000]).unwrap();
    for round in 1..4_u32 {
        streams[0].fill(&from, round).unwrap();
        let (source, target) = ((&streams[0], &from), (&streams[1], &to));
        copy_across(source, target).unwrap();
        streams[0].fill(&from, 77).unwrap();
        assert_eq!(streams[1].read(&to).wait().unwrap(), vec![round; 5000]);
        streams[1].fill(&to, 78).unwrap();
    }
    assert_eq!(gpu.calls("cuMemcpyPeerAsync"), 3);
    assert_eq!(gpu.calls("cuMemPoolSetAccess") > 0, peers);
}

/// I5: peer copies can be awaited, in both directions and between two streams of one GPU.
#[test]
fn peer_copies_can_be_awaited_i5() {
    let (_gpu, devices, [one, other]) = two(5, true);
    let second_of_one = devices[0].new_client().new_stream();
    let a = one.create(&[1_u8; 300]).unwrap();
    let b = other.create(&[2_u8; 300]).unwrap();
    let [c, d] = [&second_of_one, &second_of_one].map(|stream| stream.empty::<u8>(300).unwrap());
    pollster::block_on(async {
        let (here, there) = ((&one, &a), (&other, &b));
        copy_across_async(here, (&second_of_one, &c)).await.unwrap();
        copy_across_async(there, (&second_of_one, &d))
            .await
            .unwrap();
        copy_across_async((&second_of_one, &c), there)
            .await
            .unwrap();
        copy_across_async((&second_of_one, &d), here).await.unwrap();
    });
    assert_eq!(one.read(&a).wait().unwrap(), [2; 300]);
    assert_eq!(other.read(&b).wait().unwrap(), [1; 300]);
}

/// I7: a refused peer copy returns an error and poisons only its target. A later copy cleans the target.
#[test]
fn a_refused_peer_copy_poisons_only_its_target_i7() {
    let (gpu, _devices, streams) = two(6, true);
    let from = streams[0].create(&[1_u8; 300]).unwrap();
    let to = streams[1].create(&[2_u8; 300]).unwrap();
    let short = to.slice(..20).unwrap();
    let refused = copy_across((&streams[0], &from), (&streams[1], &short));
    assert!(matches!(refused, Err(Error::Argument(_))), "{refused:?}");
    gpu.fault(Some("cuMemcpyPeerAsync"), 1, 1);
    let refused = copy_across((&streams[0], &from), (&streams[1], &to)).unwrap_err();
    let why = refused.to_string();
    assert!(
        why.contains("`cuMemcpyPeerAsync` failed: CUDA_ERROR_INVALID_VALUE (1)"),
        "{why}"
    );
    assert!(streams[1].read(&to).wait().is_err());
    assert_eq!(streams[0].read(&from).wait().unwrap(), [1; 300]);
    copy_across((&streams[0], &from), (&streams[1], &to)).unwrap();
    assert_eq!(streams[1].read(&to).wait().unwrap(), [1; 300]);
    // Copies of no bytes succeed.
    let empty = streams
        .each_ref()
        .map(|stream| stream.empty::<u8>(0).unwrap());
    copy_across((&streams[0], &empty[0]), (&streams[1], &empty[1])).unwrap();
}

/// I5: concurrent copies in both directions do not deadlock.
#[test]
fn opposite_peer_copies_do_not_deadlock_i5() {
    let (_gpu, _devices, streams) = two(8, true);
    let [a, b] = streams
        .each_ref()
        .map(|stream| stream.create(&[5_u8; 3000]).unwrap());
    std::thread::scope(|scope| {
        let (here, there) = ((&streams[0], &a), (&streams[1], &b));
        for _ in 0..2 {
            scope.spawn(move || (0..10).for_each(|_| copy_across(here, there).unwrap()));
            scope.spawn(move || (0..10).for_each(|_| copy_across(there, here).unwrap()));
        }
    });
    assert_eq!(streams[0].read(&a).wait().unwrap(), [5; 3000]);
}
