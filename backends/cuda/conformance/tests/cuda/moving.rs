//! Bytes go in, around and out.

use millstream_core::error::Error;
use millstream_core::handle::Handle;
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

/// I6: a fill is its pattern again and again, cut where the target ends, wherever that begins.
#[rstest]
fn fills_of_every_width_are_right_at_odd_ends_i6(
    #[values(0, 1, 2, 3, 8)] start: usize,
    #[values(0, 1, 5, 7)] end: usize,
) {
    const BYTES: usize = 256;
    let gpu = gpu((start * 10 + end) as u64);
    let device = open(1);
    let stream = device.client().stream();
    let check = |unit: &[u8], fill: &dyn Fn(&Handle<u8>) -> Result<(), Error>| {
        let handle = stream.create(&[0xEE_u8; BYTES]).unwrap();
        fill(&handle).unwrap();
        let mut expected = [0xEE_u8; BYTES];
        let filled = &mut expected[start..BYTES - end];
        filled
            .iter_mut()
            .zip(unit.iter().cycle())
            .for_each(|(byte, unit)| *byte = *unit);
        assert_eq!(
            stream.read(&handle).wait().unwrap(),
            expected,
            "{} bytes",
            unit.len()
        );
    };
    macro_rules! fills {
        ($($value:expr),*) => {$(
            check(&$value.to_le_bytes(), &|handle| {
                let view = handle.cast().unwrap().offset_start(start as u64).unwrap();
                stream.fill(&view.offset_end(end as u64).unwrap(), $value)
            });
        )*};
    }
    fills!(
        0x5A_u8,
        0x1234_u16,
        0x7777_u16,
        0x1234_5678_u32,
        0_u32,
        0x0102_0304_0506_0708_u64
    );
    drop((stream, device));
    gpu.assert_clean();
}

/// I1: copies of one stream run in its order, between parts of one buffer and between buffers.
#[rstest]
fn copies_are_in_the_order_of_their_stream_i1(#[values(1, 2, 3, 4)] seed: u64) {
    let gpu = gpu(seed);
    let device = open(2);
    let stream = device.client().stream();
    let data: Vec<u32> = (0..5000).collect();
    let (first, second) = (
        stream.create(&data).unwrap(),
        stream.empty::<u32>(5000).unwrap(),
    );
    stream.copy(&first, &second).unwrap();
    stream.write(&first, &[7; 5000]).unwrap();
    let (front, back) = (first.slice(..2500).unwrap(), second.slice(2500..).unwrap());
    stream.copy(&back, &front).unwrap();
    let expected: Vec<u32> = (2500..5000).chain([7; 2500]).collect();
    assert_eq!(stream.read(&first).wait().unwrap(), expected);
    assert_eq!(stream.read(&second).wait().unwrap(), data);
    assert!(gpu.calls("cuMemcpyDtoDAsync_v2") == 2);
    drop((first, second, front, back, stream, device));
    gpu.assert_clean();
}
