//! Creates, instantiates, launches and destroys graphs.

use crate::calls::{Out, functions};
use crate::code::Code;
use crate::operation::Operation;
use crate::state::State;

fn instantiate(state: &mut State, out: &Out<u64>, graph: u64, flags: u64) -> Result<(), Code> {
    state.graph(graph)?;
    if flags != 0 {
        let report = format!("not modelled: {} with flags {flags}", state.call);
        return Err(state.refuse(Code::NOT_SUPPORTED, report));
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
    let run = state.executable(executable)?.run();
    state.stream(stream)?;
    let mut nodes = run.nodes.iter();
    nodes.try_for_each(|node| state.check_node(&node.operation))?;
    let point = state.queue(stream, Operation::Graph(run))?;
    state.executable(executable)?.last = Some(point);
    Ok(())
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
        state.graph(graph)?;
        state.graphs.end_graph(graph);
        Ok(())
    };
    cuGraphInstantiateWithFlags(out: Out<u64>, graph: u64, flags: u64) Context |state| {
        instantiate(state, &out, graph, flags)
    };
    cuGraphLaunch(executable: u64, stream: u64) Context |state| launch(state, executable, stream);
    // Launches in flight complete.
    cuGraphExecDestroy(executable: u64) Ending |state| {
        state.executable(executable)?;
        state.graphs.executables.remove(&executable);
        Ok(())
    };
}
