//! Copies between host and device, and the host memory that they go through (I2, I5, I12).

use crate::support::*;
use millstream::DeviceOptions;

const KIB: usize = 1 << 10;

/// I2: the staging memory of an upload is reused only after the device has read it.
pub(crate) fn staging_memory_is_reused_only_after_the_device_read_it_i2(on: On) {
    // Keeps the staging memory of one or two uploads.
    let options = DeviceOptions::default().staging_bytes(300 << 10);
    let rig = on.open_with(options);
    let client = rig.client();
    let streams = [client.new_stream(), client.new_stream()];
    for round in 0..4_u32 {
        let uploads = (0..6_usize).map(|upload| {
            let len = (64 + 16 * upload) * KIB / 4;
            let first = round * 100_000_000 + upload as u32 * 10_000_000;
            let values: Vec<u32> = (first..).take(len).collect();
            let stream = &streams[upload % 2];
            let handle = match upload {
                0..3 => stream.create(&values).unwrap(),
                _ => {
                    let handle = stream.empty(len).unwrap();
                    stream.write(&handle, &values).unwrap();
                    handle
                }
            };
            (stream, handle, values)
        });
        for (stream, handle, values) in uploads.collect::<Vec<_>>() {
            let read = stream.read(&handle).wait().unwrap();
            assert!(read == values, "{} bytes of round {round}", handle.size());
        }
    }
    let kept = client.memory_usage().wait().unwrap().staging;
    assert!(
        kept <= 300 << 10,
        "{kept} bytes of staging memory are kept (I12)"
    );
}

/// A readback goes to the memory that the caller passes, whatever it holds, if it is long enough.
pub(crate) fn readback_uses_the_callers_memory_if_it_is_long_enough(on: On) {
    let rig = on.open();
    let stream = rig.client().new_stream();
    let values = stream.create(&[1_u32, 2, 3]).unwrap();
    for memory in [
        vec![9; 100],
        vec![9; 3],
        Vec::with_capacity(3),
        vec![9; 2],
        Vec::new(),
    ] {
        let (start, fits) = (memory.as_ptr(), memory.capacity() >= 3);
        let read = stream.read_into(&values, memory).wait().unwrap();
        assert_eq!(read, [1, 2, 3]);
        assert!(
            !fits || read.as_ptr() == start,
            "the memory was long enough and was not used"
        );
    }
    let nothing = values.slice(..0).unwrap();
    let read = stream.read_into(&nothing, vec![9]).wait().unwrap();
    assert!(read.is_empty(), "{read:?}");
}

/// A dropped frame leaves its memory to a later frame.
pub(crate) fn memory_of_a_dropped_frame_is_reused_by_a_later_frame(on: On) {
    let rig = on.open();
    let stream = rig.client().new_stream();
    let image = stream.create(&[0_u32; 1000]).unwrap();
    let (sender, frames) = millstream::readbacks::<u32, u32>(2);
    let mut starts = Vec::new();
    for frame in 0..4 {
        stream.fill(&image, frame).unwrap();
        sender.read(&stream, &image, frame).unwrap();
        let pixels = frames.wait_next().unwrap().elements.unwrap();
        assert_eq!(pixels, vec![frame; 1000]);
        starts.push(pixels.as_ptr());
    }
    assert_eq!(starts, [starts[0]; 4]);
    // A frame that the caller keeps is not reused.
    sender.read(&stream, &image, 4).unwrap();
    let kept = frames.wait_next().unwrap().elements.unwrap().into_vec();
    stream.fill(&image, 5).unwrap();
    sender.read(&stream, &image, 5).unwrap();
    let pixels = frames.wait_next().unwrap().elements.unwrap();
    assert_eq!((kept, pixels[999]), (vec![3; 1000], 5));
}
