//! Adds and updates the nodes of graphs. Parameters of kernels are copied during the call.

use crate::calls::graph::{known_executable, known_graph};
use crate::calls::launch::{LaunchRequest, Values, prepare};
use crate::calls::{In, Out, functions};
use crate::code::Code;
use crate::graph::{Node, Work};
use crate::operation::{Extras, Rows};
use crate::state::State;

/// `CU_MEMORYTYPE_DEVICE`
const DEVICE: u32 = 2;

/// `CUDA_KERNEL_NODE_PARAMS_v2`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelNode {
    function: u64,
    cubes: [u32; 3],
    threads: [u32; 3],
    shared_bytes: u32,
    values: *const *const u8,
    extra: u64,
    kernel: u64,
    context: u64,
}

/// One side of `CUDA_MEMCPY3D`
#[repr(C)]
#[derive(Clone, Copy)]
struct Side {
    x_bytes: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: u32,
    host: u64,
    device: u64,
    array: u64,
    reserved: u64,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CopyNode {
    source: Side,
    target: Side,
    width_bytes: usize,
    height: usize,
    depth: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct FillNode {
    target: u64,
    pitch: usize,
    value: u32,
    unit_bytes: u32,
    width: usize,
    height: usize,
}

impl KernelNode {
    fn work(&self, state: &mut State, call: &str) -> Result<Work, Code> {
        if self.extra != 0 || self.function == 0 {
            state.report(format!(
                "not modelled: {call} with `extra`, or with a `CUkernel`"
            ));
            return Err(Code::NOT_SUPPORTED);
        }
        let request = LaunchRequest {
            function: self.function,
            cubes: self.cubes,
            threads: self.threads,
            shared_bytes: self.shared_bytes,
            extras: Extras::default(),
        };
        prepare(state, call, request, &Values::new(self.values)).map(Work::Launch)
    }
}

impl CopyNode {
    /// Returns the bytes of a side of a copy of one row of GPU memory.
    fn line(&self, side: &Side) -> Option<Rows> {
        let offsets = [side.x_bytes, side.y, side.z, side.level];
        let is_line = (self.height, self.depth) == (1, 1) && offsets == [0; 4];
        (is_line && side.kind == DEVICE).then(|| Rows::line(side.device, self.width_bytes as u64))
    }

    fn work(&self, state: &mut State, call: &str) -> Result<Work, Code> {
        let (Some(target), Some(source)) = (self.line(&self.target), self.line(&self.source))
        else {
            state.report(format!(
                "not modelled: {call} of host memory, or of several rows"
            ));
            return Err(Code::NOT_SUPPORTED);
        };
        state.check_memory(call, target)?;
        state.check_memory(call, source)?;
        match target.bytes() {
            0 => Err(Code::INVALID_VALUE),
            _ => Ok(Work::Copy { target, source }),
        }
    }
}

impl FillNode {
    fn work(&self, state: &mut State, call: &str) -> Result<Work, Code> {
        let unit = match self.unit_bytes {
            bytes @ (1 | 2 | 4) => self.value.to_le_bytes()[..bytes as usize].to_vec(),
            _ => return Err(Code::INVALID_VALUE),
        };
        let width = self.width as u64 * u64::from(self.unit_bytes);
        let pitch = match self.height {
            0 | 1 => width,
            _ => self.pitch as u64,
        };
        let target = Rows {
            start: self.target,
            pitch,
            width,
            rows: self.height as u64,
        };
        if target.bytes() == 0 || pitch < width || !self.target.is_multiple_of(unit.len() as u64) {
            let call = state.this_call(call);
            state.report(format!(
                "invalid fill: {call} is empty, has a pitch shorter than its rows, or is not aligned to its unit"
            ));
            return Err(Code::INVALID_VALUE);
        }
        state.check_memory(call, target)?;
        Ok(Work::Fill { target, unit })
    }
}

fn known_node<'a>(state: &'a mut State, call: &str, node: u64) -> Result<&'a mut Node, Code> {
    if !state.graphs.nodes.contains_key(&node) {
        state.report(format!(
            "invalid handle: {call} receives {node:#x}, which is not a node, or its graph was destroyed"
        ));
    }
    state.graphs.nodes.get_mut(&node).ok_or(Code::INVALID_VALUE)
}

/// Checks that the nodes belong to the graph.
fn of_graph(state: &mut State, call: &str, graph: u64, nodes: &[u64]) -> Result<(), Code> {
    for node in nodes {
        if known_node(state, call, *node)?.graph != graph {
            let call = state.this_call(call);
            state.report(format!(
                "invalid graph: {call} receives a node of another graph"
            ));
            return Err(Code::INVALID_VALUE);
        }
    }
    Ok(())
}

/// The graph and the dependencies of a new node.
struct NewNode {
    out: Out<u64>,
    graph: u64,
    after: In<u64>,
    count: usize,
}

fn add(
    state: &mut State,
    call: &str,
    new: &NewNode,
    work: impl FnOnce(&mut State) -> Result<Work, Code>,
) -> Result<(), Code> {
    known_graph(state, call, new.graph)?;
    let after = new.after.list(new.count)?;
    of_graph(state, call, new.graph, &after)?;
    let twice = (1..after.len()).any(|index| after[..index].contains(&after[index]));
    if twice {
        return Err(Code::INVALID_VALUE);
    }
    let work = work(state)?;
    let node = state.handle();
    state.graphs.make_node(node, new.graph, work, after);
    new.out.put(node)
}

/// Updates the work of a node for later launches of an executable graph.
fn set(
    state: &mut State,
    call: &str,
    executable: u64,
    node: u64,
    work: impl FnOnce(&mut State) -> Result<Work, Code>,
) -> Result<(), Code> {
    known_executable(state, call, executable)?;
    known_node(state, call, node)?;
    let new = work(state)?;
    let mut nodes = known_executable(state, call, executable)?.nodes.iter_mut();
    let error = match nodes.find(|other| other.of == node) {
        Some(old) if old.work.may_become(&new) => {
            old.work = new;
            return Ok(());
        }
        Some(_) => "changes parameters that cannot be updated",
        None => "receives a node that is not in the executable graph",
    };
    let call = state.this_call(call);
    state.report(format!("invalid update: {call} {error}"));
    Err(Code::INVALID_VALUE)
}

functions! {
    cuGraphAddKernelNode_v2(
        out: Out<u64>, graph: u64, after: In<u64>, count: usize, node: In<KernelNode>,
    ) Context |state| {
        let call = "cuGraphAddKernelNode_v2";
        let (node, new) = (node.get()?, NewNode { out, graph, after, count });
        add(state, call, &new, |state| node.work(state, call))
    };
    cuGraphAddMemcpyNode(
        out: Out<u64>, graph: u64, after: In<u64>, count: usize, node: In<CopyNode>, _context: u64,
    ) Context |state| {
        let call = "cuGraphAddMemcpyNode";
        let (node, new) = (node.get()?, NewNode { out, graph, after, count });
        add(state, call, &new, |state| node.work(state, call))
    };
    cuGraphAddMemsetNode(
        out: Out<u64>, graph: u64, after: In<u64>, count: usize, node: In<FillNode>, _context: u64,
    ) Context |state| {
        let call = "cuGraphAddMemsetNode";
        let (node, new) = (node.get()?, NewNode { out, graph, after, count });
        add(state, call, &new, |state| node.work(state, call))
    };
    cuGraphExecKernelNodeSetParams_v2(executable: u64, node: u64, new: In<KernelNode>) Context |state| {
        let (call, new) = ("cuGraphExecKernelNodeSetParams_v2", new.get()?);
        set(state, call, executable, node, |state| new.work(state, call))
    };
    cuGraphExecMemcpyNodeSetParams(executable: u64, node: u64, new: In<CopyNode>, _context: u64) Context |state| {
        let (call, new) = ("cuGraphExecMemcpyNodeSetParams", new.get()?);
        set(state, call, executable, node, |state| new.work(state, call))
    };
    cuGraphExecMemsetNodeSetParams(executable: u64, node: u64, new: In<FillNode>, _context: u64) Context |state| {
        let (call, new) = ("cuGraphExecMemsetNodeSetParams", new.get()?);
        set(state, call, executable, node, |state| new.work(state, call))
    };
}
