//! The exact number of driver calls of a launch, a batch, a copy, a hazard and a wait.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream::vulkan::Vulkan;
use millstream::{
    CubeCount, Device, DeviceOptions, Driver, Handle, KernelHandle, Stream, read, update, write,
};
use millstream_vulkan_conformance::Session;
use millstream_vulkan_conformance::kernels::{add_one, large, mix, set};
use millstream_vulkan_conformance::program::launch_large;

use crate::refusals::session;

type Counts = BTreeMap<&'static str, u64>;

/// The calls of a round on a driven device, whose rounds are one batch each. Polls are not counted: their number depends
/// on the speed of the device.
fn calls_of(
    session: &Session,
    driver: &mut Driver,
    device: &Device,
    mut round: impl FnMut(),
) -> Counts {
    let client = device.new_client();
    let end = |driver: &mut Driver| {
        while driver.pump(Duration::from_millis(1)) {}
        let _ = client.id();
    };
    for _ in 0..4 {
        round();
        end(driver);
    }
    let before = session.counts();
    round();
    end(driver);
    let mut counts = session.counts_since(&before);
    counts.remove("vkGetSemaphoreCounterValue");
    counts
}

#[test]
fn print_calls() {
    let Some(session) = session() else { return };
    let kind = Vulkan::ordinal(0).queues(2);
    let (device, mut driver) = Device::open_driven(kind, DeviceOptions::default()).unwrap();
    let client = device.new_client();
    let [set, mix, add_one, large] =
        [set(), mix(), add_one(), large()].map(|kernel| client.kernel(kernel).unwrap());
    let (one, other) = (client.new_stream(), client.new_stream());
    let a = one.create(&[1_u32; 64]).unwrap();
    let b = one.create(&[1_u32; 64]).unwrap();
    let c = one.create(&[1_u32; 64]).unwrap();
    let out = one.create(&[1_u64; 1]).unwrap();
    let launch = |stream: &Stream, kernel: &KernelHandle, to: &Handle<u32>| {
        stream
            .launch(kernel, CubeCount::single(), (update(to), 64_u32))
            .unwrap();
    };
    let s = &session;
    println!(
        "launch   {:?}",
        calls_of(s, &mut driver, &device, || launch(&one, &add_one, &a))
    );
    println!(
        "2 dep    {:?}",
        calls_of(s, &mut driver, &device, || {
            launch(&one, &add_one, &a);
            launch(&one, &add_one, &a);
        })
    );
    println!(
        "2 indep  {:?}",
        calls_of(s, &mut driver, &device, || {
            launch(&one, &add_one, &a);
            launch(&one, &add_one, &b);
        })
    );
    println!(
        "2 kernels {:?}",
        calls_of(s, &mut driver, &device, || {
            launch(&one, &add_one, &a);
            one.launch(&mix, CubeCount::single(), (read(&a), update(&b), 64_u32))
                .unwrap();
        })
    );
    println!(
        "spilled  {:?}",
        calls_of(s, &mut driver, &device, || launch_large(
            &one, &large, &a, &out
        )
        .unwrap())
    );
    println!(
        "copy     {:?}",
        calls_of(s, &mut driver, &device, || one.copy(&a, &b).unwrap())
    );
    println!(
        "fill     {:?}",
        calls_of(s, &mut driver, &device, || one.fill(&a, 3).unwrap())
    );
    println!(
        "write    {:?}",
        calls_of(s, &mut driver, &device, || one.write(&a, &[2; 64]).unwrap())
    );
    println!(
        "read     {:?}",
        calls_of(s, &mut driver, &device, || drop(one.read(&a)))
    );
    println!(
        "two queues, independent {:?}",
        calls_of(s, &mut driver, &device, || {
            launch(&one, &add_one, &a);
            launch(&other, &add_one, &b);
        })
    );
    println!(
        "two queues, hazard {:?}",
        calls_of(s, &mut driver, &device, || {
            launch(&one, &add_one, &a);
            launch(&other, &add_one, &a);
        })
    );
    let _ = (&set, &c, write(&c));
}
