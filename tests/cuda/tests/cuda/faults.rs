//! The driver refuses one call. The request that needs the call receives the error, all others continue, and nothing
//! leaks.

use std::sync::mpsc;

use millstream_client::handle::Handle;
use millstream_cuda::Cuda;
use millstream_protocol::{Access, Error, Health};
use rstest::rstest;

use crate::program;
use crate::support::*;

/// I5, I7, I10: refuses each driver call of a program in turn, from the first of opening to the last of closing.
///
/// A lost device frees nothing (I10), so leaks are expected then, but no other reports.
#[rstest]
#[case::invalid_value(1)]
#[case::out_of_memory(2)]
#[case::unknown(999)]
#[case::illegal_address(700)]
fn each_refused_driver_call_is_a_typed_error_and_leaks_nothing_i5_i10(#[case] code: u32) {
    for nth in 1.. {
        let mut gpu = gpu(nth);
        gpu.fault(None, nth, code);
        let mut failed = false;
        match try_open(2) {
            Ok(device) => {
                let ran = program::run(&device);
                failed = ran.is_err();
                let timed_out = matches!(ran, Err(Error::TimedOut { .. }));
                assert!(!timed_out, "call {nth}: a request is not answered");
                let mut lost = matches!(device.health(), Health::Lost { .. });
                let report = device.close(PATIENCE);
                lost |= !report.drained;
                // A lost device also leaves its threads behind.
                assert!(lost || report.threads_left == 0, "call {nth}: {report:?}");
                gpu.may_leak = lost;
            }
            Err(why) => assert!(why.to_string().contains("the driver"), "call {nth}: {why}"),
        }
        if gpu.faults_injected() == 0 {
            assert!(
                !failed && nth > 100,
                "without a fault the program succeeds and makes more than 100 calls; it made {nth}"
            );
            break;
        }
    }
}

/// I4, I7: a copy of several parts is refused as a whole if there is no pinned memory for one of them. No part has been
/// submitted, so its blocks can be reused, and the device continues.
#[test]
fn a_copy_without_memory_for_one_of_its_parts_is_refused_as_a_whole_i4_i7() {
    for upload in [true, false] {
        let gpu = gpu(1);
        let device = open(2);
        let stream = device.new_client().new_stream();
        let long = stream.empty::<u8>(3 << 20).unwrap();
        stream.fill(&long, 5).unwrap();
        stream.sync().wait().unwrap();
        // Refuses the second of three blocks.
        gpu.fault(Some("cuMemHostAlloc"), 2, 2);
        let refused = match upload {
            true => stream.read(&stream.create(&vec![1_u8; 3 << 20]).unwrap()),
            false => stream.read(&long),
        };
        assert!(
            matches!(refused.wait(), Err(Error::Failed(_))),
            "upload {upload}"
        );
        assert_eq!(gpu.faults_injected(), 1);
        assert_eq!(stream.read(&long).wait().unwrap(), vec![5; 3 << 20]);
        assert!(device.close(PATIENCE).drained);
    }
}

/// I2, I5: a copy that fails after its first part has been submitted cannot be ordered with later tasks, so the device
/// is lost.
#[test]
fn a_copy_that_fails_after_its_first_part_loses_the_device_i2_i5() {
    for call in ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"] {
        let mut gpu = gpu(2);
        gpu.may_leak = true;
        let device = open(2);
        let stream = device.new_client().new_stream();
        gpu.fault(Some(call), 2, 1);
        // Owned bytes are uploaded in blocks.
        let long = stream.create_owned(vec![1_u8; 3 << 20]);
        let long = long.map_err(Error::from);
        let read = long.and_then(|long| stream.read(&long).wait());
        assert!(
            matches!(read, Err(Error::DeviceLost { .. })),
            "{call}: {read:?}"
        );
        assert_eq!(gpu.faults_injected(), 1);
        device.close(PATIENCE);
    }
}

/// Sends the name of the thread that drops it.
struct Reports(mpsc::Sender<Option<String>>);

impl Drop for Reports {
    fn drop(&mut self) {
        let thread = std::thread::current();
        self.0.send(thread.name().map(str::to_owned)).ok();
    }
}

/// I6: what a custom task leaves on the device's turn is dropped on the GC thread: the payload of its panic, and the code
/// of a task that the driver refuses.
#[test]
fn panics_and_refused_code_of_custom_tasks_are_dropped_on_the_gc_thread_i6() {
    let gpu = gpu(6);
    let device = open(1);
    let stream = device.new_client().new_stream();
    let (sender, dropped) = mpsc::channel();
    let thread = || dropped.recv_timeout(PATIENCE).unwrap();
    let submit = |work: Box<dyn FnOnce() + Send>| {
        let nothing: [(&Handle<u8>, Access); 0] = [];
        let submitted = stream.with_resource::<Cuda>("custom", nothing.as_slice(), move |_| work());
        assert!(submitted.is_ok());
    };
    let payload = Reports(sender.clone());
    submit(Box::new(move || std::panic::panic_any(payload)));
    assert_eq!(thread().as_deref(), Some("millstream-gc"));
    // After foreign code the next call makes the context current again: here that for the second task, which the device
    // receives while the first one runs.
    let ((begins, begun), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
    submit(Box::new(move || {
        begins.send(()).unwrap();
        assert!(released.recv().is_err());
    }));
    begun.recv_timeout(PATIENCE).unwrap();
    gpu.fault(Some("cuCtxSetCurrent"), 1, 2);
    let owned = Reports(sender);
    submit(Box::new(move || drop(owned)));
    drop(release);
    assert_eq!(thread().as_deref(), Some("millstream-gc"));
    assert_eq!(gpu.faults_injected(), 1);
}
