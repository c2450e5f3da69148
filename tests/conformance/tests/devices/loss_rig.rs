//! What the tests of lost devices share: the kinds of devices that can be lost, and how it is waited for.

use std::sync::Arc;
use std::time::Duration;

use millstream::{
    ComputeClient, Cpu, Device, DeviceOptions, Driver, Error, Health, Recovery, Report,
};
use rstest_reuse::template;

use crate::faulty::{Faulty, Switch};

/// Far longer than anything here takes: who would wait for ever fails instead.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A kind of device that can be lost.
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

/// A kernel may block there without blocking the test.
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

/// The epoch that was lost.
pub(crate) fn lost_epoch<T>(answer: Result<T, Error>) -> u64 {
    match answer {
        Err(Error::DeviceLost { epoch, .. }) => epoch,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was answered as if nothing had happened"),
    }
}

/// Until the device says that it is lost. A driven one finds out when it is pumped.
pub(crate) fn until_lost(rig: &mut Rig) {
    if let Some(driver) = &mut rig.driver {
        while driver.pump(Duration::from_millis(1)) {}
    }
    let mut watch = rig.device.watch_health();
    while !matches!(watch.health(), Health::Lost { .. }) {
        watch.wait_timeout(PATIENCE).unwrap();
    }
}
