//! Executable graphs: order, races, lifetimes and updates.

use crate::kernels::{Kernels, Values, launch};
use crate::nodes::{Fill, Kernel, add, fill_node, kernel_node};
use crate::raw::Gpu;

const BYTES: u64 = 64;
const INVALID_VALUE: u32 = 1;
const INVALID_HANDLE: u32 = 400;
const UPDATE_FAILURE: u32 = 910;

#[test]
fn nodes_without_an_edge_run_in_any_order_and_race() {
    let mut outcomes = [0; 2];
    for seed in 0..60 {
        let gpu = Gpu::new(seed);
        let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
        let graph = gpu.make("cuGraphCreate", &[0]);
        add(&gpu, graph, &[], &Fill::new(block, 1, BYTES));
        add(&gpu, graph, &[], &Fill::new(block + 32, 2, 32));
        let executable = gpu.make("cuGraphInstantiateWithFlags", &[graph, 0]);
        gpu.must("cuGraphLaunch", &[executable, stream]);
        outcomes[usize::from(gpu.byte(block + 32, stream)) - 1] += 1;
        gpu.assert_violation(&[
            "race: a fill (node ",
            "without a path of edges between the two",
        ]);
    }
    assert!(outcomes.iter().all(|times| *times > 5), "{outcomes:?}");
}

#[test]
fn edges_order_transitively() {
    for seed in 0..40 {
        let gpu = Gpu::new(seed);
        let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
        let graph = gpu.make("cuGraphCreate", &[0]);
        let last = add(&gpu, graph, &[], &Fill::new(block, 2, 32));
        let first = add(&gpu, graph, &[], &Fill::new(block, 1, BYTES));
        let between = gpu.make("cuGraphAddEmptyNode", &[graph, &raw const first as u64, 1]);
        let (from, to) = (&raw const between as u64, &raw const last as u64);
        gpu.must("cuGraphAddDependencies_v2", &[graph, from, to, 0, 1]);
        let executable = gpu.make("cuGraphInstantiateWithFlags", &[graph, 0]);
        gpu.must("cuGraphUpload", &[executable, stream]);
        gpu.must("cuGraphLaunch", &[executable, stream]);
        assert_eq!([0, 32].map(|at| gpu.byte(block + at, stream)), [2, 1]);
        assert_eq!(gpu.violations(), [""; 0], "seed {seed}");
    }
}

#[test]
fn launches_of_one_executable_graph_are_ordered() {
    for seed in 0..40 {
        let gpu = Gpu::new(seed);
        let kernels = Kernels::load(&gpu);
        let (block, one) = (gpu.memory(BYTES, 0), gpu.memory(BYTES, 1));
        let (stream, other) = (gpu.stream(), gpu.stream());
        let (_, executable) = gpu.captured(stream, || {
            assert_eq!(launch(&gpu, kernels.add, stream, &[block, one]), 0);
        });
        // The launches are in different streams.
        gpu.must("cuGraphLaunch", &[executable, stream]);
        gpu.must("cuGraphLaunch", &[executable, other]);
        assert_eq!(gpu.byte(block, other), 2, "seed {seed}");
        assert_eq!(gpu.violations(), [""; 0], "seed {seed}");
    }
}

#[test]
fn launches_of_two_graphs_in_two_streams_race() {
    let gpu = Gpu::new(1);
    let (block, stream, other) = (gpu.memory(BYTES, 0), gpu.stream(), gpu.stream());
    let fill = || {
        let (_, executable) = gpu.captured(stream, || {
            gpu.must("cuMemsetD8Async", &[block, 1, BYTES, stream]);
        });
        executable
    };
    let (one, two) = (fill(), fill());
    gpu.must("cuGraphLaunch", &[one, stream]);
    gpu.must("cuGraphLaunch", &[two, other]);
    gpu.assert_violation(&[
        "race: a fill (node 1 of graph ",
        "without an order between the two",
    ]);
}

#[test]
fn freed_memory_is_found_at_the_launch_of_a_graph() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    let (_, fills) = gpu.captured(stream, || {
        gpu.must("cuMemsetD8Async", &[block, 1, BYTES, stream]);
    });
    let (_, launches) = gpu.captured(stream, || {
        assert_eq!(launch(&gpu, kernels.set, stream, &[block, 7]), 0);
    });
    gpu.must("cuMemFree_v2", &[block]);
    assert_eq!(gpu.call("cuGraphLaunch", &[fills, stream]), INVALID_VALUE);
    // The accesses of a kernel are known only when it runs.
    gpu.must("cuGraphLaunch", &[launches, stream]);
    assert_eq!(gpu.call("cuStreamSynchronize", &[stream]), 700);
    let reports = gpu.violations();
    let words = [
        "use after free: `cuGraphLaunch`",
        "use after free: kernel `set` (node 1 of graph 2 (step ",
    ];
    let found = reports
        .iter()
        .zip(words)
        .all(|(report, word)| report.contains(word));
    assert!(found && reports.len() == 2, "{reports:?}");
}

#[test]
fn an_unloaded_module_is_found_at_the_launch_of_a_graph() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    let (_, executable) = gpu.captured(stream, || {
        assert_eq!(launch(&gpu, kernels.set, stream, &[block, 7]), 0);
    });
    gpu.must("cuModuleUnload", &[kernels.module]);
    assert_eq!(
        gpu.call("cuGraphLaunch", &[executable, stream]),
        INVALID_HANDLE
    );
    gpu.assert_violation(&[
        "use after unload: `cuGraphLaunch`",
        "`set`, whose module was unloaded",
    ]);
}

#[test]
fn unloading_a_module_before_its_graph_has_run_is_found() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    let (_, executable) = gpu.captured(stream, || {
        assert_eq!(launch(&gpu, kernels.set, stream, &[block, 7]), 0);
    });
    gpu.session.hold(stream, true);
    gpu.must("cuGraphLaunch", &[executable, stream]);
    // Destroying the executable graph is valid: the launch in flight does not need it.
    gpu.must("cuGraphExecDestroy", &[executable]);
    gpu.must_wait_for(stream, "cuModuleUnload", &[kernels.module]);
    gpu.assert_violation(&["unloaded while in use: ", "`set`"]);
}

#[test]
fn pinned_bytes_that_change_before_their_copy_in_a_graph_are_found() {
    let gpu = Gpu::new(1);
    let (block, pinned, stream) = (gpu.memory(BYTES, 0), gpu.pinned(BYTES), gpu.stream());
    let (_, executable) = gpu.captured(stream, || {
        gpu.must("cuMemcpyHtoDAsync_v2", &[block, pinned, BYTES, stream]);
    });
    gpu.session.hold(stream, true);
    gpu.must("cuGraphLaunch", &[executable, stream]);
    // SAFETY: the block has this many bytes, and only the queued copy uses it as well.
    unsafe { (pinned as *mut u8).write(1) };
    gpu.session.hold(stream, false);
    gpu.must("cuStreamSynchronize", &[stream]);
    gpu.assert_violation(&["race: the pinned bytes", "were changed after the call"]);
}

#[test]
fn a_graph_may_read_pinned_bytes_that_it_writes_later() {
    for seed in 0..20 {
        let gpu = Gpu::new(seed);
        let (block, pinned, stream) = (gpu.memory(BYTES, 0), gpu.pinned(BYTES), gpu.stream());
        let (_, executable) = gpu.captured(stream, || {
            gpu.must("cuMemcpyHtoDAsync_v2", &[block, pinned, BYTES, stream]);
            gpu.must("cuMemsetD8Async", &[block, 9, 1, stream]);
            gpu.must("cuMemcpyDtoHAsync_v2", &[pinned, block, BYTES, stream]);
        });
        // SAFETY: pinned memory that no operation uses now.
        unsafe { (pinned as *mut u8).write_bytes(5, BYTES as usize) };
        gpu.must("cuGraphLaunch", &[executable, stream]);
        gpu.must("cuStreamSynchronize", &[stream]);
        // SAFETY: as above; the copy to it is complete.
        let copied = unsafe { *(pinned as *const [u8; 2]) };
        assert_eq!((copied, gpu.violations()), ([9, 5], vec![]), "seed {seed}");
    }
}

#[test]
fn an_update_affects_later_launches_only() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let (one, two, stream) = (gpu.memory(BYTES, 0), gpu.memory(BYTES, 0), gpu.stream());
    let graph = gpu.make("cuGraphCreate", &[0]);
    let node = kernel_node(&gpu, graph, kernels.set, &Values::new(&[one, 5]));
    let executable = gpu.make("cuGraphInstantiateWithFlags", &[graph, 0]);
    gpu.session.hold(stream, true);
    gpu.must("cuGraphLaunch", &[executable, stream]);
    let values = Values::new(&[two, 6]);
    let kernel = Kernel::new(kernels.set, &values);
    gpu.must(
        "cuGraphExecKernelNodeSetParams_v2",
        &[executable, node, kernel.place()],
    );
    gpu.must("cuGraphLaunch", &[executable, stream]);
    drop(values);
    gpu.session.hold(stream, false);
    assert_eq!((gpu.byte(one, stream), gpu.byte(two, stream)), (5, 6));
    // The node of the graph is unchanged.
    let mut params = Kernel::new(0, &Values::new(&[]));
    gpu.must("cuGraphKernelNodeGetParams_v2", &[node, params.place_mut()]);
    // SAFETY: the node owns two parameters: an address and a word.
    let value = unsafe { params.values::<2>().map(|place| place.cast::<u32>().read()) };
    assert_eq!((params.function, value), (kernels.set, [one as u32, 5]));
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn fills_can_be_updated_within_their_shape() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    let graph = gpu.make("cuGraphCreate", &[0]);
    let node = add(&gpu, graph, &[], &Fill::new(block, 1, 32));
    let rows = add(&gpu, graph, &[node], &Fill::rows(block + 32, 1, [8, 2, 16]));
    let kernel = kernel_node(&gpu, graph, kernels.set, &Values::new(&[block, 5]));
    let executable = gpu.make("cuGraphInstantiateWithFlags", &[graph, 0]);
    let set = |node, fill: &Fill| {
        let call = "cuGraphExecMemsetNodeSetParams";
        gpu.call(call, &[executable, node, &raw const *fill as u64, 0])
    };
    assert_eq!(
        set(node, &Fill::new(block, 7, 4)),
        0,
        "the length of a single row can change"
    );
    assert_eq!(set(rows, &Fill::rows(block + 32, 9, [8, 2, 16])), 0);
    assert_eq!(
        set(rows, &Fill::rows(block + 32, 9, [4, 2, 16])),
        INVALID_VALUE
    );
    assert_eq!(set(kernel, &Fill::new(block, 7, 4)), INVALID_VALUE);
    assert_eq!(set(node, &Fill::new(block, 7, 0)), INVALID_VALUE);
    gpu.must("cuGraphDestroy", &[graph]);
    assert_eq!(set(node, &Fill::new(block, 7, 4)), INVALID_VALUE);
    assert_eq!(gpu.byte(block, stream), 0);
    let reports = gpu.violations();
    let starts = [
        "invalid update: ",
        "invalid update: ",
        "invalid fill: ",
        "invalid handle: ",
    ];
    let found = reports
        .iter()
        .zip(starts)
        .all(|(report, start)| report.starts_with(start));
    assert!(found && reports.len() == 4, "{reports:?}");
}

#[test]
fn a_graph_updates_an_executable_graph_of_the_same_shape() {
    let gpu = Gpu::new(1);
    let (block, stream, other) = (gpu.memory(BYTES, 0), gpu.stream(), gpu.stream());
    let fill = |value, twice| {
        gpu.captured(stream, || {
            gpu.must("cuMemsetD8Async", &[block, value, BYTES, stream]);
            if twice {
                gpu.must("cuMemsetD8Async", &[block, value, 4, stream]);
            }
        })
    };
    let ((_, executable), (new, _), (longer, _)) = (fill(1, false), fill(2, false), fill(3, true));
    let (copies, _) = gpu.captured(other, || {
        gpu.must("cuMemcpyDtoDAsync_v2", &[block, block + 32, 4, other]);
    });
    let update = |graph| {
        let mut info = [7_u64; 3];
        let answer = gpu.call(
            "cuGraphExecUpdate_v2",
            &[executable, graph, info.as_mut_ptr() as u64],
        );
        (answer, info[0] as u32, info[1] != 0)
    };
    assert_eq!(update(new), (0, 0, false));
    assert_eq!(
        update(longer),
        (UPDATE_FAILURE, 2, false),
        "another topology"
    );
    assert_eq!(update(copies), (UPDATE_FAILURE, 3, true), "another type");
    gpu.must("cuGraphLaunch", &[executable, stream]);
    assert_eq!(gpu.byte(block, stream), 2);
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn graphs_and_executable_graphs_that_are_not_destroyed_are_leaks() {
    let gpu = Gpu::new(1);
    let graph = gpu.make("cuGraphCreate", &[0]);
    let executable = gpu.make("cuGraphInstantiateWithFlags", &[graph, 0]);
    let reports = gpu.session.reports();
    assert!(reports.is_empty(), "{reports:?}");
    gpu.must("cuGraphLaunch", &[executable, gpu.stream()]);
    let reports = gpu.session.end();
    for leak in ["1 graphs were never", "1 executable graphs were never"] {
        assert!(
            reports.iter().any(|report| report.contains(leak)),
            "{reports:?}"
        );
    }
}

#[test]
fn cycles_and_destroyed_handles_are_refused() {
    let gpu = Gpu::new(1);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    let graph = gpu.make("cuGraphCreate", &[0]);
    let one = fill_node(&gpu, graph, &[], block);
    let two = fill_node(&gpu, graph, &[one], block);
    let (from, to) = (&raw const two as u64, &raw const one as u64);
    assert_eq!(
        gpu.call("cuGraphAddDependencies_v2", &[graph, to, from, 0, 1]),
        INVALID_VALUE,
        "the edge exists"
    );
    gpu.must("cuGraphAddDependencies_v2", &[graph, from, to, 0, 1]);
    let mut executable = 0_u64;
    let place = &raw mut executable as u64;
    assert_eq!(
        gpu.call("cuGraphInstantiateWithFlags", &[place, graph, 0]),
        INVALID_VALUE
    );
    gpu.must("cuGraphDestroy", &[graph]);
    assert_eq!(
        gpu.call("cuGraphInstantiateWithFlags", &[place, graph, 0]),
        INVALID_VALUE
    );
    assert_eq!(gpu.call("cuGraphLaunch", &[graph, stream]), INVALID_VALUE);
    let reports = gpu.violations();
    let words = [
        "invalid edge: ",
        "has a cycle",
        "is not a graph",
        "is not an executable graph",
    ];
    let found = reports
        .iter()
        .zip(words)
        .all(|(report, word)| report.contains(word));
    assert!(found && reports.len() == 4, "{reports:?}");
}
