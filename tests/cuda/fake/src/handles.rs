//! Objects by their handles: a handle that does not exist is reported.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::event::Event;
use crate::function::Function;
use crate::graph::{Executable, Graph, Node};
use crate::state::{Module, State};
use crate::stream::Stream;

impl State {
    /// Returns an object, or reports that `handle` is not `what`.
    fn known<T>(
        &mut self,
        handle: u64,
        code: Code,
        what: &str,
        all: fn(&mut State) -> &mut BTreeMap<u64, T>,
    ) -> Result<&mut T, Code> {
        if !all(self).contains_key(&handle) {
            let call = self.call;
            let report =
                format!("invalid handle: {call} receives {handle:#x}, which is not {what}");
            return Err(self.refuse(code, report));
        }
        all(self).get_mut(&handle).ok_or(code)
    }

    pub(crate) fn event(&mut self, event: u64) -> Result<&mut Event, Code> {
        let what = "an event, or was destroyed";
        self.known(event, Code::INVALID_HANDLE, what, |state| &mut state.events)
    }

    pub(crate) fn function(&mut self, function: u64) -> Result<&mut Function, Code> {
        let what = "a function, or its module was unloaded";
        self.known(function, Code::INVALID_HANDLE, what, |state| {
            &mut state.functions
        })
    }

    pub(crate) fn module(&mut self, module: u64) -> Result<&mut Module, Code> {
        let what = "a module, or was unloaded";
        self.known(module, Code::INVALID_HANDLE, what, |state| {
            &mut state.modules
        })
    }

    /// Returns the GPU of a pool.
    pub(crate) fn pool(&mut self, pool: u64) -> Result<usize, Code> {
        let what = "a pool, or was destroyed";
        let found = self.known(pool, Code::INVALID_HANDLE, what, |state| &mut state.pools);
        found.copied()
    }

    pub(crate) fn graph(&mut self, graph: u64) -> Result<&mut Graph, Code> {
        let what = "a graph, or was destroyed";
        self.known(graph, Code::INVALID_VALUE, what, |state| {
            &mut state.graphs.graphs
        })
    }

    pub(crate) fn node(&mut self, node: u64) -> Result<&mut Node, Code> {
        let what = "a node, or its graph was destroyed";
        self.known(node, Code::INVALID_VALUE, what, |state| {
            &mut state.graphs.nodes
        })
    }

    pub(crate) fn executable(&mut self, executable: u64) -> Result<&mut Executable, Code> {
        let what = "an executable graph, or was destroyed";
        self.known(executable, Code::INVALID_VALUE, what, |state| {
            &mut state.graphs.executables
        })
    }

    /// Returns a stream that is not destroyed.
    pub(crate) fn stream(&mut self, stream: u64) -> Result<&mut Stream, Code> {
        let call = self.call;
        let lives = matches!(self.streams.live.get(&stream), Some(of) if !of.destroyed);
        match stream {
            _ if lives => {}
            0..=2 => self.report(format!("not modelled: {call} on a default stream")),
            _ => self.report(format!(
                "invalid handle: {call} receives {stream:#x}, which is not a stream, or was destroyed"
            )),
        }
        let of = self.streams.live.get_mut(&stream);
        of.filter(|of| !of.destroyed).ok_or(Code::INVALID_HANDLE)
    }
}
