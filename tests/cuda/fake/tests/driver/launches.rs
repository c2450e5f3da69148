//! Launches with attributes, and occupancy.

use crate::kernels::{Attribute, Config, Kernels, Values, launch};
use crate::raw::Gpu;

const INVALID_VALUE: u32 = 1;
const COOPERATIVE_LAUNCH_TOO_LARGE: u32 = 720;
const NOT_SUPPORTED: u32 = 801;
const INVALID_CLUSTER_SIZE: u32 = 912;
/// `CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED`
const LARGE_CLUSTERS: u64 = 14;

fn cluster(size: [u32; 3]) -> Attribute {
    Attribute::new(4, &size)
}

/// Launches `set` with these blocks and attributes, on memory with room for 64.
fn launch_with(gpu: &Gpu, kernels: &Kernels, cubes: [u32; 3], attributes: &[Attribute]) -> u32 {
    let (block, stream) = (gpu.memory(256, 0), gpu.stream());
    let (values, config) = (
        Values::new(&[block, 7]),
        Config::new(cubes, stream, attributes),
    );
    let arguments = [config.place(), kernels.set, values.list(), 0];
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
    let attributes = [
        Attribute::new(0, &[]),
        cluster([2, 1, 1]),
        Attribute::new(5, &[1]),
        Attribute::new(2, &[1]),
        Attribute::new(6, &[1]),
        Attribute::new(8, &[-3_i32 as u32]),
    ];
    assert_eq!(launch_with(&gpu, &kernels, [8, 1, 1], &attributes), 0);
    assert_eq!(launch_with(&gpu, &kernels, [1, 1, 1], &[]), 0);
    let expected = [
        "set <<<[8, 1, 1], [1, 1, 1], 0>>> cluster [2, 1, 1] policy 1 cooperative programmatic priority -3",
        "set <<<[1, 1, 1], [1, 1, 1], 0>>> priority 0",
    ];
    assert_eq!(gpu.session.launched(), expected);
    assert_eq!(gpu.violations(), [""; 0]);
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
    let reports = gpu.violations();
    assert_eq!(reports.len(), 4, "{reports:?}");
    assert!(
        reports
            .iter()
            .all(|report| report.starts_with("invalid launch: ")),
        "{reports:?}"
    );
}

#[test]
fn cooperative_blocks_must_fit_at_once() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let launch = |blocks| {
        let (block, stream) = (gpu.memory(1024, 0), gpu.stream());
        let values = Values::new(&[block, 7]);
        let attribute = [Attribute::new(2, &[1])];
        let config = Config::new([blocks, 1, 1], stream, &attribute);
        gpu.call(
            "cuLaunchKernelEx",
            &[config.place(), kernels.set, values.list(), 0],
        )
    };
    // 32 blocks on each of 4 multiprocessors.
    assert_eq!(launch(128), 0);
    assert_eq!(launch(129), COOPERATIVE_LAUNCH_TOO_LARGE);
    gpu.assert_violation(&["129 cooperative blocks, but 128"]);
}

#[test]
fn unsupported_and_unknown_attributes_have_different_codes() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let launch = |id, word| launch_with(&gpu, &kernels, [1; 3], &[Attribute::new(id, &[word])]);
    assert_eq!(launch(7, 0), NOT_SUPPORTED);
    assert_eq!(launch(99, 0), INVALID_VALUE);
    assert_eq!(launch(5, 3), INVALID_VALUE);
    let reports = gpu.violations();
    let words = [
        "not modelled: launch attribute 7",
        "unknown attribute 99",
        "policy 3",
    ];
    let found = reports
        .iter()
        .zip(words)
        .all(|(report, word)| report.contains(word));
    assert!(found && reports.len() == 3, "{reports:?}");
}

#[test]
fn attributes_of_functions_can_be_set_and_queried() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let get = |number| gpu.make("cuFuncGetAttribute", &[number, kernels.set]);
    // Threads, shared memory, registers, PTX and binary version, dynamic shared memory, large clusters, policy.
    let before = [0, 1, 4, 5, 6, 8, 14, 15].map(get);
    assert_eq!(before, [1024, 0, 32, 90, 90, 48 << 10, 0, 0]);
    for (number, value) in [(8, 100 << 10), (14, 1), (15, 2), (9, 50)] {
        gpu.must("cuFuncSetAttribute", &[kernels.set, number, value]);
    }
    assert_eq!([8, 14, 15].map(get), [100 << 10, 1, 2]);
    for (number, value) in [(8, 228 << 10), (14, 2), (15, 3), (9, 101)] {
        let answer = gpu.call("cuFuncSetAttribute", &[kernels.set, number, value]);
        assert_eq!(answer, INVALID_VALUE, "{number}");
    }
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn occupancy_depends_on_threads_and_shared_memory() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let blocks = |threads, shared_bytes| {
        let arguments = [kernels.set, threads, shared_bytes];
        gpu.make("cuOccupancyMaxActiveBlocksPerMultiprocessor", &arguments)
    };
    let fits = [
        (1, 0),
        (64, 0),
        (256, 0),
        (1024, 0),
        (256, 100 << 10),
        (256, 300 << 10),
    ];
    assert_eq!(
        fits.map(|(threads, shared)| blocks(threads, shared)),
        [32, 32, 8, 2, 2, 0]
    );
    let clusters = |attributes: &[Attribute]| {
        let mut config = Config::new([16, 1, 1], 0, attributes);
        config.threads = [1024, 1, 1];
        let mut count = 0_u64;
        let place = &raw mut count as u64;
        let call = "cuOccupancyMaxActiveClusters";
        (gpu.call(call, &[place, kernels.set, config.place()]), count)
    };
    assert_eq!(clusters(&[cluster([4, 1, 1])]), (0, 2));
    assert_eq!(clusters(&[cluster([16, 1, 1])]), (INVALID_CLUSTER_SIZE, 0));
    assert_eq!(clusters(&[]), (INVALID_VALUE, 0));
    assert_eq!(gpu.violations().len(), 2);
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
    let arguments = [
        kernels.first,
        1,
        1,
        1,
        1,
        1,
        1,
        0,
        stream,
        list.as_ptr() as u64,
        0,
    ];
    gpu.session.hold(stream, true);
    gpu.must("cuLaunchKernel", &arguments);
    map = [0; 16];
    gpu.session.hold(stream, false);
    assert_eq!(
        (gpu.byte(block, stream), gpu.byte(block + 8, stream)),
        (1, 16)
    );
    assert_eq!((map, gpu.violations()), ([0; 16], vec![]));
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
