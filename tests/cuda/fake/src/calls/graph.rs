//! Creates, instantiates, launches, updates and destroys graphs.

use crate::calls::{Out, functions};
use crate::code::Code;
use crate::graph::{Executable, Graph, Outcome};
use crate::operation::Operation;
use crate::state::State;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH` (no node allocates) and `.._USE_NODE_PRIORITY` (priorities have no
/// effect).
const FLAGS: u64 = 1 | 8;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD` and `.._DEVICE_LAUNCH`.
const FLAGS_NOT_MODELLED: u64 = 2 | 4;

pub(super) fn known_graph<'a>(
    state: &'a mut State,
    call: &str,
    graph: u64,
) -> Result<&'a mut Graph, Code> {
    if !state.graphs.graphs.contains_key(&graph) {
        state.report(format!(
            "invalid handle: {call} receives {graph:#x}, which is not a graph, or was destroyed"
        ));
    }
    state
        .graphs
        .graphs
        .get_mut(&graph)
        .ok_or(Code::INVALID_VALUE)
}

pub(super) fn known_executable<'a>(
    state: &'a mut State,
    call: &str,
    executable: u64,
) -> Result<&'a mut Executable, Code> {
    if !state.graphs.executables.contains_key(&executable) {
        state.report(format!(
            "invalid handle: {call} receives {executable:#x}, which is not an executable graph, or was destroyed"
        ));
    }
    let of = state.graphs.executables.get_mut(&executable);
    of.ok_or(Code::INVALID_VALUE)
}

/// Instantiates a graph, which must not have a cycle.
fn executable_of(state: &mut State, graph: u64) -> Result<Executable, Code> {
    let executable = state.graphs.executable(graph).ok_or(Code::INVALID_VALUE)?;
    if executable.has_cycle() {
        state.report(format!(
            "invalid graph: graph {} has a cycle",
            executable.number
        ));
        return Err(Code::INVALID_VALUE);
    }
    Ok(executable)
}

fn instantiate(state: &mut State, out: &Out<u64>, graph: u64, flags: u64) -> Result<(), Code> {
    let call = "cuGraphInstantiateWithFlags";
    if known_graph(state, call, graph)?.captured {
        let call = state.this_call(call);
        state.report(format!(
            "invalid graph: {call} receives a graph that a capture is still building"
        ));
        return Err(Code::INVALID_VALUE);
    }
    if flags & !FLAGS != 0 {
        if flags & !(FLAGS | FLAGS_NOT_MODELLED) == 0 {
            state.report(format!("not modelled: {call} with flags {flags}"));
            return Err(Code::NOT_SUPPORTED);
        }
        return Err(Code::INVALID_VALUE);
    }
    let executable = executable_of(state, graph)?;
    let handle = state.handle();
    state.graphs.descriptions.push(executable.describe());
    out.put(handle)?;
    state.graphs.executables.insert(handle, executable);
    Ok(())
}

/// Appends a launch, or with `runs` false an upload, to a stream. Both are ordered after the previous launches.
fn launch(
    state: &mut State,
    call: &str,
    executable: u64,
    stream: u64,
    runs: bool,
) -> Result<(), Code> {
    known_executable(state, call, executable)?;
    let why = "launches a graph, which is not modelled in a captured stream";
    state.check_not_captured(call, stream, why)?;
    let Some(mut of) = state.graphs.executables.remove(&executable) else {
        return Err(Code::INVALID_VALUE);
    };
    let queued = if runs {
        let mut nodes = of.nodes.iter();
        let checked = nodes.try_for_each(|node| state.check_node(call, &node.work));
        checked.and_then(|()| {
            let run = of.run(&mut state.memory);
            state.queue(call, stream, Operation::Graph(run))
        })
    } else {
        state.queue(call, stream, Operation::Graph(of.upload()))
    };
    if let Ok(point) = &queued {
        of.last = Some(point.clone());
    }
    state.graphs.executables.insert(executable, of);
    queued.map(|_| ())
}

/// `CUgraphExecUpdateResultInfo`
#[repr(C)]
pub(crate) struct ResultInfo {
    result: u32,
    node: u64,
    from: u64,
}

fn update(
    state: &mut State,
    executable: u64,
    graph: u64,
    info: &Out<ResultInfo>,
) -> Result<(), Code> {
    let call = "cuGraphExecUpdate_v2";
    known_executable(state, call, executable)?;
    known_graph(state, call, graph)?;
    let new = executable_of(state, graph)?;
    let outcome = state.graphs.update(executable, &new);
    let Outcome { result, node, from } = outcome.ok_or(Code::INVALID_VALUE)?;
    info.put(ResultInfo { result, node, from })?;
    match result {
        Outcome::SUCCESS => Ok(()),
        _ => Err(Code::GRAPH_EXEC_UPDATE_FAILURE),
    }
}

/// Writes the nodes of a graph: only their number if `places` is null, otherwise as many as fit, with null in the
/// remaining places. The order is unspecified, so the seed chooses it.
fn nodes(state: &mut State, graph: u64, places: &Out<u64>, count: &Out<usize>) -> Result<(), Code> {
    let mut nodes = known_graph(state, "cuGraphGetNodes", graph)?.nodes.clone();
    if !places.is_requested() {
        return count.put(nodes.len());
    }
    for last in (1..nodes.len()).rev() {
        let other = state.rng.below(last + 1);
        nodes.swap(last, other);
    }
    let room = count.get()?;
    for index in 0..room {
        places
            .at(index)
            .put(nodes.get(index).copied().unwrap_or(0))?;
    }
    count.put(nodes.len().min(room))
}

functions! {
    cuGraphCreate(graph: Out<u64>, flags: u32) Context |state| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let handle = state.handle();
        state.graphs.make_graph(handle, false);
        graph.put(handle)
    };
    cuGraphDestroy(graph: u64) Ending |state| {
        let call = "cuGraphDestroy";
        if known_graph(state, call, graph)?.captured {
            let call = state.this_call(call);
            state.report(format!("invalid graph: {call} receives a graph that a capture is still building"));
            return Err(Code::INVALID_VALUE);
        }
        state.graphs.end_graph(graph);
        Ok(())
    };
    cuGraphInstantiateWithFlags(out: Out<u64>, graph: u64, flags: u64) Context |state| {
        instantiate(state, &out, graph, flags)
    };
    cuGraphUpload(executable: u64, stream: u64) Context |state| {
        launch(state, "cuGraphUpload", executable, stream, false)
    };
    cuGraphLaunch(executable: u64, stream: u64) Context |state| {
        launch(state, "cuGraphLaunch", executable, stream, true)
    };
    // Launches in flight complete.
    cuGraphExecDestroy(executable: u64) Ending |state| {
        known_executable(state, "cuGraphExecDestroy", executable)?;
        state.graphs.executables.remove(&executable);
        Ok(())
    };
    cuGraphExecUpdate_v2(executable: u64, graph: u64, info: Out<ResultInfo>) Context |state| {
        update(state, executable, graph, &info)
    };
    cuGraphGetNodes(graph: u64, places: Out<u64>, count: Out<usize>) Context |state| {
        nodes(state, graph, &places, &count)
    };
}
