//! Creates, instantiates, launches and destroys graphs.

use crate::calls::{Out, functions};
use crate::code::Code;
use crate::graph::{Executable, Graph};
use crate::operation::Operation;
use crate::state::State;

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

fn instantiate(state: &mut State, out: &Out<u64>, graph: u64, flags: u64) -> Result<(), Code> {
    let call = "cuGraphInstantiateWithFlags";
    known_graph(state, call, graph)?;
    if flags != 0 {
        state.report(format!("not modelled: {call} with flags {flags}"));
        return Err(Code::NOT_SUPPORTED);
    }
    let executable = state.graphs.executable(graph).ok_or(Code::INVALID_VALUE)?;
    let handle = state.handle();
    state.graphs.descriptions.push(executable.describe());
    out.put(handle)?;
    state.graphs.executables.insert(handle, executable);
    Ok(())
}

/// Appends a launch to a stream, ordered after the previous launches.
fn launch(state: &mut State, executable: u64, stream: u64) -> Result<(), Code> {
    let call = "cuGraphLaunch";
    known_executable(state, call, executable)?;
    state.known_stream(call, stream)?;
    let Some(mut of) = state.graphs.executables.remove(&executable) else {
        return Err(Code::INVALID_VALUE);
    };
    let mut nodes = of.nodes.iter();
    let checked = nodes.try_for_each(|node| state.check_node(call, &node.work));
    let queued = checked.and_then(|()| state.queue(call, stream, Operation::Graph(of.run())));
    if let Ok(point) = &queued {
        of.last = Some(point.clone());
    }
    state.graphs.executables.insert(executable, of);
    queued.map(|_| ())
}

functions! {
    cuGraphCreate(graph: Out<u64>, flags: u32) Context |state| {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let handle = state.handle();
        state.graphs.make_graph(handle);
        graph.put(handle)
    };
    cuGraphDestroy(graph: u64) Ending |state| {
        known_graph(state, "cuGraphDestroy", graph)?;
        state.graphs.end_graph(graph);
        Ok(())
    };
    cuGraphInstantiateWithFlags(out: Out<u64>, graph: u64, flags: u64) Context |state| {
        instantiate(state, &out, graph, flags)
    };
    cuGraphLaunch(executable: u64, stream: u64) Context |state| launch(state, executable, stream);
    // Launches in flight complete.
    cuGraphExecDestroy(executable: u64) Ending |state| {
        known_executable(state, "cuGraphExecDestroy", executable)?;
        state.graphs.executables.remove(&executable);
        Ok(())
    };
}
