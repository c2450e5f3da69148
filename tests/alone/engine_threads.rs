//! The caller starts every thread of a device (I10), and a driven device has none (I11).

use std::sync::Arc;

use super::engine::{Answer, Engine, PATIENCE, cpu, names, use_everything};
use millstream::backend::Open;
use millstream::sim::Sim;
use millstream::{CubeCount, Device, Kernel, device::ThreadRole};

fn every_thread_is_the_callers(kind: impl Open) {
    let before = names();
    let engine = Arc::new(Engine::default());
    let held = Arc::new(());
    let device = Device::open_with(kind, engine.options(|_| Answer::Start)).unwrap();
    let captured = held.clone();
    let kernel = Kernel::new("keeps").native(move |_, _| drop(captured.clone()));
    let kernel = device.new_client().kernel(kernel).unwrap();
    device
        .new_client()
        .new_stream()
        .launch(&kernel, CubeCount::d1(4), ())
        .unwrap();
    use_everything(&device);
    let mut foreign_threads = names();
    foreign_threads.retain(|name| name.trim() != "engine");
    assert_eq!(
        foreign_threads, before,
        "the device started a thread itself"
    );
    // A thread is counted when it is requested, and stored when it has started; another thread of the device may be in
    // between.
    while engine.threads.lock().unwrap().len() != engine.asked() {
        std::thread::yield_now();
    }
    assert!(engine.count(ThreadRole::UserCode) >= 3);
    for role in [ThreadRole::Device, ThreadRole::Collector] {
        assert_eq!(engine.count(role), 1, "{role:?}");
    }
    drop(kernel);
    let report = device.close(PATIENCE);
    assert!(report.drained && report.threads_left == 0, "{report:?}");
    // The close has waited for all threads, so none of them keeps a part of the device.
    assert_eq!(Arc::strong_count(&held), 1);
    engine.join();
    // A joined thread may still be listed for a moment.
    while names() != before {
        std::thread::yield_now();
    }
}

fn a_driven_device_asks_for_none(kind: impl Open) {
    let before = names();
    let engine = Arc::new(Engine::default());
    let (device, driver) = Device::open_driven(kind, engine.options(|_| Answer::Start)).unwrap();
    let stream = device.new_client().new_stream();
    let values = stream.create(&[1_u32, 2]).unwrap();
    stream.host("nothing", (), || ()).unwrap();
    assert_eq!(stream.read(&values).wait().unwrap(), [1, 2]);
    assert_eq!((engine.asked(), names()), (0, before));
    assert!(driver.close().drained);
}

#[test]
fn every_thread_is_started_by_the_callers_function_and_joined_i10() {
    super::alone(module_path!(), || {
        every_thread_is_the_callers(cpu());
        every_thread_is_the_callers(Sim::seed(7));
        a_driven_device_asks_for_none(cpu());
        a_driven_device_asks_for_none(Sim::seed(7));
    });
}
