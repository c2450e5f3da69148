//! Graphs as wholes: made, made executable, launched, updated, destroyed.

use crate::calls::{Out, functions};
use crate::code::Code;
use crate::graph::{Executable, Graph, Outcome};
use crate::operation::Operation;
use crate::state::State;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH` (nothing here allocates) and `.._USE_NODE_PRIORITY` (nothing here
/// looks at priorities).
const FLAGS: u64 = 1 | 8;
/// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD` wants a stream, and `.._DEVICE_LAUNCH` a device that launches.
const FLAGS_NOT_MODELLED: u64 = 2 | 4;

pub(super) fn known_graph<'a>(
    state: &'a mut State,
    call: &str,
    graph: u64,
) -> Result<&'a mut Graph, Code> {
    if !state.graphs.graphs.contains_key(&graph) {
        state.report(format!(
            "wrong handle: {call} is given {graph:#x}, which is no graph, or was destroyed"
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
            "wrong handle: {call} is given {executable:#x}, which is no executable graph, or was destroyed"
        ));
    }
    let of = state.graphs.executables.get_mut(&executable);
    of.ok_or(Code::INVALID_VALUE)
}

/// What a graph is to be launched as: it may have no cycle.
fn executable_of(state: &mut State, graph: u64) -> Result<Executable, Code> {
    let made = state.graphs.executable(graph).ok_or(Code::INVALID_VALUE)?;
    if made.has_cycle() {
        state.report(format!("wrong graph: graph {} has a cycle", made.number));
        return Err(Code::INVALID_VALUE);
    }
    Ok(made)
}

fn instantiate(state: &mut State, made: &Out<u64>, graph: u64, flags: u64) -> Result<(), Code> {
    let call = "cuGraphInstantiateWithFlags";
    if known_graph(state, call, graph)?.captured {
        let call = state.this_call(call);
        state.report(format!(
            "wrong graph: {call} is given one that a capture is still making"
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
    state.graphs.said.push(executable.said());
    made.put(handle)?;
    state.graphs.executables.insert(handle, executable);
    Ok(())
}

/// Puts a launch, or an upload, at the end of a stream. Either is ordered behind the launches before it.
fn launch(
    state: &mut State,
    call: &str,
    executable: u64,
    stream: u64,
    runs: bool,
) -> Result<(), Code> {
    known_executable(state, call, executable)?;
    let why = "launches a graph, which is not modelled in a stream that is captured";
    state.must_not_be_captured(call, stream, why)?;
    let Some(mut of) = state.graphs.executables.remove(&executable) else {
        return Err(Code::INVALID_VALUE);
    };
    let queued = if runs {
        let mut nodes = of.nodes.iter();
        let checked = nodes.try_for_each(|node| state.must_be_possible(call, &node.work));
        checked.and_then(|()| {
            let run = of.run(&mut state.memory);
            state.queue(call, stream, Operation::Graph(run))
        })
    } else {
        state.queue(call, stream, Operation::Graph(of.upload()))
    };
    if let Ok(moment) = &queued {
        of.last = Some(moment.clone());
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
    told: &Out<ResultInfo>,
) -> Result<(), Code> {
    let call = "cuGraphExecUpdate_v2";
    known_executable(state, call, executable)?;
    known_graph(state, call, graph)?;
    let new = executable_of(state, graph)?;
    let outcome = state.graphs.update(executable, &new);
    let Outcome { result, node, from } = outcome.ok_or(Code::INVALID_VALUE)?;
    told.put(ResultInfo { result, node, from })?;
    match result {
        Outcome::SUCCESS => Ok(()),
        _ => Err(Code::GRAPH_EXEC_UPDATE_FAILURE),
    }
}

/// Tells the nodes of a graph: how many without a place for them, else as many as there is room for, and null in the
/// rest of it. Nobody promises their order, so it is the seed's.
fn nodes(state: &mut State, graph: u64, places: &Out<u64>, count: &Out<usize>) -> Result<(), Code> {
    let mut nodes = known_graph(state, "cuGraphGetNodes", graph)?.nodes.clone();
    if !places.is_wanted() {
        return count.put(nodes.len());
    }
    for last in (1..nodes.len()).rev() {
        let other = state.chance.below(last + 1);
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
            state.report(format!("wrong graph: {call} is given one that a capture is still making"));
            return Err(Code::INVALID_VALUE);
        }
        state.graphs.end_graph(graph);
        Ok(())
    };
    cuGraphInstantiateWithFlags(made: Out<u64>, graph: u64, flags: u64) Context |state| {
        instantiate(state, &made, graph, flags)
    };
    cuGraphUpload(executable: u64, stream: u64) Context |state| {
        launch(state, "cuGraphUpload", executable, stream, false)
    };
    cuGraphLaunch(executable: u64, stream: u64) Context |state| {
        launch(state, "cuGraphLaunch", executable, stream, true)
    };
    // A launch that has not ended ends all the same.
    cuGraphExecDestroy(executable: u64) Ending |state| {
        known_executable(state, "cuGraphExecDestroy", executable)?;
        state.graphs.executables.remove(&executable);
        Ok(())
    };
    cuGraphExecUpdate_v2(executable: u64, graph: u64, told: Out<ResultInfo>) Context |state| {
        update(state, executable, graph, &told)
    };
    cuGraphGetNodes(graph: u64, places: Out<u64>, count: Out<usize>) Context |state| {
        nodes(state, graph, &places, &count)
    };
}
