//! I11: with the policy `never`, no thread of a device spins.

use millstream::{Cpu, CubeCount, Device, DeviceOptions, Kernel, SpinPolicy, update};
use millstream_sync::facade::{set_spinner_limit, spins_begun};

/// Opens a device, makes each of its threads wait more than once, and closes it, so that no thread spins
/// afterwards. Returns the number of spins.
fn spins_of_a_device(policy: SpinPolicy) -> u32 {
    let before = spins_begun();
    let options = DeviceOptions::default().spin(policy);
    let device = Device::open_with(Cpu::default().queues(2).threads(3), options).unwrap();
    let client = device.new_client();
    let add = Kernel::new("add").updates::<u32>("data").native(|_, args| {
        args.chunk::<u32>(0)
            .iter_mut()
            .for_each(|value| *value += 1);
    });
    let add = client.kernel(add).unwrap();
    for round in 1..=20_u32 {
        let (first, second) = (client.new_stream(), client.new_stream());
        let data = first.create(&[round; 4096]).unwrap();
        for stream in [&first, &second] {
            stream
                .launch(&add, CubeCount::d1(64), (update(&data),))
                .unwrap();
        }
        let read = second.read(&data).wait().unwrap();
        assert!(read.iter().all(|value| *value == round + 2));
    }
    drop(client);
    assert!(device.close(std::time::Duration::from_secs(60)).drained);
    spins_begun().wrapping_sub(before)
}

#[test]
fn no_thread_of_a_device_spins_with_the_policy_never_i11() {
    super::alone(module_path!(), || {
        set_spinner_limit(Some(1_000)); // independent of the number of cores
        assert_eq!(spins_of_a_device(SpinPolicy::never()), 0);
        // A policy that allows spinning raises the count, so the counter works.
        assert_ne!(spins_of_a_device(SpinPolicy::for_us(20)), 0);
    });
}
