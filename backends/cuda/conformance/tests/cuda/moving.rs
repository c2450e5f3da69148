//! Bytes go in, around and out.

use rstest::rstest;

use crate::support::*;

/// I6: what goes in comes out, whatever its size: nothing, less than a block of staging, exactly one, several.
#[rstest]
fn what_is_uploaded_is_read_back_i6(
    #[values(0, 1, 3, 255, 4096, 1 << 20, (1 << 20) + 1, (3 << 20) + 77)] bytes: usize,
) {
    let gpu = gpu(bytes as u64);
    let device = open(2);
    let stream = device.client().stream();
    let data: Vec<u8> = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
    let handle = stream.create(&data).unwrap();
    assert_eq!(stream.read(&handle).wait().unwrap(), data);
    drop((handle, stream, device));
    assert!(gpu.calls_total() > 0, "the backend has used another driver");
    gpu.assert_clean();
}
