//! Graphs that are built from kernels, launched and changed.

use super::{Gpu, Kernel, KernelNode, Parameters, Stream, THREADS, call};
use crate::error::BenchError;

/// An instantiated graph of launches of one kernel.
pub(crate) struct Graph<'a> {
    gpu: &'a Gpu,
    graph: u64,
    executable: u64,
    nodes: Vec<u64>,
}

/// The launch of a kernel as a node.
fn node(kernel: &Kernel<'_>, parameters: &mut Parameters) -> KernelNode {
    KernelNode {
        function: kernel.function,
        grid: [1; 3],
        block: [THREADS, 1, 1],
        shared: 0,
        parameters: parameters.list(),
        extra: std::ptr::null_mut(),
        kernel: 0,
        context: 0,
    }
}

impl<'a> Graph<'a> {
    /// Instantiates a graph of `count` launches, each of which depends on the one before.
    pub(crate) fn new(
        gpu: &'a Gpu,
        kernel: &Kernel<'_>,
        parameters: &mut Parameters,
        count: usize,
    ) -> Result<Self, BenchError> {
        let mut graph = Self {
            gpu,
            graph: 0,
            executable: 0,
            nodes: Vec::with_capacity(count),
        };
        call!(gpu, cuGraphCreate(&raw mut graph.graph, 0))?;
        let node = node(kernel, parameters);
        for _ in 0..count {
            let before = graph.nodes.last().copied();
            let (first, before_count) = (before.as_slice().as_ptr(), before.iter().len());
            let (raw, mut added) = (graph.graph, 0);
            call!(
                gpu,
                cuGraphAddKernelNode_v2(&raw mut added, raw, first, before_count, &raw const node)
            )?;
            graph.nodes.push(added);
        }
        let raw = graph.graph;
        call!(
            gpu,
            cuGraphInstantiateWithFlags(&raw mut graph.executable, raw, 0)
        )?;
        Ok(graph)
    }

    #[inline]
    pub(crate) fn launch(&self, stream: &Stream<'_>) -> Result<(), BenchError> {
        call!(self.gpu, cuGraphLaunch(self.executable, stream.raw))
    }

    /// Sets the parameters of every node for the following launches, by one call each.
    pub(crate) fn change_all(
        &self,
        kernel: &Kernel<'_>,
        parameters: &mut Parameters,
    ) -> Result<(), BenchError> {
        let node = node(kernel, parameters);
        for handle in &self.nodes {
            call!(
                self.gpu,
                cuGraphExecKernelNodeSetParams_v2(self.executable, *handle, &raw const node)
            )?;
        }
        Ok(())
    }
}

impl Drop for Graph<'_> {
    fn drop(&mut self) {
        if self.executable != 0 {
            let _ = call!(self.gpu, cuGraphExecDestroy(self.executable));
        }
        if self.graph != 0 {
            let _ = call!(self.gpu, cuGraphDestroy(self.graph));
        }
    }
}
