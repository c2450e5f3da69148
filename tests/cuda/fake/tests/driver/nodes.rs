//! Nodes that tests add to graphs, and queries of nodes.

use crate::kernels::{Kernels, Values};
use crate::raw::Gpu;

/// `CUDA_MEMSET_NODE_PARAMS`
#[repr(C)]
pub(crate) struct Fill {
    target: u64,
    pitch: u64,
    value: u32,
    unit_bytes: u32,
    width: u64,
    height: u64,
}

impl Fill {
    pub(crate) fn new(target: u64, value: u32, bytes: u64) -> Self {
        Self::rows(target, value, [bytes, 1, 0])
    }

    /// `width` bytes in each of `height` rows, `pitch` bytes apart.
    pub(crate) fn rows(target: u64, value: u32, [width, height, pitch]: [u64; 3]) -> Self {
        Self {
            target,
            pitch,
            value,
            unit_bytes: 1,
            width,
            height,
        }
    }
}

/// `CUDA_KERNEL_NODE_PARAMS_v2` with one block of one thread.
#[repr(C)]
pub(crate) struct Kernel {
    pub(crate) function: u64,
    cubes: [u32; 3],
    threads: [u32; 3],
    shared_bytes: u32,
    values: u64,
    rest: [u64; 3],
}

impl Kernel {
    pub(crate) fn new(function: u64, values: &Values) -> Self {
        Self {
            function,
            cubes: [1; 3],
            threads: [1; 3],
            shared_bytes: 0,
            values: values.list(),
            rest: [0; 3],
        }
    }

    pub(crate) fn place(&self) -> u64 {
        &raw const *self as u64
    }

    pub(crate) fn place_mut(&mut self) -> u64 {
        &raw mut *self as u64
    }

    /// Returns the pointers to its parameters.
    ///
    /// # Safety
    /// The kernel has `COUNT` parameters.
    pub(crate) unsafe fn values<const COUNT: usize>(&self) -> [*const u8; COUNT] {
        // SAFETY: the caller upholds the contract above.
        unsafe { *(self.values as *const [*const u8; COUNT]) }
    }
}

/// `CUDA_MEMCPY3D` as words. Each side has eleven; the fifth is its kind.
pub(crate) fn copy(
    target: (u64, u64),
    source: (u64, u64),
    [width, height, pitch]: [u64; 3],
) -> [u64; 25] {
    let mut words = [0; 25];
    for (at, (kind, address)) in [(0, source), (11, target)] {
        words[at + 4] = kind;
        // A unified address is in the field of GPU addresses.
        words[at + 4 + kind.min(2) as usize] = address;
        words[at + 9] = pitch;
    }
    words[22..].copy_from_slice(&[width, height, 1]);
    words
}

/// Adds a fill that depends on some nodes.
pub(crate) fn add(gpu: &Gpu, graph: u64, after: &[u64], fill: &Fill) -> u64 {
    let place = &raw const *fill as u64;
    let arguments = [graph, after.as_ptr() as u64, after.len() as u64, place, 0];
    gpu.make("cuGraphAddMemsetNode", &arguments)
}

pub(crate) fn fill_node(gpu: &Gpu, graph: u64, after: &[u64], target: u64) -> u64 {
    add(gpu, graph, after, &Fill::new(target, 1, 1))
}

pub(crate) fn kernel_node(gpu: &Gpu, graph: u64, function: u64, values: &Values) -> u64 {
    let kernel = Kernel::new(function, values);
    gpu.make("cuGraphAddKernelNode_v2", &[graph, 0, 0, kernel.place()])
}

#[test]
fn nodes_of_all_kinds_run_and_report_their_kind() {
    let gpu = Gpu::new(1);
    let kernels = Kernels::load(&gpu);
    let (block, pinned, stream) = (gpu.memory(64, 0), gpu.pinned(64), gpu.stream());
    // SAFETY: pinned memory that no operation uses now.
    unsafe { (pinned as *mut [u8; 64]).write(std::array::from_fn(|at| at as u8)) };
    let graph = gpu.make("cuGraphCreate", &[0]);
    // Two rows of four bytes, with a pitch of 16 bytes on the host and 8 bytes on the GPU.
    let mut words = copy((2, block), (1, pinned), [4, 2, 16]);
    words[20] = 8;
    let copies = gpu.make(
        "cuGraphAddMemcpyNode",
        &[graph, 0, 0, words.as_ptr() as u64, 0],
    );
    let fills = add(&gpu, graph, &[copies], &Fill::new(block, 7, 1));
    let empty = gpu.make("cuGraphAddEmptyNode", &[graph, &raw const fills as u64, 1]);
    let launches = kernel_node(&gpu, graph, kernels.set, &Values::new(&[block + 32, 5]));
    let kinds = [launches, copies, fills, empty].map(|node| {
        let mut kind = 7_u32;
        gpu.must("cuGraphNodeGetType", &[node, &raw mut kind as u64]);
        kind
    });
    assert_eq!(kinds, [0, 1, 2, 5]);
    let executable = gpu.make("cuGraphInstantiateWithFlags", &[graph, 0]);
    gpu.must("cuGraphLaunch", &[executable, stream]);
    let bytes = [0, 1, 4, 8, 11, 32].map(|at| gpu.byte(block + at, stream));
    assert_eq!(bytes, [7, 1, 0, 16, 19, 5]);
    // A copy of several rows cannot be updated.
    let set = |node, words: [u64; 25]| {
        gpu.call(
            "cuGraphExecMemcpyNodeSetParams",
            &[executable, node, words.as_ptr() as u64, 0],
        )
    };
    assert_eq!(set(copies, copy((2, block), (1, pinned), [4, 1, 0])), 1);
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn a_copy_of_one_row_can_be_updated() {
    let gpu = Gpu::new(1);
    let (from, other) = (gpu.memory(8, 1), gpu.memory(8, 2));
    let (to, stream) = (gpu.memory(8, 0), gpu.stream());
    let graph = gpu.make("cuGraphCreate", &[0]);
    let words = copy((2, to), (2, from), [8, 1, 0]);
    let node = gpu.make(
        "cuGraphAddMemcpyNode",
        &[graph, 0, 0, words.as_ptr() as u64, 0],
    );
    let executable = gpu.make("cuGraphInstantiateWithFlags", &[graph, 0]);
    let words = copy((4, to), (4, other), [8, 1, 0]);
    gpu.must(
        "cuGraphExecMemcpyNodeSetParams",
        &[executable, node, words.as_ptr() as u64, 0],
    );
    gpu.must("cuGraphLaunch", &[executable, stream]);
    assert_eq!(gpu.byte(to, stream), 2);
    assert_eq!(gpu.violations(), [""; 0]);
}

#[test]
fn graph_nodes_are_written_as_far_as_they_fit() {
    let gpu = Gpu::new(1);
    let block = gpu.memory(8, 0);
    let graph = gpu.make("cuGraphCreate", &[0]);
    let mut nodes: Vec<u64> = (0..3).map(|_| fill_node(&gpu, graph, &[], block)).collect();
    let nodes_of = |room: Option<usize>| {
        let (mut places, mut count) = ([7_u64; 5], room.unwrap_or(0));
        let list = room.map_or(0, |_| places.as_mut_ptr() as u64);
        gpu.must("cuGraphGetNodes", &[graph, list, &raw mut count as u64]);
        (count, places)
    };
    assert_eq!(nodes_of(None).0, 3);
    let (count, mut places) = nodes_of(Some(5));
    assert_eq!((count, places[3], places[4]), (3, 0, 0));
    places[..3].sort_unstable();
    nodes.sort_unstable();
    assert_eq!(places[..3], nodes);
    let (count, places) = nodes_of(Some(2));
    assert_eq!((count, places[2]), (2, 7));
    assert_eq!(gpu.violations(), [""; 0]);
}
