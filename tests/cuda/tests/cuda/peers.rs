//! Copies from one GPU to another.

use millstream::cuda::{Cuda, copy_across, copy_across_async};
use millstream_actors::Device;
use millstream_protocol::error::Error;
use rstest::rstest;

use crate::support::*;

fn two() -> [Device; 2] {
    [0, 1].map(|ordinal| Device::open_with(Cuda::ordinal(ordinal).queues(2), options()).unwrap())
}

/// I1, I2: a copy across comes after what wrote its source and before what writes it next, and the same of its target,
/// whether the GPUs reach each other or not.
#[rstest]
fn a_copy_across_is_a_task_of_both_streams_i1_i2(
    #[values(true, false)] reach: bool,
    #[values(1, 2, 3, 4)] seed: u64,
) {
    let gpu = gpu(seed);
    gpu.gpus(2);
    gpu.are_peers(reach);
    let devices = two();
    let streams = devices
        .each_ref()
        .map(|device| device.new_client().new_stream());
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
    assert_eq!(gpu.calls("cuMemPoolSetAccess") > 0, reach);
    drop((from, to, streams, devices));
    gpu.assert_clean();
}

/// I5: the twin that does not block, both ways at once, and between streams of one GPU.
#[test]
fn copies_across_may_be_awaited_i5() {
    let gpu = gpu(5);
    gpu.gpus(2);
    let devices = two();
    let one = devices[0].new_client().new_stream();
    let other = devices[1].new_client().new_stream();
    let again = devices[0].new_client().new_stream();
    let a = one.create(&[1_u8; 300]).unwrap();
    let b = other.create(&[2_u8; 300]).unwrap();
    let [c, d] = [&again, &again].map(|stream| stream.empty::<u8>(300).unwrap());
    pollster::block_on(async {
        let (here, there) = ((&one, &a), (&other, &b));
        copy_across_async(here, (&again, &c)).await.unwrap();
        copy_across_async(there, (&again, &d)).await.unwrap();
        copy_across_async((&again, &c), there).await.unwrap();
        copy_across_async((&again, &d), here).await.unwrap();
    });
    assert_eq!(one.read(&a).wait().unwrap(), [2; 300]);
    assert_eq!(other.read(&b).wait().unwrap(), [1; 300]);
    drop((a, b, c, d, one, other, again, devices));
    gpu.assert_clean();
}

/// I7: what is refused is told, and poisons the target alone.
#[test]
fn a_refused_copy_across_poisons_its_target_i7() {
    let gpu = gpu(6);
    gpu.gpus(2);
    let devices = two();
    let streams = devices
        .each_ref()
        .map(|device| device.new_client().new_stream());
    let from = streams[0].create(&[1_u8; 300]).unwrap();
    let to = streams[1].create(&[2_u8; 300]).unwrap();
    let short = to.slice(..20).unwrap();
    let refused = copy_across((&streams[0], &from), (&streams[1], &short));
    assert!(matches!(refused, Err(Error::Launch { .. })), "{refused:?}");
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
    // Nothing at all is copied, too.
    let (none, nothing) = (
        streams[0].empty::<u8>(0).unwrap(),
        streams[1].empty::<u8>(0).unwrap(),
    );
    copy_across((&streams[0], &none), (&streams[1], &nothing)).unwrap();
    drop((from, to, short, none, nothing, streams, devices));
    gpu.assert_clean();
}

/// I5: copies both ways at once hold nobody up.
#[test]
fn opposite_copies_across_end_i5() {
    let gpu = gpu(8);
    gpu.gpus(2);
    let devices = two();
    let streams = devices
        .each_ref()
        .map(|device| device.new_client().new_stream());
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
    drop((a, b, streams, devices));
    gpu.assert_clean();
}
