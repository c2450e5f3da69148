//! Copies between host and device, and the host memory that they go through (I2, I5, I12).

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::support::*;
use millstream::backend::{HostBytes, Landed, Landing};
use millstream::{DeviceOptions, FailureRef, Handle};

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
                0..3 => stream.put(&values),
                _ => {
                    let handle = stream.empty(len).unwrap();
                    stream.write(&handle, &values).unwrap();
                    handle
                }
            };
            (stream, handle, values)
        });
        for (stream, handle, values) in uploads.collect::<Vec<_>>() {
            let read = stream.get(&handle);
            assert!(read == values, "{} bytes of round {round}", handle.size());
        }
    }
    let kept = client.memory_usage().wait().unwrap().staging;
    assert!(kept <= 300 << 10, "{kept} bytes are kept (I12)");
}

/// A readback goes to the memory that the caller passes, whatever it holds, if it is long enough.
pub(crate) fn readback_uses_the_callers_memory_if_it_is_long_enough(on: On) {
    let (_rig, _, stream) = on.start();
    let values = stream.put(&[1_u32, 2, 3]);
    let enough = [vec![9; 100], vec![9; 3], Vec::with_capacity(3)];
    for memory in enough.into_iter().chain([vec![9; 2], Vec::new()]) {
        let (start, fits) = (memory.as_ptr(), memory.capacity() >= 3);
        let read = stream.read_into(&values, memory).wait().unwrap();
        assert_eq!(read, [1, 2, 3]);
        assert!(!fits || read.as_ptr() == start, "the memory was not used");
    }
    let nothing = values.slice(..0).unwrap();
    let read = stream.read_into(&nothing, vec![9]).wait().unwrap();
    assert!(read.is_empty(), "{read:?}");
}

/// A dropped frame leaves its memory to a later frame.
pub(crate) fn memory_of_a_dropped_frame_is_reused_by_a_later_frame(on: On) {
    let (_rig, _, stream) = on.start();
    let image = stream.put(&[0_u32; 1000]);
    let (sender, mut frames) = millstream::stream::readbacks::<u32, u32>(2);
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

/// Memory of another runtime: the device reads it in place, and drops it once.
struct ForeignBytes(Vec<u8>, Arc<AtomicUsize>);

impl HostBytes for ForeignBytes {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for ForeignBytes {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) fn uploads_read_foreign_memory_and_drop_it_once(on: On) {
    let (rig, client, stream) = on.start();
    let dropped = Arc::new(AtomicUsize::new(0));
    let foreign = |bytes: Vec<u8>| ForeignBytes(bytes, dropped.clone());
    let values = (0..5000).map(|value| value as u8).collect::<Vec<_>>();
    let handle = stream.create_from(foreign(values.clone())).unwrap();
    assert_eq!(stream.get(&handle), values);
    stream.write_from(&handle, foreign(vec![7; 5000])).unwrap();
    assert_eq!(stream.get(&handle), [7; 5000]);
    let refused = stream.write_from(&handle, foreign(vec![8; 10]));
    let refused = refused.unwrap_err();
    assert_eq!(refused.value.0, [8; 10]);
    assert!(error_text(Err::<(), _>(refused.error)).contains("`write` was not accepted"));
    // Dropped by the runtime at the latest when the device is closed.
    drop((stream, handle, client, refused.value));
    drop(rig);
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
}

/// Memory that panics if it is asked for its bytes twice, or dropped.
struct AskedOnce(Vec<u8>, AtomicBool);

impl AskedOnce {
    fn new(bytes: Vec<u8>) -> Self {
        Self(bytes, AtomicBool::new(false))
    }
}

impl HostBytes for AskedOnce {
    fn bytes(&self) -> &[u8] {
        let again = self.1.swap(true, Ordering::Relaxed);
        assert!(!again, "planned: asked again");
        &self.0
    }
}

impl Drop for AskedOnce {
    fn drop(&mut self) {
        // Only what the device has dropped: the caller drops the third one below.
        assert_ne!(self.0.len(), 5000, "planned: a destructor");
    }
}

/// I5: code of foreign memory runs on the thread of the call, once, also if submissions are logged. A panic of its destructor
/// ends there.
pub(crate) fn foreign_memory_is_asked_for_its_bytes_once_i5(on: On) {
    let (rig, client, stream) = on.start_with(DeviceOptions::default().log_submissions(1 << 20));
    let values = (0..5000).map(|value| value as u8).collect::<Vec<_>>();
    let handle = stream.create_from(AskedOnce::new(values.clone())).unwrap();
    assert_eq!(stream.get(&handle), values);
    let again = AskedOnce::new(vec![7; 5000]);
    stream.write_from(&handle, again).unwrap();
    let late = stream.write_later("late", &handle).unwrap();
    assert!(late.send(AskedOnce::new(vec![8; 5000])).is_ok());
    assert_eq!(stream.get(&handle), [8; 5000]);
    let refused = stream.write_from(&handle, AskedOnce::new(vec![9; 10]));
    assert_eq!(refused.unwrap_err().value.0, [9; 10]);
    assert!(!rig.device.take_log().unwrap().is_empty());
    drop((handle, stream, client));
    rig.device.drain();
}

/// Memory of the caller that a read writes.
struct OwnLanding(UnsafeCell<[u8; 3]>);

// SAFETY: one side at a time uses the memory, by the contract of `Landing`.
unsafe impl Sync for OwnLanding {}

impl Landing for OwnLanding {
    fn target(&self) -> (*mut u8, usize) {
        (self.0.get().cast(), 3)
    }

    fn fail(&self, _failure: FailureRef) {}
}

impl Landed<[u8; 3]> for OwnLanding {
    unsafe fn take(&self) -> Result<[u8; 3], FailureRef> {
        // SAFETY: the copy has completed, by the contract of `take`.
        Ok(unsafe { *self.0.get() })
    }
}

pub(crate) fn reads_land_in_memory_of_the_caller(on: On) {
    let (_rig, _, stream) = on.start();
    let handle = stream.put(&[1_u8, 2, 3, 4]);
    let read = |source: &Handle<u8>| {
        let landing = Arc::new(OwnLanding(UnsafeCell::new([0; 3])));
        // SAFETY: the landing owns its memory, which nothing else accesses.
        unsafe { stream.read_to_landing(source, landing) }
    };
    let part = handle.slice(1..4).unwrap();
    assert_eq!(read(&part).wait().unwrap(), [2, 3, 4]);
    let refused = error_text(read(&handle).wait());
    assert!(refused.contains("`read` was not accepted"), "{refused}");
}
