//! A device that is lost at any call or task, and opened again while others ask (I5, I10).

use std::sync::Arc;
use std::time::Duration;

use millstream::sim::Faults;
use millstream::{Device, Error, Health, ReopenError};
use millstream_sync::facade::thread::{JoinHandle, spawn};

use crate::askers::{Given, join, launches, start};
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

/// Lost at one of the first calls, or while one of the first tasks runs; or not at all.
fn faults() -> Faults {
    match choose(2) {
        0 => Faults::none().lost_from(1 + choose(40)),
        _ => Faults::none().lost_at_run(1 + choose(12)),
    }
}

/// Follows the health of a device to its close, and opens it again when it is lost, if it is to. Tells how often
/// it was lost.
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
fn every_ask_of_a_dying_device_ends() {
    walk("asks of a device that dies", 1_500, || {
        let device = Device::open_with(sim().faults(faults()), options()).unwrap();
        let device = Arc::new(device);
        let (client, given) = (device.new_client(), Given::default());
        let supervisor = supervise(&device, false);
        let told = device.clone();
        let is_told = move |error: &Error| lost(error) && is_lost(&told);
        join(start(&client, &given, 1, is_told));
        let was_lost = is_lost(&device);
        // Whoever comes later is told the same.
        assert!(!was_lost || client.sync().wait().as_ref().is_err_and(lost));
        let report = close(&device);
        assert_eq!(report.threads_left, 0, "{report:?}");
        // It may be lost as late as while it closes.
        assert!(!was_lost || !report.drained, "{report:?}");
        // Who looks late is told the latest.
        assert!(supervisor.join().unwrap() <= u32::from(!report.drained));
        given.assert_all_told();
    });
}

/// I5, I10: the loss and the close meet in any order.
#[test]
fn a_dying_device_can_be_closed_at_any_moment() {
    walk("a device that dies and is closed", 1_500, || {
        let device = Device::open_with(sim().faults(faults()), options()).unwrap();
        let (client, given) = (device.new_client(), Given::default());
        let askers = start(&client, &given, 1, gone);
        drop(client);
        let closer = spawn(move || close(&device));
        join(askers);
        let report = closer.join().unwrap();
        assert_eq!(report.threads_left, 0, "{report:?}");
        given.assert_all_told();
    });
}

/// I5, I10: who asks while a device is opened again gets the old epoch's answer or the new one's.
#[test]
fn a_device_is_opened_again_while_others_ask() {
    walk("a device that dies and is opened again", 1_000, || {
        let device = Device::open_with(sim().faults(faults()), options()).unwrap();
        let device = Arc::new(device);
        let (client, given) = (device.new_client(), Given::default());
        let supervisor = supervise(&device, true);
        join(start(&client, &given, 2, lost));
        if device.health() == (Health::Running { epoch: 1 }) {
            launches(&client, &given).unwrap();
        }
        let report = close(&device);
        assert_eq!(report.threads_left, 0, "{report:?}");
        assert!(supervisor.join().unwrap() <= 1);
        given.assert_all_told();
    });
}
