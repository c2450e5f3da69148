//! Adds and updates the nodes of graphs. Parameters of kernels are copied during the call.

use crate::calls::copy::DEVICE;
use crate::calls::launch::{LaunchRequest, prepare};
use crate::calls::{In, Out, functions};
use crate::code::Code;
use crate::operation::{Extras, Operation, Rows};
use crate::state::State;

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

/// The parameters of a node.
trait Parameters: Copy {
    fn work(&self, state: &mut State) -> Result<Operation, Code>;
}

impl Parameters for KernelNode {
    fn work(&self, state: &mut State) -> Result<Operation, Code> {
        if self.extra != 0 || self.function == 0 {
            let report = format!(
                "not modelled: {} with `extra`, or with a `CUkernel`",
                state.call
            );
            return Err(state.refuse(Code::NOT_SUPPORTED, report));
        }
        let request = LaunchRequest {
            function: self.function,
            cubes: self.cubes,
            threads: self.threads,
            shared_bytes: self.shared_bytes,
            extras: Extras::default(),
        };
        prepare(state, request, &In(self.values)).map(Operation::Launch)
    }
}

impl CopyNode {
    /// Returns the bytes of a side of a copy of one row of GPU memory.
    fn line(&self, side: &Side) -> Option<Rows> {
        let offsets = [side.x_bytes, side.y, side.z, side.level];
        let is_line = (self.height, self.depth) == (1, 1) && offsets == [0; 4];
        (is_line && side.kind == DEVICE).then(|| Rows::line(side.device, self.width_bytes as u64))
    }
}

impl Parameters for CopyNode {
    fn work(&self, state: &mut State) -> Result<Operation, Code> {
        let (Some(target), Some(source)) = (self.line(&self.target), self.line(&self.source))
        else {
            let report = format!(
                "not modelled: {} of host memory, or of several rows",
                state.call
            );
            return Err(state.refuse(Code::NOT_SUPPORTED, report));
        };
        state.check_memory(target)?;
        state.check_memory(source)?;
        match target.bytes() {
            0 => Err(Code::INVALID_VALUE),
            _ => Ok(Operation::Copy { target, source }),
        }
    }
}

impl Parameters for FillNode {
    fn work(&self, state: &mut State) -> Result<Operation, Code> {
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
            let call = state.this_call();
            let report = format!(
                "invalid fill: {call} is empty, has a pitch shorter than its rows, or is not aligned to its unit"
            );
            return Err(state.refuse(Code::INVALID_VALUE, report));
        }
        state.check_memory(target)?;
        Ok(Operation::Fill { target, unit })
    }
}

/// Adds a node to a graph, after `count` others of it.
fn add<P: Parameters>(
    state: &mut State,
    out: &Out<u64>,
    graph: u64,
    (after, count): (In<u64>, usize),
    node: &In<P>,
) -> Result<(), Code> {
    let node = node.get()?;
    state.graph(graph)?;
    let after = after.list(count)?;
    for before in &after {
        if state.node(*before)?.graph != graph {
            let call = state.this_call();
            let report = format!("invalid graph: {call} receives a node of another graph");
            return Err(state.refuse(Code::INVALID_VALUE, report));
        }
    }
    let twice = (1..after.len()).any(|index| after[..index].contains(&after[index]));
    if twice {
        return Err(Code::INVALID_VALUE);
    }
    let work = node.work(state)?;
    let handle = state.handle();
    state.graphs.make_node(handle, graph, work, after);
    out.put(handle)
}

/// Updates the work of a node for later launches of an executable graph.
fn set<P: Parameters>(
    state: &mut State,
    executable: u64,
    node: u64,
    new: &In<P>,
) -> Result<(), Code> {
    let new = new.get()?;
    state.executable(executable)?;
    state.node(node)?;
    let new = new.work(state)?;
    let mut nodes = state.executable(executable)?.nodes.iter_mut();
    let error = match nodes.find(|other| other.of == node) {
        Some(old) if old.operation.may_become(&new) => {
            old.operation = new;
            return Ok(());
        }
        Some(_) => "changes parameters that cannot be updated",
        None => "receives a node that is not in the executable graph",
    };
    let call = state.this_call();
    Err(state.refuse(
        Code::INVALID_VALUE,
        format!("invalid update: {call} {error}"),
    ))
}

functions! {
    cuGraphAddKernelNode_v2(
        out: Out<u64>, graph: u64, after: In<u64>, count: usize, node: In<KernelNode>,
    ) Context |state| add(state, &out, graph, (after, count), &node);
    cuGraphAddMemcpyNode(
        out: Out<u64>, graph: u64, after: In<u64>, count: usize, node: In<CopyNode>, _context: u64,
    ) Context |state| add(state, &out, graph, (after, count), &node);
    cuGraphAddMemsetNode(
        out: Out<u64>, graph: u64, after: In<u64>, count: usize, node: In<FillNode>, _context: u64,
    ) Context |state| add(state, &out, graph, (after, count), &node);
    cuGraphExecKernelNodeSetParams_v2(executable: u64, node: u64, new: In<KernelNode>) Context |state| {
        set(state, executable, node, &new)
    };
    cuGraphExecMemcpyNodeSetParams(executable: u64, node: u64, new: In<CopyNode>, _context: u64) Context |state| {
        set(state, executable, node, &new)
    };
    cuGraphExecMemsetNodeSetParams(executable: u64, node: u64, new: In<FillNode>, _context: u64) Context |state| {
        set(state, executable, node, &new)
    };
}
