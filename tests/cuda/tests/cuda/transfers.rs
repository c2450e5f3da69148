//! Uploads, copies, fills and readbacks.

use millstream_client::Tensor;
use millstream_client::handle::Handle;
use millstream_protocol::Strided;
use rstest::rstest;

use crate::support::*;

/// I6: a readback returns the uploaded bytes for every size: none, less than a staging block, exactly one, several.
#[rstest]
fn a_readback_returns_the_uploaded_bytes_i6(
    #[values(0, 1, 3, 255, 4096, 1 << 20, (1 << 20) + 1, (3 << 20) + 77)] bytes: usize,
) {
    let gpu = gpu(bytes as u64);
    let device = open(2);
    let stream = device.new_client().new_stream();
    let data: Vec<u8> = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
    let handle = stream.create(&data).unwrap();
    assert_eq!(stream.read(&handle).wait().unwrap(), data);
    drop((handle, stream, device));
    assert!(
        gpu.calls_total() > 0,
        "the backend uses a driver other than the fake"
    );
}

/// The caller copies an upload to pinned memory, from which it goes to the GPU in one copy. Later uploads reuse the
/// memory. Owned bytes, which the caller does not copy, go in blocks.
#[test]
fn an_upload_through_pinned_memory_is_one_copy() {
    const BYTES: usize = 3 << 20;
    let gpu = gpu(1);
    let device = open(1);
    let stream = device.new_client().new_stream();
    let data: Vec<u8> = (0..BYTES).map(|at| (at * 7 % 251) as u8).collect();
    let copies_of = |create: &dyn Fn() -> Handle<u8>| {
        let before = gpu.calls("cuMemcpyHtoDAsync_v2");
        let handle = create();
        assert!(stream.read(&handle).wait().unwrap() == data);
        gpu.calls("cuMemcpyHtoDAsync_v2") - before
    };
    let copied = || stream.create(&data).unwrap();
    assert_eq!(copies_of(&copied), 1);
    // The blocks of readbacks exist as well by now. At most one upload pins more memory: if the memory of the last
    // upload is not free yet.
    let pinned = gpu.calls("cuMemHostAlloc");
    for _ in 0..4 {
        assert_eq!(copies_of(&copied), 1);
    }
    assert!(gpu.calls("cuMemHostAlloc") - pinned <= 1);
    let owned = || stream.create_owned(data.clone()).unwrap();
    assert_eq!(copies_of(&owned), 3);
}

/// I6: an upload for which no pinned memory can be allocated goes through the staging blocks.
#[test]
fn an_upload_without_pinned_memory_of_its_own_goes_in_blocks_i6() {
    const BYTES: usize = 3 << 20;
    let gpu = gpu(2);
    let device = open(1);
    let stream = device.new_client().new_stream();
    let data = vec![7_u8; BYTES];
    // Allocates the staging blocks.
    stream.create_owned(data.clone()).unwrap();
    stream.sync().wait().unwrap();
    gpu.fault(Some("cuMemHostAlloc"), 1, 2);
    let before = gpu.calls("cuMemcpyHtoDAsync_v2");
    let handle = stream.create(&data).unwrap();
    assert!(stream.read(&handle).wait().unwrap() == data);
    assert_eq!(gpu.calls("cuMemcpyHtoDAsync_v2") - before, 3);
}

/// I6: a readback of a tensor is dense, for any strides and any number of staging blocks, and a write of a tensor
/// changes no byte between its elements.
#[rstest]
#[case::pitched(&[3, 5, 7], &[64 * 5, 64, 1])]
#[case::transposed(&[6, 9], &[1, 6])]
#[case::every_third_element(&[40], &[3])]
#[case::axis_of_length_one(&[4, 1, 3], &[8, 1, 1])]
#[case::rows_across_blocks(&[700, 1000], &[1024, 1])]
#[case::row_longer_than_a_block(&[2, 300_000], &[300_100, 1])]
#[case::transposed_long(&[500, 700], &[1, 500])]
#[case::transposed_with_gaps(&[100, 60], &[1, 110])]
#[case::transposed_far_apart(&[100, 40], &[3, 1000])]
#[case::empty(&[0, 4], &[4, 1])]
fn strided_tensors_are_read_back_dense_i6(#[case] shape: &[u64], #[case] strides: &[u64]) {
    let gpu = gpu(3);
    let device = open(2);
    let stream = device.new_client().new_stream();
    let layout = Strided::new(shape, strides, 4).unwrap();
    let len = layout.extent_bytes() as usize / 4 + 5;
    let handle = stream.create(&vec![9_u32; len]).unwrap();
    let tensor = Tensor::new(handle.clone(), shape, strides).unwrap();
    let data: Vec<u32> = (0..layout.elements() as u32)
        .map(|at| at ^ 0x5a5a)
        .collect();
    stream.write_tensor(&tensor, &data).unwrap();
    let mut expected = vec![9_u32; len];
    layout.for_each_run(|strided, dense, bytes| {
        let (strided, dense, run) = (strided as usize / 4, dense as usize / 4, bytes as usize / 4);
        expected[strided..strided + run].copy_from_slice(&data[dense..dense + run]);
    });
    assert_eq!(stream.read_tensors([&tensor]).wait().unwrap()[0], data);
    assert_eq!(stream.read(&handle).wait().unwrap(), expected);
    // Unless the gaps are large, one call copies many runs.
    let calls = gpu.calls("cuMemcpy2DAsync_v2") + gpu.calls("cuMemcpyDtoHAsync_v2");
    let large_gaps = layout.extent_bytes() > 2 * layout.dense_bytes();
    assert!(
        large_gaps || calls < 700,
        "expected fewer than 700 calls, got {calls}"
    );
}
