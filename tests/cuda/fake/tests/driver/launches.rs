//! Launches with attributes.

use crate::kernels::{Attribute, Kernels, Values, attribute, config, launch, launch_list};
use crate::raw::Gpu;

const INVALID_VALUE: u32 = 1;
const NOT_SUPPORTED: u32 = 801;
const INVALID_CLUSTER_SIZE: u32 = 912;
/// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`
const LARGE_CLUSTERS: u64 = 14;

fn cluster(size: [u32; 3]) -> Attribute {
    attribute(4, &size)
}

/// Launches `set` with these blocks and attributes, on memory with room for 64.
fn launch_with(gpu: &Gpu, kernels: &Kernels, cubes: [u32; 3], attributes: &[Attribute]) -> u32 {
    let (block, stream) = (gpu.memory(256, 0), gpu.stream());
    let (values, config) = (Values::new(&[block, 7]), config(cubes, stream, attributes));
    let arguments = [config.as_ptr() as u64, kernels.set, values.list(), 0];
    let answer = gpu.call("cuLaunchKernelEx", &arguments);
    if answer == 0 {
        assert_eq!(gpu.byte(block + 4 * u64::from(cubes[0] - 1), stream), 7);
    }
    answer
}

#[test]
fn attributes_of_launches_are_reported() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let attributes = [cluster([2, 1, 1]), attribute(2, &[1]), attribute(6, &[1])];
    assert_eq!(launch_with(&gpu, &kernels, [8, 1, 1], &attributes), 0);
    assert_eq!(launch_with(&gpu, &kernels, [1, 1, 1], &[]), 0);
    let expected = [
        "set <<<[8, 1, 1], [1, 1, 1], 0>>> cluster [2, 1, 1] cooperative programmatic priority 0",
        "set <<<[1, 1, 1], [1, 1, 1], 0>>> priority 0",
    ];
    assert_eq!(gpu.session.launched(), expected);
    assert_eq!(
        launch_with(&gpu, &kernels, [1; 3], &[attribute(7, &[])]),
        NOT_SUPPORTED
    );
    gpu.assert_violation(&["not modelled: cuLaunchKernelEx with launch attribute 7"]);
}

#[test]
fn clusters_must_divide_the_grid_and_not_be_too_large() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let launch = |cubes, size| launch_with(&gpu, &kernels, cubes, &[cluster(size)]);
    assert_eq!(launch([8, 1, 1], [8, 1, 1]), 0);
    assert_eq!(launch([9, 1, 1], [2, 1, 1]), INVALID_CLUSTER_SIZE);
    assert_eq!(launch([8, 1, 1], [0, 1, 1]), INVALID_CLUSTER_SIZE);
    assert_eq!(launch([16, 1, 1], [16, 1, 1]), INVALID_CLUSTER_SIZE);
    gpu.must("cuFuncSetAttribute", &[kernels.set, LARGE_CLUSTERS, 1]);
    assert_eq!(launch([16, 1, 1], [16, 1, 1]), 0);
    assert_eq!(launch([32, 1, 1], [32, 1, 1]), INVALID_CLUSTER_SIZE);
    gpu.assert_violations(&["invalid launch: "; 4]);
}

#[test]
fn the_shared_memory_of_a_function_is_limited() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let set = |number, value| gpu.call("cuFuncSetAttribute", &[kernels.set, number, value]);
    assert_eq!([set(8, 100 << 10), set(14, 1)], [0, 0]);
    assert_eq!([set(8, 228 << 10), set(14, 2)], [INVALID_VALUE; 2]);
    assert_eq!(gpu.make("cuFuncGetAttribute", &[0, kernels.set]), 1024);
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn a_large_parameter_is_copied_during_the_call() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let (block, stream) = (gpu.memory(16, 0), gpu.stream());
    let (mut offset, mut bytes) = (0_u64, 0_u64);
    let places = [&raw mut offset as u64, &raw mut bytes as u64];
    gpu.must(
        "cuFuncGetParamInfo",
        &[kernels.first, 1, places[0], places[1]],
    );
    assert_eq!((offset, bytes), (64, 128));
    let mut map: [u64; 16] = std::array::from_fn(|word| word as u64 + 1);
    let to = block;
    let list = [&raw const to as u64, &raw const map as u64];
    gpu.session.hold(stream, true);
    assert_eq!(launch_list(&gpu, kernels.first, stream, &list), 0);
    map = [0; 16];
    gpu.session.hold(stream, false);
    assert_eq!(
        (gpu.byte(block, stream), gpu.byte(block + 8, stream)),
        (1, 16)
    );
    assert_eq!((map, gpu.violations()), ([0; 16], vec![]));
}

/// I2: two threads add to one word without an atomic operation.
#[test]
fn a_race_between_the_threads_of_a_launch_is_reported_i2() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let (block, stream) = (gpu.memory(256, 1), gpu.stream());
    let values = Values::new(&[block, block + 128]);
    let arguments = [kernels.add, 1, 1, 1, 2, 1, 1, 0, stream, values.list(), 0];
    gpu.must("cuLaunchKernel", &arguments);
    gpu.must("cuStreamSynchronize", &[stream]);
    // The other thread reads, and then writes.
    gpu.assert_violations(&["race within a launch: kernel `add`"; 2]);
}

#[test]
fn unloading_a_module_before_its_kernel_has_run_is_found() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let (block, stream) = (gpu.memory(8, 0), gpu.stream());
    gpu.session.hold(stream, true);
    assert_eq!(launch(&gpu, kernels.add, stream, &[block, block + 4]), 0);
    gpu.must_wait_for(stream, "cuModuleUnload", &[kernels.module]);
    gpu.assert_violation(&["unloaded while in use: ", "`add`"]);
}
