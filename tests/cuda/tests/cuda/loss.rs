//! The GPU breaks: errors of the 700 class, after which the driver refuses every call.

use std::time::Duration;

use millstream_actors::Device;
use millstream_cuda::Cuda;
use millstream_protocol::{Access, Error, Health, Recovery};
use rstest::rstest;

use crate::program;
use crate::support::*;

/// I5, I10: at whichever operation the GPU breaks, every request is answered, the process continues, and the close
/// ends.
#[rstest]
#[case(700, false)]
#[case(716, false)]
#[case(719, false)]
#[case(700, true)]
fn every_request_is_answered_when_the_gpu_breaks_i5(#[case] code: u32, #[case] driven: bool) {
    for nth in 1..30 {
        let gpu = gpu(nth);
        let (device, _driver) = match driven {
            true => {
                let kind = Cuda::ordinal(0).queues(2);
                let (device, driver) = Device::open_driven(kind, options()).unwrap();
                (device, Some(driver))
            }
            false => (open(2), None),
        };
        let client = device.new_client();
        gpu.break_at(nth, code);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| match program::run(&device) {
                    Ok(()) => {}
                    Err(Error::DeviceLost {
                        epoch: 0,
                        recovery: Recovery::NewProcess,
                    }) => {}
                    // A kernel that was being prepared reports the loss as its own error.
                    Err(Error::Kernel(why)) => assert!(why.to_string().contains("lost"), "{why}"),
                    Err(other) => panic!("operation {nth}: {other:?}"),
                });
            }
        });
        let stream = client.new_stream();
        let mut answer = stream.sync();
        let answer = answer.wait_timeout(PATIENCE);
        assert!(
            matches!(answer, Err(Error::DeviceLost { .. })),
            "operation {nth}: {answer:?}"
        );
        assert!(matches!(device.health(), Health::Lost { .. }));
        let report = device.close(PATIENCE);
        assert!(
            !report.drained && report.bytes_freed == 0,
            "operation {nth}: {report:?}"
        );
    }
}

/// I8: while the GPU makes no progress, requests can still be submitted, and waits with a timeout end.
#[test]
fn a_stalled_gpu_blocks_only_callers_that_wait_for_it_i8() {
    let gpu = gpu(5);
    let (_device, client, stream) = opened(2);
    let small = stream.create(&[0_u8]).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    stream
        .with_resource::<Cuda>(
            "send the stream",
            &[(&small, Access::Read)][..],
            move |resources| {
                sender
                    .send(resources.stream().map(|stream| stream as u64))
                    .unwrap();
            },
        )
        .unwrap();
    gpu.hold(receiver.recv().unwrap().unwrap(), true);
    let handle = stream.create(&vec![3_u8; 3 << 20]).unwrap();
    let mut answer = stream.read(&handle);
    assert!(matches!(
        answer.wait_timeout(Duration::from_millis(1)),
        Err(Error::TimedOut { .. })
    ));
    assert!(answer.try_take().is_none());
    // The device thread answers requests that do not need the GPU.
    assert!(client.stats().wait_timeout(PATIENCE).is_ok());
    gpu.release_all();
    assert_eq!(answer.wait_timeout(PATIENCE).unwrap(), vec![3_u8; 3 << 20]);
}
