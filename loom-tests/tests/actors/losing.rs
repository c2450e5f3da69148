//! A device that is lost at any call or task, and reopened while callers submit (I5, I10).

use std::sync::Arc;
use std::time::Duration;

use millstream::sim::Faults;
use millstream::{Device, Error, Health, error::ReopenError};
use millstream_sync::facade::thread::{JoinHandle, spawn};

use crate::callers::{Submitted, join, launches, start};
use crate::rig::{choose, close, options, sim, walk};

fn lost(error: &Error) -> bool {
    matches!(error, Error::DeviceLost { epoch: 0, .. })
}

fn gone(error: &Error) -> bool {
    lost(error) || matches!(error, Error::Closed)
}

fn is_lost(device: &Device) -> bool {
    matches!(device.health(), Health::Lost { epoch: 0, .. })
}

/// Chooses a loss at one of the first calls or while one of the first tasks runs, or none.
fn faults() -> Faults {
    match choose(2) {
        0 => Faults::none().lost_from(1 + choose(40)),
        _ => Faults::none().lost_at_run(1 + choose(12)),
    }
}

/// Follows the health of a device until its close; reopens it after a loss if `reopens`. Returns
/// the number of losses.
fn supervise(device: &Arc<Device>, reopens: bool) -> JoinHandle<u32> {
    let (device, mut watch) = (device.clone(), device.watch_health());
    spawn(move || {
        let mut losses = 0;
        while let Some(health) = watch.wait_timeout(Duration::MAX).unwrap() {
            if let Health::Lost { epoch: 0, .. } = health {
                losses += 1;
                if reopens {
                    match device.reopen() {
                        Ok(report) => assert_eq!(report.threads_left, 0, "{report:?}"),
                        Err(ReopenError::NotLost { health }) => assert_eq!(health, Health::Closed),
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
        losses
    })
}

/// I5, I10.
#[test]
fn every_request_to_a_lost_device_ends() {
    walk("requests to a device that is lost", 750, || {
        let device = Device::open_with(sim().faults(faults()), options()).unwrap();
        let device = Arc::new(device);
        let (client, submitted) = (device.new_client(), Submitted::default());
        let supervisor = supervise(&device, false);
        let watched = device.clone();
        let is_reported = move |error: &Error| lost(error) && is_lost(&watched);
        join(start(&client, &submitted, 1, is_reported));
        let was_lost = is_lost(&device);
        // A later request gets the same error.
        assert!(!was_lost || client.sync().wait().as_ref().is_err_and(lost));
        let report = close(&device);
        assert_eq!(report.threads_left, 0, "{report:?}");
        // The device may be lost as late as during the close.
        assert!(!was_lost || !report.drained, "{report:?}");
        // A late observer reads only the latest state.
        assert!(supervisor.join().unwrap() <= u32::from(!report.drained));
        submitted.assert_all_answered();
    });
}

/// I5, I10: the loss and the close happen in any order.
#[test]
fn a_lost_device_can_be_closed_at_any_moment() {
    walk("a device that is lost and closed", 750, || {
        let device = Device::open_with(sim().faults(faults()), options()).unwrap();
        let (client, submitted) = (device.new_client(), Submitted::default());
        let callers = start(&client, &submitted, 1, gone);
        drop(client);
        let closer = spawn(move || close(&device));
        join(callers);
        let report = closer.join().unwrap();
        assert_eq!(report.threads_left, 0, "{report:?}");
        submitted.assert_all_answered();
    });
}

/// I5, I10: a request during the reopening gets the old epoch's answer or the new one's.
#[test]
fn a_lost_device_is_reopened_while_callers_submit() {
    walk("a device that is lost and reopened", 500, || {
        let device = Device::open_with(sim().faults(faults()), options()).unwrap();
        let device = Arc::new(device);
        let (client, submitted) = (device.new_client(), Submitted::default());
        let supervisor = supervise(&device, true);
        join(start(&client, &submitted, 2, lost));
        if device.health() == (Health::Running { epoch: 1 }) {
            launches(&client, &submitted).unwrap();
        }
        let report = close(&device);
        assert_eq!(report.threads_left, 0, "{report:?}");
        assert!(supervisor.join().unwrap() <= 1);
        submitted.assert_all_answered();
    });
}
