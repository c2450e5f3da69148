//! Opening and closing devices, and requests for more memory than there is.

use std::time::Duration;

use fake_cuda::Session;
use millstream_actors::Device;
use millstream_cuda::Cuda;
use millstream_protocol::{Error, OpenError};
use rstest::rstest;

use crate::program;
use crate::support::*;

/// I5: opening a device on a driver that sees no GPU is a typed error that says what to check.
#[test]
fn a_driver_without_a_gpu_is_a_typed_error_i5() {
    let _inert = Session::inert().unwrap_or_else(|error| panic!("{error}"));
    match try_open(1) {
        Err(OpenError::Unavailable {
            backend: "cuda",
            why,
        }) => assert!(why.contains("nvidia-smi"), "{why}"),
        other => panic!("{:?}", other.map(|_| ())),
    }
    assert!(millstream_cuda::gpus().is_err());
}

#[test]
fn gpus_lists_the_gpu_and_an_unknown_ordinal_is_refused() {
    let _gpu = gpu(1);
    let seen = millstream_cuda::gpus().unwrap();
    assert_eq!(
        (seen.len(), seen[0].name.as_str(), seen[0].driver),
        (1, "millstream's fake GPU", (13, 0))
    );
    let none = Device::open(Cuda::ordinal(1)).map(|_| ());
    assert!(
        matches!(none, Err(OpenError::Unavailable { .. })),
        "{none:?}"
    );
}

/// I10: devices that are closed or dropped, one after the other, leak nothing.
#[rstest]
fn closing_leaks_nothing_i10(#[values(1, 2, 4)] queues: usize) {
    let _gpu = gpu(queues as u64);
    for _ in 0..3 {
        let device = open(queues);
        program::run(&device).unwrap();
        let report = device.close(PATIENCE);
        assert!(report.drained, "{report:?}");
    }
    let device = open(queues);
    let client = device.new_client();
    let (stream, kernel) = (client.new_stream(), client.kernel(saxpy()).unwrap());
    let handle = stream.create(&[1_u8; 100]).unwrap();
    drop(device);
    // Handles that outlive the device are dropped on a thread that has no CUDA context.
    drop((kernel, handle, stream, client));
}

/// I7, I12: a request for more memory than there is fails with a typed error, and other requests continue.
#[test]
fn out_of_memory_fails_only_the_request_that_needs_it_i7_i12() {
    let gpu = gpu(8);
    gpu.set_memory_bytes(8 << 20);
    let (_device, _client, stream) = opened(2);
    let small = stream.create(&[5_u32; 10]).unwrap();
    let large = stream.empty::<u8>(6 << 20).unwrap();
    let too_large = stream.empty::<u8>(6 << 20).unwrap();
    stream.fill(&large, 1).unwrap();
    stream.fill(&too_large, 2).unwrap();
    let answer = stream.read(&too_large).wait_timeout(PATIENCE);
    assert!(
        matches!(&answer, Err(Error::Failed(_) | Error::Memory(_))),
        "{answer:?}"
    );
    assert_eq!(stream.read(&small).wait().unwrap(), [5; 10]);
    assert_eq!(stream.read(&large).wait().unwrap(), vec![1; 6 << 20]);
}

/// I8: a driven device runs only on the thread that pumps it.
#[test]
fn a_driven_device_runs_only_on_the_pumping_thread_i8() {
    for seed in 0..40 {
        let gpu = stepped(seed);
        let (device, mut driver) =
            Device::open_driven(Cuda::ordinal(0).queues(2), options()).unwrap();
        let streams = [
            device.new_client().new_stream(),
            device.new_client().new_stream(),
        ];
        let handle = streams[0].create(&[1_u32; 2000]).unwrap();
        let copy = streams[1].empty::<u32>(2000).unwrap();
        streams[1].copy(&handle, &copy).unwrap();
        streams[0].fill(&handle, 2).unwrap();
        let mut answers = [streams[1].read(&copy), streams[0].read(&handle)];
        for (answer, value) in answers.iter_mut().zip([1, 2]) {
            let got = loop {
                match answer.try_take() {
                    Some(got) => break got.unwrap(),
                    None => _ = driver.pump(Duration::ZERO),
                }
            };
            assert_eq!(got, [value; 2000]);
        }
        drop((handle, copy, answers, streams));
        drop((device, driver));
        assert_eq!(gpu.callers(), 1, "seed {seed}");
    }
}
