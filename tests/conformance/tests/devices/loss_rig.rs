//! Helpers for the tests of lost devices: the kinds of devices that can be lost, and waiting for the loss.

use std::sync::Arc;
use std::time::Duration;

use millstream::{
    ComputeClient, Cpu, Device, DeviceOptions, Driver, Error, Health, device::Recovery,
    report::Report,
};
use rstest_reuse::template;

use crate::faulty::{Faulty, Switch};

/// A time limit far above any wait of a test. A wait that would never end fails the test instead.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

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

pub(crate) struct Rig {
    pub(crate) device: Device,
    pub(crate) driver: Option<Driver>,
}

impl Rig {
    pub(crate) fn client(&self) -> ComputeClient {
        self.device.new_client()
    }
}

pub(crate) fn open(on: On, recovery: Recovery) -> (Rig, Arc<Switch>) {
    open_with(on, recovery, DeviceOptions::default())
}

pub(crate) fn open_with(on: On, recovery: Recovery, options: DeviceOptions) -> (Rig, Arc<Switch>) {
    let switch = Arc::new(Switch::default());
    let queues = if on == On::OneQueue { 1 } else { 2 };
    let kind = Faulty {
        cpu: Cpu::default().queues(queues).threads(2),
        switch: switch.clone(),
        recovery,
    };
    let (device, driver) = match on {
        On::Driven => {
            let (device, driver) = Device::open_driven(kind, options).unwrap();
            (device, Some(driver))
        }
        _ => (Device::open_with(kind, options).unwrap(), None),
    };
    (Rig { device, driver }, switch)
}

pub(crate) fn close(rig: Rig) -> Report {
    match rig.driver {
        Some(driver) => driver.close(),
        None => rig.device.close(PATIENCE),
    }
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
    if let Some(driver) = &mut rig.driver {
        while driver.pump(Duration::from_millis(1)) {}
    }
    let mut watch = rig.device.watch_health();
    while !matches!(watch.health(), Health::Lost { .. }) {
        watch.wait_timeout(PATIENCE).unwrap();
    }
}
