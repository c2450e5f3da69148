//! Nodes of graphs: added, joined by edges, told, set. Values of kernels are copied in the call.

use crate::calls::graph::{known_executable, known_graph};
use crate::calls::launch::{Asked, Values, prepare};
use crate::calls::{Given, Out, functions};
use crate::code::Code;
use crate::graph::{End, Node, Work};
use crate::operation::{Extras, Rows};
use crate::state::State;

/// `CU_MEMORYTYPE_HOST`
const HOST: u32 = 1;
/// `CU_MEMORYTYPE_DEVICE`
const DEVICE: u32 = 2;
/// `CU_MEMORYTYPE_UNIFIED`: the address says where it is.
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
        let asked = Asked {
            function: self.function,
            cubes: self.cubes,
            threads: self.threads,
            shared_bytes: self.shared_bytes,
            extras,
        };
        prepare(state, call, asked, &Values::new(self.values)).map(Work::Launch)
    }
}

impl CopyNode {
    fn end(&self, state: &mut State, side: &Side) -> Option<End> {
        let (base, of_host) = match side.kind {
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
        (is_flat && fits).then_some(End { rows, of_host })
    }

    fn work(&self, state: &mut State, call: &str) -> Result<Work, Code> {
        let ends = (self.end(state, &self.target), self.end(state, &self.source));
        let (Some(target), Some(source)) = ends else {
            let call = state.this_call(call);
            state.report(format!(
                "wrong copy: {call} has a pitch shorter than its rows, or is of a kind, or a depth, that is not modelled"
            ));
            return Err(Code::INVALID_VALUE);
        };
        for end in [target, source] {
            if end.of_host && !state.memory.is_pinned(end.rows.start) {
                state.report(format!("not modelled: {call} of pageable memory"));
                return Err(Code::NOT_SUPPORTED);
            }
            state.must_be_there(call, end.rows)?;
        }
        if target.of_host && source.of_host {
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
                "wrong fill: {call} fills nothing, or has a pitch shorter than its rows, or is not aligned to its unit"
            ));
            return Err(Code::INVALID_VALUE);
        }
        state.must_be_there(call, target)?;
        Ok(Work::Fill { target, unit })
    }
}

fn known_node<'a>(state: &'a mut State, call: &str, node: u64) -> Result<&'a mut Node, Code> {
    if !state.graphs.nodes.contains_key(&node) {
        state.report(format!(
            "wrong handle: {call} is given {node:#x}, which is no node, or its graph was destroyed"
        ));
    }
    state.graphs.nodes.get_mut(&node).ok_or(Code::INVALID_VALUE)
}

/// These must be nodes of that graph.
fn of_graph(state: &mut State, call: &str, graph: u64, nodes: &[u64]) -> Result<(), Code> {
    for node in nodes {
        if known_node(state, call, *node)?.graph != graph {
            let call = state.this_call(call);
            state.report(format!(
                "wrong graph: {call} is given a node of another graph"
            ));
            return Err(Code::INVALID_VALUE);
        }
    }
    Ok(())
}

/// Where a node is put, and what it comes after.
struct Place {
    made: Out<u64>,
    graph: u64,
    after: Given<u64>,
    count: usize,
}

fn add(
    state: &mut State,
    call: &str,
    place: &Place,
    work: impl FnOnce(&mut State) -> Result<Work, Code>,
) -> Result<(), Code> {
    known_graph(state, call, place.graph)?;
    let after = place.after.list(place.count)?;
    of_graph(state, call, place.graph, &after)?;
    let twice = (1..after.len()).any(|index| after[..index].contains(&after[index]));
    if twice {
        return Err(Code::INVALID_VALUE);
    }
    let work = work(state)?;
    let node = state.handle();
    state.graphs.make_node(node, place.graph, work, after);
    place.made.put(node)
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
                "wrong edge: {call} adds one that there is, or from a node to itself"
            ));
            return Err(Code::INVALID_VALUE);
        }
        node.after.push(*from);
    }
    Ok(())
}

/// Sets what a node of an executable graph does at later launches.
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
            "wrong graph: {call} is given a node that the executable graph was not made of"
        ));
        return Err(Code::INVALID_VALUE);
    };
    let old = known_executable(state, call, executable)?.nodes[place]
        .work
        .clone();
    let new = work(state, &old)?;
    if old.wrong_change(&new).is_some() {
        let call = state.this_call(call);
        state.report(format!(
            "wrong change: {call} changes what a node may not change"
        ));
        return Err(Code::INVALID_VALUE);
    }
    known_executable(state, call, executable)?.nodes[place].work = new;
    Ok(())
}

/// Attributes stay when a kernel is set.
fn extras(work: &Work) -> Extras {
    match work {
        Work::Launch(launch) => launch.extras.clone(),
        _ => Extras::default(),
    }
}

/// Only a copy of one row may be set.
fn must_be_line(work: &Work) -> Result<(), Code> {
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

fn told(state: &mut State, node: u64) -> Result<KernelNode, Code> {
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
        made: Out<u64>, graph: u64, after: Given<u64>, count: usize, node: Given<KernelNode>,
    ) Context |state| {
        let call = "cuGraphAddKernelNode_v2";
        let (node, place) = (node.get()?, Place { made, graph, after, count });
        add(state, call, &place, |state| node.work(state, call, Extras::default()))
    };
    cuGraphAddMemcpyNode(
        made: Out<u64>, graph: u64, after: Given<u64>, count: usize, node: Given<CopyNode>, _context: u64,
    ) Context |state| {
        let call = "cuGraphAddMemcpyNode";
        let (node, place) = (node.get()?, Place { made, graph, after, count });
        add(state, call, &place, |state| node.work(state, call))
    };
    cuGraphAddMemsetNode(
        made: Out<u64>, graph: u64, after: Given<u64>, count: usize, node: Given<FillNode>, _context: u64,
    ) Context |state| {
        let call = "cuGraphAddMemsetNode";
        let (node, place) = (node.get()?, Place { made, graph, after, count });
        add(state, call, &place, |state| node.work(state, call))
    };
    cuGraphAddEmptyNode(made: Out<u64>, graph: u64, after: Given<u64>, count: usize) Context |state| {
        let place = Place { made, graph, after, count };
        add(state, "cuGraphAddEmptyNode", &place, |_| Ok(Work::Empty))
    };
    cuGraphAddDependencies_v2(
        graph: u64, from: Given<u64>, to: Given<u64>, data: Given<u64>, count: usize,
    ) Context |state| {
        // Edges between ports are for programmatic launches.
        if !data.is_null() && data.list(count)?.iter().any(|edge| *edge != 0) {
            state.report("not modelled: edges with data".to_owned());
            return Err(Code::NOT_SUPPORTED);
        }
        add_edges(state, graph, &from.list(count)?, &to.list(count)?)
    };
    cuGraphNodeGetType(node: u64, kind: Out<u32>) Context |state| {
        kind.put(known_node(state, "cuGraphNodeGetType", node)?.work.kind())
    };
    cuGraphKernelNodeGetParams_v2(node: u64, place: Out<KernelNode>) Context |state| place.put(told(state, node)?);
    cuGraphKernelNodeSetParams_v2(node: u64, new: Given<KernelNode>) Context |state| set_node(state, node, new.get()?);
    cuGraphExecKernelNodeSetParams_v2(executable: u64, node: u64, new: Given<KernelNode>) Context |state| {
        let call = "cuGraphExecKernelNodeSetParams_v2";
        let new = new.get()?;
        set(state, call, executable, node, |state, old| new.work(state, call, extras(old)))
    };
    cuGraphExecMemcpyNodeSetParams(executable: u64, node: u64, new: Given<CopyNode>, _context: u64) Context |state| {
        let call = "cuGraphExecMemcpyNodeSetParams";
        let new = new.get()?;
        set(state, call, executable, node, |state, old| {
            let work = new.work(state, call)?;
            must_be_line(old).and(must_be_line(&work)).map(|()| work)
        })
    };
    cuGraphExecMemsetNodeSetParams(executable: u64, node: u64, new: Given<FillNode>, _context: u64) Context |state| {
        let call = "cuGraphExecMemsetNodeSetParams";
        let new = new.get()?;
        set(state, call, executable, node, |state, _| new.work(state, call))
    };
}
