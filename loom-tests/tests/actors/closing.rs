//! A close at any moment, from any thread (I5, I6, I10).

use std::sync::Arc;

use millstream::backend::Open;
use millstream::sim::Sim;
use millstream::{ComputeClient, CubeCount, Device, Error, Kernel, Stream, update};
use millstream_sync::facade::thread::{self, spawn};

use crate::askers::{Given, join, start};
use crate::rig::{assert_drained, choose, close, cpu, options, sim, walk};

/// Yields after which a device has mostly nothing left to do.
const SETTLING: usize = 50;

fn closed(error: &Error) -> bool {
    matches!(error, Error::Closed)
}

/// Askers, and a thread that closes whenever the schedule lets it.
fn ask_and_close(device: Device) {
    let (client, given) = (device.new_client(), Given::default());
    let askers = start(&client, &given, 1, closed);
    drop(client);
    let closer = spawn(move || close(&device));
    join(askers);
    let mut report = closer.join().unwrap();
    // The askers may have been there yet.
    report.slices_held = 0;
    assert_drained(&report);
    given.assert_all_ran();
}

/// I5, I6, I10.
#[test]
fn every_ask_of_a_closing_simulator_ends() {
    walk("asks of a simulator that closes", 1_500, || {
        let sim = sim();
        let findings = sim.findings();
        ask_and_close(Device::open_with(sim, options()).unwrap());
        findings.assert_clean();
    });
}

/// I5, I6, I10.
#[test]
fn every_ask_of_a_closing_cpu_ends() {
    walk("asks of a CPU that closes", 1_000, || {
        ask_and_close(Device::open_with(cpu(), options()).unwrap());
    });
}

/// I5, I10: two threads close, and each close returns only when it may.
#[test]
fn closing_twice_at_once_ends() {
    walk("two closes at once", 1_500, || {
        let device = Arc::new(Device::open_with(sim(), options()).unwrap());
        let (client, given) = (device.new_client(), Given::default());
        let askers = start(&client, &given, 1, closed);
        drop(client);
        let other = {
            let device = device.clone();
            spawn(move || close(&device))
        };
        let mut reports = [close(&device), other.join().unwrap()];
        join(askers);
        reports.sort_by_key(|report| report.drained);
        let [nothing, mut report] = reports;
        assert!(!nothing.drained, "one close reports");
        report.slices_held = 0;
        assert_drained(&report);
        given.assert_all_ran();
    });
}

/// I10, I11: a device that sleeps is woken by the last drop of a kernel, and what the kernel owns goes then, although
/// nobody asks for anything.
#[test]
fn a_last_drop_wakes_a_device_that_sleeps() {
    walk("a last drop beside a device that sleeps", 500, || {
        let device = Device::open_with(sim(), options()).unwrap();
        let client = device.new_client();
        let kept = Arc::new(());
        let owned = kept.clone();
        let kernel = Kernel::new("owner").native(move |_, _| _ = &owned);
        let kernel = client.kernel(kernel).unwrap();
        client.sync().wait().unwrap();
        // Time to fall asleep, in most schedules.
        (0..SETTLING).for_each(|_| thread::yield_now());
        drop(kernel);
        while Arc::strong_count(&kept) > 1 {
            thread::yield_now();
        }
        drop(client);
        assert_drained(&close(&device));
    });
}

/// Where a device is dropped.
#[derive(Clone, Copy)]
enum Place {
    /// A callback, of which some find the device closed.
    Callback,
    /// A host function.
    Host,
    /// The destructor of what a kernel captures.
    Destructor,
    /// Another thread.
    Elsewhere,
}

/// Drops a device when it is dropped itself, after what was its last client.
struct Last {
    _client: ComputeClient,
    _device: Device,
}

/// Gives the device away, to be dropped there.
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

/// Askers, while the device is dropped in that place. Nobody waits for its end: it must end by itself.
fn ask_and_drop(place: Place, device: Device) {
    let (client, given) = (device.new_client(), Given::default());
    let askers = start(&client, &given, 1, closed);
    if choose(2) == 0 {
        // It may then be the last client that is dropped there.
        drop(client);
    }
    drop_at(place, device).unwrap();
    join(askers);
    while thread::alive() > 0 {
        thread::yield_now();
    }
    given.assert_all_ran();
}

fn walk_drops(name: &str, place: Place) {
    let on_sim = move || {
        let sim = sim();
        let findings = sim.findings();
        ask_and_drop(place, Device::open_with(sim, options()).unwrap());
        findings.assert_clean();
    };
    walk(name, 750, on_sim);
    let on_cpu = move || ask_and_drop(place, Device::open_with(cpu(), options()).unwrap());
    walk(&format!("{name}, on the CPU"), 300, on_cpu);
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
fn a_device_may_be_dropped_by_the_destructor_of_what_a_kernel_owns() {
    walk_drops("a drop in a destructor", Place::Destructor);
}

/// I5, I10.
#[test]
fn a_device_may_be_dropped_on_any_thread() {
    walk_drops("a drop on another thread", Place::Elsewhere);
}

/// Holds a guard for a while.
fn hold<O: Open>(stream: &Stream) -> Result<(), Error> {
    let values = stream.create(&[1_u32])?;
    let guard = stream.get_resource::<O>((update(&values),)).wait()?;
    // It waits for the guard.
    stream.fill(&values, 2)?;
    (0..choose(20)).for_each(|_| thread::yield_now());
    let answer = stream.read(&values);
    drop(guard);
    assert_eq!(answer.wait()?, [2]);
    Ok(())
}

/// I5, I6, I10: a close waits for a guard, and nobody else does.
#[test]
fn a_close_waits_for_a_guard_and_ends_with_it() {
    walk(
        "a guard that is held while the device closes",
        1_500,
        || {
            let device = Device::open_with(sim(), options()).unwrap();
            let (client, given) = (device.new_client(), Given::default());
            let mut threads = start(&client, &given, 1, closed);
            let stream = client.new_stream();
            threads.push(spawn(move || {
                let held = hold::<Sim>(&stream);
                assert!(held.as_ref().err().is_none_or(closed), "{held:?}");
            }));
            drop(client);
            let closer = spawn(move || close(&device));
            join(threads);
            let mut report = closer.join().unwrap();
            report.slices_held = 0;
            assert_drained(&report);
            given.assert_all_ran();
        },
    );
}
