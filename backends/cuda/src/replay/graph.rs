//! A graph of the driver: the steps of a recording, in the order of its plan, launched by one call.
//!
//! It is built step by step and not captured: nothing here is refused because of what other threads call meanwhile,
//! and each step's node is known, so that a replay changes what has changed and nothing else.

use std::sync::Arc;

use cudarc::driver::sys::{
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMSET_NODE_PARAMS, CUdeviceptr, CUgraph,
    CUgraphExec, CUgraphNode, CUmemorytype, CUstream,
};
use millstream_protocol::hazard::order::Order;

use super::steps::{Action, Call, Steps};
use crate::driver::{Code, Context, GraphApi};
use crate::fill::Set;

/// A graph that can be launched, and what it does as it is now.
pub(crate) struct Graph {
    context: Arc<Context>,
    api: &'static GraphApi,
    raw: CUgraph,
    /// Null until it has been made.
    exec: CUgraphExec,
    /// One a step.
    nodes: Vec<CUgraphNode>,
    steps: Steps,
    /// Counts the graphs of the device.
    _counted: Arc<()>,
}

// SAFETY: the driver takes handles of graphs on any thread; one thread at a time has them here.
unsafe impl Send for Graph {}

impl Graph {
    /// Builds it, of steps that are not none, in the order of their tasks. The plan, which keeps what is launched, outlives it.
    pub(crate) fn new(
        context: Arc<Context>,
        api: &'static GraphApi,
        steps: Steps,
        order: &Order,
        counted: Arc<()>,
    ) -> Result<Self, Code> {
        let mut raw: CUgraph = std::ptr::null_mut();
        // SAFETY: the place for the answer is ours; no flags are the only flags there are.
        Code::check(unsafe { (api.create)(&raw mut raw, 0) })?;
        let mut made = Self {
            context,
            api,
            raw,
            exec: std::ptr::null_mut(),
            nodes: Vec::with_capacity(steps.list.len()),
            steps,
            _counted: counted,
        };
        made.build(order)?;
        Ok(made)
    }

    fn build(&mut self, order: &Order) -> Result<(), Code> {
        // The last nodes of each task, which what comes right behind it comes behind.
        let mut ends: Vec<Vec<CUgraphNode>> = Vec::with_capacity(order.len());
        for task in 0..order.len() {
            let behind = order.behind(task).iter();
            let behind = behind.flat_map(|other| &ends[*other as usize]).copied();
            let mut behind: Vec<CUgraphNode> = behind.collect();
            behind.sort_unstable();
            behind.dedup();
            let first = self.nodes.len();
            while self
                .steps
                .list
                .get(self.nodes.len())
                .is_some_and(|step| step.task == task)
            {
                let node = self.add(self.nodes.len(), &behind)?;
                self.nodes.push(node);
            }
            ends.push(match &self.nodes[first..] {
                // It does nothing, with these handles.
                [] => behind,
                own => own.to_vec(),
            });
        }
        // SAFETY: the graph lives, the place for the answer is ours.
        Code::check(unsafe { (self.api.instantiate)(&raw mut self.exec, self.raw, 0) })
    }

    /// Adds the node of a step behind these.
    fn add(&self, step: usize, behind: &[CUgraphNode]) -> Result<CUgraphNode, Code> {
        let mut node: CUgraphNode = std::ptr::null_mut();
        let (place, graph, context) = (&raw mut node, self.raw, self.context.raw());
        let (first, count) = (behind.as_ptr(), behind.len());
        // SAFETY: graph, nodes and context live; the structures are read during the call.
        let answer = unsafe {
            match &self.steps.list[step].action {
                Action::Launch(call) => {
                    let mut parameters = self.steps.parameters(call);
                    let node = kernel_node(call, parameters.as_mut_ptr());
                    (self.api.add_kernel)(place, graph, first, count, &raw const node)
                }
                Action::Copy { to, from, bytes } => {
                    let node = copy_node(*to, *from, *bytes);
                    (self.api.add_copy)(place, graph, first, count, &raw const node, context)
                }
                Action::Set(set) => {
                    let node = set_node(set);
                    (self.api.add_set)(place, graph, first, count, &raw const node, context)
                }
            }
        };
        Code::check(answer).map(|()| node)
    }

    /// Makes it do these steps, which have its shape, from the next launch on.
    pub(crate) fn change(&self, steps: &Steps) -> Result<(), Code> {
        for step in 0..steps.list.len() {
            if !steps.is_as_in(&self.steps, step) {
                self.set(steps, step)?;
            }
        }
        Ok(())
    }

    /// Remembers that it does these steps now, in exchange for those of before.
    pub(crate) fn changed(&mut self, steps: &mut Steps) {
        std::mem::swap(&mut self.steps, steps);
    }

    fn set(&self, steps: &Steps, step: usize) -> Result<(), Code> {
        let (exec, node, context) = (self.exec, self.nodes[step], self.context.raw());
        // SAFETY: as in `add`; a launch that is under way keeps what it was launched with.
        Code::check(unsafe {
            match &steps.list[step].action {
                Action::Launch(call) => {
                    let mut parameters = steps.parameters(call);
                    let params = kernel_node(call, parameters.as_mut_ptr());
                    (self.api.set_kernel)(exec, node, &raw const params)
                }
                Action::Copy { to, from, bytes } => {
                    let params = copy_node(*to, *from, *bytes);
                    (self.api.set_copy)(exec, node, &raw const params, context)
                }
                Action::Set(set) => {
                    let params = set_node(set);
                    (self.api.set_set)(exec, node, &raw const params, context)
                }
            }
        })
    }

    /// Are these the steps of this graph, with other values?
    pub(crate) fn fits(&self, steps: &Steps) -> bool {
        steps.have_the_shape_of(&self.steps)
    }

    /// Gives it to a stream.
    pub(crate) fn launch(&self, stream: CUstream) -> Result<(), Code> {
        // SAFETY: it was made, and what it touches is there (the steps say so).
        Code::check(unsafe { (self.api.launch)(self.exec, stream) })
    }
}

impl Drop for Graph {
    /// A launch that is under way ends all the same.
    fn drop(&mut self) {
        if !self.exec.is_null() {
            self.context.end("cuGraphExecDestroy", |_| {
                // SAFETY: made once, ended once.
                unsafe { (self.api.destroy_exec)(self.exec) }
            });
        }
        self.context.end("cuGraphDestroy", |_| {
            // SAFETY: as above.
            unsafe { (self.api.destroy)(self.raw) }
        });
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

fn set_node(set: &Set) -> CUDA_MEMSET_NODE_PARAMS {
    CUDA_MEMSET_NODE_PARAMS {
        dst: set.address,
        pitch: set.pitch,
        value: set.value,
        elementSize: set.element,
        width: set.width,
        height: set.height,
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
