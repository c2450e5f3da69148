//! Where the code of a task is dropped that does not run: never on the device's turn, because a destructor may block.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use millstream::backend::{Backend, Open};
use millstream::sim::{Call, Faults, Sim};
use millstream::{Device, DeviceOptions, Stream, device::Recovery, write};

use crate::faulty::Faulty;
use crate::loss_rig::{On, PATIENCE, lost_epoch, open};

/// A value whose destructor sends the name of its thread, and then waits for the test.
struct Blocks {
    dropped: mpsc::Sender<Option<String>>,
    released: mpsc::Receiver<()>,
}

/// The test's side of [`Blocks`]. Dropping `release` ends the destructor.
struct Blocked {
    dropped: mpsc::Receiver<Option<String>>,
    release: mpsc::Sender<()>,
}

fn blocks() -> (Blocks, Blocked) {
    let ((sender, dropped), (release, released)) = (mpsc::channel(), mpsc::channel());
    let blocks = Blocks {
        dropped: sender,
        released,
    };
    (blocks, Blocked { dropped, release })
}

impl Drop for Blocks {
    fn drop(&mut self) {
        let thread = std::thread::current();
        self.dropped.send(thread.name().map(str::to_owned)).ok();
        // Bounded, so that a test that fails ends.
        let _ = self.released.recv_timeout(PATIENCE);
    }
}

/// Submits a custom task that owns a [`Blocks`], and that the backend refuses.
fn submit_refused<O: Open>(stream: &Stream) -> Blocked {
    let values = stream.create(&[1_u32]).unwrap();
    let (owned, blocked) = blocks();
    let work = move |_: &<O::Backend as Backend>::Resources| drop(owned);
    stream
        .with_resource::<O>("refused", (write(&values),), work)
        .map_err(|returned| returned.error)
        .unwrap();
    blocked
}

fn sim_that_refuses_custom_tasks() -> Sim {
    Sim::seed(1).faults(Faults::none().nth(Call::Custom, 1))
}

/// I6: the code of a custom task that the backend refuses is dropped on the GC thread. Meanwhile the device serves other
/// clients.
#[test]
fn code_of_a_refused_custom_task_is_dropped_on_the_gc_thread_i6() {
    let device = Device::open(sim_that_refuses_custom_tasks()).unwrap();
    let blocked = submit_refused::<Sim>(&device.new_client().new_stream());
    let thread = blocked.dropped.recv_timeout(PATIENCE).unwrap();
    assert_eq!(thread.as_deref(), Some("millstream-gc"));
    let other = device.new_client().new_stream();
    let values = other.create(&[7_u32]).unwrap();
    let read = other.read(&values).wait_timeout(PATIENCE / 2);
    drop(blocked.release);
    assert_eq!(read.unwrap(), [7]);
}

/// I6: the same if the refusal is the loss of the device, which answers its other clients meanwhile.
#[test]
fn code_of_a_custom_task_that_loses_the_device_is_dropped_on_the_gc_thread_i6() {
    let (rig, switch) = open(On::Threads, Recovery::SameProcess);
    let stream = rig.client().new_stream();
    stream.sync().wait().unwrap();
    switch.lose_at_next_custom();
    let blocked = submit_refused::<Faulty>(&stream);
    let thread = blocked.dropped.recv_timeout(PATIENCE).unwrap();
    assert_eq!(thread.as_deref(), Some("millstream-gc"));
    let answer = rig.device.sync().wait_timeout(PATIENCE / 2);
    drop(blocked.release);
    assert_eq!(lost_epoch(answer), 0);
}

/// I6: on a driven device the destructor runs outside of the device, which another thread may drive meanwhile.
#[test]
fn code_of_a_refused_custom_task_is_dropped_outside_of_a_driven_device_i6() {
    let (device, mut driver) =
        Device::open_driven(sim_that_refuses_custom_tasks(), DeviceOptions::default()).unwrap();
    let device = Arc::new(device);
    let blocked = submit_refused::<Sim>(&device.new_client().new_stream());
    let other = std::thread::spawn(move || {
        blocked.dropped.recv_timeout(PATIENCE).unwrap();
        let stream = device.new_client().new_stream();
        let values = stream.create(&[7_u32]).unwrap();
        let read = stream.read(&values).wait_timeout(PATIENCE / 2);
        drop(blocked.release);
        read
    });
    while !other.is_finished() {
        driver.pump(Duration::from_millis(1));
    }
    assert_eq!(other.join().unwrap().unwrap(), [7]);
}
