//! Helpers for the tests of lost devices: the kinds of devices that can be lost, and waiting for the loss.

use std::sync::Arc;

use millstream::{
    ComputeClient, Cpu, Device, DeviceOptions, Error, Health, KernelHandle, Stream,
    device::Recovery, report::Report,
};
use rstest_reuse::template;

use crate::altered::Altered;
use crate::support::{PATIENCE, Rig, add_one};
use crate::switch::Switch;

/// A mode of a device that can be lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum On {
    Threads,
    OneQueue,
    Driven,
}

#[template]
#[rstest]
#[case::threads(On::Threads)]
#[case::one_queue(On::OneQueue)]
#[case::driven(On::Driven)]
pub(crate) fn every_device(#[case] on: On) {}

/// Devices on which a kernel may block without blocking the test.
#[template]
#[rstest]
#[case::threads(On::Threads)]
#[case::one_queue(On::OneQueue)]
pub(crate) fn every_threaded_device(#[case] on: On) {}

pub(crate) fn open(on: On, recovery: Recovery) -> (Rig, Arc<Switch>) {
    open_with(on, recovery, DeviceOptions::default())
}

pub(crate) fn open_with(on: On, recovery: Recovery, options: DeviceOptions) -> (Rig, Arc<Switch>) {
    let switch = Arc::new(Switch::default());
    let queues = if on == On::OneQueue { 1 } else { 2 };
    let cpu = Cpu::default().queues(queues).threads(2);
    let kind = Altered::that_is_lost(cpu, &switch, recovery);
    let (device, driver) = match on {
        On::Driven => {
            let (device, driver) = Device::open_driven(kind, options).unwrap();
            (device, Some(driver))
        }
        _ => (Device::open_with(kind, options).unwrap(), None),
    };
    let checks = Box::new(());
    let rig = Rig {
        device,
        driver,
        checks,
    };
    (rig, switch)
}

pub(crate) fn close(mut rig: Rig) -> Report {
    rig.close(PATIENCE)
}

/// Creates a client, a stream, and the kernel that adds one.
pub(crate) fn adder(rig: &Rig) -> (ComputeClient, Stream, KernelHandle) {
    let client = rig.client();
    (client.clone(), client.new_stream(), add_one(&client))
}

/// Loses the device, as one of its own threads would detect it, and waits until it reports that.
pub(crate) fn lose(rig: &mut Rig, switch: &Switch) {
    switch.lose_now();
    wait_until_lost(rig);
}

/// Returns the lost epoch.
pub(crate) fn lost_epoch<T>(answer: Result<T, Error>) -> u64 {
    match answer {
        Err(Error::DeviceLost { epoch, .. }) => epoch,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the call succeeded on a lost device"),
    }
}

/// Waits until the device reports its loss. A driven device detects the loss when it is pumped.
pub(crate) fn wait_until_lost(rig: &mut Rig) {
    rig.pump();
    let mut watch = rig.device.watch_health();
    while !matches!(watch.health(), Health::Lost { .. }) {
        watch.wait_timeout(PATIENCE).unwrap();
    }
}
