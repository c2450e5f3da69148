//! Nodes that tests add to graphs.

use crate::kernels::Values;
use crate::raw::Gpu;

/// `CUDA_MEMSET_NODE_PARAMS`, as words: `bytes` bytes.
pub(crate) fn line(target: u64, value: u64, bytes: u64) -> [u64; 5] {
    rows(target, value, [bytes, 1, 0])
}

/// The same: `width` bytes in each of `height` rows, `pitch` bytes apart.
pub(crate) fn rows(target: u64, value: u64, [width, height, pitch]: [u64; 3]) -> [u64; 5] {
    let unit_bytes = 1;
    [target, pitch, value | unit_bytes << 32, width, height]
}

/// `CUDA_KERNEL_NODE_PARAMS_v2` with one block of one thread, as words.
pub(crate) fn kernel(function: u64, values: &Values) -> [u64; 9] {
    const ONES: u64 = 1 | 1 << 32;
    [function, ONES, ONES, ONES, 0, values.list(), 0, 0, 0]
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

    pub(crate) fn fill(&self, after: &[u64], fill: [u64; 5]) -> u64 {
        self.add("cuGraphAddMemsetNode", after, fill.as_ptr() as u64)
    }

    pub(crate) fn copy(&self, after: &[u64], target: u64, source: u64, bytes: u64) -> u64 {
        let words = copy(target, source, bytes);
        self.add("cuGraphAddMemcpyNode", after, words.as_ptr() as u64)
    }

    pub(crate) fn kernel(&self, after: &[u64], function: u64, values: &[u64]) -> u64 {
        let values = Values::new(values);
        let kernel = kernel(function, &values);
        self.add("cuGraphAddKernelNode_v2", after, kernel.as_ptr() as u64)
    }

    /// Returns the executable graph.
    pub(crate) fn instantiate(&self) -> u64 {
        self.gpu.make("cuGraphInstantiateWithFlags", &[self.raw, 0])
    }
}
