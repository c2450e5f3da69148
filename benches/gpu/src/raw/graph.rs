//! Graphs that are captured, launched and changed.

use super::{Gpu, Kernel, KernelNode, Parameters, Stream, THREADS, call};
use crate::error::BenchError;

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`
const THREAD_LOCAL: u32 = 1;

/// An instantiated graph, captured from a stream.
pub(crate) struct Graph<'a> {
    gpu: &'a Gpu,
    graph: u64,
    executable: u64,
    nodes: Vec<u64>,
}

impl<'a> Graph<'a> {
    /// Captures the work that `body` submits to the stream.
    pub(crate) fn capture(
        gpu: &'a Gpu,
        stream: &Stream<'_>,
        body: impl FnOnce() -> Result<(), BenchError>,
    ) -> Result<Self, BenchError> {
        call!(gpu, cuStreamBeginCapture_v2(stream.raw, THREAD_LOCAL))?;
        let submitted = body();
        let mut captured = Self {
            gpu,
            graph: 0,
            executable: 0,
            nodes: Vec::new(),
        };
        // Also ends the capture of a body that failed: a capturing stream cannot be used for anything else.
        call!(gpu, cuStreamEndCapture(stream.raw, &raw mut captured.graph))?;
        submitted?;
        let (graph, mut count) = (captured.graph, 0);
        call!(
            gpu,
            cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut count)
        )?;
        captured.nodes.resize(count, 0);
        call!(
            gpu,
            cuGraphGetNodes(graph, captured.nodes.as_mut_ptr(), &raw mut count)
        )?;
        call!(
            gpu,
            cuGraphInstantiateWithFlags(&raw mut captured.executable, graph, 0)
        )?;
        Ok(captured)
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
