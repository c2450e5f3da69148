//! Where the code of a task is dropped that does not run: never on the device's turn, because a destructor may block.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use millstream::backend::{Backend, Open};
use millstream::sim::{Call, Faults, Sim};
use millstream::{Device, DeviceOptions, Error, Stream, device::Recovery, write};

use crate::altered::Altered;
use crate::loss_rig::{On, lost_epoch, open};
use crate::support::{BlocksOnDrop, Drain, PATIENCE, Sure};

/// Submits a custom task that owns a [`BlocksOnDrop`], and that the backend refuses. Returns where the drop of its code
/// arrives, and what ends it.
fn submit_refused<O: Open>(stream: &Stream) -> (Receiver<Option<String>>, Sender<()>) {
    let values = stream.put(&[1_u32]);
    let (owned, dropped, release) = BlocksOnDrop::new();
    let work = move |_: &<O::Backend as Backend>::Resources| drop(owned);
    let submitted = stream.with_resource::<O>("refused", (write(&values),), work);
    submitted.map_err(Error::from).unwrap();
    (dropped, release)
}

fn sim_that_refuses_custom_tasks() -> Sim {
    Sim::seed(1).faults(Faults::none().nth(Call::Custom, 1))
}

/// I6: the code of a custom task that the backend refuses is dropped on the GC thread. Meanwhile the device serves other
/// clients.
#[test]
fn code_of_a_refused_custom_task_is_dropped_on_the_gc_thread_i6() {
    let device = Device::open(sim_that_refuses_custom_tasks()).unwrap();
    let (dropped, release) = submit_refused::<Sim>(&device.new_client().new_stream());
    let thread = dropped.recv_timeout(PATIENCE).unwrap();
    assert_eq!(thread.as_deref(), Some("millstream-gc"));
    let other = device.new_client().new_stream();
    let values = other.put(&[7_u32]);
    let read = other.read(&values).wait_timeout(PATIENCE / 2);
    drop(release);
    assert_eq!(read.unwrap(), [7]);
}

/// I6: the same if the refusal is the loss of the device, which answers its other clients meanwhile.
#[test]
fn code_of_a_custom_task_that_loses_the_device_is_dropped_on_the_gc_thread_i6() {
    let (rig, switch) = open(On::Threads, Recovery::SameProcess);
    let stream = rig.client().new_stream();
    stream.drain();
    switch.lose_at_next_custom();
    let (dropped, release) = submit_refused::<Altered>(&stream);
    let thread = dropped.recv_timeout(PATIENCE).unwrap();
    assert_eq!(thread.as_deref(), Some("millstream-gc"));
    let answer = rig.device.sync().wait_timeout(PATIENCE / 2);
    drop(release);
    assert_eq!(lost_epoch(answer), 0);
}

/// I6: on a driven device the destructor runs outside of the device, which another thread may drive meanwhile.
#[test]
fn code_of_a_refused_custom_task_is_dropped_outside_of_a_driven_device_i6() {
    let (device, mut driver) =
        Device::open_driven(sim_that_refuses_custom_tasks(), DeviceOptions::default()).unwrap();
    let device = Arc::new(device);
    let (dropped, release) = submit_refused::<Sim>(&device.new_client().new_stream());
    let other = std::thread::spawn(move || {
        dropped.recv_timeout(PATIENCE).unwrap();
        let stream = device.new_client().new_stream();
        let values = stream.put(&[7_u32]);
        let read = stream.read(&values).wait_timeout(PATIENCE / 2);
        drop(release);
        read
    });
    while !other.is_finished() {
        driver.pump(Duration::from_millis(1));
    }
    assert_eq!(other.join().unwrap().unwrap(), [7]);
}
