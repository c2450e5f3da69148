//! Submission logs of kernels in Rust: the CPU divides a launch as it likes, and logs what every device runs.

use millstream::prelude::*;
use millstream::{Cpu, DeviceOptions, sim::Sim};
use millstream_algorithms::{language, maps, said, uniform};

#[test]
fn log_of_the_cpu_replays_on_the_simulator_bit_for_bit() {
    let logged = DeviceOptions::default().log_submissions(1 << 20);
    let device = Device::open_with(Cpu::default(), logged).unwrap();
    let stream = device.new_stream();
    let x = stream.create(&uniform(1, 10_000)).unwrap();
    let mut y = stream.create(&uniform(2, 10_000)).unwrap();
    maps::saxpy(3.0, &x, &mut y).launch_each(&stream).unwrap();
    let mut numbers = stream.empty(3 * 5 * 70).unwrap();
    language::positions(&mut numbers)
        .launch(&stream, [3, 5, 70])
        .unwrap();
    let (y, numbers) = (stream.read(&y), stream.read(&numbers));
    let played: Vec<u8> = y
        .wait()
        .unwrap()
        .iter()
        .flat_map(|it| it.to_ne_bytes())
        .collect();
    let numbers = numbers.wait().unwrap();
    let numbers: Vec<u8> = numbers.iter().flat_map(|it| it.to_ne_bytes()).collect();
    let log = device.take_log().unwrap();

    let (device, _driver) = Device::open_driven(Sim::seed(1), DeviceOptions::default()).unwrap();
    let client = device.new_client();
    let stream = client.new_stream();
    let kernels = [
        maps::saxpy::prepare(&stream).unwrap(),
        language::positions::prepare(&stream).unwrap(),
    ];
    let replayed = client.resubmit(&log, &kernels).unwrap();
    let bytes = |nth: usize| replayed.readbacks[nth].bytes.as_ref().unwrap().to_vec();
    assert!(bytes(0) == played && bytes(1) == numbers);
}

/// A log has no prints, and the replay's streams are not the caller's: its lines cannot be returned.
#[test]
fn log_of_a_kernel_that_prints_replays() {
    let logged = DeviceOptions::default().log_submissions(1 << 20);
    let device = Device::open_with(Cpu::default(), logged).unwrap();
    let stream = device.new_stream();
    let x = stream.create(&[2, 3]).unwrap();
    said::prints(&x).launch(&stream, 2).unwrap();
    assert_eq!(stream.printed().wait().unwrap().len(), 1);
    assert_eq!(stream.read(&x).wait().unwrap(), [2, 3]);
    let log = device.take_log().unwrap();

    let device = Device::open(Sim::seed(1)).unwrap();
    let client = device.new_client();
    let kernels = [said::prints::prepare(&client.new_stream()).unwrap()];
    let replayed = client.resubmit(&log, &kernels).unwrap();
    assert_eq!(replayed.readbacks.len(), 1);
    assert!(replayed.readbacks[0].bytes.is_ok());
}
