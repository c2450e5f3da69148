//! What tasks in flight use is kept until they have completed: staging blocks, sources of uploads, pipelines, command
//! buffers, parameters. A slow task goes first, so that all others are in flight.

use std::time::Duration;

use millstream::{CubeCount, Device, Stream, update};
use millstream_vulkan_faults::Checked;
use millstream_vulkan_faults::kernels::{add_one, large};
use millstream_vulkan_faults::program::{all_in_flight, launch_large};

use crate::{assert_valid, turn};

/// Tasks in flight at once.
const TASKS: usize = 100;
/// Elements of a buffer.
const LEN: usize = 100_000;

/// Opens a device with one queue, and starts a task that takes some milliseconds.
fn busy(checked: &Checked) -> (Device, Stream) {
    let options = all_in_flight();
    let device = Device::open_with(checked.options(1), options).unwrap();
    let client = device.new_client();
    let stream = client.new_stream();
    let slow = client.kernel(add_one()).unwrap();
    let values = stream.empty::<u32>(4 << 20).unwrap();
    for _ in 0..3 {
        let arguments = (update(&values), 4_u32 << 20);
        stream
            .launch(&slow, CubeCount::single(), arguments)
            .unwrap();
    }
    (device, stream)
}

/// I4: each upload in flight has its own staging memory.
#[test]
fn uploads_in_flight_keep_their_bytes_i4() {
    let Some(_turn) = turn() else { return };
    let checked = Checked::default();
    for len in [16, 100_000] {
        let (device, stream) = busy(&checked);
        let buffers: Vec<_> = (0..TASKS)
            .map(|_| stream.empty::<u32>(len).unwrap())
            .collect();
        for (value, buffer) in (1_u32..).zip(&buffers) {
            stream.write(buffer, &vec![value; len]).unwrap();
        }
        for (value, buffer) in (1_u32..).zip(&buffers) {
            assert_eq!(stream.read(buffer).wait().unwrap(), vec![value; len]);
        }
        drop((buffers, stream, device));
    }
    assert_valid(&checked);
}

/// I4: the parameters of a launch in flight are kept, and so is its kernel, although its handle was dropped.
#[test]
fn launches_in_flight_keep_their_parameters_and_kernels_i4() {
    let Some(_turn) = turn() else { return };
    let checked = Checked::default();
    let (device, stream) = busy(&checked);
    let client = device.new_client();
    let scalars: u64 = (0..30).sum();
    let inputs: Vec<_> = (0..TASKS as u32)
        .map(|value| stream.create(&[value]).unwrap())
        .collect();
    let kernel = client.kernel(large()).unwrap();
    let outs: Vec<_> = inputs
        .iter()
        .map(|input| {
            let out = stream.empty::<u64>(1).unwrap();
            launch_large(&stream, &kernel, input, &out).unwrap();
            // Batches of their own.
            stream.flush().unwrap();
            out
        })
        .collect();
    drop(kernel);
    for _ in 0..4 {
        // Whatever is destroyed too early is destroyed by now.
        let one = client.kernel(add_one()).unwrap();
        let arguments = (update(&inputs[0]), 0_u32);
        stream.launch(&one, CubeCount::single(), arguments).unwrap();
        drop(one);
        stream.flush().unwrap();
    }
    for (value, out) in (0..).zip(&outs) {
        assert_eq!(stream.read(out).wait().unwrap(), [11 * value + scalars]);
    }
    drop((inputs, outs, stream, client, device));
    assert_valid(&checked);
}

/// I3: tasks of different queues that conflict are ordered by waits, whichever of them the host has seen complete. One
/// pump issues both, so the second is submitted while the first is in flight.
#[test]
fn conflicting_tasks_of_two_queues_are_ordered_i3() {
    let Some(_turn) = turn() else { return };
    let checked = Checked::default();
    let opened = Device::open_driven(checked.options(2), all_in_flight());
    let (device, mut driver) = opened.unwrap();
    let client = device.new_client();
    let kernel = client.kernel(add_one()).unwrap();
    let streams = [(); 2].map(|()| client.new_stream());
    // A buffer for each round: a barrier that an earlier task of the second queue needs would hide a missing wait where
    // both queues are one queue of the driver.
    let buffers: Vec<_> = (0..10)
        .map(|_| streams[0].empty::<u32>(LEN).unwrap())
        .collect();
    for (round, values) in (0..).zip(&buffers) {
        streams[0].fill(values, round).unwrap();
        let arguments = (update(values), LEN as u32);
        streams[1]
            .launch(&kernel, CubeCount::single(), arguments)
            .unwrap();
        driver.pump(Duration::ZERO);
    }
    for (round, values) in (0..).zip(&buffers) {
        let mut answer = streams[0].read(values);
        while driver.pump(Duration::from_millis(1)) {}
        assert_eq!(answer.try_take().unwrap().unwrap(), vec![round + 1; LEN]);
    }
    assert!(device.stats().unwrap().waits_issued > 0);
    drop((buffers, kernel, streams, client, device, driver));
    assert_valid(&checked);
}
