//! A graph of the driver: the steps of a recording, ordered by its plan, launched by one call.
//!
//! The graph is built node by node, not captured: driver calls of other threads cannot invalidate it, and the node of
//! each step is known, so that a replay updates only the nodes that differ.

use std::sync::Arc;

use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUdeviceptr, CUgraph,
    CUgraphExec, CUgraphNode, CUmemorytype, CUstream,
};
use millstream_protocol::hazard::order::Order;

use super::steps::{Action, Call, Steps};
use crate::driver::{Code, Context, GraphApi};
use crate::fill::Memset;

/// An executable graph and its current steps.
pub(crate) struct Graph {
    context: Arc<Context>,
    api: &'static GraphApi,
    raw: CUgraph,
    /// Null until the graph is instantiated.
    exec: CUgraphExec,
    /// The node of each step.
    nodes: Vec<CUgraphNode>,
    steps: Steps,
    /// The clone that counts this graph in `Replays::graphs`.
    _counted: Arc<()>,
}

// SAFETY: the driver accepts graph handles on any thread, and one thread at a time uses this value.
unsafe impl Send for Graph {}

impl Graph {
    /// Builds and instantiates a graph of at least one step. `steps` are sorted by task; `order` is the plan's. The
    /// plan keeps the kernels alive and outlives the graph.
    pub(crate) fn new(
        context: Arc<Context>,
        api: &'static GraphApi,
        steps: Steps,
        order: &Order,
        counted: Arc<()>,
    ) -> Result<Self, Code> {
        let mut raw: CUgraph = std::ptr::null_mut();
        // SAFETY: the out pointer is valid; the flags must be 0.
        unsafe { api.create(&raw mut raw, 0) }?;
        let mut graph = Self {
            context,
            api,
            raw,
            exec: std::ptr::null_mut(),
            nodes: Vec::with_capacity(steps.list.len()),
            steps,
            _counted: counted,
        };
        graph.build(order)?;
        Ok(graph)
    }

    fn build(&mut self, order: &Order) -> Result<(), Code> {
        // The nodes of each task that its direct successors depend on.
        let mut ends: Vec<Vec<CUgraphNode>> = Vec::with_capacity(order.len());
        for task in 0..order.len() {
            let predecessors = order.predecessors(task).iter();
            let nodes = predecessors
                .flat_map(|other| &ends[*other as usize])
                .copied();
            let mut dependencies: Vec<CUgraphNode> = nodes.collect();
            dependencies.sort_unstable();
            dependencies.dedup();
            let first = self.nodes.len();
            while self
                .steps
                .list
                .get(self.nodes.len())
                .is_some_and(|step| step.task == task)
            {
                let node = self.add(self.nodes.len(), &dependencies)?;
                self.nodes.push(node);
            }
            ends.push(match &self.nodes[first..] {
                // A task without steps passes its dependencies on.
                [] => dependencies,
                own => own.to_vec(),
            });
        }
        // SAFETY: the graph is alive, and the out pointer is valid.
        unsafe { self.api.instantiate(&raw mut self.exec, self.raw, 0) }
    }

    /// Adds the node of a step, which depends on these nodes.
    fn add(&self, step: usize, dependencies: &[CUgraphNode]) -> Result<CUgraphNode, Code> {
        let mut node: CUgraphNode = std::ptr::null_mut();
        let (place, graph, context) = (&raw mut node, self.raw, self.context.raw);
        let (first, count) = (dependencies.as_ptr(), dependencies.len());
        // SAFETY: graph, nodes and context are alive; the structs are only read during the call.
        unsafe {
            match &self.steps.list[step].action {
                Action::Launch(call) => {
                    let mut parameters = self.steps.parameters(call);
                    let node = kernel_node(call, parameters.as_mut_ptr());
                    let node = &raw const node;
                    self.api.add_kernel(place, graph, first, count, node)
                }
                Action::Copy { to, from, bytes } => {
                    let node = copy_node(*to, *from, *bytes);
                    let node = &raw const node;
                    self.api.add_copy(place, graph, first, count, node, context)
                }
                Action::Memset(memset) => {
                    let node = memset_node(memset);
                    let node = &raw const node;
                    self.api
                        .add_memset(place, graph, first, count, node, context)
                }
            }
        }?;
        Ok(node)
    }

    /// Launches these steps on a stream: updates the nodes whose values differ from those of the last launch, which leaves
    /// launches in flight as they are, and keeps the steps in exchange for the last ones. Returns `false` if the steps have
    /// another shape than the graph.
    pub(crate) fn replay(&mut self, steps: &mut Steps, stream: CUstream) -> Result<bool, Code> {
        if !steps.have_shape_of(&self.steps) {
            return Ok(false);
        }
        for step in 0..steps.list.len() {
            if !steps.equal_at(&self.steps, step) {
                self.set(steps, step)?;
            }
        }
        self.launch(stream)?;
        std::mem::swap(&mut self.steps, steps);
        Ok(true)
    }

    fn set(&self, steps: &Steps, step: usize) -> Result<(), Code> {
        let (exec, node, context) = (self.exec, self.nodes[step], self.context.raw);
        // SAFETY: as in `add`; launches in flight keep their parameters.
        unsafe {
            match &steps.list[step].action {
                Action::Launch(call) => {
                    let mut parameters = steps.parameters(call);
                    let params = kernel_node(call, parameters.as_mut_ptr());
                    self.api.set_kernel(exec, node, &raw const params)
                }
                Action::Copy { to, from, bytes } => {
                    let params = copy_node(*to, *from, *bytes);
                    self.api.set_copy(exec, node, &raw const params, context)
                }
                Action::Memset(memset) => {
                    let params = memset_node(memset);
                    self.api.set_memset(exec, node, &raw const params, context)
                }
            }
        }
    }

    /// Launches the graph on a stream.
    pub(crate) fn launch(&self, stream: CUstream) -> Result<(), Code> {
        // SAFETY: the graph is instantiated, and the addresses of its steps were resolved for this replay.
        unsafe { self.api.launch(self.exec, stream) }
    }
}

impl Drop for Graph {
    /// Destroys the graph; the driver completes launches in flight.
    fn drop(&mut self) {
        if !self.exec.is_null() {
            // SAFETY: instantiated once, destroyed once.
            let destroy = |_: &_| unsafe { self.api.destroy_exec(self.exec) };
            self.context.destroy(destroy);
        }
        // SAFETY: as above.
        let destroy = |_: &_| unsafe { self.api.destroy(self.raw) };
        self.context.destroy(destroy);
    }
}

fn kernel_node(call: &Call, parameters: *mut *mut std::ffi::c_void) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        func: call.shape.function,
        gridDimX: call.shape.cubes[0],
        gridDimY: call.shape.cubes[1],
        gridDimZ: call.shape.cubes[2],
        blockDimX: call.shape.threads[0],
        blockDimY: call.shape.threads[1],
        blockDimZ: call.shape.threads[2],
        sharedMemBytes: call.shape.shared_bytes,
        kernelParams: parameters,
        extra: std::ptr::null_mut(),
        kern: std::ptr::null_mut(),
        ctx: std::ptr::null_mut(),
    }
}

fn memset_node(memset: &Memset) -> CUDA_MEMSET_NODE_PARAMS {
    CUDA_MEMSET_NODE_PARAMS {
        dst: memset.address,
        pitch: memset.pitch,
        value: memset.value,
        elementSize: memset.element,
        width: memset.width,
        height: memset.height,
    }
}

fn copy_node(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) -> CUDA_MEMCPY3D {
    let null = std::ptr::null_mut();
    CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        srcHost: null,
        srcDevice: from,
        srcArray: std::ptr::null_mut(),
        reserved0: null,
        srcPitch: 0,
        srcHeight: 0,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
        dstHost: null,
        dstDevice: to,
        dstArray: std::ptr::null_mut(),
        reserved1: null,
        dstPitch: 0,
        dstHeight: 0,
        WidthInBytes: bytes,
        Height: 1,
        Depth: 1,
    }
}
