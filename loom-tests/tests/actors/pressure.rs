//! Limits of one or two: a caller that waits for room gets it, or an error (I5, I6, I12).

use millstream::{ComputeClient, Device, DeviceOptions, Error};
use millstream_sync::channel::{self, Sender};
use millstream_sync::facade::thread::{self, spawn};

use crate::callers::{Submitted, join, start};
use crate::closing::call_and_close;
use crate::rig::{assert_drained, choose, close, cpu, options, sim, walk};

/// Sets every limit to one, or to one or two.
fn tight() -> DeviceOptions {
    options()
        .mailbox_capacity(1 + choose(2) as usize)
        .max_tasks(1)
        .max_in_flight(1 + choose(2) as usize)
        .max_held(1)
        .max_jobs(1)
        .max_upload_bytes(8)
        .flush_every(1)
}

fn never(_: &Error) -> bool {
    false
}

/// Submits without waiting, and repeats until there is room.
fn submit_until_accepted(client: &ComputeClient) -> Result<(), Error> {
    let stream = client.new_stream();
    let values = stream.create(&[1_u32])?;
    loop {
        match stream.nowait().fill(&values, 3) {
            Err(Error::Busy { .. }) => thread::yield_now(),
            answer => break answer?,
        }
    }
    assert_eq!(stream.read(&values).wait()?, [3]);
    Ok(())
}

fn call_with_tight_limits(device: &Device) {
    let submitted = Submitted::default();
    let mut threads = Vec::new();
    for _ in 0..2 {
        threads.append(&mut start(&device.new_client(), &submitted, 1, never));
    }
    let client = device.new_client();
    threads.push(spawn(move || submit_until_accepted(&client).unwrap()));
    join(threads);
    assert_drained(&close(device));
    submitted.assert_all_ran();
}

/// I5, I6, I12.
#[test]
fn every_wait_for_room_ends() {
    walk("seven threads of three clients, limits of one", 250, || {
        let sim = sim();
        let findings = sim.findings();
        call_with_tight_limits(&Device::open_with(sim, tight()).unwrap());
        findings.assert_clean();
    });
}

/// I5, I6, I12.
#[test]
fn every_wait_for_room_on_a_cpu_ends() {
    walk("limits of one, on the CPU", 150, || {
        call_with_tight_limits(&Device::open_with(cpu(), tight()).unwrap());
    });
}

/// Fills, and registers a callback that does so again.
fn link(client: &ComputeClient, left: u32, ran: &Sender<u32>) -> Result<(), Error> {
    let stream = client.new_stream();
    let values = stream.create(&[1_u32])?;
    stream.fill(&values, left)?;
    let (next, ran) = (client.clone(), ran.clone());
    let answer = stream.read(&values);
    // The callback may end before this call returns. A slice that is held then would be in the report of the close.
    drop(values);
    let called = answer.on_ready(move |answer| {
        assert_eq!(answer.unwrap(), [left]);
        ran.send(left).unwrap();
        if left > 0 {
            link(&next, left - 1, &ran).unwrap();
        }
    });
    called.map_err(|returned| returned.error)
}

/// I6, I8, I12: a callback waits for room in the mailbox, and goes beyond the other limits.
#[test]
fn callbacks_that_submit_lose_nothing() {
    walk("callbacks that submit, limits of one", 150, || {
        let device = Device::open_with(cpu(), tight()).unwrap();
        let (ran, runs) = channel::unbounded();
        let threads = (0..2).map(|_| {
            let (client, ran) = (device.new_client(), ran.clone());
            spawn(move || link(&client, 2, &ran).unwrap())
        });
        join(threads.collect());
        for _ in 0..6 {
            runs.recv().unwrap();
        }
        assert_drained(&close(&device));
    });
}

/// I5, I12: a caller that waits for room returns when the device closes.
#[test]
fn a_close_ends_waits_for_room() {
    walk("limits of one, and a close", 375, || {
        call_and_close(Device::open_with(sim(), tight()).unwrap());
    });
}
