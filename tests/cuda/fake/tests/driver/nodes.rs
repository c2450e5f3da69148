//! Nodes that tests add to graphs.

use crate::kernels::Values;
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
    function: u64,
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
}

/// `CUDA_MEMCPY3D` of a row of GPU memory, as words. Each side has eleven; the fifth is its kind, the seventh its address.
pub(crate) fn copy(target: u64, source: u64, bytes: u64) -> [u64; 25] {
    let mut words = [0; 25];
    for (at, address) in [(0, source), (11, target)] {
        words[at + 4] = 2;
        words[at + 6] = address;
    }
    words[22..].copy_from_slice(&[bytes, 1, 1]);
    words
}

/// A graph that a test builds.
pub(crate) struct Graph<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) raw: u64,
}

impl<'a> Graph<'a> {
    pub(crate) fn new(gpu: &'a Gpu) -> Self {
        let raw = gpu.make("cuGraphCreate", &[0]);
        Self { gpu, raw }
    }

    fn add(&self, call: &str, after: &[u64], parameters: u64) -> u64 {
        let (first, count) = (after.as_ptr() as u64, after.len() as u64);
        self.gpu
            .make(call, &[self.raw, first, count, parameters, 0])
    }

    pub(crate) fn fill(&self, after: &[u64], fill: &Fill) -> u64 {
        self.add("cuGraphAddMemsetNode", after, &raw const *fill as u64)
    }

    pub(crate) fn copy(&self, after: &[u64], target: u64, source: u64, bytes: u64) -> u64 {
        let words = copy(target, source, bytes);
        self.add("cuGraphAddMemcpyNode", after, words.as_ptr() as u64)
    }

    pub(crate) fn kernel(&self, after: &[u64], function: u64, values: &[u64]) -> u64 {
        let values = Values::new(values);
        let kernel = Kernel::new(function, &values);
        self.add("cuGraphAddKernelNode_v2", after, kernel.place())
    }

    /// Returns the executable graph.
    pub(crate) fn instantiate(&self) -> u64 {
        self.gpu.make("cuGraphInstantiateWithFlags", &[self.raw, 0])
    }
}
