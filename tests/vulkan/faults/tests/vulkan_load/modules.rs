//! Modules of users that are no valid SPIR-V, or have another interface than their kernel: the kernel is refused with a
//! typed error, before the driver receives the module.

use millstream::vulkan::{Vulkan, VulkanLaunch};
use millstream::{Device, Error, Kernel, error::KernelError};
use millstream_vulkan_faults::kernels::words;

use crate::turn;

/// `add_one`, whose module has a descriptor, 12 bytes of push constants and cubes of 256 threads.
fn kernel() -> Kernel {
    Kernel::new("add_one")
        .updates::<u32>("values")
        .scalar::<u32>("n")
}

fn module() -> Vec<u32> {
    words(include_bytes!("../../../kernels/descriptors/add_one.spv"))
}

fn descriptors() -> VulkanLaunch {
    VulkanLaunch::default().descriptors(true)
}

/// I7: a module that is cut off anywhere is refused, and the device goes on.
#[test]
fn truncated_modules_are_typed_errors_i7() {
    let Some(_turn) = turn() else { return };
    let device = Device::open(Vulkan::ordinal(0).queues(1)).unwrap();
    let client = device.new_client();
    let module = module();
    for len in (0..module.len()).step_by(7) {
        let cut = module[..len].to_vec();
        let refused = client.kernel(kernel().spirv(cut).with(descriptors()));
        let refused = refused.map(drop);
        assert!(
            matches!(&refused, Err(Error::Kernel(why)) if matches!(why, KernelError::Compile { .. })),
            "{len} words: {refused:?}"
        );
    }
    client
        .kernel(kernel().spirv(module).with(descriptors()))
        .unwrap();
}

/// I7: a module whose interface is not that of its kernel is refused, with what differs.
#[test]
fn modules_with_another_interface_are_typed_errors_i7() {
    let Some(_turn) = turn() else { return };
    let device = Device::open(Vulkan::ordinal(0).queues(1)).unwrap();
    let client = device.new_client();
    let refused = |kernel: Kernel, expected: &str| {
        let why = client.kernel(kernel).map(drop).unwrap_err().to_string();
        assert!(why.contains(expected), "{why}");
    };
    refused(kernel().spirv(module()), "set 0, binding 0");
    let none = Kernel::new("add_one").scalar::<u64>("a").scalar::<u64>("n");
    refused(none.spirv(module()).with(descriptors()), "set 0, binding 0");
    let short = Kernel::new("add_one").updates::<u32>("values");
    refused(short.spirv(module()).with(descriptors()), "12 bytes");
}
