//! Executable graphs: order, races, lifetimes and updates.

use crate::kernels::{Kernels, Values};
use crate::nodes::{Graph, copy, kernel, line, rows};
use crate::raw::Gpu;

const BYTES: u64 = 64;
const INVALID_VALUE: u32 = 1;
const INVALID_HANDLE: u32 = 400;

/// Returns an executable graph of one fill.
fn fill(gpu: &Gpu, block: u64) -> u64 {
    let graph = Graph::new(gpu);
    graph.fill(&[], line(block, 1, BYTES));
    graph.instantiate()
}

/// Returns an executable graph of one kernel.
fn launch(gpu: &Gpu, function: u64, values: &[u64]) -> u64 {
    let graph = Graph::new(gpu);
    graph.kernel(&[], function, values);
    graph.instantiate()
}

#[test]
fn nodes_without_an_edge_run_in_any_order_and_race() {
    let mut outcomes = [0; 2];
    for seed in 0..60 {
        let gpu = Gpu::new(seed);
        let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
        let graph = Graph::new(&gpu);
        graph.fill(&[], line(block, 1, BYTES));
        graph.fill(&[], line(block + 32, 2, 32));
        gpu.must("cuGraphLaunch", &[graph.instantiate(), stream]);
        outcomes[usize::from(gpu.byte(block + 32, stream)) - 1] += 1;
        gpu.assert_violation(&[
            "race: a fill (node ",
            "without a path of edges between the two",
        ]);
    }
    assert!(outcomes.iter().all(|times| *times > 5), "{outcomes:?}");
}

#[test]
fn edges_order_nodes_of_all_kinds_transitively() {
    for seed in 0..40 {
        let gpu = Gpu::new(seed);
        let kernels = Kernels::load(&gpu);
        let (block, other, stream) = (gpu.memory(BYTES, 0), gpu.memory(BYTES, 0), gpu.stream());
        let graph = Graph::new(&gpu);
        let fills = graph.fill(&[], line(block, 1, BYTES));
        let copies = graph.copy(&[fills], other, block, BYTES);
        let launches = graph.kernel(&[copies], kernels.set, &[other, 5]);
        graph.fill(&[launches], rows(block, 2, [8, 2, 32]));
        gpu.must("cuGraphLaunch", &[graph.instantiate(), stream]);
        let bytes = |start, places: [u64; 4]| places.map(|at| gpu.byte(start + at, stream));
        assert_eq!(bytes(block, [0, 8, 32, 40]), [2, 1, 2, 1]);
        assert_eq!(bytes(other, [0, 1, 4, 63]), [5, 0, 1, 1]);
        assert_eq!(gpu.session.graphs(), ["4 nodes, 3 edges, longest path 4"]);
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
        let executable = launch(&gpu, kernels.add, &[block, one]);
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
    gpu.must("cuGraphLaunch", &[fill(&gpu, block), stream]);
    gpu.must("cuGraphLaunch", &[fill(&gpu, block), other]);
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
    let (fills, launches) = (fill(&gpu, block), launch(&gpu, kernels.set, &[block, 7]));
    gpu.must("cuMemFree_v2", &[block]);
    assert_eq!(gpu.call("cuGraphLaunch", &[fills, stream]), INVALID_VALUE);
    // The accesses of a kernel are known only when it runs.
    gpu.must("cuGraphLaunch", &[launches, stream]);
    assert_eq!(gpu.call("cuStreamSynchronize", &[stream]), 700);
    gpu.assert_violations(&[
        "use after free: `cuGraphLaunch`",
        "use after free: kernel `set` (node 1 of graph 2 (step ",
    ]);
}

#[test]
fn a_module_is_unloaded_after_the_launches_of_its_graphs() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    let [executable, later] = [1, 2].map(|value| launch(&gpu, kernels.set, &[block, value]));
    gpu.session.hold(stream, true);
    gpu.must("cuGraphLaunch", &[executable, stream]);
    // Destroying the executable graph is valid: the launch in flight does not need it.
    gpu.must("cuGraphExecDestroy", &[executable]);
    gpu.must_wait_for(stream, "cuModuleUnload", &[kernels.module]);
    let answer = gpu.call("cuGraphLaunch", &[later, stream]);
    assert_eq!(answer, INVALID_HANDLE);
    gpu.assert_violations(&[
        "unloaded while in use: `cuModuleUnload`",
        "use after unload: `cuGraphLaunch`",
    ]);
}

#[test]
fn an_update_affects_later_launches_only() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let (one, two, stream) = (gpu.memory(BYTES, 0), gpu.memory(BYTES, 0), gpu.stream());
    let graph = Graph::new(&gpu);
    let launches = graph.kernel(&[], kernels.set, &[one, 5]);
    let copies = graph.copy(&[launches], one + 32, one, 4);
    let executable = graph.instantiate();
    gpu.session.hold(stream, true);
    gpu.must("cuGraphLaunch", &[executable, stream]);
    let values = Values::new(&[two, 6]);
    let kernel = kernel(kernels.set, &values);
    gpu.must(
        "cuGraphExecKernelNodeSetParams_v2",
        &[executable, launches, kernel.as_ptr() as u64],
    );
    let words = copy(two + 32, two, 4);
    gpu.must(
        "cuGraphExecMemcpyNodeSetParams",
        &[executable, copies, words.as_ptr() as u64, 0],
    );
    gpu.must("cuGraphLaunch", &[executable, stream]);
    drop(values);
    gpu.session.hold(stream, false);
    let bytes = [one, one + 32, two, two + 32].map(|at| gpu.byte(at, stream));
    assert_eq!(bytes, [5, 5, 6, 6]);
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn fills_can_be_updated_within_their_shape() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let (block, stream) = (gpu.memory(BYTES, 0), gpu.stream());
    let graph = Graph::new(&gpu);
    let node = graph.fill(&[], line(block, 1, 32));
    let several = graph.fill(&[node], rows(block + 32, 1, [8, 2, 16]));
    let kernel = graph.kernel(&[], kernels.set, &[block, 5]);
    let executable = graph.instantiate();
    let set = |node, fill: [u64; 5]| {
        let call = "cuGraphExecMemsetNodeSetParams";
        gpu.call(call, &[executable, node, fill.as_ptr() as u64, 0])
    };
    assert_eq!(
        set(node, line(block, 7, 4)),
        0,
        "the length of a single row can change"
    );
    assert_eq!(set(several, rows(block + 32, 9, [8, 2, 16])), 0);
    assert_eq!(set(several, rows(block + 32, 9, [4, 2, 16])), INVALID_VALUE);
    assert_eq!(set(kernel, line(block, 7, 4)), INVALID_VALUE);
    assert_eq!(set(node, line(block, 7, 0)), INVALID_VALUE);
    gpu.must("cuGraphDestroy", &[graph.raw]);
    assert_eq!(set(node, line(block, 7, 4)), INVALID_VALUE);
    assert_eq!(gpu.byte(block, stream), 0);
    gpu.assert_violations(&[
        "invalid update: ",
        "invalid update: ",
        "invalid fill: ",
        "invalid handle: ",
    ]);
}

#[test]
fn graphs_and_executable_graphs_that_are_not_destroyed_are_leaks() {
    let gpu = Gpu::new(1);
    let executable = Graph::new(&gpu).instantiate();
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
fn handles_of_destroyed_graphs_are_refused() {
    let gpu = Gpu::new(1);
    let stream = gpu.stream();
    let graph = Graph::new(&gpu).raw;
    gpu.must("cuGraphDestroy", &[graph]);
    let mut executable = 0_u64;
    let place = &raw mut executable as u64;
    let answer = gpu.call("cuGraphInstantiateWithFlags", &[place, graph, 0]);
    assert_eq!(answer, INVALID_VALUE);
    assert_eq!(gpu.call("cuGraphLaunch", &[graph, stream]), INVALID_VALUE);
    gpu.assert_violations(&["is not a graph", "is not an executable graph"]);
}
