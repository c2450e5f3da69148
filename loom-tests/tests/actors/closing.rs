//! A close at any moment, from any thread (I5, I6, I10).

use std::sync::Arc;

use millstream::backend::Open;
use millstream::report::Report;
use millstream::sim::Sim;
use millstream::{ComputeClient, CubeCount, Device, Error, Kernel, Stream, update};
use millstream_sync::facade::thread::{self, JoinHandle, spawn};

use crate::callers::{Submitted, join, start};
use crate::rig::{assert_drained, choose, close, cpu, options, sim, walk};

/// The number of yields after which a device is mostly idle.
const SETTLING: usize = 50;

fn closed(error: &Error) -> bool {
    matches!(error, Error::Closed)
}

/// Runs callers and these threads, and one that closes the device at any moment.
fn call_and_close_beside(
    device: Device,
    others: impl FnOnce(&ComputeClient) -> Vec<JoinHandle<()>>,
) {
    let (client, submitted) = (device.new_client(), Submitted::default());
    let mut threads = start(&client, &submitted, 1, closed);
    threads.extend(others(&client));
    drop(client);
    let closer = spawn(move || close(&device));
    join(threads);
    assert_all_ended(closer.join().unwrap(), &submitted);
}

pub(crate) fn call_and_close(device: Device) {
    call_and_close_beside(device, |_| Vec::new());
}

/// Callers may still have held slices when the device was closed.
fn assert_all_ended(mut report: Report, submitted: &Submitted) {
    report.slices_held = 0;
    assert_drained(&report);
    submitted.assert_all_ran();
}

/// I5, I6, I10.
#[test]
fn every_request_to_a_closing_simulator_ends() {
    walk("requests to a simulator that closes", 750, || {
        let sim = sim();
        let findings = sim.findings();
        call_and_close(Device::open_with(sim, options()).unwrap());
        findings.assert_clean();
    });
}

/// I5, I6, I10.
#[test]
fn every_request_to_a_closing_cpu_ends() {
    walk("requests to a CPU that closes", 500, || {
        call_and_close(Device::open_with(cpu(), options()).unwrap());
    });
}

/// I5, I10: two threads close; each close returns only when the device is closed.
#[test]
fn two_concurrent_closes_return() {
    walk("two closes at once", 750, || {
        let device = Arc::new(Device::open_with(sim(), options()).unwrap());
        let (client, submitted) = (device.new_client(), Submitted::default());
        let callers = start(&client, &submitted, 1, closed);
        drop(client);
        let other = {
            let device = device.clone();
            spawn(move || close(&device))
        };
        let mut reports = [close(&device), other.join().unwrap()];
        join(callers);
        reports.sort_by_key(|report| report.drained);
        let [nothing, report] = reports;
        assert!(!nothing.drained, "only one close reports");
        assert_all_ended(report, &submitted);
    });
}

/// I10, I11: the last drop of a kernel wakes a sleeping device, which drops what the kernel owns
/// without any request.
#[test]
fn a_last_drop_wakes_a_sleeping_device() {
    walk("a last drop beside a sleeping device", 250, || {
        let device = Device::open_with(sim(), options()).unwrap();
        let client = device.new_client();
        let kept = Arc::new(());
        let owned = kept.clone();
        let kernel = Kernel::new("owner").native(move |_, _| _ = &owned);
        let kernel = client.kernel(kernel).unwrap();
        client.sync().wait().unwrap();
        // Enough time to fall asleep, in most schedules.
        (0..SETTLING).for_each(|_| thread::yield_now());
        drop(kernel);
        while Arc::strong_count(&kept) > 1 {
            thread::yield_now();
        }
        drop(client);
        assert_drained(&close(&device));
    });
}

/// The place where a device is dropped.
#[derive(Clone, Copy)]
enum Place {
    /// A callback; some run when the device is closed already.
    Callback,
    /// A host function.
    Host,
    /// The destructor of a value that a kernel captures.
    Destructor,
    /// Another thread.
    Elsewhere,
}

/// Drops first what may be the last client, then the device.
struct Last {
    _client: ComputeClient,
    _device: Device,
}

/// Moves the device to the place that drops it.
fn drop_at(place: Place, device: Device) -> Result<(), Error> {
    let client = device.new_client();
    let stream = client.new_stream();
    let values = stream.create(&[1_u32])?;
    let last = Last {
        _client: client.clone(),
        _device: device,
    };
    match place {
        Place::Callback => Ok(stream.read(&values).on_ready(move |_| drop(last))?),
        Place::Host => Ok(stream.host("drop", (), move || drop(last))?),
        Place::Destructor => {
            let owner = Kernel::new("owner")
                .updates::<u32>("values")
                .native(move |_, _| {
                    let _ = &last;
                });
            let owner = client.kernel(owner)?;
            stream.launch(&owner, CubeCount::single(), (update(&values),))
        }
        Place::Elsewhere => {
            spawn(move || drop(last));
            Ok(())
        }
    }
}

/// Runs callers while the device is dropped in that place. No thread waits for its end.
fn call_and_drop(place: Place, device: Device) {
    let (client, submitted) = (device.new_client(), Submitted::default());
    let callers = start(&client, &submitted, 1, closed);
    if choose(2) == 0 {
        // The last client may then be dropped in that place.
        drop(client);
    }
    drop_at(place, device).unwrap();
    join(callers);
    while thread::alive() > 0 {
        thread::yield_now();
    }
    submitted.assert_all_ran();
}

fn walk_drops(name: &str, place: Place) {
    let on_sim = move || {
        let sim = sim();
        let findings = sim.findings();
        call_and_drop(place, Device::open_with(sim, options()).unwrap());
        findings.assert_clean();
    };
    walk(name, 375, on_sim);
    let on_cpu = move || call_and_drop(place, Device::open_with(cpu(), options()).unwrap());
    walk(&format!("{name}, on the CPU"), 150, on_cpu);
}

/// I5, I10.
#[test]
fn a_device_may_be_dropped_in_a_callback() {
    walk_drops("a drop in a callback", Place::Callback);
}

/// I5, I10.
#[test]
fn a_device_may_be_dropped_in_a_host_function() {
    walk_drops("a drop in a host function", Place::Host);
}

/// I5, I10.
#[test]
fn a_device_may_be_dropped_by_the_destructor_of_a_captured_value() {
    walk_drops("a drop in a destructor", Place::Destructor);
}

/// I5, I10.
#[test]
fn a_device_may_be_dropped_on_any_thread() {
    walk_drops("a drop on another thread", Place::Elsewhere);
}

/// Holds a guard for some time.
fn hold<O: Open>(stream: &Stream) -> Result<(), Error> {
    let values = stream.create(&[1_u32])?;
    let guard = stream.get_resource::<O>((update(&values),)).wait()?;
    // The fill waits for the guard.
    stream.fill(&values, 2)?;
    (0..choose(20)).for_each(|_| thread::yield_now());
    let answer = stream.read(&values);
    drop(guard);
    assert_eq!(answer.wait()?, [2]);
    Ok(())
}

/// I5, I6, I10: a close waits for a guard; other requests end regardless.
#[test]
fn a_close_waits_for_a_guard_and_ends_with_it() {
    walk("a guard held while the device closes", 750, || {
        call_and_close_beside(Device::open_with(sim(), options()).unwrap(), |client| {
            let stream = client.new_stream();
            vec![spawn(move || {
                let held = hold::<Sim>(&stream);
                assert!(held.as_ref().err().is_none_or(closed), "{held:?}");
            })]
        });
    });
}
