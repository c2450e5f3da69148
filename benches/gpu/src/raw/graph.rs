//! Graphs: captured, launched, changed.

use super::{Gpu, Kernel, KernelNode, Parameters, Stream, THREADS, call};
use crate::error::BenchError;

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`
const THREAD_LOCAL: u32 = 1;

/// What a stream was given while it was captured, ready to be launched.
pub(crate) struct Graph<'a> {
    gpu: &'a Gpu,
    graph: u64,
    executable: u64,
    nodes: Vec<u64>,
}

impl<'a> Graph<'a> {
    /// Captures what `body` gives to the stream.
    pub(crate) fn capture(
        gpu: &'a Gpu,
        stream: &Stream<'_>,
        body: impl FnOnce() -> Result<(), BenchError>,
    ) -> Result<Self, BenchError> {
        call!(gpu, cuStreamBeginCapture_v2(stream.raw, THREAD_LOCAL))?;
        let given = body();
        let mut made = Self {
            gpu,
            graph: 0,
            executable: 0,
            nodes: Vec::new(),
        };
        // Ended in any case: a stream in capture is of no use.
        call!(gpu, cuStreamEndCapture(stream.raw, &raw mut made.graph))?;
        given?;
        let (graph, mut count) = (made.graph, 0);
        call!(
            gpu,
            cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut count)
        )?;
        made.nodes.resize(count, 0);
        call!(
            gpu,
            cuGraphGetNodes(graph, made.nodes.as_mut_ptr(), &raw mut count)
        )?;
        call!(
            gpu,
            cuGraphInstantiateWithFlags(&raw mut made.executable, graph, 0)
        )?;
        Ok(made)
    }

    #[inline]
    pub(crate) fn launch(&self, stream: &Stream<'_>) -> Result<(), BenchError> {
        call!(self.gpu, cuGraphLaunch(self.executable, stream.raw))
    }

    /// Gives every node these parameters from the next launch on: a call each.
    pub(crate) fn change_all(
        &self,
        kernel: &Kernel<'_>,
        parameters: &mut Parameters,
    ) -> Result<(), BenchError> {
        let node = KernelNode {
            function: kernel.function,
            grid: [1; 3],
            block: [THREADS, 1, 1],
            shared: 0,
            parameters: parameters.list(),
            extra: std::ptr::null_mut(),
            kernel: 0,
            context: 0,
        };
        for place in &self.nodes {
            call!(
                self.gpu,
                cuGraphExecKernelNodeSetParams_v2(self.executable, *place, &raw const node)
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
