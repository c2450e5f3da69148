//! Adds, connects, queries and updates the nodes of graphs. Parameters of kernels are copied during the call.

use crate::calls::graph::{known_executable, known_graph};
use crate::calls::launch::{LaunchRequest, Values, prepare};
use crate::calls::{In, Out, functions};
use crate::code::Code;
use crate::graph::{CopyEnd, Node, Work};
use crate::operation::{Extras, Rows};
use crate::state::State;

/// `CU_MEMORYTYPE_HOST`
const HOST: u32 = 1;
/// `CU_MEMORYTYPE_DEVICE`
const DEVICE: u32 = 2;
/// `CU_MEMORYTYPE_UNIFIED`: the address determines the kind.
const UNIFIED: u32 = 4;

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
    fn work(&self, state: &mut State, call: &str, extras: Extras) -> Result<Work, Code> {
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
            extras,
        };
        prepare(state, call, request, &Values::new(self.values)).map(Work::Launch)
    }
}

impl CopyNode {
    fn copy_end(&self, state: &mut State, side: &Side) -> Option<CopyEnd> {
        let (base, is_host) = match side.kind {
            HOST => (side.host, true),
            DEVICE => (side.device, false),
            UNIFIED => (side.device, state.memory.is_pinned(side.device)),
            _ => return None,
        };
        let is_flat = self.depth == 1 && side.level == 0 && side.z == 0;
        let fits = self.height <= 1 || side.pitch >= side.x_bytes + self.width_bytes;
        let start = base + (side.y * side.pitch + side.x_bytes) as u64;
        let pitch = match self.height {
            0 | 1 => self.width_bytes,
            _ => side.pitch,
        };
        let rows = Rows {
            start,
            pitch: pitch as u64,
            width: self.width_bytes as u64,
            rows: self.height as u64,
        };
        (is_flat && fits).then_some(CopyEnd { rows, is_host })
    }

    fn work(&self, state: &mut State, call: &str) -> Result<Work, Code> {
        let ends = (
            self.copy_end(state, &self.target),
            self.copy_end(state, &self.source),
        );
        let (Some(target), Some(source)) = ends else {
            let call = state.this_call(call);
            state.report(format!(
                "invalid copy: {call} has a pitch shorter than its rows, or a kind or depth that is not modelled"
            ));
            return Err(Code::INVALID_VALUE);
        };
        for end in [target, source] {
            if end.is_host && !state.memory.is_pinned(end.rows.start) {
                state.report(format!("not modelled: {call} of pageable memory"));
                return Err(Code::NOT_SUPPORTED);
            }
            state.check_memory(call, end.rows)?;
        }
        if target.is_host && source.is_host {
            state.report(format!("not modelled: {call} from host to host"));
            return Err(Code::NOT_SUPPORTED);
        }
        match target.rows.bytes() {
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

fn add_edges(state: &mut State, graph: u64, from: &[u64], to: &[u64]) -> Result<(), Code> {
    let call = "cuGraphAddDependencies_v2";
    known_graph(state, call, graph)?;
    of_graph(state, call, graph, from)?;
    of_graph(state, call, graph, to)?;
    for (from, to) in from.iter().zip(to) {
        let node = known_node(state, call, *to)?;
        if from == to || node.after.contains(from) {
            let call = state.this_call(call);
            state.report(format!(
                "invalid edge: {call} adds an existing edge, or one from a node to itself"
            ));
            return Err(Code::INVALID_VALUE);
        }
        node.after.push(*from);
    }
    Ok(())
}

/// Updates the work of a node for later launches of an executable graph.
fn set(
    state: &mut State,
    call: &str,
    executable: u64,
    node: u64,
    work: impl FnOnce(&mut State, &Work) -> Result<Work, Code>,
) -> Result<(), Code> {
    known_executable(state, call, executable)?;
    known_node(state, call, node)?;
    let mut nodes = known_executable(state, call, executable)?.nodes.iter();
    let Some(place) = nodes.position(|other| other.of == node) else {
        let call = state.this_call(call);
        state.report(format!(
            "invalid graph: {call} receives a node that is not in the executable graph"
        ));
        return Err(Code::INVALID_VALUE);
    };
    let old = known_executable(state, call, executable)?.nodes[place]
        .work
        .clone();
    let new = work(state, &old)?;
    if old.update_error(&new).is_some() {
        let call = state.this_call(call);
        state.report(format!(
            "invalid update: {call} changes parameters that cannot be updated"
        ));
        return Err(Code::INVALID_VALUE);
    }
    known_executable(state, call, executable)?.nodes[place].work = new;
    Ok(())
}

/// Returns the attributes of a kernel, which an update keeps.
fn extras(work: &Work) -> Extras {
    match work {
        Work::Launch(launch) => launch.extras.clone(),
        _ => Extras::default(),
    }
}

/// Checks that a copy has one row. Others cannot be updated.
fn check_single_row(work: &Work) -> Result<(), Code> {
    match work {
        Work::Copy { target, .. } if target.rows.rows > 1 => Err(Code::INVALID_VALUE),
        _ => Ok(()),
    }
}

fn set_node(state: &mut State, node: u64, new: KernelNode) -> Result<(), Code> {
    let call = "cuGraphKernelNodeSetParams_v2";
    let work = known_node(state, call, node)?.work.clone();
    if !matches!(work, Work::Launch(_)) {
        return Err(Code::INVALID_VALUE);
    }
    let work = new.work(state, call, extras(&work))?;
    let node = known_node(state, call, node)?;
    node.values = work.values();
    node.work = work;
    Ok(())
}

fn kernel_params(state: &mut State, node: u64) -> Result<KernelNode, Code> {
    let context = state.current;
    let node = known_node(state, "cuGraphKernelNodeGetParams_v2", node)?;
    let Work::Launch(launch) = &node.work else {
        return Err(Code::INVALID_VALUE);
    };
    Ok(KernelNode {
        function: launch.function,
        cubes: launch.cubes,
        threads: launch.threads,
        shared_bytes: launch.shared_bytes,
        values: node.values.as_ptr().cast(),
        extra: 0,
        kernel: 0,
        context,
    })
}

functions! {
    cuGraphAddKernelNode_v2(
        out: Out<u64>, graph: u64, after: In<u64>, count: usize, node: In<KernelNode>,
    ) Context |state| {
        let call = "cuGraphAddKernelNode_v2";
        let (node, new) = (node.get()?, NewNode { out, graph, after, count });
        add(state, call, &new, |state| node.work(state, call, Extras::default()))
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
    cuGraphAddEmptyNode(out: Out<u64>, graph: u64, after: In<u64>, count: usize) Context |state| {
        let new = NewNode { out, graph, after, count };
        add(state, "cuGraphAddEmptyNode", &new, |_| Ok(Work::Empty))
    };
    cuGraphAddDependencies_v2(
        graph: u64, from: In<u64>, to: In<u64>, data: In<u64>, count: usize,
    ) Context |state| {
        // Edge data is for programmatic launches.
        if !data.is_null() && data.list(count)?.iter().any(|edge| *edge != 0) {
            state.report("not modelled: edges with data".to_owned());
            return Err(Code::NOT_SUPPORTED);
        }
        add_edges(state, graph, &from.list(count)?, &to.list(count)?)
    };
    cuGraphNodeGetType(node: u64, kind: Out<u32>) Context |state| {
        kind.put(known_node(state, "cuGraphNodeGetType", node)?.work.kind())
    };
    cuGraphKernelNodeGetParams_v2(node: u64, place: Out<KernelNode>) Context |state| place.put(kernel_params(state, node)?);
    cuGraphKernelNodeSetParams_v2(node: u64, new: In<KernelNode>) Context |state| set_node(state, node, new.get()?);
    cuGraphExecKernelNodeSetParams_v2(executable: u64, node: u64, new: In<KernelNode>) Context |state| {
        let call = "cuGraphExecKernelNodeSetParams_v2";
        let new = new.get()?;
        set(state, call, executable, node, |state, old| new.work(state, call, extras(old)))
    };
    cuGraphExecMemcpyNodeSetParams(executable: u64, node: u64, new: In<CopyNode>, _context: u64) Context |state| {
        let call = "cuGraphExecMemcpyNodeSetParams";
        let new = new.get()?;
        set(state, call, executable, node, |state, old| {
            let work = new.work(state, call)?;
            check_single_row(old).and(check_single_row(&work)).map(|()| work)
        })
    };
    cuGraphExecMemsetNodeSetParams(executable: u64, node: u64, new: In<FillNode>, _context: u64) Context |state| {
        let call = "cuGraphExecMemsetNodeSetParams";
        let new = new.get()?;
        set(state, call, executable, node, |state, _| new.work(state, call))
    };
}
